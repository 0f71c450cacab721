"""Which plans to replay next: those that are expected to add most to the replayed front.

Points are strewn over the box that hypervolume is measured in, and kept where no replayed plan
reaches. What a plan may add is the mean over them of its chance to reach a point. Of several the
next is chosen as if those before had come out as expected, so no two are taken that are one plan
under two names. No luck is in it: the points are always the same.

References
----------
Emmerich, Deutz and Klinkenberg, IEEE CEC 2011: expected hypervolume improvement.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from planner.costing.front import SiteScores as Scores
from planner.pareto import nondominated
from planner.search.band import shortfalls
from planner.search.gap import Expected, Together, normal_cdf
from simkernel.columns import Codes, Floats

STREWN = 1 << 14
"""Points in the box: one in ten thousand of it is told from nothing."""

MOST_LOOKED_AT = 1 << 10
"""Of those that no plan reaches yet; more tell candidates no better apart."""

MOST_TRIED = 256
"""Plans whose chances are computed: those that at their luckiest reach farthest."""

LUCKY = 2.0
"""Standard deviations better than expected: one plan in forty is."""

MARGIN_FRAC = 0.1
"""How far beyond the front the box reaches."""


class Pool(Protocol):
    """Plans of which something is expected; `planner.search.gap.Learned`."""

    def expected(self) -> Expected:
        """Of all of them."""

    def among(self, rows: Codes) -> Together:
        """Some of them, to be looked at together."""


def picked(front: Floats, pool: Pool, most: int) -> Codes:
    """Places of the plans to replay next, the first of them the best alone.

    Parameters
    ----------
    front : (m, k) points of the costly tier that no other beats
    pool : what that tier is expected to say of the plans
    most : plans to pick

    Returns
    -------
    fewer where no plan, even at its luckiest, has a chance to reach anything new
    """
    tried, low, size = _tried(front, pool.expected())
    if not len(tried):
        return tried
    open_points = low + _strewn(front.shape[1]) * size * (1.0 + MARGIN_FRAC)
    for point in front:
        open_points = open_points[(point > open_points).any(axis=1)]
    open_points = open_points[:MOST_LOOKED_AT]
    together, left = pool.among(tried), np.ones(len(open_points))
    chosen: list[int] = []
    while len(chosen) < min(most, len(tried)):
        gain = _reach(together.expected, open_points) @ left
        gain[chosen] = 0.0
        best = int(gain.argmax())
        if gain[best] <= 0:
            break
        chosen.append(best)
        together = together.believing(best)
        left = left * (1.0 - _reach(together.expected.take([best]), open_points)[0])
    return tried[np.array(chosen, dtype=np.int64)]


def _tried(front: Floats, found: Expected) -> tuple[Codes, Floats, Floats]:
    """Places of the most promising plans; the box's best corner and the size of the front."""
    able = (found.chance > 0) & np.isfinite(found.points).all(axis=-1)
    likely = found.points[able & (found.chance >= 0.5)]
    known = np.concatenate([front, likely])
    if not len(known):
        known = found.points[able]
    if not len(known):
        return np.zeros(0, dtype=np.int64), np.zeros(0), np.ones(0)
    known = known[nondominated(known)]
    low, size = known.min(axis=0), np.ptp(known, axis=0)
    size = np.where(size > 0, size, np.maximum(np.abs(low), 1e-300))
    lucky = found.points - LUCKY * found.spread
    reached = Scores(front[:, None], np.zeros((len(front), 1)))
    short = shortfalls(lucky, able, reached, size)
    order = np.argsort(short, kind="stable")[:MOST_TRIED]
    return order[short[order] < 0], low, size


def _reach(found: Expected, points: Floats) -> Floats:
    """Chance that a plan at some site is at least as good as a point in everything; (n, points).

    Sites of a plan share its luck, since a replay is priced at all of them.
    """
    reach = np.zeros((len(found.points), len(points)))
    for site in range(found.points.shape[1]):
        own = found.chance[:, site][:, None] * np.ones(len(points))
        for column, wanted in enumerate(points.T):
            middle = found.points[:, site, column][:, None]
            spread = found.spread[:, site, column][:, None]
            sure = np.asarray(middle <= wanted, dtype=float)
            if spread.any():
                away = np.divide(
                    wanted - middle, spread, out=np.zeros_like(sure), where=spread > 0
                )
                sure = np.where(spread > 0, normal_cdf(away), sure)
            own = own * np.where(np.isfinite(middle), sure, 0.0)
        reach = np.maximum(reach, own)
    return reach


def _strewn(width: int) -> Floats:
    """Points of the unit cube, evenly spread and always the same; (STREWN, width).

    References
    ----------
    Roberts, The Unreasonable Effectiveness of Quasirandom Sequences, 2018: multiples of powers of
    the root of x^(width + 1) = x + 1, modulo 1.
    """
    root = 2.0
    for _ in range(64):
        root = (1.0 + root) ** (1.0 / (width + 1))
    steps = root ** -np.arange(1, width + 1)
    strewn: Floats = (0.5 + np.arange(1, STREWN + 1)[:, None] * steps) % 1.0
    return strewn
