"""Serving plans replayed request by request on their busiest window, beside the closed form.

Percentiles come from several seeds, each with a stream of its own where the study draws or
superposes one, and their intervals from resampling blocks of time: requests that are served
together wait together. A recorded stream is one draw, however many seeds are asked for. What
comes before the window runs too and is not counted, as does what comes after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from planner.serving.engine import ServeEngine
from planner.serving.evaluate import Fleet as ClosedFleet
from planner.serving.evaluate import fleet_of, lane_of, most_sequences, shared
from planner.serving.load import ServeLoad, checks_of, load_of_seed
from planner.serving.plans import serving_plans, serving_rig
from planner.serving.watts import lane_duty
from simkernel.columns import Codes, Floats, Masks
from simkernel.lane import Lane
from simkernel.models import Model
from simkernel.peak import peak_stream, warmed_from_empty
from simkernel.replay.fleet import Fleet
from simkernel.replay.opening import Run
from simkernel.replay.requests import Requests
from simkernel.replay.results import ReplayResult
from simkernel.replay.serve import replay
from simkernel.replay.tables import StepTables
from simkernel.serving_rig import Rig
from simkernel.serving_tables import BLOCK_TOKENS, pool_blocks, step_tables
from simkernel.workload import percentile_frac

SEEDS = 5
BLOCK_S = 5.0  # our choice: several mean answers long, a dozen blocks in a minute
BLOCKS_APART = 1_000_000
"""Between the numbers of blocks of two streams: more than one stream has."""

DRAWS = 200
"""Resamples of an interval: its ends are known to a few per cent of its width."""

LOW_FRAC, HIGH_FRAC = 0.05, 0.95
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

    def broken(self) -> list[dict[str, Any]]:
        """Bounds that the upper end of an interval passes, as violations."""
        lines: list[dict[str, Any]] = [
            {"limit": name, "have": self.high[name], "need": most_s, "unit": "s"}
            for name, most_s in self.bounds
            if self.high[name] > most_s
        ]
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
    cap_frac = np.asarray(columns["power_cap_frac"], float)
    lane = lane_of(engine, rig)
    count = plans.attention_data_parallel * plans.pipeline_parallel * 1.0
    lane = shared(engine, columns, lane, count)
    closed = fleet_of(engine, columns, plans, lane)
    lanes = int(closed.lanes[0])
    most = int(most_sequences(plans)[0])
    longest = engine.load.longest_tokens
    budget = int(plans.budget_tokens[0])
    duty = lane_duty(rig, lane, closed.busiest, cap_frac)
    tables = step_tables(rig, most, budget, longest, duty)
    levels = engine.space.levels
    fleet = Fleet(
        replicas=int(round(float(closed.replicas[0]))) * lanes,
        batching=rig.engine.batching(str(levels["batching"][int(columns["batching"][0])])),
        routing=str(levels["routing"][int(columns["routing"][0])]),
        max_batch=most,
        token_budget=budget,
        block_tokens=BLOCK_TOKENS,
        pool_blocks=pool_blocks(rig, engine.load.peak.mix.context_tokens),
        max_context_tokens=context_tokens(rig.model, engine.load),
        drafted_tokens=int(plans.drafted_tokens[0]),
        first_accept_frac=float(plans.first_accept_frac[0]),
        later_accept_frac=float(plans.later_accept_frac[0]),
        copies=int(plans.attention_data_parallel[0]),
    )
    return Plan(engine, columns, rig, lane, closed, tables, fleet, lanes)


def replay_once(plan: Plan, load: ServeLoad, seed: int) -> tuple[ReplayResult, Masks, Codes]:
    """One stream through the fleet.

    Returns
    -------
    the result, (n,) which requests are of the window, and (n,) their classes
    """
    requests, is_counted, classes = requests_of(plan, load)
    longest = context_tokens(plan.rig.model, load)  # of this seed's stream
    fleet = replace(plan.fleet, max_context_tokens=longest)
    return replay(requests, fleet, plan.tables, Run(seed=seed)), is_counted, classes


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
    stream = load.demand.requests
    tokens = (stream.prompt_tokens + stream.output_tokens).astype(float)
    mix = load.peak.mix
    each_tokens = float(mix.prompt_tokens_mean + mix.output_tokens_mean)
    most_per_s = float(plan.closed.found.saturated_per_s[0]) * plan.replicas
    window = warmed_from_empty(load.window, stream.arrival_s, tokens, most_per_s * each_tokens)
    found, is_counted = peak_stream(stream, window, FOLLOW_S)
    rows = slice(window.first_row, window.first_row + len(is_counted))
    requests = Requests(found.arrival_s, found.prompt_tokens, found.output_tokens)
    return requests, is_counted, load.demand.class_codes[rows]


FOLLOW_S = 60.0
"""After the window: longer than nearly all answers of chats take."""


def replayed(plan: Plan, seeds: int = SEEDS) -> Replayed:
    """A plan replayed on the busiest window of as many streams as there are seeds."""
    runs = [_run(plan, load, seed) for load, seed in _streams(plan, seeds)]
    joined = {name: np.concatenate([run.latencies[name] for run in runs]) for name in LATENCIES}
    blocks = np.concatenate([run.blocks + i * BLOCKS_APART for i, run in enumerate(runs)])
    classes = np.concatenate([run.classes for run in runs])
    checks = checks_of(plan.engine.study, plan.engine.load.demand)
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
    totals = {name: sum(run.totals[name] for run in runs) for name in runs[0].totals}
    devices = float(plan.rig.plans.devices[0])
    metrics["device_w"] = totals["step_j"] / totals["seconds"] / devices
    metrics["extended_steps_frac"] = totals["extended_steps"] / max(totals["steps"], 1.0)
    return Replayed(
        replicas=plan.replicas,
        metrics=metrics,
        low=low,
        high=high,
        requests=len(joined["ttft_s"]),
        refused=int(totals["refused"]),
        preemptions=int(totals["preemptions"]),
        is_overload=any(run.is_overload for run in runs),
        bounds=tuple((f"{n}{b.latency}_{b.statistic}", b.most_s) for _, n, b in checks),
    )


@dataclass(frozen=True)
class _Run:
    """One stream served: latencies of the window's requests, and what is summed over streams."""

    latencies: dict[str, Floats]
    blocks: Codes
    classes: Codes
    totals: dict[str, float]
    is_overload: bool


