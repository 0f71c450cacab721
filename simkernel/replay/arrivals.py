"""Times at which requests come, drawn where no trace tells them; all count from 0.

A Poisson stream is what many independent users make; measured traces are burstier (a gamma with a
spread of gaps above 1). A closed loop needs no times: see `opening.Run.concurrency`.
"""

from __future__ import annotations

import numpy as np

from simkernel.columns import Floats
from simkernel.errors import BadStudy


def regular_s(count: int, requests_per_s: float) -> Floats:
    """Requests at even distance, the first at 0 [s].

    Parameters
    ----------
    count : requests
    requests_per_s : rate [1/s]

    Returns
    -------
    (count,) [s]
    """
    _check(requests_per_s)
    return np.arange(count) / requests_per_s


def poisson_s(rng: np.random.Generator, count: int, requests_per_s: float) -> Floats:
    """Requests that know nothing of each other [s].

    Parameters
    ----------
    rng : where the draws come from
    count : requests
    requests_per_s : mean rate [1/s]

    Returns
    -------
    (count,) the first after one gap [s]
    """
    _check(requests_per_s)
    return np.cumsum(rng.exponential(1.0 / requests_per_s, count))


def gamma_s(
    rng: np.random.Generator, count: int, requests_per_s: float, gap_spread_frac: float
) -> Floats:
    """Requests in bursts, or more even than chance [s].

    Parameters
    ----------
    rng : where the draws come from
    count : requests
    requests_per_s : mean rate [1/s]
    gap_spread_frac : standard deviation of the gaps over their mean: 1 is Poisson, above it bursts

    Returns
    -------
    (count,) the first after one gap [s]

    References
    ----------
    Wang et al., BurstGPT (2024), fits gamma gaps to a measured trace.
    """
    _check(requests_per_s)
    if not 0 < gap_spread_frac < np.inf:
        raise BadStudy(f"gap_spread_frac is {gap_spread_frac}; give more than 0, 1 for Poisson")
    shape = gap_spread_frac**-2
    return np.cumsum(rng.gamma(shape, 1.0 / (shape * requests_per_s), count))


def _check(requests_per_s: float) -> None:
    if not 0 < requests_per_s < np.inf:
        raise BadStudy(f"requests_per_s is {requests_per_s}; give a rate above 0")
