"""Studies of purchases over years: workloads, sites and a calendar, from file to a front of plans.

Each workload is swept as a study of its own; what is efficient on its front are the options of an
exact program. A row of the front is a whole purchase plan: the best under a bound on what is
compared with it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from costdata import catalog as catalogue
from costdata.catalog import Catalog
from planner.costing.second_pass import Costed, front_of
from planner.costing.terms import terms_of
from planner.fleet.baselines import AS_BEFORE, baselines
from planner.fleet.carried import kept_as_decided
from planner.fleet.compared import by_own_worth, compared
from planner.fleet.front import Front
from planner.fleet.nearest import nearest_change
from planner.fleet.plan import Plan
from planner.fleet.posed import problem_of, swept_of, ways_to
from planner.fleet.problem import Problem
from planner.fleet.program import COST, FLOP, Program
from planner.fleet.resumed import resumed
from planner.fleet.row import CALENDAR, row_of
from planner.fleet.worth import Effort, worth_of_more
from planner.search.sweep import BillResult
from planner.search.workforce import Workforce
from planner.study.read import Study
from simkernel.errors import BadStudy

WORKLOAD = "workload"
"""Column of the tables that are kept of sweeps."""

NOTHING = (
    "no unit is ever at work: one draws, costs or takes up more than the limits leave, or arrives "
    "after the last period (lead_weeks, available)"
)


@dataclass(frozen=True)
class FleetSpace:
    """Purchase plans that are asked for; `enumerated` of them, each a bill of its own."""

    enumerated: int

    @property
    def bill_codes(self) -> range:
        """Places of the plans."""
        return range(self.enumerated)


@dataclass(frozen=True)
class Before:
    """What a run left that is solved anew under other prices.

    Parameters
    ----------
    swept : workload to its physical front
    plan : its problem and the first of its plans; None where it has none
    """

    swept: Mapping[str, Mapping[str, Any]]
    plan: tuple[Problem, Plan] | None = None


@dataclass(frozen=True)
class FleetEngine:
    """A purchase study made ready; its program is written when it is first asked for.

    Parameters
    ----------
    before : of a run that is solved anew: what its workloads' sweeps left, and its first plan
    """

    study: Study
    catalog: Catalog
    space: FleetSpace
    missing: Mapping[str, str]
    workers: list[int | Workforce]
    before: Before | None = None

    @cached_property
    def swept(self) -> Mapping[str, Mapping[str, Any]]:
        """The physical front of every workload."""
        return self.before.swept if self.before else swept_of(self.study, self.workers[0])

    @cached_property
    def problem(self) -> Problem:
        """What it takes to do every workload."""
        return problem_of(self.study, self.catalog, ways_to(self.study, self.catalog, self.swept))

    @cached_property
    def program(self) -> Program:
        """The problem written down."""
        return Program(self.problem)

    @property
    def start(self) -> Plan | None:
        """What was decided in the run before, where that is a plan still."""
        if not self.before or not self.before.plan:
            return None
        return resumed(*self.before.plan, self.program, self.study.fleet.limit_s)

    @property
    def compared(self) -> tuple[str, ...]:
        """What is optimised, first, and what it is bounded by from plan to plan."""
        return compared(self.study)

    @cached_property
    def baselines(self) -> dict[str, dict[str, Any]]:
        """Plans that the cheapest one is compared with."""
        if not self.study.workloads:
            return {}
        found = baselines(self.problem, self.effort(COST))
        if self.before and self.before.plan:
            found[AS_BEFORE] = kept_as_decided(*self.before.plan, self.problem)
        return found

    def effort(self, objective: str) -> Effort:
        """How its programs are solved."""
        return Effort(objective, self.study.fleet.gap_frac, self.study.fleet.limit_s)

    @cached_property
    def nearest(self) -> dict[str, Any]:
        """What would have to give, where there is no plan."""
        try:
            return nearest_change(self.problem, self.study.fleet.limit_s)
        except BadStudy as error:
            return {"why": list(error.faults)}


def prepare(
    study: Study, catalog: Catalog | None = None, before: Before | None = None
) -> FleetEngine:
    """The engine of a purchase study.

    Parameters
    ----------
    before : of a run that is solved anew

    Raises
    ------
    BadStudy : several scenarios; an objective that no purchase plan is optimised for; a plant
        behind the meter
    """
    if any(source.behind_the_meter for source in study.costing.sources):
        raise BadStudy(
            "costing.sources has a plant behind the meter, and the meter of a site that grows has "
            "another load in each period; wanted a contract, or the price in costing.usd_per_kwh"
        )
    if study.scenarios:
        raise BadStudy(
            "a fleet study has [scenarios]; wanted one calendar, in which [[fleet.branches]] say "
            "what may happen"
        )
    compared(study)
    study = by_own_worth(study)
    catalog = catalog or catalogue.load(Path(study.tables) if study.tables else None)
    terms_of(study.costing, catalog)
    space = FleetSpace(study.fleet.points)
    return FleetEngine(study, catalog, space, MappingProxyType({}), [1], before)


def sweep(
    engine: FleetEngine,
    workers: int | Workforce,
    is_stopped: Callable[[], bool],
    done: Container[int] = frozenset(),
) -> Iterator[BillResult]:
    """Purchase plans one by one: the best first, then better and better in what bounds it."""
    engine.workers[0] = workers
    started = time.process_time()
    effort = engine.effort(engine.compared[0])
    front = Front(engine.program, engine.compared, engine.space.enumerated, effort, engine.start)
    for index in front.order:
        if is_stopped():
            return
        if index in done and index > 0:
            continue
        result = BillResult(index, evaluated=1)
        plan = front.point(index)
        if _buys_nothing(engine, plan):
            result.rejected[NOTHING] += 1
        elif plan.is_there:
            worth = worth_of_more(engine.problem, plan, effort) if index == 0 else {}
            result.front = row_of(engine.problem, plan, index, engine.baselines, worth)
        elif index == 0:
            result.rejected.update(_conflict(engine, plan))
        result.seconds, started = time.process_time() - started, time.process_time()
        yield result
        if len(engine.compared) == 1 or (index == 0 and not plan.is_there):
            return


def nearest(engine: FleetEngine) -> dict[str, Any]:
    """What would have to give, where no purchase plan exists."""
    first, effort = engine.compared[0], engine.effort(engine.compared[0])
    if first == FLOP and _buys_nothing(
        engine, engine.program.solve(FLOP, effort.gap_frac, effort.limit_s)
    ):
        return {"why": [NOTHING]}
    return engine.nearest


def cost(study: Study, catalog: Catalog, plans: Mapping[str, Any]) -> Costed:
    """Purchase plans with the front among them; what they cost they were solved with."""
    columns = {name: np.asarray(column) for name, column in plans.items()}
    front = front_of(study, columns, np.ones(len(columns["plan"]), dtype=bool))
    chips = sorted({chip for text in columns[CALENDAR] for chip in json.loads(text)["chips"]})
    return Costed(columns, {}, front, {}, {}, {}, tuple(chips))


def kept(engine: FleetEngine) -> list[dict[str, Any]]:
    """What the workloads' sweeps left, a table each: other prices are solved from it."""
    if engine.before:
        return []
    return [
        {**plans, WORKLOAD: np.full(len(plans["plan"]), name, dtype=object)}
        for name, plans in engine.swept.items()
        if plans
    ]


