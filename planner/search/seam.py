"""One seam for all that propose: ask for plans, score them, tell; what was found is kept outside.

A driver never sees a price or a file, and its population is not the answer: every plan that was
ever evaluated is remembered here, none is evaluated twice, and the front is taken from all.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from planner.costing.front import SiteScores, site_scores
from planner.costing.price_desk import desk_of
from planner.evaluated import Evaluated
from planner.pareto import merge, nondominated, nondominated_by
from planner.runs.physics import physics_of
from planner.search.near import Memo, violation
from planner.search.sweep import (
    BillResult,
    count_rejections,
    criteria,
    named_rows,
    remember_nearest,
)
from planner.space.blocks import Ints, Keys, keys_of, values_of
from planner.training.engine import Engine
from simkernel.columns import Codes, Floats

Scores = SiteScores
"""Objectives and violations of plans; the sites of a study, or one for what has none."""

PATIENCE_ROUNDS = 30
"""A search ends after so many rounds without a new plan on its front; measured in tests/bench."""

EMIT_ROUNDS = 10
"""Rounds between two looks at what the front is made of."""

SEARCHED = -1
"""Index of a result that belongs to no single bill."""


class Driver(Protocol):
    """Something that proposes plans and learns from their scores."""

    def ask(self) -> Ints:
        """Legal level codes (n, axes), none of them asked before; no row when it has no more."""

    def tell(self, codes: Ints, scores: Scores) -> None:
        """Scores of what was asked, in the same order."""


@dataclass
class Explored:
    """All that a search has evaluated, and what of it is worth keeping.

    Parameters
    ----------
    engine : the study
    known : design key to points (s, k) and excess (s,)
    front : columns of the plans that no other evaluated plan of the same bill beats
    points : objectives of the best rows at any site, (m, k)
    waiting : feasible plans that have not met the front yet
    unsettled : design keys evaluated since the front was last settled
    """

    engine: Engine
    known: dict[int, tuple[Floats, Floats]] = field(default_factory=dict)
    front: dict[str, Any] = field(default_factory=dict)
    points: Floats = field(default_factory=lambda: np.empty((0, 0)))
    waiting: list[dict[str, Any]] = field(default_factory=list)
    unsettled: list[int] = field(default_factory=list)
    since: BillResult = field(default_factory=lambda: BillResult(SEARCHED))

    def __post_init__(self) -> None:
        """The desk is laid once, for every chip of the space."""
        chips = [str(name) for name in self.engine.space.levels["accelerator"]]
        self.desk = desk_of(self.engine.study, self.engine.catalog, chips)

    def remember(self, memo: Memo, front: Mapping[str, Any] | None = None) -> None:
        """Take up what was evaluated before, and the physical front if it is to be kept here."""
        rows = zip(memo.keys.tolist(), memo.scores.points, memo.scores.excess, strict=True)
        self.known.update({key: (points, excess) for key, points, excess in rows})
        self.front = self.front if front is None else dict(front)

    def remember_rows(self, rows: Mapping[str, Any]) -> None:
        """Take up feasible plans of a physical front, after physics and not priced yet."""
        told = site_scores(self.desk, rows)
        self.remember(Memo(np.asarray(rows["key"]), told))

    def scores(self, codes: Ints) -> Scores:
        """Scores of some plans; those not known yet are evaluated.

        Parameters
        ----------
        codes : (n, axes) level codes of legal candidates
        """
        keys = keys_of(self.engine.space, codes)
        _, first = np.unique(keys, return_index=True)
        fresh = np.array([i for i in first if int(keys[i]) not in self.known], dtype=np.int64)
        self._evaluate(codes[fresh], keys[fresh])
        rows = [self.known[int(key)] for key in keys]
        return Scores(np.stack([r[0] for r in rows]), np.stack([r[1] for r in rows]))

    def enters(self, scores: Scores) -> bool:
        """Whether the scores bring anything that the front has not; they join it."""
        new = scores.points[scores.excess <= 0]
        if not len(new):
            return False
        if not self.points.size:
            self.points = new[nondominated(new)]
            return True
        old_stays, new_stays = merge(self.points, new)
        self.points = np.concatenate([self.points[old_stays], new[new_stays]])
        return bool(new_stays.any())

    def taken(self) -> BillResult:
        """Counts since the last call; their plans may still wait for the front."""
        result, self.since = self.since, BillResult(SEARCHED)
        result.is_settled = False
        return result

    def settled(self) -> BillResult:
        """The same, with what entered and left the physical front since the last call."""
        result = self.taken()
        result.is_settled = True
        result.new_keys, self.unsettled = self.unsettled, []
        if self.waiting:
            before = set(self.front.get("key", np.zeros(0, np.int64)).tolist())
            parts = [self.front, *self.waiting] if self.front else self.waiting
            self.front, self.waiting = _unbeaten(self.engine, parts), []
            after = self.front["key"]
            is_new = np.array([int(key) not in before for key in after])
            result.front = {name: column[is_new] for name, column in self.front.items()}
            result.beaten = tuple(sorted(before - set(after.tolist())))
        return result

    def _evaluate(self, codes: Ints, keys: Keys) -> None:
        started = time.process_time()
        column = self.engine.space.bill_axes.index("accelerator")
        for chip in np.unique(codes[:, column]):
            rows = np.flatnonzero(codes[:, column] == chip)
            self._evaluate_chip(codes[rows], keys[rows], int(chip))
        self.since.seconds += time.process_time() - started

    def _evaluate_chip(self, codes: Ints, keys: Keys, chip: int) -> None:
        """Physics and prices of plans on one chip; the feasible ones wait for the front."""
        engine = self.engine
        columns = values_of(engine.space, codes)
        name = str(engine.space.levels["accelerator"][chip])
        found = physics_of(engine.study).evaluate(engine, columns, name)
        table = named_rows(engine, keys, columns, found, np.arange(len(keys)))
        priced = site_scores(self.desk, table)
        excess = priced.excess + violation(found)[:, None]
        self.known.update(
            {int(k): (p, e) for k, p, e in zip(keys, priced.points, excess, strict=True)}
        )
        self._count(keys, table, found)
        feasible = np.flatnonzero(found.is_feasible)
        if len(feasible):
            self.waiting.append({name: column[feasible] for name, column in table.items()})

    def _count(self, keys: Keys, table: Mapping[str, Any], found: Evaluated) -> None:
        def named(picked: Codes) -> dict[str, Any]:
            return {name: column[picked] for name, column in table.items()}

        self.since.evaluated += len(keys)
        self.unsettled.extend(int(key) for key in keys)
        count_rejections(self.since.rejected, found.limits)
        if not self.front and not self.waiting:
            remember_nearest(self.since, found, named)


def explore(
    explored: Explored,
    driver: Driver,
    is_stopped: Callable[[], bool],
    patience: int = PATIENCE_ROUNDS,
) -> Iterator[BillResult]:
    """Ask, score, tell, until told to stop, nothing is left, or the front has long been still."""
    still, rounds = 0, 0
    while not is_stopped() and still < patience:
        codes = driver.ask()
        if not len(codes):
            break
        scores = explored.scores(codes)
        driver.tell(codes, scores)
        still = 0 if explored.enters(scores) else still + 1
        rounds += 1
        yield explored.taken() if rounds % EMIT_ROUNDS else explored.settled()
    yield explored.settled()


def _unbeaten(engine: Engine, parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Rows that no row of the same bill beats, by design key; of equals the lowest key stays."""
    table = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    order = np.argsort(table["key"], kind="stable")
    table = {name: column[order] for name, column in table.items()}
    bills = table["key"] // engine.space.plans_per_bill
    stays = nondominated_by(bills, criteria(engine.study, table))
    return {name: column[stays] for name, column in table.items()}
