"""The guard band: plans that the closed form may put behind the front by no more than its error.

It is kept for every accelerator by itself, so no chip is lost to a bias of the cheap model.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from planner.costing.front import SiteScores as Scores
from planner.pareto import nondominated
from planner.search.legal import Layouts
from planner.space.blocks import Ints
from simkernel.columns import Codes, Floats, Masks

ACCELERATOR = "accelerator"

BAND_FRAC = 0.10
"""Guard band: how much better a plan may turn out than the cheap model says, and be replayed."""

LEAST_PER_CHIP = 1
"""Plans of every accelerator that are replayed whatever the cheap model says of it."""

MOST_SPREAD = 1000
"""Plans of a front that are put in order: more are not replayed in a night."""

MOST_CELLS = 1 << 15
"""Distances looked at together: 256 KB stay in a second-level cache."""

FIRST_OF_FRONT = 8
"""Points of a front that all plans meet; what is far from them needs no other."""


def guard_band(layouts: Layouts, codes: Ints, told: Scores) -> Masks:
    """Plans that would be on the front of their accelerator if they were better by the band; (n,).

    Parameters
    ----------
    told : scores of the cheap tier, of as many candidates as it has seen
    """
    chips = codes[:, layouts.space.axes.index(ACCELERATOR)]
    is_near = np.zeros(len(codes), dtype=bool)
    for chip in np.unique(chips):
        rows = np.flatnonzero(chips == chip)
        own = Scores(told.points[rows], told.excess[rows])
        is_near[rows] = within_band(own, own)
    return is_near


def within_band(told: Scores, front: Scores) -> Masks:
    """Plans that no plan of a front would beat if they were better by the band; (n,).

    A plan over its limits by less than the band may keep them in the costly tier.
    """
    return hoped_shortfalls(told, front) < 0


def hoped_shortfalls(told: Scores, front: Scores) -> Floats:
    """How far plans that are better by the band are from a front, in its extents; (n,).

    Exact where they would join it, and without bound for the others.
    """
    hoped = better(told.points, BAND_FRAC)
    return shortfalls(hoped, told.excess <= BAND_FRAC, front, scale_of(front)[1], below=0.0)


def leading(layouts: Layouts, codes: Ints, told: Scores) -> Codes:
    """Places of the plans to replay first: the best in each objective, the best of every chip.

    Of a chip on which nothing is feasible those that miss by less than the guard band.
    """
    best = _best_points(told)[best_rows(told)]
    lead = np.flatnonzero(best_rows(told))[best.argmin(axis=0)].tolist() if len(best) else []
    return np.array(list(dict.fromkeys(lead + _of_chips(layouts, codes, told))), dtype=np.int64)


def promoted(layouts: Layouts, codes: Ints, told: Scores) -> Codes:
    """Places of the front of all and of the best of every chip, for who has to be told of both.

    The best in each objective lead, the front follows from end to end: each next plan is the one
    farthest from all before.
    """
    front = _from_end_to_end(told, best_rows(told))
    return np.array(list(dict.fromkeys(front + _of_chips(layouts, codes, told))), dtype=np.int64)


def _of_chips(layouts: Layouts, codes: Ints, told: Scores) -> list[int]:
    """Places of the best few plans of every chip, the nearest to the front of all first."""
    chips = codes[:, layouts.space.axes.index(ACCELERATOR)]
    short = shortfalls(told.points, told.excess <= BAND_FRAC, told, scale_of(told)[1])
    chosen: list[int] = []
    for chip in np.unique(chips):
        rows = np.flatnonzero(chips == chip)
        best = rows[np.argsort(short[rows], kind="stable")[:LEAST_PER_CHIP]]
        chosen += best[np.isfinite(short[best])].tolist()
    return sorted(chosen, key=lambda row: (short[row], row))


def _best_points(told: Scores) -> Floats:
    """What each plan has at its best site in each objective, feasible sites only; (n, k)."""
    best: Floats = np.where((told.excess <= 0)[..., None], told.points, np.inf).min(axis=1)
    return best


def _from_end_to_end(told: Scores, is_front: Masks) -> list[int]:
    """Places of a front: the best in each objective, then always the farthest from all before.

    References
    ----------
    Gonzalez, Theor. Comput. Sci. 38, 1985: farthest-first traversal.
    """
    front = np.flatnonzero(is_front)
    if not len(front):
        return []
    best = _best_points(told)[front]
    places = list(dict.fromkeys(best.argmin(axis=0).tolist()))
    scaled = best / scale_of(told)[1]
    apart = np.abs(scaled[:, None] - scaled[places][None]).max(axis=2).min(axis=1)
    while len(places) < min(len(front), MOST_SPREAD):
        apart[places] = -1.0
        places.append(int(apart.argmax()))
        apart = np.minimum(apart, np.abs(scaled - scaled[places[-1]]).max(axis=1))
    return [int(front[place]) for place in places]


def best_rows(scores: Scores) -> Masks:
    """Plans that no other beats at some site, feasible ones only; (n,)."""
    row, site = np.nonzero((scores.excess <= 0) & np.isfinite(scores.points).all(axis=-1))
    is_best = np.zeros(len(scores.excess), dtype=bool)
    if len(row):
        is_best[row[nondominated(scores.points[row, site])]] = True
    return is_best


def shortfalls(
    points: Floats, is_fit: Masks, front: Scores, size: Floats, below: float = np.inf
) -> Floats:
    """How far plans are from joining a front at their best site; below 0 where they would; (n,).

    In sizes of the objectives; without bound for a plan that fits nowhere, and below 0 for every
    plan that fits where the front is empty.

    Parameters
    ----------
    points, is_fit : (n, sites, k) and (n, sites) of the plans
    size : (k,) of the objectives
    below : plans that are not nearer than this may be told as without bound
    """
    row, site = np.nonzero((front.excess <= 0) & np.isfinite(front.points).all(axis=-1))
    best = front.points[row, site]
    if len(best):
        best = best[nondominated(best)]
    row, site = np.nonzero(is_fit & np.isfinite(points).all(axis=-1))
    own, farthest = points[row, site] / size, np.full(len(row), -np.inf)
    for some in _in_turn(best / size):
        farthest = np.maximum(farthest, _farthest(own, some))
        is_near = farthest < below
        row, own, farthest = row[is_near], own[is_near], farthest[is_near]
    short = np.full(len(points), np.inf)
    np.minimum.at(short, row, farthest)
    return short


def _in_turn(best: Floats) -> Iterator[Floats]:
    """Points of a front, those in its middle first: a few of them tell most plans that are far."""
    best, start, many = best[np.argsort(best.sum(axis=1), kind="stable")], 0, FIRST_OF_FRONT
    while start < len(best):
        yield best[start : start + many]
        start, many = start + many, 4 * many


def _farthest(own: Floats, best: Floats) -> Floats:
    """What each point lacks against the one of a front that it is farthest from; (n,)."""
    found = np.empty(len(own))
    some = max(1, MOST_CELLS // best.size)
    for start in range(0, len(own), some):
        part = own[start : start + some]
        apart = part[:, None, 0] - best[None, :, 0]
        for column in range(1, best.shape[1]):  # a reduction over so few is slow in one array
            np.minimum(apart, part[:, None, column] - best[None, :, column], out=apart)
        found[start : start + some] = apart.max(axis=1)
    return found


def better(points: Floats, share: float) -> Floats:
    """Points improved by a share of themselves; what is maximised is below 0."""
    improved: Floats = points * (1.0 - share * np.sign(points))
    return improved


def scale_of(told: Scores) -> tuple[Floats, Floats]:
    """Lowest values of a front and its extent, which hypervolume is measured in."""
    row, site = np.nonzero((told.excess <= 0) & np.isfinite(told.points).all(axis=-1))
    points = told.points[row, site]
    if not len(points):
        width = told.points.shape[-1]
        return np.zeros(width), np.ones(width)
    best = points[nondominated(points)]
    extent = np.ptp(best, axis=0)
    return best.min(axis=0), np.where(extent > 0, extent, np.maximum(np.abs(best[0]), 1e-300))
