"""Two pools replayed request by request on their busiest window, beside the closed form.

As `serving.replay`, of which the streams, the intervals and the gaps are: a request goes through
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
from planner.serving.evaluate import most_sequences
from planner.serving.load import ServeLoad, checks_of, load_of_seed
from planner.serving.replay import (
    BLOCK_S,
    BLOCKS_APART,
    COMPARED,
    FOLLOW_S,
    LATENCIES,
    SEEDS,
    Replayed,
    context_tokens,
    statistics_of,
)
from planner.study.pools import POOLS, PREFILL
from simkernel.columns import Codes, Floats, Masks
from simkernel.errors import BadStudy
from simkernel.kv_transfer import sequence_bytes
from simkernel.peak import peak_stream, warmed_from_empty
from simkernel.replay.fleet import Fleet
from simkernel.replay.opening import Run
from simkernel.replay.requests import Requests
from simkernel.replay.serve_pools import Between, PoolsReplay, replay_pools
from simkernel.replay.tables import StepTables
from simkernel.serving_engine import MIXING
from simkernel.serving_tables import BLOCK_TOKENS, pool_blocks, step_tables


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
    found, own = row.ready, engine.pools[pool]
    plans, columns = found.rig.plans, found.columns
    most, budget = int(most_sequences(plans)[0]), int(plans.budget_tokens[0])
    levels = own.space.levels
    policy = str(levels["batching"][int(columns["batching"][0])])
    fleet = Fleet(
        replicas=int(round(float(row.replicas[0] * found.lanes[0]))),
        batching=found.rig.engine.batching(policy) if pool == PREFILL else MIXING,
        routing=str(levels["routing"][int(columns["routing"][0])]),
        max_batch=most,
        token_budget=budget,
        block_tokens=BLOCK_TOKENS,
        pool_blocks=pool_blocks(found.rig, own.load.peak.mix.context_tokens),
        max_context_tokens=context_tokens(found.rig.model, engine.load),
        drafted_tokens=int(plans.drafted_tokens[0]),
        first_accept_frac=float(plans.first_accept_frac[0]),
        later_accept_frac=float(plans.later_accept_frac[0]),
    )
    return fleet, step_tables(found.rig, most, budget, engine.load.longest_tokens)


def replayed_pair(plan: PairPlan, seeds: int = SEEDS) -> Replayed:
    """A pair replayed on the busiest window of as many streams as there are seeds."""
    study = plan.engine.study
    runs = [_run(plan, load_of_seed(study, study.seed + i), study.seed + i) for i in range(seeds)]
    joined = {name: np.concatenate([run.latencies[name] for run in runs]) for name in LATENCIES}
    blocks = np.concatenate([run.blocks + i * BLOCKS_APART for i, run in enumerate(runs)])
    classes = np.concatenate([run.classes for run in runs])
    checks = checks_of(study, plan.engine.load.demand)
    wanted = {(n, s) for n in LATENCIES for s in COMPARED}
    wanted |= {(b.latency, b.statistic) for code, _, b in checks if code < 0}
    metrics, low, high = statistics_of(joined, blocks, sorted(wanted))
    for code, name, bound in checks:
        if code >= 0:
            of_class = {latency: values[classes == code] for latency, values in joined.items()}
            one = [(bound.latency, bound.statistic)]
            found = statistics_of(of_class, blocks[classes == code], one)
            for every, own in zip((metrics, low, high), found, strict=True):
                every |= {f"{name}{key}": value for key, value in own.items()}
    for name in runs[0].beside:
        metrics[name] = float(np.mean([run.beside[name] for run in runs]))
    return Replayed(
        replicas=int(np.rint(sum(plan.closed.metrics[f"{p}.replicas"][0] for p in POOLS))),
        metrics=metrics,
        low=low,
        high=high,
        requests=len(joined["ttft_s"]),
        refused=sum(run.refused for run in runs),
        preemptions=sum(run.preemptions for run in runs),
        is_overload=any(run.is_overload for run in runs),
        bounds=tuple((f"{n}{b.latency}_{b.statistic}", b.most_s) for _, n, b in checks),
    )


@dataclass(frozen=True)
class _Run:
    """One stream served: latencies of the window's requests, and what is told beside."""

    latencies: dict[str, Floats]
    blocks: Codes
    classes: Codes
    beside: dict[str, float]
    refused: int
    preemptions: int
    is_overload: bool


