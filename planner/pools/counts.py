"""How many replicas of one pool are looked at: from the least that serve, as far as it helps."""

from __future__ import annotations

import numpy as np

from planner.axes import DERIVED
from planner.pools.phase import Ready, times_at
from planner.pools.space import COUNTED
from planner.serving.engine import ServeEngine
from simkernel.columns import Codes, Floats, Masks

STEPS_FRAC = (0.0, 0.005, 0.015, 0.03, 0.05, 0.08, 0.12, 0.2, 0.35)
"""Beyond the least count that a pool's own load and bounds allow: half a per cent is less than
the interval of a percentile, and a third more has next to no queue left. Our choice."""

MOST_GROWTH = 8.0
"""Times the least count by load at which a bound is still looked for: a pool so idle has the
latencies of an empty one."""


def counts_of(engine: ServeEngine, found: Ready) -> tuple[Codes, Floats]:
    """Rows of the plans, each as often as there are counts to look at, and the counts; (m,) each.

    Notes
    -----
    A pool whose size the study gives has that one. Else counts follow from the load: below the
    use, after the failures, and within the pool's own bounds; a latency that an empty replica
    already misses is looked at at the least count alone, where its limit says so.
    """
    plans = np.arange(len(found))
    devices = np.asarray(found.columns["devices"])
    if np.any(devices > 0):
        return plans, devices / np.asarray(found.rig.plans.devices, float)
    if engine.space.levels[COUNTED] != (DERIVED,):
        return plans, np.asarray(found.columns[COUNTED], float)
    least, is_met = least_counts(engine, found)
    rows: list[Masks] = []
    counts: list[Floats] = []
    for step in STEPS_FRAC:
        more = np.ceil(least * (1.0 + step))
        is_new = (more > counts[-1]) if counts else np.ones(len(found), dtype=bool)
        rows.append(is_new & (is_met | (step == 0.0)))
        counts.append(more)
    is_looked = np.stack(rows, axis=1)
    at, which = np.nonzero(is_looked)
    return at, np.stack(counts, axis=1)[at, which]


def least_counts(engine: ServeEngine, found: Ready) -> tuple[Floats, Masks]:
    """The fewest replicas within load, use, failures and the pool's own bounds; (n,) each.

    Returns
    -------
    the counts, and where the bounds are kept; by load alone where no count keeps them
    """
    peak, most_use = engine.load.peak.requests_per_s, engine.study.serving.peak_utilisation_frac
    saturated = np.maximum(found.saturated_per_s, 1e-12)
    by_load = np.maximum(
        np.ceil(peak / (most_use * saturated)), np.ceil(peak / saturated) + found.lost
    )
    by_load = np.maximum(by_load, 1.0)
    low, high = by_load, np.ceil(by_load * MOST_GROWTH)
    is_met = _keeps(engine, found, high)
    for _ in range(int(np.ceil(np.log2(max(float(np.max(high - low)), 1.0)))) + 1):
        middle = np.floor((low + high) / 2.0)
        is_kept = _keeps(engine, found, middle)
        high = np.where(is_kept, middle, high)
        low = np.where(is_kept, low, np.minimum(middle + 1.0, high))
    return np.where(is_met, high, by_load), is_met


def _keeps(engine: ServeEngine, found: Ready, replicas: Floats) -> Masks:
    """Where so many replicas, less those lost, keep the pool's own bounds; (n,)."""
    lanes = np.maximum(replicas - found.lost, 1e-9) * found.lanes
    rate = np.minimum(engine.load.peak.requests_per_s / lanes, found.saturated_per_s / found.lanes)
    spread = times_at(found, rate, lanes).spread
    is_kept = np.ones(len(found), dtype=bool)
    for bound in engine.load.bounds:
        is_kept &= spread.at(bound.statistic) <= bound.most_s
    return is_kept
