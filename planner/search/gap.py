"""What a costly tier will say of plans it has not seen, learned from those it has.

The logarithm of costly over cheap is a Gaussian process, the sum of four parts of one size: what
all plans share, what plans of one chip share, what plans of near levels share, and what those
share that the cheap tier scores alike; a little is each plan's own. The first replays of a chip so
tell its bias, the next what degrees, batches and load do to it. Where the tiers never differ
nothing else is expected.

References
----------
Kennedy and O'Hagan, Biometrika 87(1), 2000: a costly code from a cheap one and few costly runs;
Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, algorithm 2.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from planner.costing.front import SiteScores as Scores
from planner.search.band import ACCELERATOR, BAND_FRAC
from planner.search.legal import Layouts
from planner.space.blocks import Ints
from simkernel.columns import Codes, Floats, Masks

PRIOR_REPLAYS = 2.0
"""Replays that the guard band weighs as much as, where the size of the gap is estimated."""

NEARNESS = (0.5, 1.0, 2.0, 4.0)
"""Distance over which likeness falls to 1/e; an axis from end to end, or another name, is 1."""

OWN_FRAC = (1e-3, 1e-2, 1e-1)
"""Variance that is a plan's own, beside one of each part that is shared."""

EQUAL = 1e-9
"""Tiers that differ by no more in any replay are of one opinion."""

MOST_LEARNT = 500
"""Replays learned from, the last ones: work grows with their third power, beyond a second here."""

CERTAIN = 8.0
"""Standard deviations beyond which nothing is left to chance."""


@dataclass(frozen=True)
class _Places:
    """Where plans lie.

    Parameters
    ----------
    ordered, scores : (n, a) and (n, k) places from 0 to 1, on axes that have an order and in the
        logarithm of each cheap objective
    names, chips : (n, b) and (n,) codes
    """

    ordered: Floats
    scores: Floats
    names: Ints
    chips: Ints


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


def expected(
    layouts: Layouts, codes: Ints, told: Scores, seen: Ints, cheap: Scores, costly: Scores
) -> Expected:
    """Scores of the costly tier for plans that it has not seen.

    Parameters
    ----------
    codes, told : (n, axes) plans, and what the cheap tier says of them
    seen, cheap, costly : (m, axes) plans that both tiers know, and what they say
    """
    seen, cheap, costly = seen[-MOST_LEARNT:], _last(cheap), _last(costly)
    gap, is_known = _gaps(cheap, costly)
    scores = _score_places(np.concatenate([cheap.points, told.points]))
    one = _places(layouts, seen[is_known], scores[is_known])
    other = _places(layouts, codes, scores[len(seen) :])
    median, spread = _processes(one, gap[is_known], other)
    shape = told.points.shape
    points = told.points * np.exp(median).reshape(shape)
    sizes = np.where(np.isfinite(points), np.abs(points), 0.0)
    return Expected(points, sizes * spread.reshape(shape), _chance(told, cheap, costly))


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


def _score_places(points: Floats) -> Floats:
    """Places of plans by the mean logarithm of each objective over sites; (n, k)."""
    is_known = np.isfinite(points) & (points != 0)
    sizes = np.log(np.abs(np.where(is_known, points, 1.0))).mean(axis=1)
    places: Floats = sizes - sizes.min(axis=0)
    return places / np.maximum(places.max(axis=0), 1e-12)


def _places(layouts: Layouts, codes: Ints, scores: Floats) -> _Places:
    space = layouts.space
    is_varied = np.array([len(space.levels[name]) > 1 for name in space.axes])
    ordered = np.flatnonzero(~layouts.is_name & is_varied)
    columns = [_ranks(space.levels[space.axes[axis]])[codes[:, axis]] for axis in ordered]
    places = np.stack(columns, axis=1) if columns else np.zeros((len(codes), 0))
    names = codes[:, layouts.is_name & is_varied]
    return _Places(places, scores, names, codes[:, space.axes.index(ACCELERATOR)])


