"""Seconds of kernels under a power cap: a slower clock for those that would draw more than it.

Prompts are products that wait for arithmetic and draw most: they slow down. Decoding waits for
memory, draws less and hardly follows the clock. A cap that is held over several kernels at a time
leaves the busiest of them a little more than is told here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simkernel.columns import Column, Floats
from simkernel.hardware import PowerCurve
from simkernel.passes import Pass, wires_s
from simkernel.power import device_w
from simkernel.power_cap import capped_slowdown_frac, held_clock_frac

LEAST_S = 1e-30  # of kernels that are not there, to divide by


@dataclass(frozen=True)
class PowerLimit:
    """A cap on the power of devices, and what follows their clock.

    Parameters
    ----------
    cap_frac : (n,) of rated power
    compute_frac, memory_frac, communication_frac : of the time of a kernel that stretches as the
        clock falls, by what it waits for (costdata/tables/clock_following.csv)
    link_bytes_per_s : (n,) or one row, of a device's scale-up links
    """

    cap_frac: Floats
    compute_frac: float
    memory_frac: float
    communication_frac: float
    link_bytes_per_s: Floats


def elapsed_s(passes: Sequence[Pass], power: PowerCurve, limit: PowerLimit | None) -> Column:
    """Seconds of kernels that run one after another and share one clock.

    Parameters
    ----------
    passes : each of kernels that wait for the same, (n,)
    power : (n,) or one row
    limit : (n,) or one row; None where no power is capped

    Returns
    -------
    (n,) never less than without a cap [s]

    References
    ----------
    Roofline at the clock that is left: the longer of arithmetic, which follows it, and memory,
    which does not; phase by phase as sum of t_i (c_i/f + 1 - c_i) in `power_cap`.
    """
    whole_s: Column = sum((part.floor_s for part in passes), start=0.0)
    if limit is None:
        return whole_s
    busy_w = _busy_w(passes, power, whole_s, limit.link_bytes_per_s)
    clock = held_clock_frac(power.cap_w * limit.cap_frac, power.context_w, busy_w)
    slower = [
        capped_slowdown_frac(clock, follow_frac)
        for follow_frac in (limit.compute_frac, limit.memory_frac, limit.communication_frac)
    ]
    return sum((_stretched_s(part, slower) for part in passes), start=0.0)


def _busy_w(
    passes: Sequence[Pass], power: PowerCurve, whole_s: Column, link_bytes_per_s: Floats
) -> Floats:
    """Watts while these kernels run at full clock."""
    over_s = np.maximum(whole_s, LEAST_S)
    memory_s, compute_s, link_bytes = (
        sum((getattr(part, name) for part in passes), start=0.0)
        for name in ("peak_hbm_s", "peak_compute_s", "inside_bytes")
    )
    busy = (memory_s, compute_s, link_bytes / link_bytes_per_s)
    waits_s = sum((wires_s(part) for part in passes), start=0.0)
    shares = (np.minimum(busy_s / over_s, 1.0) for busy_s in (*busy, waits_s))
    return device_w(power, *shares)


def _stretched_s(part: Pass, slower: Sequence[Column]) -> Column:
    """A pass at a lower clock; launches wait for the host, which has its own."""
    of_compute, of_memory, of_wires = slower
    kernel_s = np.maximum(part.compute_s, part.hbm_s)
    longer_s = np.maximum(part.compute_s * (1.0 + of_compute), part.hbm_s * (1.0 + of_memory))
    return part.floor_s - kernel_s + longer_s + wires_s(part) * of_wires
