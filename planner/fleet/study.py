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
from planner.fleet.baselines import RENTED, baselines
from planner.fleet.calendar import calendar
from planner.fleet.check import broken
from planner.fleet.follow import books
from planner.fleet.nearest import nearest_change
from planner.fleet.plan import Plan
from planner.fleet.posed import problem_of
from planner.fleet.problem import Problem
from planner.fleet.program import CARBON, COST, FLOP, OBJECTIVES, PEAK, Program
from planner.fleet.worth import Effort, left_over, units_of_more, worth_of_more
from planner.search.sweep import BillResult
from planner.search.workforce import Workforce
from planner.space.plan_keys import plan_name
from planner.study.read import Study
from simkernel.errors import BadStudy, PlanError

MW = 1e6
CALENDAR, WORTH, BASELINES = "calendar", "worth_of_more", "baselines"
"""Columns of JSON: the plan period by period, what more of each limit is worth, other plans."""

NOTHING = (
    "no unit is ever at work: one draws, costs or takes up more than the limits leave, or arrives "
    "after the last period (lead_weeks, available)"
)

COMPARED = {"npv_usd": COST, COST: COST, CARBON: CARBON, PEAK: PEAK, FLOP: FLOP}
"""What a purchase study may compare, and what the program optimises for it."""


@dataclass(frozen=True)
class FleetSpace:
    """Purchase plans that are asked for; `enumerated` of them, each a bill of its own."""

    enumerated: int

    @property
    def bill_codes(self) -> range:
        """Places of the plans."""
        return range(self.enumerated)


@dataclass(frozen=True)
class FleetEngine:
    """A purchase study made ready; its program is written when it is first asked for."""

    study: Study
    catalog: Catalog
    space: FleetSpace
    missing: Mapping[str, str]
    workers: list[int | Workforce]

    @cached_property
    def problem(self) -> Problem:
        """Every workload swept, and what it takes to do it."""
        return problem_of(self.study, self.catalog, self.workers[0])

    @cached_property
    def program(self) -> Program:
        """The problem written down."""
        return Program(self.problem)

    @property
    def compared(self) -> tuple[str, ...]:
        """What is optimised, first, and what it is bounded by from plan to plan."""
        return compared(self.study)

    @cached_property
    def baselines(self) -> dict[str, dict[str, Any]]:
        """Plans that the cheapest one is compared with."""
        return baselines(self.problem, self.effort(COST)) if self.study.workloads else {}

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


