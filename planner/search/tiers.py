"""Two tiers, one loop: closed form chooses what is worth replaying, replay says what is best.

What goes in is any pair of evaluators over level codes: a cheap one that has seen the space, and
a costly one. The best plan in each objective and of every accelerator are replayed first, so no
chip is lost to a bias of the cheap model. What the tiers differ by is learned from the replays;
then, of all that the cheap tier kept within its guard band and the neighbours of what is near the
replayed front, those are replayed that are expected to add most to that front: as long as its
hypervolume grows and the budget lasts. Rows of different tiers are never compared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from planner.costing.front import SiteScores as Scores
from planner.pareto import hypervolume, nondominated
from planner.search.band import BAND_FRAC, best_rows, better, leading, scale_of, shortfalls
from planner.search.gain import picked
from planner.search.gap import learned
from planner.search.legal import Layouts, neighbours
from planner.space.blocks import Ints, keys_of
from simkernel.columns import Codes, Floats, Masks

Evaluator = Callable[[Ints], Scores]
"""From level codes (n, axes) of legal candidates to their scores, in the same order; of the first
few only where a costly tier was stopped among them."""


class Proposer(Protocol):
    """A driver of `planner.search.seam`, as far as it is needed here."""

    def ask(self) -> Ints:
        """Legal level codes (n, axes); no row when it has no more."""

    def tell(self, codes: Ints, scores: Scores) -> None:
        """Scores of what was asked."""


BATCH = 16
"""Plans replayed together at most, before what they showed is learnt from."""

LEAST_BATCH = 4
"""Of a small budget so few: the cores of a small machine."""

STALL_FRAC = 1e-3
STALL_REPLAYS = 4 * BATCH
"""A front whose hypervolume grew by less than this share over so many replays has settled."""

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
        low, size = scale_of(self.costly)
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
) -> Refined:
    """Replay what the cheap tier finds worth it.

    Parameters
    ----------
    layouts : the candidates that can exist
    codes : (n, axes) plans the cheap tier finds worth it: a `guard_band`, or a physical front
    cheap, costly : the tiers
    most : plans to replay at most, the budget
    is_stopped : asked before every batch; the costly tier may ask more often
    """
    told = cheap(codes)
    work = _Loop(layouts, costly, most, is_stopped)
    first = leading(layouts, codes, told)
    work.replay(codes, told, first)
    if not len(first):
        work.found.ended = "no plan is feasible, or over a limit by less than the guard band"
    settled_since = len(work.found)
    while not work.found.ended:
        pool = work.fresh(codes)
        said = cheap(pool) if len(pool) else told
        chosen = work.promising(pool, said)
        if not len(chosen):
            work.found.ended = "no plan that is left is expected to reach beyond the front"
            break
        work.replay(pool, said, chosen)
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
    work = _Loop(layouts, costly, most, is_stopped)
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
        if len(self.found) >= self.most:
            self.found.ended = "the budget is spent"

    def fresh(self, codes: Ints) -> Ints:
        """Plans the cheap tier kept, and neighbours of replayed ones near the front: news only."""
        pool = codes
        hoped = better(self.found.costly.points, BAND_FRAC)
        is_fit = self.found.costly.excess <= 0
        short = shortfalls(hoped, is_fit, self.found.costly, self.size)
        if (short < 0).any():
            near = neighbours(self.layouts, self.found.codes[short < 0])
            pool = np.unique(np.concatenate([codes, near.astype(codes.dtype)]), axis=0)
        keys = keys_of(self.layouts.space, pool).tolist()
        return pool[np.array([key not in self.seen for key in keys], dtype=bool)]

    def promising(self, codes: Ints, told: Scores) -> Codes:
        """Places of the plans that are expected to add most to the front, as many as one batch.

        How many hangs on the budget alone, so a run is the same whoever works for it.
        """
        if not len(codes):
            return np.zeros(0, dtype=np.int64)
        found = self.found
        points = found.costly.points[found.costly.excess <= 0]
        points = points[np.isfinite(points).all(axis=1)]
        front = points[nondominated(points)] if len(points) else points
        ahead = learned(self.layouts, codes, told, found.codes, found.cheap, found.costly)
        return picked(front, ahead, min(max(self.most // BATCH, LEAST_BATCH), BATCH))

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
        return scale_of(self.found.costly)[1]


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
