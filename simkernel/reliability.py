"""Failures: how often, how to checkpoint against them, what time and hardware they cost.

Mean times between failures of components are facts given from outside; failures are independent
and come at a constant rate. A failure while another is recovered from is not counted.
"""

from __future__ import annotations

import numpy as np

from simkernel.columns import Column, Floats, Masks

HALVINGS = 60  # of an interval of logarithms: to the last bit of a double
MTBF_S = (1e-3, 1e15)  # our choice: a job that never starts, and one that outlives everything
TRIES_LOG_MOST = 100.0  # our choice: a job that never finishes a segment; powers of it are finite
SPARES_MOST = 100_000  # our choice: no fleet holds more units ready than it ever had

FIRST_ORDER_FRAC = 0.99
"""Where failures are so many that first order is off by more than this, all orders count."""


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


def checkpoint_s(
    state_bytes: Column, storage_bytes_per_s: Column, wait_s: Column, is_waited_for: Masks | bool
) -> Column:
    """Time that training stands for one checkpoint.

    Parameters
    ----------
    state_bytes : (n,) weights and optimiser state of the whole model, written once
    storage_bytes_per_s : (n,) of all writers together
    wait_s : to stop, copy and start again
    is_waited_for : False where the file is written while training goes on
    """
    written_s = state_bytes / storage_bytes_per_s
    return wait_s + np.where(is_waited_for, written_s, 0.0)


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


def least_mtbf_s(lost_most_frac: Column, checkpoint_s: Column, recovery_s: Column) -> Floats:
    """Mean time between failures below which more is lost than may be; NaN where nothing may be.

    Parameters
    ----------
    lost_most_frac : (n,) time lost per useful hour at most
    checkpoint_s, recovery_s : (n,) as for `lost_frac`

    Notes
    -----
    Checkpoints at `available_interval_s` of each. Less is lost the rarer failures are, so halving
    the interval of logarithms finds it.
    """
    low, high = (np.log(end) + 0.0 * np.asarray(lost_most_frac) for end in MTBF_S)
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        mtbf_s = np.exp(middle)
        interval_s = available_interval_s(mtbf_s, checkpoint_s, recovery_s)
        useful = told_goodput_frac(mtbf_s, interval_s, checkpoint_s, recovery_s)
        is_too_much = 1.0 / useful - 1.0 > lost_most_frac
        low, high = np.where(is_too_much, middle, low), np.where(is_too_much, high, middle)
    return np.where(np.asarray(lost_most_frac) > 0, np.exp(high), np.nan)


def mean_goodput_frac(
    job_mtbf_s: Column, interval_s: Column, checkpoint_s: Column, recovery_s: Column
) -> Floats:
    """Useful share of the mean wall time, failures in repeated work and checkpoints included.

    Notes
    -----
    A segment of work and its checkpoint is tried until it ends without a failure, so that losses
    beget losses: `goodput_frac` is this to first order, and too good where failures are many.

    References
    ----------
    Daly, Future Generation Computer Systems 22(3), 2006, eq. 13.
    """
    segment_s = interval_s + checkpoint_s
    tries = np.expm1(np.minimum(segment_s / job_mtbf_s, TRIES_LOG_MOST))
    lost_s = recovery_s + job_mtbf_s - segment_s / tries
    return np.asarray(1.0 / (1.0 + checkpoint_s / interval_s + tries / interval_s * lost_s))


def told_goodput_frac(
    job_mtbf_s: Column, interval_s: Column, checkpoint_s: Column, recovery_s: Column
) -> Floats:
    """Useful share of the wall time: to first order, and to all orders where that is too good.

    Notes
    -----
    First order is what is published and quoted; where it is off by more than FIRST_ORDER_FRAC
    allows, failures are so many that it would promise dates that most runs miss.
    """
    first = np.asarray(goodput_frac(lost_frac(job_mtbf_s, interval_s, checkpoint_s, recovery_s)))
    mean = mean_goodput_frac(job_mtbf_s, interval_s, checkpoint_s, recovery_s)
    return np.where(mean < FIRST_ORDER_FRAC * first, mean, first)


def finish_s(
    useful_s: Column,
    job_mtbf_s: Column,
    interval_s: Column,
    checkpoint_s: Column,
    recovery_s: Column,
    deviates: Column,
) -> Floats:
    """Wall time of a run that a share of all such runs has ended by.

    Parameters
    ----------
    useful_s : (n,) work without any loss [s]
    deviates : standard normal deviates of the share: 0 for half, 1.2816 for nine tenths

    Notes
    -----
    Failures come in the work that is done again and in checkpoints too, which `lost_frac` leaves
    out to first order: at Llama 3's rates the mean is 1% above useful time over `goodput_frac`.
    Lost time is a translated gamma with the mean, variance and skewness of the sum of losses,
    quantiles by Wilson and Hilferty; never below the run without failures. That the rates
    themselves are not known well is not in it.

    References
    ----------
    Daly, Future Generation Computer Systems 22(3), 2006 (work until a failure is exponential);
    Bowers et al., Actuarial Mathematics, section 12.4 (translated gamma approximation);
    Wilson and Hilferty, PNAS 17(12), 1931.
    """
    segment_s = interval_s + checkpoint_s
    tries = np.expm1(np.minimum(segment_s / job_mtbf_s, TRIES_LOG_MOST))
    failures = useful_s / interval_s * tries
    lost_s = recovery_s + job_mtbf_s - segment_s / tries
    spread_s, skewness = _loss_spread(failures, segment_s, recovery_s)
    shape = 4.0 / skewness**2
    root = np.maximum(1.0 - 1.0 / (9.0 * shape) + deviates / (3.0 * np.sqrt(shape)), 0.0)
    around_s = spread_s * (root**3 - 1.0) * np.sqrt(shape)
    whole_s = useful_s * (1.0 + checkpoint_s / interval_s)
    return np.asarray(whole_s + np.maximum(failures * lost_s + around_s, 0.0))


def _loss_spread(failures: Column, segment_s: Column, recovery_s: Column) -> tuple[Column, Column]:
    """Standard deviation [s] and skewness of what Poisson failures lose, each evenly of a segment.

    Moments of a Poisson sum are the number of terms times the raw moments of one.
    """
    end_s = segment_s + recovery_s
    square_s2 = (end_s**3 - recovery_s**3) / (3.0 * segment_s)
    cube_s3 = (end_s**4 - recovery_s**4) / (4.0 * segment_s)
    return np.sqrt(failures * square_s2), cube_s3 / (square_s2**1.5 * np.sqrt(failures))


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


def covering_spares(
    units: Column, unit_mtbf_s: Column, repair_s: Column, coverage_frac: float
) -> Floats:
    """Whole units to hold ready so that repair shortens the job in few hours only.

    Parameters
    ----------
    units, unit_mtbf_s, repair_s : (n,) as for `spares`
    coverage_frac : share of the time in which enough stand by, below 1

    References
    ----------
    Palm's theorem: units under repair are Poisson, whatever the repair times are.
    """
    down = np.asarray(units / unit_mtbf_s * repair_s, float)
    ready, log_of_one = np.zeros(down.shape), -down
    log_share, log_wanted = -down, np.log(coverage_frac)
    for held in range(1, SPARES_MOST):
        is_short = log_share < log_wanted
        if not is_short.any():
            break
        log_of_one = log_of_one + np.log(np.maximum(down, 1e-300) / held)
        log_share = np.logaddexp(log_share, log_of_one)
        ready = np.where(is_short, float(held), ready)
    return np.where(np.isnan(down), np.nan, ready)
