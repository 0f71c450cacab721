"""When requests come: drawn from a process with a given mean rate, and how bursty a stream is.

Every draw takes its generator, so that a seed gives the same stream again. The room does not know
what a request asks for; arrivals that wait for answers (a closed loop) have no times to draw.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from simkernel.columns import Codes, Floats


def poisson_arrivals_s(requests_per_s: float, span_s: float, rng: np.random.Generator) -> Floats:
    """Arrivals of very many users who do not know of each other.

    Parameters
    ----------
    requests_per_s : mean rate
    span_s : arrivals fall into [0, span_s) [s]
    rng : what is drawn from

    Returns
    -------
    (n,) never falling, n itself is drawn [s]
    """
    count = rng.poisson(requests_per_s * span_s)
    return np.sort(rng.uniform(0.0, span_s, count))


def gamma_arrivals_s(
    requests_per_s: float, cv: float, span_s: float, rng: np.random.Generator
) -> Floats:
    """Arrivals whose gaps are independent and follow a gamma distribution.

    Parameters
    ----------
    requests_per_s : mean rate
    cv : standard deviation of a gap over its mean; 1 is Poisson, above it comes in clumps, below
        it is more even
    span_s : arrivals fall into [0, span_s) [s]
    rng : what is drawn from

    Returns
    -------
    (n,) never falling [s]

    Notes
    -----
    Time 0 counts as an arrival before the first, so that the expected count is
    requests_per_s * span_s + (cv² - 1) / 2 for long spans.

    References
    ----------
    Cox, Renewal Theory (1962), ch. 4: the expected count of an ordinary renewal process.
    """
    shape, scale_s = cv**-2, cv**2 / requests_per_s
    expected = requests_per_s * span_s
    block = int(expected + 4 * cv * np.sqrt(expected)) + 16
    drawn: list[Floats] = []
    reached_s = 0.0
    while reached_s < span_s:
        times_s = reached_s + np.cumsum(rng.gamma(shape, scale_s, block))
        drawn.append(times_s)
        reached_s = float(times_s[-1])
    arrival_s = np.concatenate(drawn)
    return arrival_s[arrival_s < span_s]


def diurnal_arrivals_s(
    requests_per_s: float,
    peak_over_mean: float,
    peak_at_s: float,
    period_s: float,
    span_s: float,
    rng: np.random.Generator,
) -> Floats:
    """Arrivals whose rate swings as a cosine, as of day and night.

    Parameters
    ----------
    requests_per_s : mean rate over whole periods
    peak_over_mean : highest rate over the mean, from 1 to 2
    peak_at_s : time of the highest rate [s]
    period_s : from peak to peak [s]
    span_s : arrivals fall into [0, span_s) [s]
    rng : what is drawn from

    Returns
    -------
    (n,) never falling [s]
    """

    def rate(times_s: Floats) -> Floats:
        turns = (times_s - peak_at_s) / period_s
        return requests_per_s * (1 + (peak_over_mean - 1) * np.cos(2 * np.pi * turns))

    return _thinned_s(rate, requests_per_s * peak_over_mean, span_s, rng)


def profiled_arrivals_s(
    requests_per_s: float,
    weights: Floats,
    period_s: float,
    span_s: float,
    rng: np.random.Generator,
) -> Floats:
    """Arrivals whose rate follows a repeated profile of steps, such as the hours of a day.

    Parameters
    ----------
    requests_per_s : mean rate over whole periods
    weights : (k,) relative rates of k equal parts of a period, in any unit
    period_s : length of all k parts [s]
    span_s : arrivals fall into [0, span_s) [s]
    rng : what is drawn from

    Returns
    -------
    (n,) never falling [s]
    """
    rates = requests_per_s * np.asarray(weights, dtype=float) / np.mean(weights)

    def rate(times_s: Floats) -> Floats:
        steps = np.floor(times_s % period_s / period_s * len(rates)).astype(int)
        return rates[np.minimum(steps, len(rates) - 1)]

    return _thinned_s(rate, float(rates.max()), span_s, rng)


def burst_arrivals_s(
    requests_per_s: float,
    peak_over_mean: float,
    burst_s: float,
    quiet_s: float,
    span_s: float,
    rng: np.random.Generator,
) -> Floats:
    """Arrivals of a crowd that comes and goes: Poisson at one of two rates, in turn.

    Parameters
    ----------
    requests_per_s : mean rate over bursts and quiet times
    peak_over_mean : rate in a burst over the mean, at most (burst_s + quiet_s) / burst_s
    burst_s, quiet_s : mean length of a burst and of the time between two, exponential [s]
    span_s : arrivals fall into [0, span_s) [s]
    rng : what is drawn from

    Returns
    -------
    (n,) never falling [s]

    Notes
    -----
    A Markov-modulated Poisson process of two states that starts in its steady state.

    References
    ----------
    Heffes and Lucantoni, IEEE JSAC 4 (1986) 856: the process and its index of dispersion.
    """
    high = requests_per_s * peak_over_mean
    low = quiet_requests_per_s(requests_per_s, peak_over_mean, burst_s, quiet_s)
    ends_s, is_burst = _turns(burst_s, quiet_s, span_s, rng)

    def rate(times_s: Floats) -> Floats:
        return np.where(is_burst[np.searchsorted(ends_s, times_s, side="right")], high, low)

    return _thinned_s(rate, max(high, low), span_s, rng)


def quiet_requests_per_s(
    requests_per_s: float, peak_over_mean: float, burst_s: float, quiet_s: float
) -> float:
    """Rate between bursts that leaves the mean as given; below 0 there is none.

    Parameters
    ----------
    requests_per_s, peak_over_mean, burst_s, quiet_s : as in `burst_arrivals_s`
    """
    return requests_per_s * (burst_s + quiet_s - peak_over_mean * burst_s) / quiet_s


def index_of_dispersion(arrival_s: Floats, window_s: float, span_s: float) -> float:
    """How bursty arrivals are: variance over mean of the counts in windows; Poisson has 1.

    Parameters
    ----------
    arrival_s : (n,) in [0, span_s) [s]
    window_s : length of a window; bursts that are shorter average out inside it [s]
    span_s : what is cut into whole windows, at least two [s]
    """
    windows = int(span_s / window_s)
    counts = np.bincount((arrival_s / window_s).astype(np.int64), minlength=windows)[:windows]
    return float(counts.var(ddof=1) / counts.mean())


def _thinned_s(
    rate: Callable[[Floats], Floats], most_per_s: float, span_s: float, rng: np.random.Generator
) -> Floats:
    """Poisson arrivals of a rate that changes: drawn at its highest, kept by chance.

    References
    ----------
    Lewis and Shedler, Naval Research Logistics 26 (1979) 403.
    """
    drawn_s = poisson_arrivals_s(most_per_s, span_s, rng)
    is_kept = rng.uniform(0.0, most_per_s, len(drawn_s)) < rate(drawn_s)
    return drawn_s[is_kept]


def _turns(
    burst_s: float, quiet_s: float, span_s: float, rng: np.random.Generator
) -> tuple[Floats, Codes]:
    """Ends of bursts and quiet times in turn, past the span, and whether each is a burst."""
    pairs = int(span_s / (burst_s + quiet_s) * 1.2) + 16
    starts_in_burst = bool(rng.uniform() < burst_s / (burst_s + quiet_s))
    means_s = (burst_s, quiet_s) if starts_in_burst else (quiet_s, burst_s)
    lengths_s = rng.exponential(means_s, (pairs, 2)).ravel()
    while lengths_s.sum() < span_s:
        more_s = rng.exponential(means_s, (pairs, 2)).ravel()
        lengths_s = np.concatenate([lengths_s, more_s])
    is_even = np.arange(len(lengths_s) + 1) % 2 == 0
    return np.cumsum(lengths_s), is_even == starts_in_burst