def _streams(plan: Plan, seeds: int) -> Iterator[tuple[ServeLoad, int]]:
    """The load of every seed; a recorded stream once, unless routers leave it to chance."""
    study = plan.engine.study
    first = load_of_seed(study, study.seed)
    for i in range(seeds):
        load = load_of_seed(study, study.seed + i)
        is_new = i == 0 or not np.array_equal(_arrivals(load), _arrivals(first))
        if not is_new and plan.fleet.routing != "random":
            return
        yield load, study.seed + i


def _run(plan: Plan, load: ServeLoad, seed: int) -> _Run:
    host = plan.rig.engine
    result, is_counted, classes = replay_once(plan, load, seed)
    kept = is_counted & result.is_served
    request_s = np.asarray(host.request_s + host.prompt_token_s * result.prompt_tokens)
    rows = {
        "ttft_s": result.ttft_s + request_s,
        "tpot_s": result.tpot_s,
        "e2e_s": result.e2e_s + request_s,
    }
    totals = result.totals
    return _Run(
        latencies={name: values[kept] for name, values in rows.items()},
        blocks=(result.arrival_s[kept] // BLOCK_S).astype(np.int64),
        classes=classes[kept],
        totals={
            "refused": float((is_counted & ~result.is_served).sum()),
            "preemptions": float(result.preemptions[is_counted].sum()),
            "step_j": float((totals.step_j + totals.idle_j).sum()),
            "seconds": float(totals.end_s.max()) * plan.fleet.replicas,
            "steps": float(totals.steps.sum()),
            "extended_steps": float(totals.extended_steps.sum()),
        },
        is_overload=result.backlog(int(np.flatnonzero(is_counted)[-1]) + 1).is_overload,
    )


def _arrivals(load: ServeLoad) -> Floats:
    return load.demand.requests.arrival_s


def gap(closed: Mapping[str, float], found: Replayed) -> dict[str, float]:
    """Closed form over replay, less one, of every latency both have."""
    return {
        name: closed[name] / value - 1.0
        for name, value in found.metrics.items()
        if name in closed and value > 0
    }


def statistics_of(
    latencies: Mapping[str, Floats], blocks: Codes, wanted: Sequence[tuple[str, str]]
) -> tuple[dict[str, float], dict[str, float], dict[str, float]]:
    """Values of statistics and their intervals by the block bootstrap.

    References
    ----------
    Kuensch, Ann. Statist. 17 (1989) 1217: blocks keep what is correlated together.
    """
    codes = np.unique(blocks, return_inverse=True)[1]
    count = int(codes.max(initial=-1)) + 1
    rng = np.random.default_rng(0)  # of the resampling alone: the same figures for the same replay
    weights = (
        rng.multinomial(count, np.full(count, 1.0 / count), DRAWS) if count else np.zeros((0, 0))
    )
    values, low, high = {}, {}, {}
    for name in LATENCIES:
        own = [statistic for latency, statistic in wanted if latency == name]
        is_known = np.isfinite(latencies[name])
        order = np.argsort(latencies[name][is_known], kind="stable")
        sorted_s = latencies[name][is_known][order]
        sorted_codes = codes[is_known][order]
        plain = _of_weights(sorted_s, np.ones(len(sorted_s)), own)
        drawn = [_of_weights(sorted_s, row[sorted_codes].astype(float), own) for row in weights]
        for i, statistic in enumerate(own):
            key, spread = f"{name}_{statistic}", [one[i] for one in drawn]
            values[key] = plain[i]
            ends = np.quantile(spread, (LOW_FRAC, HIGH_FRAC)) if spread else (np.nan, np.nan)
            low[key], high[key] = map(float, ends)
    return values, low, high


def _of_weights(sorted_s: Floats, weights: Floats, statistics: Sequence[str]) -> list[float]:
    """Weighted mean and percentiles of sorted values; NaN where there are none."""
    if not len(sorted_s):
        return [np.nan] * len(statistics)
    below = np.cumsum(weights)
    found = []
    for statistic in statistics:
        if statistic == "mean":
            found.append(float(np.dot(sorted_s, weights) / below[-1]))
        else:
            at = int(np.searchsorted(below, percentile_frac(statistic) * below[-1]))
            found.append(float(sorted_s[min(at, len(sorted_s) - 1)]))
    return found
