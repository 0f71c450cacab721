"""Two tiers, one loop: closed form chooses what is worth replaying, replay says what is best.

What goes in is any pair of evaluators over level codes: a cheap one that has seen the space, and
a costly one. The best plan in each objective is replayed first, then the front and the best few
plans of every accelerator, so no chip is lost to a bias of the cheap model and every chip's bias
is known. Then all that the cheap tier kept, and the neighbours of what is near the replayed front,
as far as they lie within a guard band of it once the bias of their chip is taken out: as long as
its hypervolume grows and the budget lasts. Rows of different tiers are never compared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from planner.costing.front import SiteScores as Scores
from planner.pareto import hypervolume, nondominated
from planner.search.legal import Layouts, neighbours
from planner.space.blocks import Ints, keys_of
from simkernel.columns import Codes, Floats, Masks

ACCELERATOR = "accelerator"

Evaluator = Callable[[Ints], Scores]
"""From level codes (n, axes) of legal candidates to their scores, in the same order; of the first
few only where a costly tier was stopped among them."""


class Proposer(Protocol):
    """A driver of `planner.search.seam`, as far as it is needed here."""

    def ask(self) -> Ints:
        """Legal level codes (n, axes); no row when it has no more."""

    def tell(self, codes: Ints, scores: Scores) -> None:
        """Scores of what was asked."""


BAND_FRAC = 0.10
"""Guard band: how much better a plan may turn out than the cheap model says, and be replayed."""

LEAST_PER_CHIP = 2
"""Plans of every accelerator that are replayed whatever the cheap model says of it."""

MOST_SPREAD = 1000
"""Plans of a front that are put in order: more are not replayed in a night."""

BATCH = 16
"""Plans chosen together, before what they showed is learnt from."""

STALL_FRAC = 1e-3
STALL_REPLAYS = 4 * BATCH
"""A front whose hypervolume grew by less than this share over so many replays has settled."""

MOST_CELLS = 1 << 18
"""Distances looked at together: 2 MB stay in a second-level cache."""

MOST_MARKS = 200
"""Points of a trace, more than a chart can show."""

REFERENCE = 1.1
"""Where hypervolume is measured from, the front replayed reaching from 0 to 1."""


@dataclass
class Refined:
    """What was replayed and what came of it.

    Parameters
    ----------
    codes : (n, axes) plans replayed, in the order of replay
    cheap, costly : scores of both tiers, (n, sites, k) and (n, sites)
    ended : why it ended, for a person
    """

    codes: Ints
    cheap: Scores
    costly: Scores
    ended: str = ""

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def front(self) -> Masks:
        """Plans that are on the front of the costly tier at some site; (n,)."""
        return best_rows(self.costly)

    @property
    def trace(self) -> list[tuple[int, float]]:
        """Plans replayed, and hypervolume of their front, in extents of the last front."""
        counts = np.unique(np.linspace(1, len(self), min(len(self), MOST_MARKS)).astype(int))
        return [(int(count), self.hypervolume(int(count))) for count in counts if count]

    def hypervolume(self, count: int) -> float:
        """Of the first so many plans replayed."""
        low, size = _scale(self.costly)
        points, excess = self.costly.points[:count], self.costly.excess[:count]
        points = points[(excess <= 0) & np.isfinite(points).all(axis=-1)]
        return hypervolume((points - low) / size, REFERENCE) if len(points) else 0.0

    @property
    def agreement(self) -> Floats:
        """Rank agreement of the tiers in each objective, -1 to 1; (k,)."""
        one, other = self.cheap.points, self.costly.points
        flat = (a.reshape(-1, a.shape[-1]) for a in (one, other))
        first, second = flat
        known = np.isfinite(first).all(axis=1) & np.isfinite(second).all(axis=1)
        pairs = zip(first[known].T, second[known].T, strict=True)
        return np.array([_rank_agreement(a, b) for a, b in pairs])


def refine(
    layouts: Layouts,
    codes: Ints,
    cheap: Evaluator,
    costly: Evaluator,
    most: int,
    is_stopped: Callable[[], bool] = lambda: False,
    *,
    is_whole: bool = False,
) -> Refined:
    """Replay what the cheap tier finds worth it.

    Parameters
    ----------
    layouts : the candidates that can exist
    codes : (n, axes) plans the cheap tier finds worth it: a `guard_band`, or a physical front
    cheap, costly : the tiers
    most : plans to replay at most, the budget
    is_stopped : asked before every batch; the costly tier may ask more often
    is_whole : no other plan is within the guard band, so neighbours are not looked at
    """
    told = cheap(codes)
    work = _Loop(layouts, costly, most, is_stopped, is_whole)
    first = promoted(layouts, codes, told)
    work.replay(codes, told, first)
    if not len(first):
        work.found.ended = "no plan is feasible, or over a limit by less than the guard band"
    settled_since = len(work.found)
    while not work.found.ended:
        pool = work.fresh(codes)
        said = cheap(pool) if len(pool) else told
        chances = _worth_a_try(work, pool, said)[:BATCH]
        if not len(chances):
            work.found.ended = "no plan that is left is within the guard band of the front"
            break
        work.replay(pool, said, chances)
        work.end_if_settled(settled_since)
    return work.found


def refine_by(
    driver: Proposer,
    layouts: Layouts,
    cheap: Evaluator,
    costly: Evaluator,
    most: int,
    is_stopped: Callable[[], bool] = lambda: False,
) -> Refined:
    """Replay what a driver of the seam asks for; parameters as `refine`.

    The cheap tier scores the same plans, so that its ranks can be compared.
    """
    work = _Loop(layouts, costly, most, is_stopped, is_whole=True)
    while not work.found.ended:
        codes, before = driver.ask(), len(work.found)
        if not len(codes):
            work.found.ended = "the driver has no plan left to ask for"
            break
        work.replay(codes, cheap(codes), np.arange(len(codes)))
        done, said = slice(before, len(work.found)), work.found.costly
        if len(work.found) > before:
            driver.tell(work.found.codes[done], Scores(said.points[done], said.excess[done]))
        work.end_if_settled(0)
    return work.found


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
    """How far plans that are better by the band are from a front, in its extents; (n,)."""
    hoped = _better(told.points, BAND_FRAC)
    return _shortfalls(hoped, told.excess <= BAND_FRAC, front, _scale(front)[1])


def promoted(layouts: Layouts, codes: Ints, told: Scores) -> Codes:
    """Places of the plans to replay first: the front of all, and the best few of every chip.

    The best in each objective lead, the front follows from end to end: each next plan is the one
    farthest from all before. Of a chip on which nothing is feasible those that miss by less than
    the guard band.
    """
    chips = codes[:, layouts.space.axes.index(ACCELERATOR)]
    is_front = best_rows(told)
    short = _shortfalls(told.points, told.excess <= BAND_FRAC, told, _scale(told)[1])
    chosen = set(np.flatnonzero(is_front).tolist())
    for chip in np.unique(chips):
        rows = np.flatnonzero(chips == chip)
        best = rows[np.argsort(short[rows], kind="stable")[:LEAST_PER_CHIP]]
        chosen.update(best[np.isfinite(short[best])].tolist())
    first = {row: place for place, row in enumerate(_from_end_to_end(told, is_front))}
    ordered = sorted(chosen, key=lambda row: (first.get(row, len(first)), short[row], row))
    return np.array(ordered, dtype=np.int64)


def _from_end_to_end(told: Scores, is_front: Masks) -> list[int]:
    """Places of a front: the best in each objective, then always the farthest from all before.

    References
    ----------
    Gonzalez, Theor. Comput. Sci. 38, 1985: farthest-first traversal.
    """
    front = np.flatnonzero(is_front)
    if not len(front):
        return []
    is_fit = (told.excess <= 0)[front][..., None]
    best = np.where(is_fit, told.points[front], np.inf).min(axis=1)
    places = list(dict.fromkeys(best.argmin(axis=0).tolist()))
    scaled = best / _scale(told)[1]
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


@dataclass
class _Loop:
    """The replays so far and all that the loop needs to go on."""

    layouts: Layouts
    costly: Evaluator
    most: int
    is_stopped: Callable[[], bool]
    is_whole: bool

    def __post_init__(self) -> None:
        nothing = Scores(np.zeros((0, 0, 0)), np.zeros((0, 0)))
        self.found = Refined(np.zeros((0, len(self.layouts.space.axes)), int), nothing, nothing)
        self.seen: set[int] = set()

    def replay(self, codes: Ints, told: Scores, rows: Codes) -> None:
        """Replay some plans batch by batch; says why where it has to end."""
        for start in range(0, len(rows), BATCH):
            left = self.most - len(self.found)
            if left <= 0 or self.is_stopped():
                self.found.ended = "the budget is spent" if left <= 0 else "it was stopped"
                return
            some = rows[start : start + min(BATCH, left)]
            self._add(codes[some], Scores(told.points[some], told.excess[some]))
            if self.found.ended:
                return

    def fresh(self, codes: Ints) -> Ints:
        """Plans the cheap tier kept, and neighbours of replayed ones near the front: news only."""
        pool = codes
        hoped = _better(self.found.costly.points, BAND_FRAC)
        is_fit = self.found.costly.excess <= 0
        short = _shortfalls(hoped, is_fit, self.found.costly, self.size)
        if (short < 0).any() and not self.is_whole:
            near = neighbours(self.layouts, self.found.codes[short < 0])
            pool = np.unique(np.concatenate([codes, near.astype(codes.dtype)]), axis=0)
        keys = keys_of(self.layouts.space, pool).tolist()
        return pool[np.array([key not in self.seen for key in keys], dtype=bool)]

    def end_if_settled(self, since: int) -> None:
        """The front stopped growing over the last replays, all of them later than `since`."""
        count = len(self.found) - STALL_REPLAYS
        if self.found.ended or count < since:
            return
        now, before = self.found.hypervolume(len(self.found)), self.found.hypervolume(count)
        if before > 0 and now - before < STALL_FRAC * before:
            self.found.ended = "the hypervolume of the replayed front has settled"

    def _add(self, codes: Ints, told: Scores) -> None:
        found, said = self.found, self.costly(codes)
        done = len(said.excess)
        found.ended = found.ended if done == len(codes) else "it was stopped"
        codes, told = codes[:done], Scores(told.points[:done], told.excess[:done])
        if not done:
            return
        is_first = not len(found)
        self.seen.update(keys_of(self.layouts.space, codes).tolist())
        found.codes = np.concatenate([found.codes, codes])
        found.cheap = told if is_first else _stacked(found.cheap, told)
        found.costly = said if is_first else _stacked(found.costly, said)

    @property
    def size(self) -> Floats:
        """Extent of the front so far in each objective."""
        return _scale(self.found.costly)[1]


def _worth_a_try(work: _Loop, codes: Ints, told: Scores) -> Codes:
    """Places of plans that may join the replayed front, the most promising first.

    The cheap scores are moved by what the replays of the same accelerator were off by, since a
    bias common to a chip says nothing about which of its plans is better.
    """
    if not len(codes):
        return np.zeros(0, dtype=np.int64)
    hoped = _better(told.points * _bias(work, codes)[:, None, :], BAND_FRAC)
    short = _shortfalls(hoped, told.excess <= BAND_FRAC, work.found.costly, work.size)
    order = np.argsort(short, kind="stable")
    return order[short[order] < 0]


def _bias(work: _Loop, codes: Ints) -> Floats:
    """Median of costly over cheap on the same accelerator, 1 where none was replayed; (n, k)."""
    column = work.layouts.space.axes.index(ACCELERATOR)
    found, chips = work.found, work.found.codes[:, column]
    cheap, costly = found.cheap.points, found.costly.points
    is_known = np.isfinite(cheap) & np.isfinite(costly) & (cheap != 0)
    ratio: Floats = np.full(cheap.shape, np.nan)
    np.divide(costly, cheap, out=ratio, where=is_known)
    bias = np.ones((len(codes), ratio.shape[-1]))
    for chip in np.unique(codes[:, column]):
        own = ratio[chips == chip].reshape(-1, ratio.shape[-1])
        own = own[np.isfinite(own).all(axis=1)]
        if len(own):
            bias[codes[:, column] == chip] = np.median(own, axis=0)
    return bias


def _shortfalls(points: Floats, is_fit: Masks, front: Scores, size: Floats) -> Floats:
    """How far plans are from joining a front at their best site; below 0 where they would; (n,).

    In sizes of the objectives; without bound for a plan that fits nowhere, and below 0 for every
    plan that fits where the front is empty.
    """
    short = np.full(len(points), np.inf)
    row, site = np.nonzero((front.excess <= 0) & np.isfinite(front.points).all(axis=-1))
    best = front.points[row, site]
    if len(best):
        best = best[nondominated(best)]
    row, site = np.nonzero(is_fit & np.isfinite(points).all(axis=-1))
    some = max(1, MOST_CELLS // max(best.size, 1))
    for start in range(0, len(row), some):
        rows, own = row[start : start + some], points[row, site][start : start + some]
        apart = np.full((len(own), len(best)), np.inf)
        for column, each in enumerate(size):  # a reduction over so few is slow in one array
            np.minimum(apart, (own[:, column, None] - best[None, :, column]) / each, out=apart)
        np.minimum.at(short, rows, apart.max(axis=1, initial=-np.inf))
    return short


def _better(points: Floats, share: float) -> Floats:
    """Points improved by a share of themselves; what is maximised is below 0."""
    improved: Floats = points * (1.0 - share * np.sign(points))
    return improved


def _scale(told: Scores) -> tuple[Floats, Floats]:
    """Lowest values of a front and its extent, which hypervolume is measured in."""
    row, site = np.nonzero((told.excess <= 0) & np.isfinite(told.points).all(axis=-1))
    points = told.points[row, site]
    if not len(points):
        width = told.points.shape[-1]
        return np.zeros(width), np.ones(width)
    best = points[nondominated(points)]
    extent = np.ptp(best, axis=0)
    return best.min(axis=0), np.where(extent > 0, extent, np.maximum(np.abs(best[0]), 1e-300))


def _stacked(one: Scores, other: Scores) -> Scores:
    return Scores(
        np.concatenate([one.points, other.points]), np.concatenate([one.excess, other.excess])
    )


def _rank_agreement(one: Floats, other: Floats) -> float:
    """Kendall's tau-b of two columns.

    References
    ----------
    Kendall, The treatment of ties in ranking problems, Biometrika 33(3), 1945.
    """
    first, second = (np.sign(a[:, None] - a[None, :]) for a in (one, other))
    size = np.sqrt(float((first**2).sum()) * float((second**2).sum()))
    return float((first * second).sum()) / size if size else 1.0
