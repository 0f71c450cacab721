"""A logged run replayed: the same requests at the same times, through the passes of its plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from costdata.catalog import Catalog
from costdata.configs import read_model
from planner.bands import regime_of_model
from planner.validation.request_logs import LOG_PATH, RequestLog, read_log
from planner.validation.rows import TruthRow
from simkernel.columns import Floats
from simkernel.errors import MissingFact
from simkernel.hardware import PRECISIONS
from simkernel.models import Model
from simkernel.replay.fleet import Fleet
from simkernel.replay.requests import Requests
from simkernel.replay.serve import replay
from simkernel.replay.tables import StepTables
from simkernel.serving_engine import EngineCurves
from simkernel.serving_mix import mix_of
from simkernel.serving_plans import serving_plan_of
from simkernel.serving_rig import rig_of
from simkernel.serving_tables import BLOCK_TOKENS, pool_blocks, step_tables

STATISTICS = {"mean": None, "p50": 0.5, "p99": 0.99}


@dataclass(frozen=True)
class LoggedRun:
    """A run made ready: its requests, its limits, and step times at full efficiency."""

    row: TruthRow
    model: Model
    plan: Mapping[str, float]
    log: RequestLog
    fleet: Fleet
    tables: StepTables

    @property
    def kind(self) -> str:
        """The name of the profile, as training cases have it."""
        return self.row.text("engine")

    @property
    def regime(self) -> str:
        """Whose error of speed the model has."""
        return regime_of_model(self.model)

    @property
    def devices(self) -> float:
        """Of the replica."""
        return float(self.plan["tensor_parallel"] * self.plan["pipeline_parallel"])

    @property
    def measured(self) -> dict[str, float]:
        """Statistics of the log, by metric."""
        return statistics(self.log.ttft_s, self.log.tpot_s)

    def predicted(self, slower: float = 1.0) -> dict[str, float]:
        """Statistics of a replay in which every step takes so many times as long."""
        log = self.log
        requests = Requests(log.arrival_s, log.prompt_tokens, log.output_tokens)
        found = replay(requests, self.fleet, _slower(self.tables, slower))
        kept = found.is_served
        return statistics(found.ttft_s[kept], found.tpot_s[kept])


def statistics(ttft_s: Floats, tpot_s: Floats) -> dict[str, float]:
    """Mean and percentiles of both latencies; requests of a single token have no second one."""
    known = tpot_s[np.isfinite(tpot_s)]
    return {
        f"{name}_{label}": float(values.mean() if frac is None else np.quantile(values, frac))
        for name, values in (("ttft_s", ttft_s), ("tpot_s", known))
        for label, frac in STATISTICS.items()
    }


def _slower(tables: StepTables, factor: float) -> StepTables:
    names = ("token_s", "sequence_s", "decode_s", "prefill_s")
    return replace(tables, **{name: getattr(tables, name) * factor for name in names})


def logged_run(row: TruthRow, catalog: Catalog) -> LoggedRun:
    """A log made ready to replay on the shipped engine."""
    if row.text("unread"):
        raise MissingFact(f"{row.text('unread')}: not read here, and it changes what a step does")
    model = read_model(row.text("model"))
    accelerator = catalog.accelerator_name(row.text("accelerator"))
    plan = _plan(row, int(min(catalog.accelerator(accelerator).domain_options)))
    engine = catalog.engine(row.text("engine"), catalog.accelerator(accelerator).architecture)
    chips, curves = catalog.chips([accelerator]), _curves(catalog, row, accelerator)
    rig = rig_of(model, engine, chips, curves, serving_plan_of(**plan))
    log = read_log(Path(row.text(LOG_PATH)))
    mix = mix_of(log.prompt_tokens, log.output_tokens)
    longest = int(np.max(log.prompt_tokens + log.output_tokens))
    if pool_blocks(rig, mix.context_tokens) * BLOCK_TOKENS < longest:
        raise MissingFact("its weights and its longest request do not fit the devices it ran on")
    fleet = Fleet(
        replicas=1,
        batching="chunked_prefill",
        routing="round_robin",
        max_batch=int(plan["max_sequences"]),
        token_budget=int(plan["budget_tokens"]),
        block_tokens=BLOCK_TOKENS,
        pool_blocks=pool_blocks(rig, mix.context_tokens),
        max_context_tokens=longest,
    )
    tables = step_tables(rig, fleet.max_batch, fleet.token_budget, longest)
    return LoggedRun(row, model, plan, log, fleet, tables)


def _plan(row: TruthRow, domain: int) -> dict[str, float]:
    """Decisions that the log's settings state."""
    tensor, stages = row.count("tp") or 1, row.count("pp") or 1
    if row.text("precision") not in PRECISIONS:
        raise MissingFact(
            f"dtype {row.text('precision')!r} is not one of ours: {', '.join(PRECISIONS)}"
        )
    code = PRECISIONS.index(row.text("precision"))
    return {
        "supernode_devices": max(domain, tensor * stages),
        "tensor_parallel": tensor,
        "pipeline_parallel": stages,
        "precision_code": code,
        "expert_precision_code": code,
        "max_sequences": float(row.count("max_num_seqs") or 1),
        "budget_tokens": float(row.count("max_num_batched_tokens") or 1),
    }


EARLIER_REDUCES = {("vllm", "0.19"): "vllm_0_19"}
"""Releases whose all-reduces were timed apart (planner.calibration.engine_timings.EARLIER)."""


def _curves(catalog: Catalog, row: TruthRow, accelerator: str) -> EngineCurves:
    """The engine's kernels, with the all-reduces of an earlier release where timed on the chip."""
    curves = catalog.engine_curves(row.text("engine"), [accelerator])
    release = (row.text("engine"), ".".join(row.text("release").split(".")[:2]))
    if release not in EARLIER_REDUCES:
        return curves
    then = catalog.engine_curves(EARLIER_REDUCES[release], [accelerator])
    ways = ("all_reduce", "all_reduce_once", "all_reduce_switched")
    return replace(curves, **{way: getattr(then, way) for way in ways})
