"""Statistics of replayed latencies, with intervals from resampling blocks of time.

Requests that are served together wait together, so blocks are drawn whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from simkernel.columns import Codes, Floats
from simkernel.workload import percentile_frac

DRAWS = 200
"""Resamples of an interval: its ends are known to a few per cent of its width."""

LOW_FRAC, HIGH_FRAC = 0.05, 0.95


def statistics_of(
    latencies: Mapping[str, Floats], blocks: Codes, wanted: Sequence[tuple[str, str]]
) -> tuple[dict[str, float], dict[str, float], dict[str, float]]:
    """Values of statistics and their intervals by the block bootstrap.

    Parameters
    ----------
    latencies : of every request, by name; (n,) each [s], NaN of who has none
    blocks : (n,) the block of time that each came in
    wanted : latency and statistic, "mean" or a percentile such as "p95"

    Returns
    -------
    values, low and high ends of the 90% interval, by "latency_statistic" [s]

    References
    ----------
    Kuensch, Ann. Statist. 17 (1989) 1217: blocks keep what is correlated together.
    """
    codes = np.unique(blocks, return_inverse=True)[1]
    count = int(codes.max(initial=-1)) + 1
    rng = np.random.default_rng(0)  # of the resampling alone: the same figures for the same replay
    weights = (
        rng.multinomial(count, np.full(count, 1.0 / count), DRAWS) if count else np.zeros((0, 0))
    )
    values, low, high = {}, {}, {}
    for name in latencies:
        own = [statistic for latency, statistic in wanted if latency == name]
        is_known = np.isfinite(latencies[name])
        order = np.argsort(latencies[name][is_known], kind="stable")
        sorted_s = latencies[name][is_known][order]
        sorted_codes = codes[is_known][order]
        plain = _of_weights(sorted_s, np.ones(len(sorted_s)), own)
        drawn = [_of_weights(sorted_s, row[sorted_codes].astype(float), own) for row in weights]
        for i, statistic in enumerate(own):
            key, spread = f"{name}_{statistic}", [one[i] for one in drawn]
            values[key] = plain[i]
            ends = np.quantile(spread, (LOW_FRAC, HIGH_FRAC)) if spread else (np.nan, np.nan)
            low[key], high[key] = map(float, ends)
    return values, low, high


def _of_weights(sorted_s: Floats, weights: Floats, statistics: Sequence[str]) -> list[float]:
    """Weighted mean and percentiles of sorted values; NaN where there are none."""
    if not len(sorted_s):
        return [np.nan] * len(statistics)
    below = np.cumsum(weights)
    found = []
    for statistic in statistics:
        if statistic == "mean":
            found.append(float(np.dot(sorted_s, weights) / below[-1]))
        else:
            at = int(np.searchsorted(below, percentile_frac(statistic) * below[-1]))
            found.append(float(sorted_s[min(at, len(sorted_s) - 1)]))
    return found
