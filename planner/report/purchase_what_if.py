"""A purchase plan kept as it was decided, when prices turn out differently: swings, scenarios.

Offers are costed anew from what the run has kept of its sweeps, each input at an end of its band
or as a scenario has it, and the plan's own books say what it then comes to. Nothing is solved.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from costdata import catalog as catalogue
from planner.archive.runs import RunRecord
from planner.archive.store import Archive
from planner.archive.stored_purchase import decided
from planner.costing.recost import stored_study
from planner.fleet.carried import carried
from planner.fleet.check import broken
from planner.fleet.follow import books
from planner.fleet.options import At, at_middle
from planner.fleet.plan import Plan
from planner.fleet.posed import problem_of, ways_to
from planner.fleet.problem import Problem
from planner.report.what_if import AS_IT_IS, SAME_FRAC, SCENARIOS
from planner.runs.solved_again import swept_before
from planner.study.fleet import Fleet
from planner.study.read import Study
from planner.uncertainty.inputs import MOVED, Ends, Inputs
from planner.uncertainty.tornado import Swing, reach
from simkernel.errors import BadFile, MissingFact, PlanError

OF_SIZE = ("time of the run", "size of the fleet")
"""Inputs that change what has to be bought, not what it costs."""

NOT_OF_PURCHASES = ("used 70% of the time",)
"""Scenarios of hardware that stands for a share of its life: purchases are used as planned."""


@dataclass(frozen=True)
class Case:
    """The front in one scenario, every plan as it was decided.

    Parameters
    ----------
    name : of the scenario
    value : worth today of the plan of the report [$]
    best, best_row : the least of the front, and its place
    breaks : limits that the plan breaks there
    """

    name: str
    value: float
    best: float
    best_row: int
    breaks: tuple[str, ...]

    @property
    def is_beaten(self) -> bool:
        """Another plan of the front costs less, by more than figures are told apart."""
        return self.value - self.best > SAME_FRAC * abs(self.value)


@dataclass(frozen=True)
class Outlook:
    """What a plan hangs on.

    Parameters
    ----------
    then, now : what it came to when it was stored, and comes to with the facts of now [$]
    swings : of the worth today, the widest first
    cases, idle : the plan in each scenario, and scenarios that change nothing
    """

    then: float
    now: float
    swings: list[Swing]
    cases: list[Case]
    idle: list[str]


def outlook(archive: Archive, record: RunRecord, plan: str) -> Outlook | None:
    """What a stored purchase plan hangs on; None for a run that kept too little to tell.

    Parameters
    ----------
    record, plan : of the run, and a name on its front
    """
    with archive.reading() as held:
        front = held.front(record.run)
        try:
            swept = swept_before(held, record, stored_study(record))
            told = [decided(front, row, record.run) for row in range(len(front["plan"]))]
        except BadFile:
            return None
    study = stored_study(record)
    row = [str(name) for name in front["plan"]].index(plan)
    desk = Desk(study, swept, told[0][0], [one for _, one in told], row)
    try:
        now = desk.worth(at_middle)
        cases, idle = desk.cases()
        return Outlook(float(front["own_npv_usd"][row]), now, list(desk.swings()), cases, idle)
    except (MissingFact, PlanError):
        return None


class Desk:
    """A front of decided plans to be costed again and again.

    Parameters
    ----------
    study, swept : of the run
    asked, plans : its problem, and what each row of the front decides in it
    row : the plan of the report
    """

    def __init__(
        self, study: Study, swept: dict[str, dict[str, object]], asked: Problem,
        plans: Sequence[Plan], row: int,
    ) -> None:  # fmt: skip
        self.study, self.asked = study, asked
        self.plans, self.row = plans, row
        self.catalog = catalogue.load(Path(study.tables) if study.tables else None)
        self.ways = ways_to(study, self.catalog, swept)

    def worth(self, at: At) -> float:
        """Worth today of the plan with inputs somewhere [$]."""
        new = problem_of(self.study, self.catalog, self.ways, at)
        return books(new, carried(self.asked, self.plans[self.row], new)).npv_cost_usd

    def swings(self) -> Iterator[Swing]:
        """What each uncertain input does to the worth, the widest first."""
        seen: list[Ends] = []

        def look(ends: Ends) -> Inputs:
            seen.append(ends)
            return ends.middle

        self.worth(look)
        names = dict.fromkeys(name for ends in seen for name in ends.uncertain())
        found = []
        for name in (n for n in MOVED if n in names and n not in OF_SIZE):
            low, high = (self.worth(_at_end(name, end)) for end in (0, 1))
            if not np.isclose(low, high, rtol=1e-12):
                ends = max((reach(e, name) for e in seen), key=lambda pair: pair[1] - pair[0])
                found.append(Swing(name, *ends, low, high))
        yield from sorted(found, key=lambda swing: -swing.width)

    def cases(self) -> tuple[list[Case], list[str]]:
        """The plan in each scenario, and the names of those that change nothing."""
        found, idle = [self._case(AS_IT_IS, self.study, at_middle)], []
        asked = [(n, self.study, _in(n)) for n in SCENARIOS if n not in NOT_OF_PURCHASES]
        for name, fleet in _calendars(self.study.fleet).items():
            asked.append((name, replace(self.study, fleet=fleet), at_middle))
        for name, study, at in asked[1:]:
            one = self._case(name, study, at)
            if np.isclose(one.value, found[0].value, rtol=1e-12):
                idle.append(name)
            else:
                found.append(one)
        return found, idle

    def _case(self, name: str, study: Study, at: At) -> Case:
        new = problem_of(study, self.catalog, self.ways, at)
        moved = [carried(self.asked, plan, new) for plan in self.plans]
        kept = [books(new, plan) for plan in moved]
        values = [one.npv_cost_usd for one in kept]
        best = int(np.argmin(values))
        breaks = broken(new, moved[self.row], kept[self.row])
        return Case(name, values[self.row], values[best], best, tuple(breaks))


def _calendars(fleet: Fleet) -> dict[str, Fleet]:
    """Scenarios of the calendar's own: prices that are hoped to fall, and do not."""
    return {
        "servers do not become cheaper": replace(fleet, price_change_frac_per_year=0.0),
        "rents do not fall": replace(fleet, rent_change_frac_per_year=0.0),
    }


def _at_end(name: str, end: int) -> At:
    return lambda ends: ends.moved(name)[end]


def _in(name: str) -> At:
    return lambda ends: SCENARIOS[name](ends.middle)
