"""Serving plans replayed request by request on their busiest window, beside the closed form.

Percentiles come from several seeds, each with a stream of its own where the study draws or
superposes one, and their intervals from resampling blocks of time: requests that are served
together wait together. A recorded stream is one draw, however many seeds are asked for. What
comes before the window runs too and is not counted, as does what comes after it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from planner.serving.engine import ServeEngine
from planner.serving.evaluate import Fleet as ClosedFleet
from planner.serving.evaluate import evaluate_alone, fleet_of, lane_of, most_sequences, shared
from planner.serving.intervals import statistics_of
from planner.serving.load import ServeLoad, checks_of, load_of_seed
from planner.serving.operations import admission_of, operations_of, ranks_of
from planner.serving.plans import serving_plans, serving_rig
from planner.serving.prefixes import caches_of, has_prefix_cache, with_hits
from planner.serving.slo_minutes import minutes_lost
from planner.serving.watts import lane_duty
from planner.study.read import Study
from simkernel.columns import Codes, Floats, Masks
from simkernel.lane import Lane
from simkernel.models import Model
from simkernel.peak import filled_before, peak_stream, warmed_from_empty
from simkernel.replay.fleet import Fleet
from simkernel.replay.opening import Run
from simkernel.replay.requests import Requests
from simkernel.replay.results import LOST, NOT_ADMITTED, STRANDED, ReplayResult
from simkernel.replay.serve import replay
from simkernel.replay.tables import StepTables
from simkernel.serving_engine import Engine
from simkernel.serving_rig import Rig
from simkernel.serving_tables import BLOCK_TOKENS, pool_blocks, step_tables

SEEDS = 5
BLOCK_S = 5.0  # our choice: several mean answers long, a dozen blocks in a minute
NO_TIME_S = 1e-9
"""Where nothing was served there is no time to divide by."""

BLOCKS_APART = 1_000_000
"""Between the numbers of blocks of two streams: more than one stream has."""

COMPARED = ("mean", "p50", "p95", "p99")
LATENCIES = ("ttft_s", "tpot_s", "e2e_s")


@dataclass(frozen=True)
class Plan:
    """One plan made ready to replay.

    Parameters
    ----------
    columns : its row of the space; (1,) each
    rig, lane, closed : as in the closed form, one candidate
    tables : step times of one lane
    fleet : its lanes as the replay's replicas
    lanes : of one replica
    """

    engine: ServeEngine
    columns: Mapping[str, Any]
    rig: Rig
    lane: Lane
    closed: ClosedFleet
    tables: StepTables
    fleet: Fleet
    lanes: int

    def with_replicas(self, replicas: int) -> Plan:
        """The plan with another number of replicas."""
        return replace(self, fleet=replace(self.fleet, replicas=replicas * self.lanes))

    @property
    def replicas(self) -> int:
        """Whole replicas of the fleet."""
        return self.fleet.replicas // self.lanes

    @property
    def lost_with_host(self) -> int:
        """Replicas that are out of work with a host: those on it, or the one that needs it."""
        per_host = float(np.asarray(self.columns["chassis_devices"])[0])
        return max(math.ceil(per_host / float(self.rig.plans.devices[0])), 1)


@dataclass(frozen=True)
class Replayed:
    """What replays of a plan found.

    Parameters
    ----------
    replicas : of the fleet
    metrics : name to value over all seeds
    low, high : 90% interval of every latency, by name
    requests, refused, preemptions : of the windows, all seeds
    is_overload : the queue grew in a window: percentiles are of its length
    bounds : name of every bounded statistic, with its class before a dot, and the bound [s]
    left_out : requests of the windows that were let in and lost, or not let in: name, share of
        all, and the share that the study allows
    """

    replicas: int
    metrics: dict[str, float]
    low: dict[str, float]
    high: dict[str, float]
    requests: int
    refused: int
    preemptions: int
    is_overload: bool
    bounds: tuple[tuple[str, float], ...]
    left_out: tuple[tuple[str, float, float], ...] = ()

    def broken(self) -> list[dict[str, Any]]:
        """Bounds that the upper end of an interval passes, as violations."""
        lines: list[dict[str, Any]] = [
            {"limit": name, "have": self.high[name], "need": most_s, "unit": "s"}
            for name, most_s in self.bounds
            if self.high[name] > most_s
        ]
        lines += [
            {"limit": name, "have": share, "need": most, "unit": "1"}
            for name, share, most in self.left_out
            if share > most
        ]
        if not self.requests:
            lines.append({"limit": "served", "have": 0.0, "need": 1.0, "unit": "requests"})
        if self.refused:
            lines.append(
                {"limit": "refused", "have": float(self.refused), "need": 0.0, "unit": "requests"}
            )
        if self.is_overload:
            lines.append({"limit": "overload", "have": 1.0, "need": 0.0, "unit": "growing queues"})
        return lines


def plan_of(engine: ServeEngine, columns: Mapping[str, Any], accelerator: str) -> Plan:
    """A plan of a space, ready to replay with the replicas of the closed form.

    Parameters
    ----------
    columns : one row, as `planner.space.blocks.columns` gives it
    """
    plans = serving_plans(engine, columns)
    rig = serving_rig(engine, columns, plans, accelerator)
    engine = _with_cached_load(engine, columns, rig, accelerator)
    cap_frac = np.asarray(columns["power_cap_frac"], float)
    lane = lane_of(engine, rig)
    count = plans.attention_data_parallel * plans.pipeline_parallel * 1.0
    lane = shared(engine, columns, lane, count)
    closed = fleet_of(engine, columns, plans, lane)
    lanes = int(closed.lanes[0])
    replicas = int(round(float(closed.replicas[0]))) * lanes
    served_tokens = context_tokens(rig.model, engine.load)
    fleet = fleet_as_lanes(engine, columns, rig, replicas, served_tokens)
    duty, longest = lane_duty(rig, lane, closed.busiest, cap_frac), engine.load.longest_tokens
    tables = step_tables(rig, fleet.max_batch, fleet.token_budget, longest, duty)
    return Plan(engine, columns, rig, lane, closed, tables, fleet, lanes)


def _with_cached_load(
    engine: ServeEngine, columns: Mapping[str, Any], rig: Rig, accelerator: str
) -> ServeEngine:
    """The engine with the load that a plan with a prefix cache is sized on."""
    if not np.any(has_prefix_cache(engine, columns)):
        return engine
    replicas = evaluate_alone(engine, columns, accelerator).metrics["replicas"]
    caches = caches_of(engine, columns, rig, replicas)
    return with_hits(engine, float(caches.capacity_tokens[0]), int(caches.count[0]))


def fleet_as_lanes(
    engine: ServeEngine, columns: Mapping[str, Any], rig: Rig, replicas: int, longest_tokens: int
) -> Fleet:
    """One plan's lanes as the replay's replicas, with the policies that its columns name.

    Parameters
    ----------
    columns : one row
    replicas : lanes of the fleet
    longest_tokens : of a request that is served
    """
    plans, levels = rig.plans, engine.space.levels
    policy, router = (str(levels[axis][int(columns[axis][0])]) for axis in ("batching", "routing"))
    return Fleet(
        replicas=replicas,
        batching=rig.engine.batching(policy),
        routing=router,
        max_batch=int(most_sequences(plans)[0]),
        token_budget=int(plans.budget_tokens[0]),
        block_tokens=BLOCK_TOKENS,
        pool_blocks=pool_blocks(rig, engine.load.peak.mix.context_tokens),
        max_context_tokens=longest_tokens,
        drafted_tokens=int(plans.drafted_tokens[0]),
        first_accept_frac=float(plans.first_accept_frac[0]),
        later_accept_frac=float(plans.later_accept_frac[0]),
        copies=int(plans.attention_data_parallel[0]),
        has_prefix_cache=bool(has_prefix_cache(engine, columns)[0]),
        **admission_of(engine.study.serving.operations),
    )


def replay_once(plan: Plan, load: ServeLoad, seed: int) -> tuple[ReplayResult, Masks, Codes]:
    """One stream through the fleet.

    Returns
    -------
    the result, (n,) which requests are of the window, and (n,) their classes
    """
    requests, is_counted, classes = requests_of(plan, load)
    longest = context_tokens(plan.rig.model, load)  # of this seed's stream
    fleet = replace(plan.fleet, max_context_tokens=longest)
    ranked = replace(requests, ranks=ranks_of(plan.engine.study, classes))
    window_s = float(requests.arrival_s[np.flatnonzero(is_counted)[0]])
    happens = operations_of(
        plan.engine.study.serving.operations,
        window_s,
        plan.replicas,
        plan.lanes,
        plan.lost_with_host,
    )
    result = replay(ranked, fleet, plan.tables, Run(seed=seed), operations=happens)
    return result, is_counted, classes


def context_tokens(model: Model, load: ServeLoad) -> int:
    """The longest request that is served: what comes, no more than the model's file states."""
    return min(load.longest_tokens, model.max_tokens or load.longest_tokens)


