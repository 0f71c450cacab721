"""Two pools replayed request by request on their busiest window, beside the closed form.

As `serving.replay`, of which the streams, the statistics and the gaps are: a request goes through
the prefill pool, over the wires, and through the decode pool.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from planner.evaluated import Evaluated
from planner.pools.engine import PoolsEngine
from planner.pools.join import Pair, evaluated
from planner.pools.phase import PoolRows
from planner.serving.load import ServeLoad
from planner.serving.replay import (
    RANDOM,
    SEEDS,
    Replayed,
    Served,
    context_tokens,
    fleet_as_lanes,
    replayed_of,
    requests_within,
    served,
    streams,
)
from planner.study.pools import POOLS, PREFILL
from simkernel.columns import Codes, Masks
from simkernel.errors import BadStudy
from simkernel.kv_transfer import sequence_bytes
from simkernel.replay.fleet import Fleet
from simkernel.replay.opening import Run
from simkernel.replay.requests import Requests
from simkernel.replay.serve_pools import Between, PoolsReplay, replay_pools
from simkernel.replay.tables import StepTables
from simkernel.serving_engine import MIXING
from simkernel.serving_tables import step_tables


@dataclass(frozen=True)
class PairPlan:
    """One pair made ready to replay.

    Parameters
    ----------
    pair, closed : one row in closed form
    fleets, tables : of the prefill and of the decode pool, lanes as the replay's replicas
    is_layer_wise : keys and values go while the prompt is computed
    """

    engine: PoolsEngine
    pair: Pair
    closed: Evaluated
    fleets: tuple[Fleet, Fleet]
    tables: tuple[StepTables, StepTables]
    is_layer_wise: bool


def pair_plan(engine: PoolsEngine, pair: Pair) -> PairPlan:
    """A pair of one row, ready to replay with the replicas that it has.

    Raises
    ------
    BadStudy : copies of attention that step together
    """
    rows = (pair.prefill, pair.decode)
    if any(int(row.ready.rig.plans.attention_data_parallel[0]) > 1 for row in rows):
        raise BadStudy(
            "copies of attention that step together are not replayed in pools apart; wanted "
            "attention_data_parallel = 1 in both"
        )
    both = [_ready(engine, pool, row) for pool, row in zip(POOLS, rows, strict=True)]
    return PairPlan(
        engine=engine,
        pair=pair,
        closed=evaluated(engine, pair),
        fleets=(both[0][0], both[1][0]),
        tables=(both[0][1], both[1][1]),
        is_layer_wise=bool(pair.is_layer_wise[0]),
    )


def _ready(engine: PoolsEngine, pool: str, row: PoolRows) -> tuple[Fleet, StepTables]:
    """Lanes of one pool, and what their steps take."""
    found, longest = row.ready, engine.load.longest_tokens
    replicas = int(round(float(row.replicas[0] * found.lanes[0])))
    served_tokens = context_tokens(found.rig.model, engine.load)
    fleet = fleet_as_lanes(engine.pools[pool], found.columns, found.rig, replicas, served_tokens)
    if pool != PREFILL:
        fleet = replace(fleet, batching=MIXING)
    return fleet, step_tables(found.rig, fleet.max_batch, fleet.token_budget, longest)


def replayed_pair(plan: PairPlan, seeds: int = SEEDS) -> Replayed:
    """A pair replayed on the busiest window of as many streams as there are seeds."""
    study = plan.engine.study
    is_chance = any(fleet.routing == RANDOM for fleet in plan.fleets)
    runs = [_run(plan, load, seed) for load, seed in streams(study, seeds, is_chance=is_chance)]
    beside = {name: float(np.mean([run.beside[name] for run in runs])) for name in runs[0].beside}
    replicas = int(np.rint(plan.closed.metrics["replicas"][0]))
    return replayed_of(study, plan.engine.load, replicas, runs, beside)


def replay_once(
    plan: PairPlan, load: ServeLoad, seed: int
) -> tuple[PoolsReplay, Masks, Codes, int]:
    """One stream through both pools.

    Returns
    -------
    the replay, (n,) which of its requests are of the window, (n,) their classes, and how many of
    the window were refused because they fit one of the pools by no means
    """
    most_per_s = float(plan.closed.metrics["capacity_requests_per_s"][0])
    requests, is_counted, classes = requests_within(load, most_per_s)
    longest = context_tokens(plan.engine.model, load)  # of this seed's stream
    fleets = [replace(fleet, max_context_tokens=longest) for fleet in plan.fleets]
    fits = np.ones(len(requests), dtype=bool)
    whole = requests.prompt_tokens + requests.output_tokens
    for fleet, tokens in zip(fleets, (requests.prompt_tokens, whole - 1), strict=True):
        fits &= -(-tokens // fleet.block_tokens) <= fleet.pool_blocks
        fits &= whole <= fleet.max_context_tokens
    refused = int((is_counted & ~fits).sum())
    kept = Requests(
        requests.arrival_s[fits], requests.prompt_tokens[fits], requests.output_tokens[fits]
    )
    both, between = (fleets[0], fleets[1]), _between(plan, kept)
    found = replay_pools(kept, both, plan.tables, between, Run(seed=seed))
    return found, is_counted[fits], classes[fits], refused


def _between(plan: PairPlan, requests: Requests) -> Between:
    """The wires of one copy of attention at each end, slowed by what its pool sends."""
    rows = (plan.pair.prefill, plan.pair.decode)
    rigs = [row.ready.rig for row in rows]
    width = float(rigs[0].plans.cache_bytes_per_value[0])
    lengths, back = np.unique(requests.prompt_tokens, return_inverse=True)
    each = np.array([float(sequence_bytes(plan.engine.model, float(n), width)) for n in lengths])
    rates = [float(row.end.beside(row.steps_frac).bytes_per_s[0]) for row in rows]
    return Between(
        moved_bytes=each[back],
        source_bytes_per_s=rates[0],
        destination_bytes_per_s=rates[1],
        base_s=max(float(row.end.base_s[0]) for row in rows),
        layers=plan.engine.model.layers if plan.is_layer_wise else 0,
        source_stages=int(rigs[0].plans.pipeline_parallel[0]),
        destination_stages=int(rigs[1].plans.pipeline_parallel[0]),
    )


def _run(plan: PairPlan, load: ServeLoad, seed: int) -> Served:
    found, is_counted, classes, refused = replay_once(plan, load, seed)
    moved = is_counted & found.decode.is_served & found.is_moved
    beside = {
        "kv_exposed_s": float(np.mean(found.moving_s[moved])),
        "kv_wait_for_room_s": float(np.mean((found.reserved_s - found.computed_s)[moved])),
        "prefill.busy_frac": _busy_frac(found.prefill.totals),
        "decode.busy_frac": _busy_frac(found.decode.totals),
    }
    host = plan.pair.prefill.ready.rig.engine
    one = served(host, found.decode, is_counted, classes, beside)
    return replace(
        one,
        refused=one.refused + refused,
        preemptions=one.preemptions + int(found.prefill.preemptions[is_counted].sum()),
    )


def _busy_frac(totals: Any) -> float:
    """Share of the time until the last step that replicas were in steps."""
    end_s = max(float(np.max(totals.end_s)), 1e-9)
    return float(np.sum(totals.busy_s)) / (end_s * len(totals.busy_s))
