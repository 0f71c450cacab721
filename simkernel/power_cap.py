"""What a power cap does to a device: a slower clock, a longer step, less energy.

The cubic law of clock and power; which share of a step follows the clock is given from outside.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from simkernel.columns import Column

LEAST_CLOCK_FRAC = 1e-3  # our choice: no clock, and no time without an end


def capped_clock_frac(cap_w: Column, floor_w: Column, peak_w: Column) -> Column:
    """Clock under a cap, over the clock without one.

    Parameters
    ----------
    cap_w : (n,) at least `floor_w`; a cap above the peak does nothing [W]
    floor_w, peak_w : (n,) power that does not follow the clock, and power at full clock [W]

    References
    ----------
    P = P0 + k f^3, voltage following frequency: ((cap - P0)/(peak - P0))^(1/3).
    """
    return np.minimum(np.cbrt((cap_w - floor_w) / (peak_w - floor_w)), 1.0)


def held_clock_frac(cap_w: Column, context_w: Column, busy_w: Column) -> Column:
    """Clock at which a device keeps its cap, over the clock without one.

    Parameters
    ----------
    cap_w, context_w : (n,) the cap, and power with nothing running [W]
    busy_w : (n,) power at full clock; below the cap the clock stays [W]

    Notes
    -----
    A cap below the context's power is kept by no clock: the least one is told, and a step of a
    thousand times.
    """
    floor_w = np.minimum(context_w, cap_w)
    over_w = np.maximum(busy_w, cap_w * (1.0 + 1e-12))
    clock = np.where(busy_w > cap_w, capped_clock_frac(cap_w, floor_w, over_w), 1.0)
    return np.maximum(clock, LEAST_CLOCK_FRAC)


def capped_slowdown_frac(clock_frac: Column, compute_frac: Column) -> Column:
    """Extra time of a step at a lower clock; only its compute-bound share stretches.

    Parameters
    ----------
    clock_frac : (n,) as `capped_clock_frac`
    compute_frac : (n,) share of the step's time that follows the clock

    References
    ----------
    sum of t (c/f + 1 - c); arXiv 2605.11999: memory-bound decode is unchanged.
    """
    return compute_frac * (1.0 / clock_frac - 1.0)


def following_frac(shares: Mapping[str, Column], follow_frac: Mapping[str, float]) -> Column:
    """Share of a step's time that stretches as the clock falls, over its phases.

    Parameters
    ----------
    shares : phase to its share of the step's time, (n,)
    follow_frac : phase to how much of it follows the clock, costdata/tables/clock_following.csv

    References
    ----------
    sum of t_i (c_i/f + 1 - c_i): the c of `capped_slowdown_frac` is the mean of the phases' own.
    """
    following: Column = sum((shares[n] * follow_frac[n] for n in shares), start=0.0)
    return following


def capped_energy_frac(cap_w: Column, peak_w: Column, slowdown_frac: Column) -> Column:
    """Energy of the same work under a cap, over the energy without one."""
    return cap_w / peak_w * (1.0 + slowdown_frac)