def _ranks(levels: tuple[object, ...]) -> Floats:
    """Place of each level by its size, from 0 to 1; as they stand where some are no numbers."""
    order = np.arange(len(levels))
    if all(isinstance(level, int | float) for level in levels):
        order = np.argsort(np.argsort(np.array(levels, dtype=float), kind="stable"))
    ranks: Floats = order / (len(levels) - 1)
    return ranks


def _processes(seen: _Places, gap: Floats, asked: _Places) -> tuple[Floats, Floats]:
    """Median and standard deviation of each gap at some places; (n, sites x k) both.

    All gaps share the likeness of plans; each has a size of its own, with the guard band as its
    prior. What is told is the mean over few likenesses by how likely each makes the replays.
    """
    median = np.zeros((len(asked.chips), gap.shape[1]))
    if not len(gap):
        return median, median + BAND_FRAC
    spread, differs = median.copy(), np.flatnonzero((gap != 0).any(axis=0))
    if not len(differs):
        return median, spread
    y, alike, cross = gap[:, differs], _Alike(seen, seen), _Alike(asked, seen)
    fits = [
        _fit(alike.over(nearness), cross.over(nearness), own, y)
        for nearness, own in product(NEARNESS, OWN_FRAC)
    ]
    likelihoods = np.array([fit.log_likelihood for fit in fits])
    weights = np.exp(likelihoods - likelihoods.max())
    weights /= weights.sum()
    middle = sum(w * fit.median for w, fit in zip(weights, fits, strict=True))
    median[:, differs] = middle
    both = [fit.variance + (fit.median - middle) ** 2 for fit in fits]
    spread[:, differs] = np.sqrt(sum(w * v for w, v in zip(weights, both, strict=True)))
    return median, spread


@dataclass(frozen=True)
class _Fit:
    """Gaps by one likeness of plans: median and variance (n, gaps), and how likely it is."""

    median: Floats
    variance: Floats
    log_likelihood: float


def _fit(alike: Floats, cross: Floats, own: float, gap: Floats) -> _Fit:
    """Of replayed plans' gaps (m, gaps), with their likeness (m, m) and that of others (n, m)."""
    root = np.linalg.cholesky(alike + own * np.eye(len(alike)))
    white, weights = np.linalg.solve(root, gap), np.linalg.solve(root, cross.T)
    left = np.maximum(1.0 + own - (weights**2).sum(axis=0), 0.0)
    total = PRIOR_REPLAYS * BAND_FRAC**2 + (white**2).sum(axis=0)
    sizes = total / (PRIOR_REPLAYS + len(gap))
    of_sizes = 0.5 * len(gap) * float(np.log(sizes).sum())
    of_plans = gap.shape[1] * float(np.log(np.diag(root)).sum())
    return _Fit(weights.T @ white, left[:, None] * sizes, -of_sizes - of_plans)


class _Alike:
    """How far some plans are from others, and how alike their gaps are therefore."""

    def __init__(self, one: _Places, other: _Places) -> None:
        self.of_chip: Floats = (one.chips[:, None] == other.chips[None]).astype(float)
        self.levels = _apart(one.ordered, other.ordered)
        for own, others in zip(one.names.T, other.names.T, strict=True):
            self.levels += own[:, None] != others[None]
        self.scores = _apart(one.scores, other.scores)

    def over(self, nearness: float) -> Floats:
        """Correlation of gaps, a quarter for each part; (n, m)."""
        near = np.exp(-self.levels / nearness) + np.exp(-self.scores / nearness)
        likeness: Floats = (1.0 + self.of_chip + near) / 4.0
        return likeness


def _apart(one: Floats, other: Floats) -> Floats:
    """Sum over columns of how far rows are apart; (n, m)."""
    apart: Floats = np.zeros((len(one), len(other)))
    for own, others in zip(one.T, other.T, strict=True):
        apart += np.abs(own[:, None] - others[None])
    return apart


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
