"""What each period asks of a workload: the highest of its moments, so that growth is served."""

from __future__ import annotations

import numpy as np

from planner.study.fleet import Demand, Fleet
from simkernel.columns import Floats

MOMENTS = 101
"""Moments of a period that are looked at, its first and its last among them."""


def levels_of(fleet: Fleet, demand: Demand) -> Floats:
    """Demand of each period in multiples of the workload, whatever branch comes; (t,).

    Parameters
    ----------
    fleet : of whose periods
    demand : of one workload

    Notes
    -----
    Growth and ramps go on within a period, and the period asks for the highest they come to in
    it: a fleet cannot grow from day to day. Levels, spikes and fan-outs are of whole periods.
    """
    periods = np.arange(fleet.periods)
    if demand.levels is not None:
        moving = np.array(demand.levels, float)[:, None]
    else:
        moments = periods[:, None] + np.linspace(0.0, 1.0, MOMENTS)
        growth = 1.0 + demand.growth_frac_per_year
        moving = demand.level * growth ** (moments * fleet.period_years)
    if demand.ramp:
        moments = periods[:, None] + np.linspace(0.0, 1.0, MOMENTS)
        first, last = demand.ramp.from_period, demand.ramp.until_period
        moving = moving * np.interp(moments, (first, max(last, first + 1)), (1.0, demand.ramp.to))
    found = moving.max(axis=1)
    for spike in demand.spikes:
        found = np.where(periods == spike.period, found * spike.times, found)
    if demand.fan_out:
        found = np.where(
            periods >= demand.fan_out.from_period, found * demand.fan_out.times, found
        )
    return np.asarray(found)
