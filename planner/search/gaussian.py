"""Gaussian processes over plans: what is known of some tells what to expect of others.

Nobody knows how far likeness reaches or which axes matter, so several processes are made and each
is heard by how likely it makes what is known. An axis counts as the others do unless what is known
is more likely by far where it counts less, more or not at all.

References
----------
Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, algorithm 2.1 and ch. 5;
Ginsbourger, Le Riche and Carraro, Kriging is well-suited to parallelize optimization, 2010.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from planner.search.band import BAND_FRAC
from planner.search.likeness import Alike, Places
from simkernel.columns import Floats

PRIOR_PLANS = 2.0
"""Known plans that the guard band weighs as much as, where the size of a figure is estimated."""

NEARNESS = (0.5, 1.0, 2.0, 4.0)
"""Distance over which likeness falls to 1/e; an axis from end to end, or another name, is 1."""

OWN_FRAC = (1e-3, 1e-2, 1e-1)
"""Variance that is a plan's own, beside one of each part that is shared."""

COUNTS = (0.0, 0.25, 1.0, 4.0)
"""What an axis may count: nothing, less than others, as they do, more."""

ODD_COST = 1.0
"""Logarithm of how much likelier an axis that counts otherwise than others has to make it all."""

PASSES = 2
"""Over all axes, one after the other."""

MOST_WEIGHED = 200
"""Known plans from which it is told what axes count, the last ones: 1 ms for each trial."""


@dataclass(frozen=True)
class Process:
    """One likeness of plans, and what is known with it.

    Parameters
    ----------
    nearness, own : of the likeness
    root : (m, m) Cholesky factor of the likeness of known plans
    white : (m, g) their figures without what they share
    sizes : (g,) variances of figures
    log_likelihood : of what is known
    """

    nearness: float
    own: float
    root: Floats
    white: Floats
    sizes: Floats
    log_likelihood: float


@dataclass(frozen=True)
class Processes:
    """All likenesses that are heard, for m plans whose figures (m, g) are known."""

    known: Places
    counts: Floats
    each: tuple[Process, ...]

    @property
    def shares(self) -> Floats:
        """How much each is heard."""
        likelihoods = np.array([one.log_likelihood for one in self.each])
        shares = np.exp(likelihoods - likelihoods.max())
        found: Floats = shares / shares.sum()
        return found

    def at(self, places: Places) -> Ahead:
        """What is to be expected of some plans."""
        cross = Alike(places, self.known)
        told = tuple(
            _Told(
                one,
                np.linalg.solve(one.root, cross.over(one.nearness, self.counts).T),
                one.white,
            )
            for one in self.each
        )
        return Ahead(self, places, told)


@dataclass(frozen=True)
class _Told:
    """What one process says of n plans: weights (r, n) and figures (r, g) of known ones."""

    process: Process
    weights: Floats
    white: Floats

    @property
    def median(self) -> Floats:
        """(n, g)."""
        return self.weights.T @ self.white

    @property
    def left(self) -> Floats:
        """Variance that is left, in sizes; (n,)."""
        return np.maximum(1.0 + self.process.own - (self.weights**2).sum(axis=0), 0.0)

    def knowing(self, row: int, alike: Floats, figures: Floats) -> _Told:
        """The same once one of the plans is known: another row of the Cholesky factor."""
        shared = alike - self.weights.T @ self.weights[:, row]
        shared[row] += self.process.own
        spread = np.sqrt(max(shared[row], self.process.own * 1e-6))
        more = (figures - self.median[row]) / spread
        return replace(
            self,
            weights=np.concatenate([self.weights, shared[None] / spread]),
            white=np.concatenate([self.white, more[None]]),
        )


@dataclass(frozen=True)
class Ahead:
    """What all processes together say of n plans."""

    processes: Processes
    places: Places
    told: tuple[_Told, ...]

    @property
    def median(self) -> Floats:
        """The mean over processes; (n, g)."""
        pairs = zip(self.processes.shares, self.told, strict=True)
        median: Floats = sum(share * one.median for share, one in pairs)
        return median

    @property
    def spread(self) -> Floats:
        """Standard deviation, what processes disagree on included; (n, g)."""
        median, variance = self.median, np.zeros((len(self.places), 1))
        for share, one in zip(self.processes.shares, self.told, strict=True):
            own = one.left[:, None] * one.process.sizes
            variance = variance + share * (own + (one.median - median) ** 2)
        spread: Floats = np.sqrt(variance)
        return spread

    def believing(self, row: int) -> Ahead:
        """The same as if one of the plans had come out as expected."""
        figures, counts = self.median[row], self.processes.counts
        alike = Alike(self.places, self.places.take(slice(row, row + 1)))
        told = tuple(
            one.knowing(row, alike.over(one.process.nearness, counts)[:, 0], figures)
            for one in self.told
        )
        return replace(self, told=told)


def learnt(known: Places, figures: Floats) -> Processes:
    """Processes from some plans whose figures are known, all with one likeness; (m, g)."""
    alike = Alike(known, known)
    even = np.ones(len(alike.levels))
    each = _all(alike, even, figures)
    best = max(each, key=lambda one: one.log_likelihood)
    last = slice(max(len(known) - MOST_WEIGHED, 0), None)
    some = known.take(last)
    counts = _counts(Alike(some, some), best, figures[last])
    return Processes(
        known, counts, each if (counts == even).all() else _all(alike, counts, figures)
    )


def _counts(alike: Alike, like: Process, figures: Floats) -> Floats:
    """How much each axis counts, found one axis at a time; (axes,)."""
    counts: Floats = np.ones(len(alike.levels))

    def likely(tried: Floats) -> float:
        likeness = alike.over(like.nearness, tried)
        found = _process(likeness, like.nearness, like.own, figures).log_likelihood
        return found - ODD_COST * float((tried != 1.0).sum())

    best = likely(counts)
    for _, axis in product(range(PASSES), range(len(counts))):
        for count in COUNTS:
            tried = np.where(np.arange(len(counts)) == axis, count, counts)
            if (found := likely(tried)) > best:
                best, counts = found, tried
    return counts


def _all(alike: Alike, counts: Floats, figures: Floats) -> tuple[Process, ...]:
    return tuple(
        _process(alike.over(nearness, counts), nearness, own, figures)
        for nearness, own in product(NEARNESS, OWN_FRAC)
    )


def _process(likeness: Floats, nearness: float, own: float, figures: Floats) -> Process:
    """Of known figures (m, g), with the likeness (m, m) of their plans.

    Each figure has a size of its own, with the guard band as its prior.
    """
    root = np.linalg.cholesky(likeness + own * np.eye(len(likeness)))
    white = np.linalg.solve(root, figures)
    total = PRIOR_PLANS * BAND_FRAC**2 + (white**2).sum(axis=0)
    sizes = total / (PRIOR_PLANS + len(figures))
    of_sizes = 0.5 * len(figures) * float(np.log(sizes).sum())
    of_plans = figures.shape[1] * float(np.log(np.diag(root)).sum())
    return Process(nearness, own, root, white, sizes, -of_sizes - of_plans)
