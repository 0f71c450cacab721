"""What a costly tier will say of plans it has not seen, learned from those it has.

The logarithm of costly over cheap is a Gaussian process over the levels of a plan, the sum of
three parts of one size: what all plans share, what plans of one chip share, and what near plans
share; a little is each plan's own. The first replays of a chip so tell its bias, the next what
degrees and batches do to it. Where the tiers never differ nothing else is expected.

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
    """Where plans lie: on axes that have an order (n, a) from 0 to 1; names (n, b); chips (n,)."""

    ordered: Floats
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
    one, other = _places(layouts, seen[is_known]), _places(layouts, codes)
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


def _places(layouts: Layouts, codes: Ints) -> _Places:
    space = layouts.space
    is_varied = np.array([len(space.levels[name]) > 1 for name in space.axes])
    ordered = np.flatnonzero(~layouts.is_name & is_varied)
    columns = [_ranks(space.levels[space.axes[axis]])[codes[:, axis]] for axis in ordered]
    places = np.stack(columns, axis=1) if columns else np.zeros((len(codes), 0))
    names = codes[:, layouts.is_name & is_varied]
    return _Places(places, names, codes[:, space.axes.index(ACCELERATOR)])


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
    prior. Likeness is that of highest marginal likelihood among few.
    """
    median = np.zeros((len(asked.chips), gap.shape[1]))
    if not len(gap):
        return median, median + BAND_FRAC
    spread, differs = median.copy(), np.flatnonzero((gap != 0).any(axis=0))
    if not len(differs):
        return median, spread
    y, apart, best = gap[:, differs], _distances(seen, seen), (-np.inf, 0.0, 0.0)
    for nearness, own in product(NEARNESS, OWN_FRAC):
        likelihood = _log_likelihood(_likeness(seen, seen, apart, nearness), own, y)
        best = max(best, (likelihood, nearness, own))
    _, nearness, own = best
    root = _root(_likeness(seen, seen, apart, nearness), own)
    cross = _likeness(asked, seen, _distances(asked, seen), nearness)
    white, weights = np.linalg.solve(root, y), np.linalg.solve(root, cross.T)
    left = np.maximum(1.0 + own - (weights**2).sum(axis=0), 0.0)
    median[:, differs] = weights.T @ white
    spread[:, differs] = np.sqrt(left[:, None] * _variance(white))
    return median, spread


def _distances(one: _Places, other: _Places) -> Floats:
    """Sum over axes of how far plans are apart; (n, m)."""
    apart: Floats = np.zeros((len(one.chips), len(other.chips)))
    for own, others in zip(one.ordered.T, other.ordered.T, strict=True):
        apart += np.abs(own[:, None] - others[None])
    for own_name, other_name in zip(one.names.T, other.names.T, strict=True):
        apart += own_name[:, None] != other_name[None]
    return apart


def _likeness(one: _Places, other: _Places, apart: Floats, nearness: float) -> Floats:
    """Correlation of gaps: a third shared by all, by a chip, by near plans each; (n, m)."""
    of_chip = one.chips[:, None] == other.chips[None]
    likeness: Floats = (1.0 + of_chip + np.exp(-apart / nearness)) / 3.0
    return likeness


def _root(likeness: Floats, own: float) -> Floats:
    root: Floats = np.linalg.cholesky(likeness + own * np.eye(len(likeness)))
    return root


def _variance(white: Floats) -> Floats:
    """Of each gap, from whitened replays and the prior; (gaps,)."""
    total = PRIOR_REPLAYS * BAND_FRAC**2 + (white**2).sum(axis=0)
    variance: Floats = total / (PRIOR_REPLAYS + len(white))
    return variance


def _log_likelihood(likeness: Floats, own: float, gap: Floats) -> float:
    """Of the gaps, at the best size of each, up to a constant."""
    root = _root(likeness, own)
    variance = _variance(np.linalg.solve(root, gap))
    of_sizes = 0.5 * len(gap) * float(np.log(variance).sum())
    return -of_sizes - gap.shape[1] * float(np.log(np.diag(root)).sum())


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
