"""Failures: how often, how to checkpoint against them, what time and hardware they cost.

One device's mean time between failures is a fact given from outside; failures are independent
and come at a constant rate.
"""

from __future__ import annotations

import numpy as np

from simkernel.columns import Column


def mtbf_s(device_mtbf_s: Column, devices: Column) -> Column:
    """Mean time between failures of a job that stops when any of its devices does.

    Parameters
    ----------
    device_mtbf_s : (n,) mean time between failures of one device, host and network included [s]
    devices : (n,) working together

    References
    ----------
    Exponential lifetimes: rates add. Llama 3 (arXiv 2407.21783, table 5): 419 unexpected
    interruptions in 54 days on 16,384 GPUs.
    """
    return device_mtbf_s / devices


def young_interval_s(job_mtbf_s: Column, checkpoint_s: Column) -> Column:
    """Time between checkpoints that loses least, when writing one is short.

    References
    ----------
    Young, CACM 17(9), 1974: sqrt(2 M C).
    """
    return np.sqrt(2.0 * job_mtbf_s * checkpoint_s)


def available_interval_s(job_mtbf_s: Column, checkpoint_s: Column, recovery_s: Column) -> Column:
    """Time between checkpoints that gives the highest availability.

    References
    ----------
    Saxena et al., arXiv 2410.18124: T_s + sqrt(2 (T_f + T_r) T_s + T_s^2).
    """
    inner = 2.0 * (job_mtbf_s + recovery_s) * checkpoint_s + checkpoint_s**2
    return checkpoint_s + np.sqrt(inner)


def lost_frac(
    job_mtbf_s: Column, interval_s: Column, checkpoint_s: Column, recovery_s: Column
) -> Column:
    """Time lost per useful hour: writing checkpoints, work redone, recovery.

    Parameters
    ----------
    interval_s : (n,) between checkpoints [s]
    checkpoint_s, recovery_s : (n,) to write one, to be back at work after a failure [s]

    Notes
    -----
    First order: a failure during recovery is not counted again.

    References
    ----------
    C/tau + (tau/2 + R)/M: Young, CACM 17(9), 1974, with recovery added; anchor G10.
    """
    return checkpoint_s / interval_s + (interval_s / 2.0 + recovery_s) / job_mtbf_s


def goodput_frac(lost: Column) -> Column:
    """Useful share of the time, 1/(1 + x), x the time lost per useful hour; never below 0."""
    return 1.0 / (1.0 + lost)


def spares(units: Column, unit_mtbf_s: Column, repair_s: Column) -> Column:
    """Whole units to hold ready so that, on average, repair never shortens the job.

    Parameters
    ----------
    units : (n,) in use
    unit_mtbf_s : (n,) mean time between failures that take a unit out [s]
    repair_s : (n,) until it is back [s]

    References
    ----------
    Little's law: units under repair = failures per second x repair time, rounded up.
    """
    return np.ceil(units / unit_mtbf_s * repair_s)
