"""Which driver looks for the front, and why: by how many candidates can exist, or by the budget.

What is chosen depends on the study and the budget alone, never on how busy a machine is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from planner.search.legal import Count, counted, layouts_of
from simkernel.errors import BadStudy

SWEPT_PER_S = 100_000.0
"""Candidates that one core evaluates in a second, the bar of tests/bench/test_bench_sweep."""

LISTED_PER_S = 10_000_000.0
"""Combinations that one core rules out in a second, measured in tests/bench/test_bench_space."""

MOST_SWEEP_S = 1000.0
"""A sweep of one core that is worth its exact front: 10^8 candidates, as the issue of search says
(calculon's 7.1 million take 14 core-hours)."""

FEW = 20_000
"""A sweep so small is over before a budget can be felt: a fifth of a second."""


@dataclass(frozen=True)
class Budget:
    """What a run may spend; None for no bound. True when it is spent.

    Parameters
    ----------
    evaluations, seconds : the bounds
    """

    evaluations: int | None = None
    seconds: float | None = None

    def __call__(self, evaluated: int, seconds: float) -> bool:
        """Whether so many evaluations in so many seconds are all there may be."""
        is_counted = self.evaluations is not None and evaluated >= self.evaluations
        return is_counted or (self.seconds is not None and seconds >= self.seconds)


@dataclass(frozen=True)
class Choice:
    """A driver by name, and why it was taken, for a person."""

    driver: str
    reason: str


def chosen(engine: Any, budget: Budget, is_searchable: bool, replays: int = 0) -> Choice:
    """The driver of the closed form for a study.

    Parameters
    ----------
    engine : of any kind: `study` and `space`
    is_searchable : the kind of study can do more than sweep
    replays : plans to replay; "sample" proposes these, each costing a thousand times more, and the
        closed form before them is looked through by what suits its size

    Raises
    ------
    BadStudy : the kind of study does not have the driver that is asked for
    """
    asked = engine.study.search.driver
    if not is_searchable and asked not in ("auto", "sweep"):
        raise BadStudy(
            f'search.driver = "{asked}": a {engine.study.kind} study is swept in this version; '
            'wanted "auto" or "sweep"'
        )
    if not is_searchable:
        return Choice("sweep", "every candidate is evaluated, as in all studies of this kind")
    if asked != "auto" and not (asked == "sample" and replays):
        return Choice(asked, f"{asked} was asked for")
    count = counted(layouts_of(engine.space), np.random.default_rng(engine.study.seed))
    return _by_size(count, budget)


def _by_size(count: Count, budget: Budget) -> Choice:
    size = f"about {count.candidates:.2g} candidates can exist"
    sweep_s = count.candidates / SWEPT_PER_S + count.rows / LISTED_PER_S
    if sweep_s > MOST_SWEEP_S:
        return Choice(
            "evolve",
            f"{size}, hours of one core to evaluate them all; evolution looks everywhere, and its "
            "front is not proved to be whole",
        )
    if count.candidates > FEW and _is_short(budget, count.candidates, sweep_s):
        return Choice(
            "evolve",
            f"{size}, more than the budget; evolution looks everywhere with it, where a sweep "
            "would see the first bills only",
        )
    return Choice("sweep", f"{size}: all of them are evaluated, so the front is exact")


def _is_short(budget: Budget, candidates: float, sweep_s: float) -> bool:
    is_few = budget.evaluations is not None and budget.evaluations < candidates
    return is_few or (budget.seconds is not None and budget.seconds < sweep_s)
