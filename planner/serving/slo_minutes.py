"""How long a service misses what it promised: blocks of time in which a bound is broken."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from planner.study.slo import Bound
from simkernel.columns import Codes, Floats

SECONDS_PER_MINUTE = 60.0


def minutes_lost(
    latencies: Mapping[str, Floats],
    blocks: Codes,
    classes: Codes,
    checks: Iterable[tuple[int, str, Bound]],
    block_s: float,
) -> float:
    """Minutes of the blocks whose requests break a bound [min].

    Parameters
    ----------
    latencies : (n,) by name; infinite of a request that nobody served, NaN where it has none [s]
    blocks, classes : (n,) when each came, and of which class it is
    checks : class, -1 for all; its name; the bound
    block_s : length of a block [s]

    Notes
    -----
    A percentile is broken where more of the block's requests pass the bound than it leaves out: of
    a handful one is enough, so a fleet that just keeps a bound over all loses some minutes too.
    """
    bad: set[int] = set()
    for code, _, bound in checks:
        values = latencies[bound.latency]
        is_asked = ~np.isnan(values) & ((code < 0) | (classes == code))
        own, count = blocks[is_asked], np.bincount(blocks[is_asked])
        if bound.statistic == "mean":
            over = np.bincount(own, values[is_asked]) > bound.most_s * count
        else:
            misses = np.bincount(own, values[is_asked] > bound.most_s)
            over = misses > (1.0 - bound.percentile / 100.0) * count
        bad |= set(np.flatnonzero(over).tolist())
    return len(bad) * block_s / SECONDS_PER_MINUTE