def refuse(study: Study) -> None:
    """A purchase plan follows from its prices, so other prices are solved, not costed."""
    raise BadStudy(
        "purchase plans are solved with their prices, which takes as long as a run; use planner "
        "recost RUN"
    )


def notes(study: Study, catalog: Catalog) -> dict[str, str]:
    """What a reader of the front has to know."""
    return {
        "basis": "own_npv_usd is worth today of capital, upkeep, energy and rent, less what is "
        "left at the end; npv_usd is that of renting everything less it; a row is the best "
        "plan under a bound on what it is compared with, to the gap told in calendar; units "
        "arrive as a period begins and are ordered the lead time before; rent is on demand unless "
        "costing.rent_plan or fleet.contracts say otherwise; one team works whatever is bought",
        "demand": "streams grow in proportion to the load they were sized with, in whole "
        "replicas, and a period asks for the highest that growth and ramps come to in it; runs "
        "begin with periods; no band is drawn round a purchase plan",
    }


def _buys_nothing(engine: FleetEngine, plan: Plan) -> bool:
    """The most arithmetic that the limits allow is none: no plan, though no limit is broken."""
    is_best = plan.is_there and engine.compared[0] == FLOP
    return is_best and engine.program.figure(FLOP, plan.columns) <= 0.0


def _conflict(engine: FleetEngine, plan: Plan) -> dict[str, int]:
    """Limits each of which alone is in the way, else how the solver ended."""
    if plan.status != "infeasible":
        return {plan.status: 1}
    return dict.fromkeys(engine.nearest.get("conflict", ()), 1) or {plan.status: 1}