def replay_once(
    plan: PairPlan, load: ServeLoad, seed: int
) -> tuple[PoolsReplay, Masks, Codes, int]:
    """One stream through both pools.

    Returns
    -------
    the replay, (n,) which of its requests are of the window, (n,) their classes, and how many of
    the window were refused because they fit one of the pools by no means
    """
    requests, is_counted, classes = _requests(plan, load)
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


def _requests(plan: PairPlan, load: ServeLoad) -> tuple[Requests, Masks, Codes]:
    """The warm-up, the window, and those who follow it; as of one pool."""
    stream = load.demand.requests
    tokens = (stream.prompt_tokens + stream.output_tokens).astype(float)
    mix = load.peak.mix
    each_tokens = float(mix.prompt_tokens_mean + mix.output_tokens_mean)
    most_per_s = float(plan.closed.metrics["capacity_requests_per_s"][0])
    window = warmed_from_empty(load.window, stream.arrival_s, tokens, most_per_s * each_tokens)
    found, is_counted = peak_stream(stream, window, FOLLOW_S)
    rows = slice(window.first_row, window.first_row + len(is_counted))
    requests = Requests(found.arrival_s, found.prompt_tokens, found.output_tokens)
    return requests, is_counted, load.demand.class_codes[rows]


def _between(plan: PairPlan, requests: Requests) -> Between:
    """The wires of one copy of attention at each end, slowed by what its pool sends."""
    rows = (plan.pair.prefill, plan.pair.decode)
    rigs = [row.ready.rig for row in rows]
    width = float(rigs[0].plans.cache_bytes_per_value[0])
    lengths, back = np.unique(requests.prompt_tokens, return_inverse=True)
    each = np.array([float(sequence_bytes(plan.engine.model, float(n), width)) for n in lengths])
    rates = [float((row.end.bytes_per_s * (1.0 - row.steps_frac))[0]) for row in rows]
    return Between(
        moved_bytes=each[back],
        source_bytes_per_s=rates[0],
        destination_bytes_per_s=rates[1],
        base_s=max(float(row.end.base_s[0]) for row in rows),
        layers=plan.engine.model.layers if plan.is_layer_wise else 0,
        source_stages=int(rigs[0].plans.pipeline_parallel[0]),
        destination_stages=int(rigs[1].plans.pipeline_parallel[0]),
    )


def _run(plan: PairPlan, load: ServeLoad, seed: int) -> _Run:
    found, is_counted, classes, refused = replay_once(plan, load, seed)
    result, host = found.decode, plan.pair.prefill.ready.rig.engine
    kept = is_counted & result.is_served
    request_s = np.asarray(host.request_s + host.prompt_token_s * result.prompt_tokens)
    rows = {
        "ttft_s": result.ttft_s + request_s,
        "tpot_s": result.tpot_s,
        "e2e_s": result.e2e_s + request_s,
    }
    moved = kept & found.is_moved
    return _Run(
        latencies={name: values[kept] for name, values in rows.items()},
        blocks=(result.arrival_s[kept] // BLOCK_S).astype(np.int64),
        classes=classes[kept],
        beside={
            "kv_exposed_s": float(np.mean(found.moving_s[moved])),
            "kv_wait_for_room_s": float(np.mean((found.reserved_s - found.computed_s)[moved])),
            "prefill.busy_frac": _busy_frac(found.prefill.totals),
            "decode.busy_frac": _busy_frac(result.totals),
        },
        refused=refused + int((is_counted & ~result.is_served).sum()),
        preemptions=int((result.preemptions + found.prefill.preemptions)[is_counted].sum()),
        is_overload=result.backlog(int(np.flatnonzero(is_counted)[-1]) + 1).is_overload,
    )


def _busy_frac(totals: Any) -> float:
    """Share of the time until the last step that replicas were in steps."""
    end_s = max(float(np.max(totals.end_s)), 1e-9)
    return float(np.sum(totals.busy_s)) / (end_s * len(totals.busy_s))