def prepare(study: Study, catalog: Catalog | None = None) -> FleetEngine:
    """The engine of a purchase study.

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
    catalog = catalog or catalogue.load(Path(study.tables) if study.tables else None)
    terms_of(study.costing, catalog)
    return FleetEngine(study, catalog, FleetSpace(study.fleet.points), MappingProxyType({}), [1])


def compared(study: Study) -> tuple[str, ...]:
    """What the programs of a study optimise, one or two of OBJECTIVES.

    Raises
    ------
    BadStudy : an objective that no purchase plan is optimised for, or more than two
    """
    wanted = (*study.objectives.maximise, *study.objectives.minimise)
    strange = [name for name in wanted if name not in COMPARED]
    found = tuple(dict.fromkeys(COMPARED[name] for name in wanted if name in COMPARED))
    if strange or len(found) > 2 or (found == (CARBON,) and study.fleet.points > 1):
        raise BadStudy(
            f"objectives {', '.join(wanted)}: purchase plans are compared in one or two of "
            f"{', '.join(OBJECTIVES)}, the first one within bounds on the second"
        )
    if FLOP in found and study.workloads:
        raise BadStudy(f"{FLOP} is of hardware alone; remove the workloads, or that objective")
    return found


def sweep(
    engine: FleetEngine,
    workers: int | Workforce,
    is_stopped: Callable[[], bool],
    done: Container[int] = frozenset(),
) -> Iterator[BillResult]:
    """Purchase plans one by one: the best first, then better and better in what bounds it."""
    engine.workers[0] = workers
    started = time.process_time()
    front = Front(engine)
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
            result.front = _row(engine, plan, index)
        elif index == 0:
            result.rejected.update(_conflict(engine, plan))
        result.seconds, started = time.process_time() - started, time.process_time()
        yield result
        if len(engine.compared) == 1 or (index == 0 and not plan.is_there):
            return


class Front:
    """The plans of a front, the best in the first objective, then from the other end towards it.

    Each but the first begins from the one before it, which keeps the wider bound as well; so none
    is dearer than one that keeps a smaller bound.

    Parameters
    ----------
    engine : of the study
    """

    def __init__(self, engine: FleetEngine) -> None:
        self.engine, self.ends = engine, (0.0, 0.0)
        self.last: Plan | None = None

    @property
    def order(self) -> list[int]:
        """Places of the front in the order in which they are solved."""
        return [0, *range(self.engine.space.enumerated - 1, 0, -1)]

    def point(self, index: int) -> Plan:
        """The plan of one place: the best in the first objective, the best in the second last."""
        engine, program = self.engine, self.engine.program
        first, *others = engine.compared
        effort = engine.effort(first)
        if index == 0 or self.last is None:
            best = program.solve(first, effort.gap_frac, effort.limit_s)
            if not best.is_there or not others or engine.space.enumerated == 1:
                return best
            least = program.solve(others[0], effort.gap_frac, effort.limit_s, start=best)
            self.last = least if least.is_there else best
            most = program.figure(others[0], best.columns)
            self.ends = (most, program.figure(others[0], self.last.columns))
            if index == 0:
                return best
        share = index / (engine.space.enumerated - 1)
        bound = self.ends[0] + share * (self.ends[1] - self.ends[0])
        found = program.solve(first, effort.gap_frac, effort.limit_s,
                              {others[0]: bound * (1 + 1e-9) + 1e-9}, start=self.last)  # fmt: skip
        self.last = found if found.is_there else self.last
        return found


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


def refuse(study: Study) -> None:
    """A purchase plan follows from its prices, so other prices need another run."""
    raise BadStudy(
        "purchase plans are solved with their prices; run the study again with the new ones"
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
        "replicas, and stand through a period as on its first day: where they grow within it, "
        "give shorter periods, headroom_frac or levels; runs begin with periods; survive_units "
        "keeps streams alone; no band is drawn round a purchase plan",
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


def _row(engine: FleetEngine, plan: Plan, index: int) -> dict[str, Any]:
    """A purchase plan as a row of the front, after the second set of books has passed it."""
    problem = engine.problem
    found = books(problem, plan)
    faults = broken(problem, plan, found)
    if faults:
        raise PlanError(f"a purchase plan breaks its own rules: {'; '.join(faults)}")
    told = {**calendar(problem, plan, found), **left_over(problem, found)}
    rent_usd = engine.baselines.get(RENTED, {}).get("own_npv_usd", np.nan)
    bought = _bought(problem, plan)
    peak_mw = max(sum(node["site_mw"].values()) for node in told["periods"])
    devices = np.array([problem.assets[d.asset].devices for d in problem.deals])
    values: dict[str, Any] = {
        "key": index,
        "plan": plan_name(index),
        "accelerator": " + ".join(_chips(problem, bought)) or "rented",
        "site": " + ".join(problem.sites),
        "acquire": engine.study.costing.acquire,
        "devices": float(np.dot(devices, bought)),
        "purchase_units": float(bought.sum()),
        "own_npv_usd": found.npv_cost_usd,
        "rent_npv_usd": rent_usd,
        "npv_usd": rent_usd - found.npv_cost_usd,
        "capex_usd": found.mean(found.capex_usd, problem.tree.chance),
        "kgco2e": found.mean(found.kgco2e, problem.tree.chance),
        "peak_facility_mw": peak_mw,
        "peak_flop_per_s": engine.program.figure(FLOP, plan.columns),
        "stranded_mw": told["stranded_mw"],
        "stranded_usd": told["stranded_usd"],
        CALENDAR: json.dumps(_without_nan(told)),
        WORTH: json.dumps(_worth(engine, plan) if index == 0 else {}),
        BASELINES: json.dumps(engine.baselines if index == 0 else {}),
    }
    return {name: np.array([value]) for name, value in values.items()}


def _worth(engine: FleetEngine, plan: Plan) -> dict[str, Any]:
    """What one step more of each limit is worth; of hardware alone, the units it buys too."""
    effort = engine.effort(engine.compared[0])
    worth: dict[str, Any] = dict(worth_of_more(engine.problem, plan, effort))
    if effort.objective == FLOP:
        more = units_of_more(engine.problem, plan, effort)
        worth |= {f"{name}, units": units for name, units in more.items()}
    return worth


def _bought(problem: Problem, plan: Plan) -> np.ndarray:
    """Units bought by deal, in the mean of futures; 0 for what is leased or rented; (d,)."""
    is_bought = np.array([deal.name == "buy" for deal in problem.deals])
    return np.asarray((plan.ordered * problem.tree.chance).sum(axis=1) * is_bought)


def _chips(problem: Problem, bought: np.ndarray) -> list[str]:
    """Chips of which a unit is bought, each once."""
    names = [
        problem.assets[d.asset].name
        for d, units in zip(problem.deals, bought, strict=True)
        if units
    ]
    return list(dict.fromkeys(names))


def _without_nan(told: dict[str, Any]) -> dict[str, Any]:
    """A document with None for what is not known."""
    return {n: None if isinstance(v, float) and np.isnan(v) else v for n, v in told.items()}