def requests_of(plan: Plan, load: ServeLoad) -> tuple[Requests, Masks, Codes]:
    """What a replay serves: the warm-up, the window, and those who follow it.

    The warm-up reaches back to where the fleet had no backlog, so far as it can be told.

    Returns
    -------
    the requests, (n,) which of them are of the window, and (n,) their classes
    """
    fleet, filled_tokens = plan.fleet, 0
    if fleet.has_prefix_cache:
        filled_tokens = fleet.replicas * fleet.pool_blocks * fleet.block_tokens
    most_per_s = float(plan.closed.found.saturated_per_s[0]) * plan.replicas
    return requests_within(load, most_per_s, filled_tokens)


def requests_within(
    load: ServeLoad, most_per_s: float, filled_tokens: float = 0.0
) -> tuple[Requests, Masks, Codes]:
    """As `requests_of`, of a fleet that takes on so many requests a second at most.

    Parameters
    ----------
    filled_tokens : that have to come before the window, as far as the stream reaches back, so
        that caches of this size hold what they would
    """
    stream = load.demand.requests
    tokens = (stream.prompt_tokens + stream.output_tokens).astype(float)
    mix = load.peak.mix
    each_tokens = float(mix.prompt_tokens_mean + mix.output_tokens_mean)
    window = warmed_from_empty(load.window, stream.arrival_s, tokens, most_per_s * each_tokens)
    window = filled_before(window, stream.arrival_s, tokens, filled_tokens)
    found, is_counted = peak_stream(stream, window, FOLLOW_S)
    rows = slice(window.first_row, window.first_row + len(is_counted))
    requests = Requests.of(found)
    return requests, is_counted, load.demand.class_codes[rows]


