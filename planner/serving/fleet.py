"""The smallest fleet of one plan that keeps every bound when it is replayed.

Between the replicas that the load fills to the last and those that surely suffice, fleets are
replayed until neighbours differ: the last that breaks a bound and the first that keeps all. A
latency that an empty replica already misses ends the search before it begins.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from planner.serving.replay import SEEDS, Plan, Replayed, replayed

GROWTH = 1.08
"""Steps in which a fleet is enlarged until it keeps the bounds."""

CLOSE_FRAC = 0.005
"""A search ends when the last two fleets are this near: less than the interval of a percentile."""

MOST_TRIES = 24


@dataclass(frozen=True)
class Sized:
    """What a search for the smallest fleet found.

    Parameters
    ----------
    replicas : of the fleet, failures included; 0 where no number of replicas helps, or none was
        found in so many tries
    working : of them, those that keep the bounds
    lost : that may be out of work
    saturated : fewer than these cannot keep up whatever they wait
    floors : what an empty replica already misses, as violations
    found : the replay of the working fleet over all seeds, None where there is none
    tries : every fleet replayed: replicas and whether it kept the bounds
    """

    replicas: int
    working: int
    lost: int
    saturated: int
    floors: list[dict[str, Any]]
    found: Replayed | None
    tries: list[dict[str, Any]]


def sized(plan: Plan, seeds: int = SEEDS) -> Sized:
    """The smallest fleet of a plan whose replay keeps every bound, the ends of intervals too."""
    load, closed = plan.engine.load, plan.closed
    filled = load.peak.requests_per_s / float(closed.found.saturated_per_s[0])
    saturated = math.ceil(filled)
    lost = int(closed.lost[0])
    floors = [
        {
            "limit": f"{b.latency}_{b.statistic} of an empty replica",
            "have": float(closed.found.floors[b.latency, b.statistic][0]),
            "need": b.most_s,
            "unit": "s",
        }
        for b in load.bounds
        if float(closed.found.floors[b.latency, b.statistic][0]) > b.most_s
    ]
    if floors:
        return Sized(0, 0, lost, saturated, floors, None, [])
    tries: list[dict[str, Any]] = []

    def keeps(replicas: int, over: int) -> Replayed | None:
        found = replayed(plan.with_replicas(replicas), over)
        broken = found.broken()
        tries.append({"replicas": replicas, "seeds": over, "broken": broken})
        return None if broken else found

    working = _first(keeps, max(saturated, 1), max(plan.replicas - lost, saturated, 1))
    final = keeps(working, seeds)
    while final is None and len(tries) < MOST_TRIES:
        working += max(int(working * CLOSE_FRAC), 1)
        final = keeps(working, seeds)
    if final is None:
        return Sized(0, 0, lost, saturated, [], None, tries)
    by_use = math.ceil(filled / plan.engine.study.serving.peak_utilisation_frac)
    return Sized(max(working + lost, by_use), working, lost, saturated, [], final, tries)


def _first(keeps: Callable[[int, int], Replayed | None], least: int, start: int) -> int:
    """The first fleet from `least` on that keeps the bounds on one seed; `start` is near it."""
    high = start
    low = least - 1
    for _ in range(MOST_TRIES // 3):
        if keeps(high, 1) is not None:
            break
        low, high = high, math.ceil(high * GROWTH)
    else:
        return high
    if low < start / GROWTH:
        low = _below(keeps, low, high)
    while high - low > max(1, CLOSE_FRAC * high):
        middle = (low + high) // 2
        if keeps(middle, 1) is None:
            low = middle
        else:
            high = middle
    return high


def _below(keeps: Callable[[int, int], Replayed | None], least: int, high: int) -> int:
    """A fleet near `high` that breaks a bound, or the largest that cannot keep up."""
    low = max(int(high / GROWTH), least)
    return low if low <= least or keeps(low, 1) is None else least
