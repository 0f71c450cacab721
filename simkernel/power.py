"""Watts of a device and of its share of the host, from what they are doing.

Coefficients are a regression on running systems, not physics: memory and arithmetic load rise
together, so their split means little. A device draws by duty: busy power while it works,
context power while it waits for others. Caps on the clock are in `power_cap`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simkernel.columns import Column, Floats
from simkernel.hardware import PowerCurve

LEAST_FRAC = 1e-6  # of the time, to divide by


def device_w(
    curve: PowerCurve,
    memory_frac: Column,
    compute_frac: Column,
    link_frac: Column = 0.0,
    exchange_frac: Column = 0.0,
) -> Floats:
    """Power of one device at steady utilisation.

    Parameters
    ----------
    curve : (n,) or one row
    memory_frac : (n,) bytes/s over the memory rate, 0..1
    compute_frac : (n,) flop/s over the dense peak of the precision, 0..1
    link_frac : (n,) bytes/s over the scale-up rate, 0..1
    exchange_frac : (n,) share of the time in collectives that nothing runs beside, 0..1

    Returns
    -------
    (n,) at most the cap [W]

    Notes
    -----
    Memory and arithmetic rest while a device waits for messages, so both are the busier in what
    is left of the time; the curves bend, and that is the less power of the two.

    Number formats hardly change power (H200: FP8 661.7 W, BF16 662.8 W, serialalice benchmark):
    utilisation is of each format's own peak.

    References
    ----------
    Form: hardware.PowerCurve; coefficients: planner/calibration/power_fit.py.
    """
    memory_w, compute_w = _risen_w(curve, memory_frac, compute_frac, exchange_frac)
    link_w = curve.communication_w * link_frac
    return np.minimum(curve.cap_w, curve.context_w + memory_w + compute_w + link_w)


def _risen_w(
    curve: PowerCurve, memory_frac: Column, compute_frac: Column, exchange_frac: Column
) -> tuple[Floats, Floats]:
    """Watts above the context's for memory and for arithmetic, mean over all time."""
    working = np.maximum(1.0 - exchange_frac, LEAST_FRAC)
    memory = np.minimum(memory_frac / working, 1.0)
    arithmetic = np.minimum(compute_frac / working, 1.0)
    memory_w = working * curve.memory_w * np.power(memory, curve.memory_exponent)
    compute_w = working * curve.compute_w * np.power(arithmetic, curve.compute_exponent)
    return memory_w, compute_w


def mean_device_w(curve: PowerCurve, busy_frac: Column, busy_w: Column) -> Column:
    """Power of one device over a step in which it works part of the time.

    Parameters
    ----------
    curve : (n,) or one row
    busy_frac : (n,) share of the step in which kernels run: the rest is bubbles, waiting for
        messages and for the host, 0..1
    busy_w : (n,) power while they run, from `device_w` with utilisation over busy time [W]

    Returns
    -------
    (n,) between context and busy power [W]

    Notes
    -----
    Averaging over time, not over utilisation, keeps energy = power x time for any split of a
    step. A job spread from one node to eight loses 22 to 32 % of its rate and 25 % of its power
    above idle (MLPerf Training v4.0, tests/anchors/training_power.toml): linear in duty.
    """
    return curve.context_w + (busy_w - curve.context_w) * busy_frac


@dataclass(frozen=True)
class DutyWatts:
    """Watts of one device that add up over steps, (n,) or numbers: at rest, and more for work [W].

    `memory_w`, `compute_w` and `link_w` while a resource would be busy at its full rate.
    """

    context_w: Column
    memory_w: Column
    compute_w: Column
    link_w: Column


def duty_watts(
    curve: PowerCurve,
    memory_frac: Column,
    compute_frac: Column,
    link_frac: Column,
    most_w: Column,
    exchange_frac: Column = 0.0,
) -> DutyWatts:
    """The curve of a device as a sum, right at some mean shares.

    Parameters
    ----------
    curve : (n,) or one row
    memory_frac, compute_frac, link_frac : (n,) mean shares of all time, gaps included, 0..1
    most_w : (n,) cap on the mean [W]
    exchange_frac : (n,) share of the time in collectives alone, 0..1

    Notes
    -----
    The curves bend and are made of whole runs: summed step by step they come out a fifth low.
    A straight line from rest through the run's own mean gives the run the curve's watts.
    """
    memory, arithmetic = np.maximum(memory_frac, 1e-9), np.maximum(compute_frac, 1e-9)
    memory_w, compute_w = _risen_w(curve, memory, arithmetic, exchange_frac)
    link_w = curve.communication_w * link_frac
    risen_w = np.maximum(memory_w + compute_w + link_w, 1e-9)
    room_w = np.maximum(np.minimum(most_w, curve.cap_w) - curve.context_w, 0.0)
    kept_frac = np.minimum(room_w / risen_w, 1.0)
    return DutyWatts(
        context_w=curve.context_w,
        memory_w=kept_frac * memory_w / memory,
        compute_w=kept_frac * compute_w / arithmetic,
        link_w=kept_frac * curve.communication_w,
    )


def host_w(curve: PowerCurve, busy_frac: Column) -> Column:
    """One device's share of its host: processors, memory, boards, switches in it, power supplies.

    Parameters
    ----------
    curve : (n,) or one row
    busy_frac : (n,) share of time the devices work, 0..1

    Returns
    -------
    (n,) [W]

    References
    ----------
    Linear between idle and full load, as SPECpower-based estimators do
    (cloud-carbon-footprint, ComputeEstimator.ts:26).
    """
    return curve.host_idle_w + curve.host_span_w * busy_frac


def fan_w(curve: PowerCurve, busy_frac: Column, is_air: Column) -> Column:
    """One device's share of the fans of its server.

    Parameters
    ----------
    curve : (n,) or one row
    busy_frac : (n,) share of time the devices work, 0..1
    is_air : (n,) 1 where air cools the server, 0 where coolant comes to it

    Returns
    -------
    (n,) [W]
    """
    return is_air * (curve.fan_idle_w + curve.fan_span_w * busy_frac)


def server_w(
    curve: PowerCurve,
    busy_frac: Column,
    memory_frac: Column,
    compute_frac: Column,
    is_air: Column = 0.0,
) -> Column:
    """One device with its shares of host and fans, mean over a step; network cards are apart.

    Parameters
    ----------
    curve : (n,) or one row
    busy_frac : (n,) share of the step in which kernels run, 0..1
    memory_frac, compute_frac : (n,) utilisation over the whole step, 0..1
    is_air : (n,) 1 where air cools the server

    Returns
    -------
    (n,) [W]
    """
    working = np.maximum(busy_frac, 1e-9)  # a device that never works has no busy utilisation
    busy_w = device_w(
        curve,
        np.minimum(memory_frac / working, 1.0),
        np.minimum(compute_frac / working, 1.0),
    )
    around_w = host_w(curve, busy_frac) + fan_w(curve, busy_frac, is_air)
    return mean_device_w(curve, busy_frac, busy_w) + around_w
