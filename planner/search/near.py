"""What a sweep keeps beside its front: plans that may be on the front of a costlier tier.

A sweep drops every plan that another beats, and a closed form is off by some per cent: what it
puts within a guard band of the front of its chip is kept with its scores, so that a replay can
have it without another evaluation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from planner.axes import Level
from planner.costing.front import SiteScores, site_scores
from planner.costing.price_desk import Desk
from planner.evaluated import Evaluated
from planner.search.band import best_rows, hoped_shortfalls
from planner.space.blocks import Keys
from simkernel.columns import Codes, Floats, Masks

COUNTED = ("devices", "stranded_devices", "nodes", "supernodes", "purchase_units")
"""Metrics that are whole, and are priced as such."""


MOST_NEAR = 1000
"""Plans kept of one batch of bills, the nearest to the front: more are not replayed in a night."""


@dataclass(frozen=True)
class Memo:
    """Scores of plans evaluated before, by design key."""

    keys: Keys
    scores: SiteScores

    def __len__(self) -> int:
        return len(self.keys)

    def take(self, rows: Codes | Masks | slice) -> Memo:
        """Some of them."""
        scores = SiteScores(self.scores.points[rows], self.scores.excess[rows])
        return Memo(self.keys[rows], scores)


def no_memo() -> Memo:
    """Nothing known."""
    nothing = SiteScores(np.zeros((0, 0, 0)), np.zeros((0, 0)))
    return Memo(np.zeros(0, dtype=np.int64), nothing)


def joined_memos(parts: list[Memo]) -> Memo:
    """All of them one below the other."""
    known = [part for part in parts if len(part)]
    if not known:
        return no_memo()
    points = np.concatenate([part.scores.points for part in known])
    excess = np.concatenate([part.scores.excess for part in known])
    return Memo(np.concatenate([part.keys for part in known]), SiteScores(points, excess))


WORDED = ("scaleout_fabric", "scaleup_topology")
"""Axes of words that the price of a plan follows from."""


class Band:
    """Plans of one chip within the guard band of all that were told of so far.

    Parameters
    ----------
    desk : of the study, with the chip on it
    accelerator : the chip
    levels : of the axes in WORDED, which their columns index
    """

    def __init__(
        self, desk: Desk, accelerator: str, levels: Mapping[str, tuple[Level, ...]]
    ) -> None:
        self.desk, self.accelerator = desk, accelerator
        self.words = {name: np.array(levels[name], dtype=object) for name in WORDED}
        self.front, self.kept = no_memo(), no_memo()
        self.is_settled = True

    def add(self, keys: Keys, columns: Mapping[str, Any], found: Evaluated) -> None:
        """Plans after physics: those near the front stay, and may widen it."""
        told = self._scores(columns, found)
        is_near = np.asarray((told.excess <= 0).any(axis=1))
        new = Memo(np.asarray(keys), told)
        front = joined_memos([self.front, new.take(is_near)])
        if len(front):
            self.front = front.take(best_rows(front.scores))
        self.is_settled = not len(self.kept)
        self.kept = joined_memos([self.kept, self._within(new)])

    def closed(self) -> Memo:
        """What lies within the band of the last front."""
        return self.kept if self.is_settled else self._within(self.kept)

    def _within(self, memo: Memo) -> Memo:
        if not len(memo):
            return memo
        front = self.front.scores if len(self.front) else memo.take(slice(0, 0)).scores
        short = hoped_shortfalls(memo.scores, front)
        order = np.argsort(short, kind="stable")[:MOST_NEAR]
        return memo.take(np.sort(order[short[order] < 0]))

    def _scores(self, columns: Mapping[str, Any], found: Evaluated) -> SiteScores:
        """Objectives at every site, and the excess of all limits."""
        rows = len(found.metrics["devices"])
        table: dict[str, Any] = {**columns, **found.metrics}
        table |= {name: np.rint(table[name]) for name in COUNTED}
        table["accelerator"] = np.full(rows, self.accelerator, dtype=object)
        table |= {name: words[columns[name]] for name, words in self.words.items()}
        priced = site_scores(self.desk, table)
        return SiteScores(priced.points, priced.excess + violation(found)[:, None])


def violation(found: Evaluated) -> Floats:
    """Sum of all that physical limits are exceeded by, 0 for a plan that keeps them; (n,)."""
    over = [np.maximum(limit.excess, 0.0) for limit in found.limits.values()]
    total: Floats = np.sum(over, axis=0)
    return total
