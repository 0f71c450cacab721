"""Where more of something stops paying: speed against cost along one axis, and its knee."""

from __future__ import annotations

import numpy as np

from simkernel.columns import Floats


def curve_knee(cost: Floats, speed: Floats) -> int:
    """The point at which a curve of speed over cost bends most; -1 where it has no bend.

    Parameters
    ----------
    cost, speed : (n,) of the same points, in any order

    Notes
    -----
    Of the points that nothing cheaper reaches, the one that lies highest above the chord from the
    cheapest to the highest speed at the highest cost, both scaled to 1: what costs more and is no
    faster counts as the end of the curve. With one such point that one; on the chord, none.

    References
    ----------
    Satopaa et al. 2011, Finding a Kneedle in a Haystack, section III.
    """
    order = np.lexsort((-speed, cost))
    best = np.maximum.accumulate(speed[order])
    is_new = np.concatenate([[True], best[1:] > best[:-1]])
    front = order[is_new]
    if len(front) == 1:
        return int(front[0])
    x, y = cost[front], speed[front]
    above = (y - y[0]) / (y[-1] - y[0]) - (x - x[0]) / (np.max(cost) - x[0])
    top = int(np.argmax(above))
    return int(front[top]) if above[top] > 1e-9 else -1
