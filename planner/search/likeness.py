"""How alike plans are, as far as what their tiers differ by may follow from it.

Four parts of one size: what all plans share, what plans of one chip share, what plans of near
levels share, and what those share that the cheap tier scores alike.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planner.search.band import ACCELERATOR
from planner.search.legal import Layouts
from planner.space.blocks import Ints
from simkernel.columns import Codes, Floats


@dataclass(frozen=True)
class Places:
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

    def __len__(self) -> int:
        return len(self.chips)

    def take(self, rows: Codes | slice) -> Places:
        """Some of them."""
        return Places(self.ordered[rows], self.scores[rows], self.names[rows], self.chips[rows])


def places_of(layouts: Layouts, codes: Ints, scores: Floats) -> Places:
    """Places of plans (n, axes); on axes that have several levels, with their scores (n, k)."""
    space = layouts.space
    is_varied = np.array([len(space.levels[name]) > 1 for name in space.axes])
    ordered = np.flatnonzero(~layouts.is_name & is_varied)
    columns = [_ranks(space.levels[space.axes[axis]])[codes[:, axis]] for axis in ordered]
    places = np.stack(columns, axis=1) if columns else np.zeros((len(codes), 0))
    names = codes[:, layouts.is_name & is_varied]
    return Places(places, scores, names, codes[:, space.axes.index(ACCELERATOR)])


def score_places(points: Floats) -> Floats:
    """Places of plans by the mean logarithm of each objective over sites; (n, k)."""
    is_known = np.isfinite(points) & (points != 0)
    sizes = np.log(np.abs(np.where(is_known, points, 1.0))).mean(axis=1)
    places: Floats = sizes - sizes.min(axis=0)
    return places / np.maximum(places.max(axis=0), 1e-12)


class Alike:
    """How far some plans are from others, and how alike their gaps are therefore."""

    def __init__(self, one: Places, other: Places) -> None:
        self.of_chip: Floats = (one.chips[:, None] == other.chips[None]).astype(float)
        self.levels = [
            *(np.abs(a[:, None] - b[None]) for a, b in _columns(one.ordered, other.ordered)),
            *((a[:, None] != b[None]) * 1.0 for a, b in _columns(one.names, other.names)),
        ]
        self.scores: Floats = np.zeros(self.of_chip.shape)
        for a, b in _columns(one.scores, other.scores):
            self.scores += np.abs(a[:, None] - b[None])

    def over(self, nearness: float, counts: Floats) -> Floats:
        """Correlation of gaps, a quarter for each part; (n, m).

        Parameters
        ----------
        nearness : distance over which likeness falls to 1/e; an axis from end to end is 1
        counts : how much each axis counts, those with an order first
        """
        apart: Floats = np.zeros(self.of_chip.shape)
        for count, levels in zip(counts, self.levels, strict=True):
            apart += count * levels
        near = np.exp(-apart / nearness) + np.exp(-self.scores / nearness)
        likeness: Floats = (1.0 + self.of_chip + near) / 4.0
        return likeness


def _columns(one: Floats | Ints, other: Floats | Ints) -> zip[tuple[Floats, Floats]]:
    return zip(one.T, other.T, strict=True)


def _ranks(levels: tuple[object, ...]) -> Floats:
    """Place of each level by its size, from 0 to 1; as they stand where some are no numbers."""
    order = np.arange(len(levels))
    if all(isinstance(level, int | float) for level in levels):
        order = np.argsort(np.argsort(np.array(levels, dtype=float), kind="stable"))
    ranks: Floats = order / (len(levels) - 1)
    return ranks
