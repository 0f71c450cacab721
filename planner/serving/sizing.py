"""How many replicas a load needs: capacity within the bounds, headroom, failures to survive.

Replicas are added for load alone. A latency that an empty replica already misses is a limit of
its own, with what it has: no number of replicas changes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from planner.study.slo import Bound
from simkernel.columns import Column, Floats, Masks
from simkernel.serve_open import (
    LEAST_ARRIVALS,
    Lane,
    Pace,
    arrivals_at,
    is_roomy,
    latencies,
    most_arrivals,
    pace,
    saturated,
)

HALVINGS = 12
"""Of the interval in which the fullest lane within the bounds is looked for: 2e-4 of it."""


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
    at_rest = latencies(lane, pace(lane, empty))
    floors = {(b.latency, b.statistic): at_rest[b.latency].at(b.statistic) for b in bounds}
    low, high = empty, full
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        is_kept = _keeps(lane, middle, bounds)
        low, high = np.where(is_kept, middle, low), np.where(is_kept, high, middle)
    is_hopeless = np.zeros(len(full), dtype=bool)
    for bound in bounds:
        is_hopeless |= floors[bound.latency, bound.statistic] > bound.most_s
    within = pace(lane, low).requests_per_s * lanes
    return Capacity(most, np.where(is_hopeless, most, np.minimum(within, most)), floors)


def replicas_for(requests_per_s: float, found: Capacity, rule: Rule) -> Floats:
    """Whole replicas that serve a rate within the bounds, below the use, after the failures."""
    most = np.minimum(found.within_per_s, rule.most_use_frac * found.saturated_per_s)
    working = np.ceil(requests_per_s / np.maximum(most, 1e-12))
    least = np.ceil(requests_per_s / np.maximum(found.within_per_s, 1e-12))
    return np.asarray(np.maximum(working, least + rule.lost_replicas))


def pace_at(lane: Lane, lanes: Column, replicas: Floats, requests_per_s: float) -> Pace:
    """The steady state of a lane of a fleet at a rate; that of a full one beyond its capacity."""
    return pace(lane, arrivals_at(lane, requests_per_s / (replicas * lanes)))


def _keeps(lane: Lane, arrivals: Floats, bounds: Sequence[Bound]) -> Masks:
    """Lanes that have room for nearly all crowds and keep every bound; (n,)."""
    at = pace(lane, arrivals)
    found = latencies(lane, at)
    kept = is_roomy(lane, at)
    for bound in bounds:
        kept = kept & (found[bound.latency].at(bound.statistic) <= bound.most_s)
    return np.asarray(kept)