FOLLOW_S = 60.0
"""After the window: longer than nearly all answers of chats take."""


def replayed(plan: Plan, seeds: int = SEEDS) -> Replayed:
    """A plan replayed on the busiest window of as many streams as there are seeds."""
    study, is_chance = plan.engine.study, plan.fleet.routing == RANDOM
    runs = [_run(plan, load, seed) for load, seed in streams(study, seeds, is_chance=is_chance)]
    totals = {name: sum(run.beside[name] for run in runs) for name in runs[0].beside}
    devices = float(plan.rig.plans.devices[0])
    beside = {
        "device_w": totals["step_j"] / max(totals["seconds"], NO_TIME_S) / devices,
        "extended_steps_frac": totals["extended_steps"] / max(totals["steps"], 1.0),
    }
    if plan.fleet.has_prefix_cache:
        beside["prefix_hit_frac"] = totals["hit_tokens"] / max(totals["prompt_tokens"], 1.0)
    if not study.serving.operations.is_quiet:
        beside["slo_minutes_lost"] = totals["slo_minutes_lost"] / len(runs)
        beside["powered_replicas"] = (
            totals["powered_s"] / max(totals["seconds"], NO_TIME_S) * plan.replicas
        )
    return replayed_of(study, plan.engine.load, plan.replicas, runs, beside)


@dataclass(frozen=True)
class Served:
    """One stream served: what requests of the window met, and what is told beside.

    Parameters
    ----------
    latencies : of the requests served, as LATENCIES; (m,) each [s]
    blocks, classes : (m,) the block of time that each came in, and its class
    refused, preemptions : of the window
    shed, lost : of the window: not let in; lost with a replica, or without one
    is_overload : the queue grew in the window
    beside : figures of the stream, by name
    """

    latencies: dict[str, Floats]
    blocks: Codes
    classes: Codes
    refused: int
    preemptions: int
    is_overload: bool
    beside: dict[str, float]
    shed: int = 0
    lost: int = 0


