"""Two tiers, one loop: closed form chooses what is worth replaying, replay says what is best.

What goes in is any pair of evaluators over level codes: a cheap one that has seen the space, and
a costly one. The front is replayed first, and the best few plans of every accelerator, so no chip
is lost to a bias of the cheap model and every chip's bias is known. Then all that the cheap tier
kept, and the neighbours of what is near the replayed front, as far as they lie within a guard band
of it once the bias of their chip is taken out: as long as its hypervolume grows and the budget
lasts. Rows of different tiers are never compared with each other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from planner.pareto import hypervolume, nondominated
from planner.search.legal import Layouts, neighbours
from planner.search.seam import Scores
from planner.space.blocks import Ints, keys_of
from simkernel.columns import Codes, Floats, Masks

ACCELERATOR = "accelerator"

Evaluator = Callable[[Ints], Scores]
"""From level codes (n, axes) of legal candidates to their scores, in the same order."""

BAND_FRAC = 0.10
"""Guard band: how much better a plan may turn out than the cheap model says, and be replayed."""

LEAST_PER_CHIP = 2
"""Plans of every accelerator that are replayed whatever the cheap model says of it."""

BATCH = 16
"""Plans replayed together: enough for the cores of a machine, few enough to stop soon."""

STALL_FRAC = 1e-3
STALL_BATCHES = 4
"""A front whose hypervolume grew by less than this share over so many batches has settled."""

REFERENCE = 1.1
"""Where hypervolume is measured from, the first front replayed reaching from 0 to 1."""


@dataclass
class Refined:
    """What was replayed and what came of it.

    Parameters
    ----------
    codes : (n, axes) plans replayed, in the order of replay
    cheap, costly : scores of both tiers, (n, sites, k) and (n, sites)
    trace : plans replayed and hypervolume of the replayed front after every batch
    ended : why it ended, for a person
    """

    codes: Ints
    cheap: Scores
    costly: Scores
    trace: list[tuple[int, float]] = field(default_factory=list)
    ended: str = ""

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def front(self) -> Masks:
        """Plans that are on the front of the costly tier at some site; (n,)."""
        return best_rows(self.costly)

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
) -> Refined:
    """Replay what the cheap tier finds worth it.

    Parameters
    ----------
    layouts : the candidates that can exist
    codes : (n, axes) plans the cheap tier finds worth it: a `guard_band`, or a physical front
    cheap, costly : the tiers
    most : plans to replay at most, the budget
    is_stopped : asked before every batch
    """
    told = cheap(codes)
    work = _Loop(layouts, costly, most, is_stopped)
    work.replay(codes, told, promoted(layouts, codes, told))
    settled_since = len(work.found.trace)
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
        hoped = _better(own.points, BAND_FRAC)
        is_near[rows] = _shortfalls(hoped, own.excess <= 0, own, _scale(own)[1]) < 0
    return is_near


def promoted(layouts: Layouts, codes: Ints, told: Scores) -> Codes:
    """Places of the plans to replay first: the front of all, and the best few of every chip.

    Of a chip on which nothing is feasible those that miss by less than the guard band.
    """
    chips = codes[:, layouts.space.axes.index(ACCELERATOR)]
    is_front = best_rows(told)
    short = _shortfalls(told.points, told.excess <= BAND_FRAC, told, _scale(told)[1])
    chosen = set(np.flatnonzero(is_front).tolist())
    for chip in np.unique(chips):
        rows = np.flatnonzero(chips == chip)
        best = rows[np.argsort(short[rows], kind="stable")[:LEAST_PER_CHIP]]
        chosen.update(best[np.isfinite(short[best])].tolist())
    ordered = sorted(chosen, key=lambda row: (not is_front[row], short[row], row))
    return np.array(ordered, dtype=np.int64)


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

    def __post_init__(self) -> None:
        nothing = Scores(np.zeros((0, 0, 0)), np.zeros((0, 0)))
        self.found = Refined(np.zeros((0, len(self.layouts.space.axes)), int), nothing, nothing)
        self.seen: set[int] = set()
        self.scale: tuple[Floats, Floats] | None = None

    def replay(self, codes: Ints, told: Scores, rows: Codes) -> None:
        """Replay some plans batch by batch; says why where it has to end."""
        for start in range(0, len(rows), BATCH):
            left = self.most - len(self.found)
            if left <= 0 or self.is_stopped():
                self.found.ended = "the budget is spent" if left <= 0 else "it was stopped"
                return
            some = rows[start : start + min(BATCH, left)]
            self._add(codes[some], Scores(told.points[some], told.excess[some]))

    def fresh(self, codes: Ints) -> Ints:
        """Plans the cheap tier kept, and neighbours of replayed ones near the front: news only."""
        pool = codes
        hoped = _better(self.found.costly.points, BAND_FRAC)
        is_fit = self.found.costly.excess <= 0
        short = _shortfalls(hoped, is_fit, self.found.costly, self.size)
        if (short < 0).any():
            near = neighbours(self.layouts, self.found.codes[short < 0])
            pool = np.unique(np.concatenate([codes, near.astype(codes.dtype)]), axis=0)
        keys = keys_of(self.layouts.space, pool).tolist()
        return pool[np.array([key not in self.seen for key in keys], dtype=bool)]

    def end_if_settled(self, since: int) -> None:
        """The front stopped growing over the last batches, all of them later than `since`."""
        trace = self.found.trace[max(since - 1, 0) :]
        if self.found.ended or len(trace) <= STALL_BATCHES:
            return
        now, before = trace[-1][1], trace[-1 - STALL_BATCHES][1]
        if before > 0 and now - before < STALL_FRAC * before:
            self.found.ended = "the hypervolume of the replayed front has settled"

    def _add(self, codes: Ints, told: Scores) -> None:
        found, said = self.found, self.costly(codes)
        is_first = not len(found)
        self.seen.update(keys_of(self.layouts.space, codes).tolist())
        found.codes = np.concatenate([found.codes, codes])
        found.cheap = told if is_first else _stacked(found.cheap, told)
        found.costly = said if is_first else _stacked(found.costly, said)
        found.trace.append((len(found), self._hypervolume()))

    def _hypervolume(self) -> float:
        found = self.found.costly
        points = found.points[(found.excess <= 0) & np.isfinite(found.points).all(axis=-1)]
        if not len(points):
            return 0.0
        self.scale = self.scale or _scale(found)
        low, size = self.scale
        return hypervolume((points - low) / size, REFERENCE)

    @property
    def size(self) -> Floats:
        """Extent of the first front in each objective."""
        return self.scale[1] if self.scale else np.ones(1)


def _worth_a_try(work: _Loop, codes: Ints, told: Scores) -> Codes:
    """Places of plans that may join the replayed front, the most promising first.

    The cheap scores are moved by what the replays of the same accelerator were off by, since a
    bias common to a chip says nothing about which of its plans is better.
    """
    if not len(codes):
        return np.zeros(0, dtype=np.int64)
    hoped = _better(told.points * _bias(work, codes)[:, None, :], BAND_FRAC)
    short = _shortfalls(hoped, told.excess <= 0, work.found.costly, work.size)
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
    for place, fits in enumerate(is_fit & np.isfinite(points).all(axis=-1)):
        apart = (points[place][fits][:, None, :] - best[None]) / size
        if fits.any():
            short[place] = apart.min(axis=2).max(axis=1, initial=-np.inf).min()
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
