"""Serving measurements predicted in blocks: each case through the same closed form as a study."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np

from costdata.catalog import Catalog
from planner.validation.serving_truth import CLOSED, OFFLINE, OUTPUT, STATIC, TPOT, TTFT, Case
from simkernel.columns import Codes, Floats, taken
from simkernel.hardware import Chips
from simkernel.models import Model
from simkernel.serve import Load, Steady, offline_run, static_batch, steady
from simkernel.serving_engine import Engine, EngineCurves
from simkernel.serving_plans import ServingPlans, serving_plan_of
from simkernel.serving_rig import rig_of

METRICS = (TTFT, TPOT, OUTPUT)
BASE_ENGINES = {"sglang_2025": "sglang", "vllm_2023": ""}
"""Engines whose kernels those of another stand for; "" for the chip's curves of any software."""


@dataclass(frozen=True)
class Block:
    """Cases that one call prices: same model and way of loading; `rows` are their places."""

    model: Model
    loaded: str
    rows: Codes
    chips: Chips
    curves: EngineCurves
    plans: ServingPlans
    load: Load
    years: Floats
    engines: tuple[str, ...]
    architectures: tuple[str, ...]

    def priced(self, engine: Engine, times: int = 1) -> Steady:
        """The cases under an engine of (times x rows,) figures, all cases once after another."""
        again = np.tile(np.arange(len(self.rows)), times)
        rig = rig_of(
            self.model,
            engine,
            self.chips.take(again),
            taken(self.curves, again),
            self.plans.take(again),
        )
        load = taken(self.load, again)
        return PRICED[self.loaded](rig, load)


PRICED = {CLOSED: steady, OFFLINE: offline_run, STATIC: static_batch}
"""The closed form of each way of loading."""

EngineOf = Callable[[str, str], Mapping[str, Floats]]
"""Figures of an engine by its name and an architecture: numbers, or (r,) for r sets at once."""


def blocks_of(cases: Sequence[Case], catalog: Catalog) -> tuple[Block, ...]:
    """Cases in blocks."""
    groups: dict[tuple[Model, str], list[int]] = {}
    for i, case in enumerate(cases):
        groups.setdefault((case.model, case.loaded), []).append(i)
    return tuple(_block([cases[i] for i in g], np.array(g), catalog) for g in groups.values())


def predicted(blocks: Sequence[Block], engine_of: EngineOf, sets: int = 1) -> dict[str, Floats]:
    """Every metric of every case, (sets, cases), and `is_infeasible`.

    Parameters
    ----------
    engine_of : figures of each engine; the number of sets at once is `sets`
    """
    count = sum(len(block.rows) for block in blocks)
    out = {name: np.zeros((sets, count)) for name in (*METRICS, "is_infeasible")}
    for block in blocks:
        engine = engine_rows(block, engine_of, sets).aged(np.tile(block.years, sets))
        found = block.priced(engine, sets)
        for name, values in out.items():
            values[:, block.rows] = np.reshape(getattr(found, name), (sets, -1))
    return out


def engine_rows(block: Block, engine_of: EngineOf, sets: int = 1) -> Engine:
    """Figures per case and set, (sets x rows,), as the engines were in the year of reference."""
    pairs = list(zip(block.engines, block.architectures, strict=True))
    known = {pair: engine_of(*pair) for pair in dict.fromkeys(pairs)}
    ones = np.ones(sets)
    cells = {
        f.name: np.stack([ones * known[pair][f.name] for pair in pairs], axis=1).ravel()
        for f in fields(Engine)
    }
    return Engine(**cells)


def _block(cases: Sequence[Case], rows: Codes, catalog: Catalog) -> Block:
    names = sorted({case.accelerator for case in cases})
    plans = [serving_plan_of(**case.plan) for case in cases]
    return Block(
        model=cases[0].model,
        loaded=cases[0].loaded,
        rows=rows,
        chips=catalog.chips(names).take(np.array([names.index(c.accelerator) for c in cases])),
        curves=_curves(cases, catalog),
        plans=joined(plans),
        load=Load(
            prompt_tokens=np.array([case.prompt_tokens for case in cases]),
            output_tokens=np.array([case.output_tokens for case in cases]),
            requests=np.array([case.concurrency for case in cases]),
            burst_frac=np.array([case.burst_frac for case in cases]),
            has_equal_lengths=np.array([float(case.has_equal_lengths) for case in cases]),
            held_steps=np.array([case.launch.held_steps for case in cases]),
            held_prompts=np.array([case.launch.held_prompts for case in cases]),
            poll_steps=np.array([case.launch.poll_steps for case in cases]),
        ),
        years=np.array([case.years for case in cases]),
        engines=tuple(case.engine for case in cases),
        architectures=tuple(catalog.accelerator(c.accelerator).architecture for c in cases),
    )


def _curves(cases: Sequence[Case], catalog: Catalog) -> EngineCurves:
    """The engines' own kernels, one row per case."""
    keys = [(BASE_ENGINES.get(c.engine, c.engine), c.accelerator) for c in cases]
    known = list(dict.fromkeys(keys))
    table: EngineCurves = joined([catalog.engine_curves(e, [chip]) for e, chip in known])
    at = np.array([known.index(key) for key in keys])
    picked: EngineCurves = taken(table, at)
    return picked


def joined(tables: Sequence[Any]) -> Any:
    """Tables of the same columns as one, row after row; columns may be tables themselves."""
    first = tables[0]
    if not is_dataclass(first):
        return np.concatenate(tables)
    cells = {f.name: joined([getattr(t, f.name) for t in tables]) for f in fields(first)}
    return type(first)(**cells)  # type: ignore[misc]