def served(
    host: Engine,
    result: ReplayResult,
    is_counted: Masks,
    classes: Codes,
    beside: dict[str, float],
) -> Served:
    """What the requests of a window met, the host's own time on each included.

    Parameters
    ----------
    is_counted, classes : (n,) of the requests replayed
    """
    kept = is_counted & result.is_served
    shed = int((is_counted & (result.refusal_code == NOT_ADMITTED)).sum())
    lost = int((is_counted & np.isin(result.refusal_code, (LOST, STRANDED))).sum())
    return Served(
        latencies={name: values[kept] for name, values in latencies_of(host, result).items()},
        blocks=(result.arrival_s[kept] // BLOCK_S).astype(np.int64),
        classes=classes[kept],
        refused=int((is_counted & ~result.is_served).sum()) - shed - lost,
        preemptions=int(result.preemptions[is_counted].sum()),
        is_overload=result.backlog(int(np.flatnonzero(is_counted)[-1]) + 1).is_overload,
        beside=beside,
        shed=shed,
        lost=lost,
    )


def latencies_of(host: Engine, result: ReplayResult) -> dict[str, Floats]:
    """Of each request, as LATENCIES, the host's own time on it included; (n,) [s]."""
    request_s = np.asarray(host.request_s + host.prompt_token_s * result.prompt_tokens)
    return {
        "ttft_s": result.ttft_s + request_s,
        "tpot_s": result.tpot_s,
        "e2e_s": result.e2e_s + request_s,
    }


def replayed_of(
    study: Study,
    load: ServeLoad,
    replicas: int,
    runs: Sequence[Served],
    beside: Mapping[str, float],
) -> Replayed:
    """Streams as one: statistics over all, of each class where it has bounds, and intervals.

    Parameters
    ----------
    load : that the fleet was sized for
    beside : further metrics
    """
    joined = {name: np.concatenate([run.latencies[name] for run in runs]) for name in LATENCIES}
    blocks = np.concatenate([run.blocks + i * BLOCKS_APART for i, run in enumerate(runs)])
    classes = np.concatenate([run.classes for run in runs])
    checks = checks_of(study, load.demand)
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
    return Replayed(
        replicas=replicas,
        metrics={**metrics, **beside},
        low=low,
        high=high,
        requests=len(joined["ttft_s"]),
        refused=sum(run.refused for run in runs),
        preemptions=sum(run.preemptions for run in runs),
        is_overload=any(run.is_overload for run in runs),
        bounds=tuple((f"{n}{b.latency}_{b.statistic}", b.most_s) for _, n, b in checks),
        left_out=_left_out(study, runs),
    )


def _left_out(study: Study, runs: Sequence[Served]) -> tuple[tuple[str, float, float], ...]:
    """Shares of the requests that nobody served, and what the study allows of each."""
    asked = study.serving.operations
    if asked.is_quiet:
        return ()
    come = sum(len(run.classes) + run.refused + run.shed + run.lost for run in runs)
    most_shed = 0.0 if asked.admission is None else asked.admission.most_shed_frac
    return (
        ("shed_frac", sum(run.shed for run in runs) / max(come, 1), most_shed),
        ("lost_frac", sum(run.lost for run in runs) / max(come, 1), asked.most_lost_frac),
    )


def streams(study: Study, seeds: int, *, is_chance: bool) -> Iterator[tuple[ServeLoad, int]]:
    """The load of every seed; a recorded stream once, unless routers leave it to chance."""
    first = load_of_seed(study, study.seed)
    for i in range(seeds):
        load = load_of_seed(study, study.seed + i)
        is_new = i == 0 or not np.array_equal(_arrivals(load), _arrivals(first))
        if not is_new and not is_chance:
            return
        yield load, study.seed + i


RANDOM = "random"
"""The router that leaves each choice to chance."""


def _run(plan: Plan, load: ServeLoad, seed: int) -> Served:
    result, is_counted, classes = replay_once(plan, load, seed)
    totals = result.totals
    lost_minutes = 0.0
    if not plan.engine.study.serving.operations.is_quiet:
        lost_minutes = _minutes_lost(plan, load, result, is_counted, classes)
    beside = {
        "step_j": float((totals.step_j + totals.idle_j).sum()),
        "seconds": float(totals.end_s.max()) * plan.fleet.replicas,
        "steps": float(totals.steps.sum()),
        "extended_steps": float(totals.extended_steps.sum()),
        "hit_tokens": float(result.hit_tokens[is_counted].sum()),
        "prompt_tokens": float(result.prompt_tokens[is_counted].sum()),
        "slo_minutes_lost": lost_minutes,
        "powered_s": float(totals.powered_s.sum()),
    }
    return served(plan.rig.engine, result, is_counted, classes, beside)


def _minutes_lost(
    plan: Plan, load: ServeLoad, result: ReplayResult, is_counted: Masks, classes: Codes
) -> float:
    """Minutes of the window in which a bound was broken; who is not served breaks every one."""
    host, checks = plan.rig.engine, checks_of(plan.engine.study, load.demand)
    rows = {
        name: np.where(result.is_served, values, np.inf)[is_counted]
        for name, values in latencies_of(host, result).items()
    }
    come_s = result.arrival_s[is_counted]
    blocks = ((come_s - come_s[0]) // BLOCK_S).astype(np.int64)
    return minutes_lost(rows, blocks, classes[is_counted], checks, BLOCK_S)


def _arrivals(load: ServeLoad) -> Floats:
    return load.demand.requests.arrival_s


def gap(closed: Mapping[str, float], found: Replayed) -> dict[str, float]:
    """Closed form over replay, less one, of every latency both have."""
    return {
        name: closed[name] / value - 1.0
        for name, value in found.metrics.items()
        if name in closed and value > 0
    }
