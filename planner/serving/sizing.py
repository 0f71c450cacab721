"""How many replicas a load needs: capacity within the bounds, headroom, failures to survive.

Replicas are added for load alone. A latency that an empty replica already misses is a limit of
its own, with what it has: no number of replicas changes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from planner.serving.load import Load
from planner.study.slo import Bound
from simkernel.columns import Column, Floats, taken
from simkernel.false_position import crossing
from simkernel.lane import Lane
from simkernel.lane_pace import (
    LEAST_ARRIVALS,
    Pace,
    arrivals_at,
    most_arrivals,
    pace,
    pace_and_fuller,
    roomy_arrivals,
    saturated,
    side_by_side,
)
from simkernel.serve_open import Spread, e2e, latencies, tpot, ttft

BOUND_STEPS = 7
"""In which the fullest lane within the bounds is found, beside its two ends."""

HALVINGS = 8
"""Of the fullest lane there is, until the bounds are kept: to a 256th of it."""

MARGIN_FRAC = 2.0**-12
"""Below the last guess, where that breaks a bound: what is found lies within 1e-3 (tested)."""


@dataclass(frozen=True)
class Capacity:
    """Rates of one replica; (n,) each.

    Parameters
    ----------
    saturated_per_s : requests that it serves at most, whatever they wait [1/s]
    within_per_s : the most at which every bound is kept [1/s]; where an empty replica breaks
        one, `saturated_per_s`: no number of replicas helps
    floors : latency and statistic to that of a nearly empty replica [s]
    """

    saturated_per_s: Floats
    within_per_s: Floats
    floors: Mapping[tuple[str, str], Floats]


@dataclass(frozen=True)
class Rule:
    """How a fleet is sized: the largest use of its capacity, and replicas that may fail."""

    most_use_frac: float
    lost_replicas: Floats


def capacity(lane: Lane, lanes: Column, bounds: Sequence[Bound]) -> Capacity:
    """What one replica of so many lanes serves.

    Parameters
    ----------
    lane : n candidates
    lanes : (n,) of a replica
    bounds : that its latencies must keep
    """
    full = most_arrivals(lane)
    most = saturated(lane).requests_per_s * lanes
    empty = np.minimum(full, LEAST_ARRIVALS)
    at_rest = latencies(lane, *pace_and_fuller(lane, empty))
    floors = {(b.latency, b.statistic): at_rest[b.latency].at(b.statistic) for b in bounds}
    roomy = np.maximum(np.minimum(full, roomy_arrivals(lane)), empty)
    fullest = _fullest(lane, empty, roomy, bounds, floors) if bounds else roomy
    is_hopeless = np.zeros(len(full), dtype=bool)
    for bound in bounds:
        is_hopeless |= floors[bound.latency, bound.statistic] > bound.most_s
    within = pace(lane, fullest).requests_per_s * lanes
    return Capacity(most, np.where(is_hopeless, most, np.minimum(within, most)), floors)


def _fullest(
    lane: Lane,
    empty: Floats,
    most: Floats,
    bounds: Sequence[Bound],
    floors: Mapping[tuple[str, str], Floats],
) -> Floats:
    """Requests per step of the fullest lane that keeps every bound, or a little fewer; (n,).

    Found on the logarithm of the worst latency over its bound, where that is above it at the most
    and not yet when nearly empty.
    """
    under = np.log(_worst([(floors[b.latency, b.statistic], b.most_s) for b in bounds]))
    over = _beyond(lane, most, bounds)
    found = np.where(over <= 0.0, most, empty)
    rows = np.flatnonzero((over > 0.0) & (under <= 0.0))
    if len(rows):
        some = taken(lane, rows)
        found[rows] = _crossed(some, empty[rows], most[rows], under[rows], over[rows], bounds)
    return found


def _crossed(
    lane: Lane, low: Floats, high: Floats, under: Floats, over: Floats, bounds: Sequence[Bound]
) -> Floats:
    """The fullest lane that keeps every bound, between one that does and one that breaks one."""
    if lane.curves.shared is None:
        found, low, is_over = crossing(
            lambda at: _beyond(lane, at, bounds), low, high, under, over, BOUND_STEPS
        )
    else:  # steps of copies that wait for each other jump with the first prompts, and fall again
        logs = crossing(
            lambda at: _beyond(lane, np.exp(at), bounds),
            *_last_rise(lane, np.log(low), np.log(high), under, over, bounds),
            BOUND_STEPS,
        )
        found, low, is_over = np.exp(logs[0]), np.exp(logs[1]), logs[2]
    return np.where(is_over, np.maximum(low, found * (1.0 - MARGIN_FRAC)), found)


def _last_rise(
    lane: Lane, low: Floats, high: Floats, under: Floats, over: Floats, bounds: Sequence[Bound]
) -> tuple[Floats, Floats, Floats, Floats]:
    """A narrower range in which bounds are last broken, and by how much at both ends; (n,) each.

    From above, since they may be broken once more by far fewer requests: a fleet for those would
    be several times too large. Both ends are logarithms of requests per step.
    """
    low, high, under, over = low.copy(), high.copy(), under.copy(), over.copy()
    rows = np.arange(len(low))
    for _ in range(HALVINGS):
        at = np.maximum(high[rows] - np.log(2.0), low[rows])
        beyond = _beyond(taken(lane, rows), np.exp(at), bounds)
        is_kept = beyond <= 0.0
        low[rows[is_kept]], under[rows[is_kept]] = at[is_kept], beyond[is_kept]
        high[rows[~is_kept]], over[rows[~is_kept]] = at[~is_kept], beyond[~is_kept]
        rows = rows[~is_kept]
        if not len(rows):
            break
    return low, high, under, over


def _beyond(lane: Lane, arrivals: Floats, bounds: Sequence[Bound]) -> Floats:
    """Logarithm of the worst latency over its bound; (n,)."""
    at, fuller_step_s = pace_and_fuller(lane, arrivals)
    found: dict[str, Spread] = {}
    if any(b.latency != "tpot_s" for b in bounds):
        found["ttft_s"] = ttft(lane, at)
    if any(b.latency != "ttft_s" for b in bounds):
        found["tpot_s"] = tpot(lane, at, fuller_step_s)
    if any(b.latency == "e2e_s" for b in bounds):
        found["e2e_s"] = e2e(lane, found["ttft_s"], found["tpot_s"])
    return np.log(_worst([(found[b.latency].at(b.statistic), b.most_s) for b in bounds]))


def _worst(pairs: Sequence[tuple[Floats, float]]) -> Floats:
    """The largest of some latencies over their bounds; (n,)."""
    worst = pairs[0][0] / pairs[0][1]
    for value_s, most_s in pairs[1:]:
        worst = np.maximum(worst, value_s / most_s)
    return np.asarray(worst)


def replicas_for(requests_per_s: float, found: Capacity, rule: Rule) -> Floats:
    """Whole replicas that serve a rate within the bounds, below the use, after the failures."""
    most = np.minimum(found.within_per_s, rule.most_use_frac * found.saturated_per_s)
    working = np.ceil(requests_per_s / np.maximum(most, 1e-12))
    least = np.ceil(requests_per_s / np.maximum(found.within_per_s, 1e-12))
    return np.asarray(np.maximum(working, least + rule.lost_replicas))


def more_where_broken(
    lane: Lane, lanes: Column, replicas: Floats, requests_per_s: float, bounds: Sequence[Bound]
) -> Floats:
    """Replicas enough for copies that wait for each other; (n,).

    Few prompts make the slowest twentieth of their answers slower than more prompts do, so a fleet
    below its capacity may still break a bound. One of fewer requests each keeps it.
    """
    if lane.curves.shared is None or not bounds:
        return replicas
    at = arrivals_at(lane, requests_per_s / (replicas * lanes))
    over = _beyond(lane, at, bounds)
    rows = np.flatnonzero(over > 0.0)
    if not len(rows):
        return replicas
    lane, at, over = taken(lane, rows), at[rows], over[rows]
    empty = np.minimum(at, LEAST_ARRIVALS)
    under = _beyond(lane, empty, bounds)
    _, fewer, _ = crossing(
        lambda log: _beyond(lane, np.exp(log), bounds),
        *(np.log(empty), np.log(at), under, over),
        BOUND_STEPS,
    )
    served = pace(lane, np.exp(fewer)).requests_per_s * taken(lanes, rows)
    enough = np.ceil(requests_per_s / np.maximum(served, 1e-12))
    more = replicas.copy()
    more[rows] = np.where(under <= 0.0, np.maximum(replicas[rows], enough), replicas[rows])
    return more


def paces_at(lane: Lane, lanes: Column, replicas: Floats, loads: Sequence[Load]) -> list[Pace]:
    """The steady states of a lane of a fleet under some loads; of a full one beyond its capacity.

    All loads have as many shares of their prompts, and are found side by side.
    """
    rates = [load.requests_per_s / (replicas * lanes) for load in loads]
    if len({load.mix.prompt_tokens.shape for load in loads}) > 1:
        own = [(replace(lane, mix=load.mix), r) for load, r in zip(loads, rates, strict=True)]
        return [pace(one, arrivals_at(one, rate)) for one, rate in own]
    beside = side_by_side(lane, [load.mix for load in loads])
    found = pace(beside, arrivals_at(beside, np.stack(rates)))
    return [found.at(row) for row in range(len(loads))]
