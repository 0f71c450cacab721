"""Watts and joules of metered serving runs, from the passes that the planner prices.

Utilisation is over the whole run at a rate of output tokens: the measured one for watts, the
predicted one for joules per token.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from costdata.catalog import Catalog
from planner.calibration.kernels import TABLES
from planner.validation.power_truth import DEVICE_W, J_PER_TOKEN
from planner.validation.serving_predict import Block, EngineOf, blocks_of, engine_rows
from planner.validation.serving_truth import Case
from simkernel.columns import Floats, Masks
from simkernel.hardware import Columns, PowerCurve
from simkernel.power import device_w
from simkernel.serving_engine import Engine

PARAMETERS = TABLES / "rules" / "metered_engine.csv"


@dataclass(frozen=True)
class Work(Columns):
    """What one output token asks of each device of a run, and how fast it comes; (n,).

    `memory_s`, `compute_s` : at the rates of the nameplate, prompts included [s/token]
    `link_s` : its bytes take on the links of the scale-up domain at their full rate [s/token]
    `wires_s` : waiting for messages alone [s/token]
    `tokens_per_s` : of the whole run, predicted
    `is_infeasible` : 1 where memory does not hold one request
    """

    memory_s: Floats
    compute_s: Floats
    link_s: Floats
    wires_s: Floats
    tokens_per_s: Floats
    is_infeasible: Floats


@dataclass(frozen=True)
class Priors:
    """Parameters of the metered engine over the one the catalogue knows; (k,) logarithms."""

    names: tuple[str, ...]
    centres: Floats
    spreads: Floats
    shipped: Floats
    rows: tuple[Mapping[str, str], ...]


def read_priors(path: Path = PARAMETERS) -> Priors:
    """The table of parameters."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = tuple(csv.DictReader(file))
    return Priors(
        names=tuple(row["parameter"] for row in rows),
        centres=np.log([float(row["prior"]) for row in rows]),
        spreads=np.array([float(row["spread_log"]) for row in rows]),
        shipped=np.log([float(row["fitted"]) for row in rows]),
        rows=rows,
    )


@dataclass(frozen=True)
class Metered:
    """Metered serving runs in blocks, with what was measured; arrays (n,)."""

    cases: tuple[Case, ...]
    blocks: tuple[Block, ...]
    catalog: Catalog
    priors: Priors
    tokens_per_s: Floats
    watts: Floats
    devices: Floats

    def engine_of(self, logs: Floats) -> EngineOf:
        """The catalogue's engine times the factors of the parameters (k,) or (k, sets)."""

        def figures(engine: str, architecture: str) -> Mapping[str, Floats]:
            known = self.catalog.engine(engine, architecture)
            factors = dict(zip(self.priors.names, np.exp(logs), strict=True))
            return {
                name: np.asarray(getattr(known, name) * factors.get(name, 1.0))
                for name in Engine.__dataclass_fields__
            }

        return figures

    def work(self, logs: Floats) -> Work:
        """What a token asks of the devices, on the engine of parameters (k,)."""
        figures = self.engine_of(logs)
        found = Work(*(np.zeros(len(self.cases)) for _ in range(6)))
        for block in self.blocks:
            steady = block.priced(engine_rows(block, figures))
            step, prefill, load = steady.step, steady.prefill, block.load
            each, whole = steady.sequences, np.asarray(load.output_tokens, float)
            rows = block.rows
            found.memory_s[rows] = step.peak_hbm_s / each + prefill.peak_hbm_s / whole
            found.compute_s[rows] = step.peak_compute_s / each + prefill.peak_compute_s / whole
            link_bytes = step.inside_bytes / each + prefill.inside_bytes / whole
            found.link_s[rows] = link_bytes / block.chips.scaleup_bytes_per_s
            found.wires_s[rows] = steady.step_wires_s / each + steady.prefill_wires_s / whole
            found.tokens_per_s[rows] = steady.output_tokens_per_s
            found.is_infeasible[rows] = steady.is_infeasible
        return found

    @property
    def accelerators(self) -> tuple[str, ...]:
        """Of each run."""
        return tuple(case.accelerator for case in self.cases)


def metered(cases: Sequence[Case], catalog: Catalog) -> Metered:
    """Runs made ready."""
    return Metered(
        cases=tuple(cases),
        blocks=blocks_of(cases, catalog),
        catalog=catalog,
        priors=read_priors(),
        tokens_per_s=np.array([case.row.number("tok_s") or np.nan for case in cases]),
        watts=np.array([case.measured[DEVICE_W] for case in cases]),
        devices=np.array([case.devices for case in cases]),
    )


def run_w(curves: Mapping[str, PowerCurve], runs: Metered, work: Work, rate: Floats) -> Floats:
    """Mean watts of one device of each run at a rate of output tokens; (n,).

    Parameters
    ----------
    curves : of each chip, one row
    rate : (n,) output tokens of the whole run [1/s]
    """
    found = np.zeros(len(rate))
    for name, curve in curves.items():
        mine = np.flatnonzero(np.asarray(runs.accelerators) == name)
        found[mine] = device_w(curve, *shares_of(work.take(mine), rate[mine]))
    return found


def shares_of(work: Work, rate: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Of the time at a rate of output tokens: memory, arithmetic and links busy, messages alone.

    Notes
    -----
    A run that was quicker than predicted has waited less for messages, too: of its time, not
    more than the share of them in the predicted steps.
    """
    memory_frac, compute_frac, link_frac = (
        np.minimum(each_s * rate, 1.0) for each_s in (work.memory_s, work.compute_s, work.link_s)
    )
    wires_frac = work.wires_s * np.minimum(rate, work.tokens_per_s)
    return memory_frac, compute_frac, link_frac, np.minimum(wires_frac, 1.0)


def figures(curves: Mapping[str, PowerCurve], runs: Metered, work: Work) -> dict[str, Floats]:
    """Both metrics of every run: watts at the measured rate, joules with everything predicted."""
    rate = work.tokens_per_s
    joules = run_w(curves, runs, work, rate) * runs.devices / rate
    return {DEVICE_W: run_w(curves, runs, work, runs.tokens_per_s), J_PER_TOKEN: joules}


def shipped_curves(runs: Metered) -> dict[str, PowerCurve]:
    """Curves of the catalogue, one row per chip."""
    return {name: runs.catalog.chips([name]).power for name in sorted(set(runs.accelerators))}


def chosen_runs(runs: Metered, is_in: Masks) -> Metered:
    """Some of the runs."""
    at = np.flatnonzero(is_in)
    cases = [runs.cases[i] for i in at]
    return metered(cases, runs.catalog)
