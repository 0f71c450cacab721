"""What a costly tier will say of plans it has not seen, learned from those it has.

The logarithm of costly over cheap is a Gaussian process over plans: the first replays of a chip
tell its bias, the next what degrees, batches and load do to it. Where the tiers never differ
nothing else is expected.

References
----------
Kennedy and O'Hagan, Biometrika 87(1), 2000: a costly code from a cheap one and few costly runs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from planner.costing.front import SiteScores as Scores
from planner.search.band import BAND_FRAC
from planner.search.gaussian import Ahead, Processes, learnt
from planner.search.legal import Layouts
from planner.search.likeness import Places, places_of, score_places
from planner.space.blocks import Ints
from simkernel.columns import Codes, Floats, Masks

EQUAL = 1e-9
"""Tiers that differ by no more in any replay are of one opinion."""

MOST_LEARNT = 500
"""Replays learned from, the last ones: work grows with their third power, beyond a second here."""

AT_ONCE = 1024
"""Plans looked at together: 50 MB for as many replays as are learned from."""

CERTAIN = 8.0
"""Standard deviations beyond which nothing is left to chance."""


@dataclass(frozen=True)
class Expected:
    """What a costly tier is expected to say.

    Parameters
    ----------
    points, spread : (n, sites, k) median and standard deviation of objectives
    chance : (n, sites) of keeping every limit
    """

    points: Floats
    spread: Floats
    chance: Floats

    def take(self, rows: list[int]) -> Expected:
        """Some of it."""
        return Expected(self.points[rows], self.spread[rows], self.chance[rows])


@dataclass(frozen=True)
class Together:
    """Some plans whose figures hang together: what one comes to tells of the others.

    Parameters
    ----------
    told : (n, sites, k) what the cheap tier says
    chance : (n, sites) of keeping every limit
    differs : (sites x k,) figures in which the tiers ever differed
    spread_frac : of the others; the guard band where no replay is known
    ahead : of the figures that differ, () where there are none
    """

    told: Floats
    chance: Floats
    differs: Masks
    spread_frac: Floats
    ahead: tuple[Ahead, ...]

    @property
    def expected(self) -> Expected:
        """What is expected of them."""
        median = np.zeros(self.spread_frac.shape)
        spread = self.spread_frac.copy()
        for one in self.ahead:
            median[:, self.differs], spread[:, self.differs] = one.median, one.spread
        points = self.told * np.exp(median).reshape(self.told.shape)
        sizes = np.where(np.isfinite(points), np.abs(points), 0.0)
        return Expected(points, sizes * spread.reshape(self.told.shape), self.chance)

    def believing(self, row: int) -> Together:
        """The same as if one plan had been replayed and come out as expected."""
        spread_frac = self.spread_frac.copy()
        spread_frac[row] = 0.0
        ahead = tuple(one.believing(row) for one in self.ahead)
        return replace(self, spread_frac=spread_frac, ahead=ahead)


@dataclass(frozen=True)
class Learned:
    """What replays tell of plans that were not replayed.

    Parameters
    ----------
    told : (n,) what the cheap tier says of them
    chance : (n, sites) of keeping every limit
    places : (n,) where they lie
    differs : (sites x k,) figures in which the tiers ever differed
    processes : of these figures, () where there are none
    is_blank : no replay is known
    """

    told: Scores
    chance: Floats
    places: Places
    differs: Masks
    processes: tuple[Processes, ...]
    is_blank: bool

    def expected(self) -> Expected:
        """What is expected of all of them."""
        starts = range(0, max(len(self.places), 1), AT_ONCE)
        parts = [self.among(slice(start, start + AT_ONCE)).expected for start in starts]
        return Expected(
            np.concatenate([part.points for part in parts]),
            np.concatenate([part.spread for part in parts]),
            self.chance,
        )

    def among(self, rows: Codes | slice) -> Together:
        """Some of them, to be looked at together."""
        told, places = self.told.points[rows], self.places.take(rows)
        spread_frac = np.full((len(told), len(self.differs)), BAND_FRAC * self.is_blank)
        ahead = tuple(one.at(places) for one in self.processes)
        return Together(told, self.chance[rows], self.differs, spread_frac, ahead)


def learned(
    layouts: Layouts, codes: Ints, told: Scores, seen: Ints, cheap: Scores, costly: Scores
) -> Learned:
    """What is to be expected of the costly tier for plans that it has not seen.

    Parameters
    ----------
    codes, told : (n, axes) plans, and what the cheap tier says of them
    seen, cheap, costly : (m, axes) plans that both tiers know, and what they say
    """
    seen, cheap, costly = seen[-MOST_LEARNT:], _last(cheap), _last(costly)
    gap, is_known = _gaps(cheap, costly)
    scores = score_places(np.concatenate([cheap.points, told.points]))
    known = places_of(layouts, seen[is_known], scores[is_known])
    places = places_of(layouts, codes, scores[len(seen) :])
    differs = np.asarray((gap[is_known] != 0).any(axis=0))
    processes = (learnt(known, gap[is_known][:, differs]),) if differs.any() else ()
    chance = _chance(told, cheap, costly)
    return Learned(told, chance, places, differs, processes, not len(is_known))


def normal_cdf(z: Floats) -> Floats:
    """Chance that a standard normal is at most z, to 2e-4.

    References
    ----------
    Page, Applied Statistics 26(1), 1977: 1 / (1 + exp(-2 y)), y = sqrt(2/pi) z (1 + 0.044715 z^2).
    """
    z = np.clip(z, -CERTAIN, CERTAIN)
    found: Floats = 0.5 * (1.0 + np.tanh(0.7978845608 * z * (1.0 + 0.044715 * z * z)))
    return found


def _last(told: Scores) -> Scores:
    return Scores(told.points[-MOST_LEARNT:], told.excess[-MOST_LEARNT:])


def _gaps(cheap: Scores, costly: Scores) -> tuple[Floats, Codes]:
    """Logarithm of costly over cheap, (m, sites x k); and places of plans where it is known."""
    ratio: Floats = np.full(cheap.points.shape, np.nan)
    is_finite = np.isfinite(cheap.points) & np.isfinite(costly.points) & (cheap.points != 0)
    np.divide(costly.points, cheap.points, out=ratio, where=is_finite)
    ratio = ratio.reshape(len(ratio), int(np.prod(ratio.shape[1:])))
    is_known: Masks = np.asarray((np.isfinite(ratio) & (ratio > 0)).all(axis=1))
    gap: Floats = np.log(np.where(is_known[:, None], ratio, 1.0))
    return np.where(np.abs(gap) <= EQUAL, 0.0, gap), np.flatnonzero(is_known)


def _chance(told: Scores, cheap: Scores, costly: Scores) -> Floats:
    """Chance that plans keep every limit in the costly tier; (n, sites).

    Of plans that keep them in the cheap one, the share of those seen that still did; of the
    others, by what the tiers differed in so far, with the guard band as the prior.
    """
    kept = cheap.excess <= 0
    share = ((kept & (costly.excess <= 0)).sum() + 1.0) / (kept.sum() + 1.0)
    is_over = np.isfinite(cheap.excess) & np.isfinite(costly.excess)
    is_over &= (cheap.excess > 0) & (cheap.excess <= BAND_FRAC)
    change = costly.excess[is_over] - cheap.excess[is_over]
    mean = change.sum() / (len(change) + 1.0)
    spread = np.sqrt((BAND_FRAC**2 + ((change - mean) ** 2).sum()) / (len(change) + 1.0))
    is_near = (told.excess > 0) & (told.excess <= BAND_FRAC)
    over = np.where(is_near, told.excess, 0.0)
    chance: Floats = np.where(is_near, share * normal_cdf(-(over + mean) / spread), 0.0)
    return np.where(told.excess <= 0, share, chance)
