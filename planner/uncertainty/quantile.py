"""The distribution of an input of which the middle and a 90% band are known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simkernel.columns import Column, Floats

Z_95 = 1.6448536269514722  # 95th percentile of the standard normal distribution


@dataclass(frozen=True)
class Band:
    """5th, 50th and 95th percentile of an input, low <= middle <= high, in its unit; (m,)."""

    low: Column
    middle: Column
    high: Column


def at_quantile(band: Band, score: Column) -> Floats:
    """An input where a standard normal score puts it; the shape of both together.

    Notes
    -----
    Split lognormal where all three percentiles are above 0: below the middle the logarithm has the
    spread of the low end, above it that of the high end, so that all three are met. Split normal
    otherwise, and then never across 0. A percentile that is not known (NaN) stays so.

    References
    ----------
    Wallis, Statistical Science 29, 2014 (two-piece normal distribution).
    """
    low, middle, high = (np.asarray(x, float) for x in (band.low, band.middle, band.high))
    is_below, reach = np.asarray(score) < 0, np.abs(score) / Z_95
    is_positive = (low > 0) & (middle > 0) & (high > 0)
    base = np.where(is_positive, middle, 1.0)
    down, up = (np.log(np.where(is_positive, end, 1.0) / base) for end in (low, high))
    moved = middle * np.exp(np.where(is_below, down, up) * reach)
    if is_positive.all():
        return np.asarray(moved)
    straight = middle + (np.where(is_below, low, high) - middle) * reach
    floor = np.where(middle >= 0, np.minimum(low, 0.0), -np.inf)
    return np.asarray(np.where(is_positive, moved, np.maximum(straight, floor)))
