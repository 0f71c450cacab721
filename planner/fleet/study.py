"""Studies of purchases over years: workloads, sites and a calendar, from file to a front of plans.

Each workload is swept as a study of its own; what is efficient on its front are the options of an
exact program. A row of the front is a whole purchase plan: the cheapest under a bound on carbon.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from costdata import catalog as catalogue
from costdata.catalog import Catalog
from planner.costing.second_pass import Costed, front_of
from planner.costing.terms import terms_of
from planner.fleet.check import Books, books, broken
from planner.fleet.options import asset_of, offers_of, option_of, workload_study
from planner.fleet.problem import Asset, Horizon, Limits, Option, Problem, Run, Stream
from planner.fleet.program import CARBON, COST, Program, Solved
from planner.search.sweep import BillResult
from planner.search.workforce import Workforce
from planner.space.plan_keys import plan_name
from planner.study.fleet import Demand
from planner.study.read import Study
from simkernel.errors import BadStudy, PlanError

MUSD, MW = 1e6, 1e6
MORE_USD = 10e6
CALENDAR, WORTH = "calendar", "worth_of_more"
"""Columns of JSON: the plan period by period, and what more of each limit is worth."""


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
    def rented_usd(self) -> float:
        """Worth today of renting everything instead; NaN where that cannot be."""
        assets = [replace(a, buy_usd=a.buy_usd * np.nan) for a in self.problem.assets]
        fleet = self.study.fleet
        rented = replace(self.problem, assets=assets, fixed_usd=0.0)
        return Program(rented).solve(COST, fleet.gap_frac, fleet.limit_s).value


def prepare(study: Study, catalog: Catalog | None = None) -> FleetEngine:
    """The engine of a purchase study.

    Raises
    ------
    BadStudy : a run without a period in which it is due; several scenarios
    """
    if study.scenarios:
        raise BadStudy(
            "a fleet study has [scenarios]; wanted one calendar; run the study once for each"
        )
    catalog = catalog or catalogue.load(Path(study.tables) if study.tables else None)
    terms_of(study.costing, catalog)
    return FleetEngine(study, catalog, FleetSpace(study.fleet.points), MappingProxyType({}), [1])


def problem_of(study: Study, catalog: Catalog, workers: int | Workforce) -> Problem:
    """The study as a problem; raises as a run of each workload's own study."""
    assets: list[Asset] = []
    places: dict[tuple[str, str], int] = {}
    streams: list[Stream] = []
    runs: list[Run] = []
    horizon = _horizon(study, catalog)
    for name, work in study.workloads.items():
        options: list[Option] = []
        for offer in offers_of(workload_study(study, name), catalog, workers):
            where = (offer.name, offer.site)
            own = asset_of(study, offer)
            if where not in places:
                places[where] = len(assets)
                assets.append(own)
            at = places[where]
            assets[at] = _dearer(assets[at], own)
            options.append(option_of(study, offer, at))
        demand = study.fleet.demand.get(name, Demand())
        if work.kind == "serve":
            streams.append(Stream(name, _levels(study, demand), options))
        else:
            due = study.fleet.periods - 1 if demand.due is None else demand.due
            runs.append(Run(name, demand.start, due, options))
    staff = float(terms_of(study.costing, catalog).staff_usd_per_year[0])
    return Problem(horizon, assets, streams, runs, _limits(study), staff)


def sweep(
    engine: FleetEngine,
    workers: int | Workforce,
    is_stopped: Callable[[], bool],
    done: Container[int] = frozenset(),
) -> Iterator[BillResult]:
    """Purchase plans one by one: the cheapest, then cheaper ones under less and less carbon."""
    engine.workers[0] = workers
    started = time.process_time()
    program = Program(engine.problem)
    ends: dict[str, float] = {}
    for index in range(engine.space.enumerated):
        if is_stopped():
            return
        if index in done and index > 0:
            continue
        result = BillResult(index, evaluated=1)
        solved = _point(engine, program, index, ends)
        if np.isfinite(solved.value):
            result.front = _row(engine, program, solved, index)
        else:
            result.rejected.update(_conflict(engine, solved) if index == 0 else {})
        result.seconds, started = time.process_time() - started, time.process_time()
        yield result
        if not np.isfinite(solved.value) and index == 0:
            return


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
        "left at the end; npv_usd is that of renting everything less it; a row is the cheapest "
        "plan under a bound on carbon, to the gap told in calendar; units arrive as a period "
        "begins and are ordered the lead time before; rent is on demand unless costing.rent_plan "
        "says otherwise; one team works whatever is bought",
        "demand": "streams grow in proportion to the plan they were sized with; runs begin and "
        "end with periods; no band is drawn round a purchase plan",
    }


def _horizon(study: Study, catalog: Catalog) -> Horizon:
    wacc = float(terms_of(study.costing, catalog).wacc_frac[0])
    return Horizon(study.fleet.periods, study.fleet.period_years, wacc)


def _levels(study: Study, demand: Demand) -> Any:
    if demand.levels is not None:
        return np.array(demand.levels, float)
    years = np.arange(study.fleet.periods) * study.fleet.period_years
    return demand.level * (1.0 + demand.growth_frac_per_year) ** years


def _limits(study: Study) -> Limits:
    fleet, limits = study.fleet, study.limits
    watts = {site: mw * MW for site, mw in fleet.site_mw.items()}
    if "peak_facility_mw" in limits:
        for site in study.costing.site:
            own = limits["peak_facility_mw"] * MW
            watts[site] = min(watts.get(site, own), own)
    budget = np.array(fleet.budget_usd_per_period or [np.nan] * fleet.periods, float)
    yearly = np.nan if fleet.kgco2e_per_year is None else fleet.kgco2e_per_year
    return Limits(
        watts, budget, limits.get("capex_usd", np.nan), limits.get("kgco2e", np.nan), yearly
    )


def _dearer(one: Asset, other: Asset) -> Asset:
    """Units as the plan that needs most beside them has them, and at the watts of the busiest."""
    first = one if one.buy_usd[0] >= other.buy_usd[0] else other
    return replace(first, peak_w=max(one.peak_w, other.peak_w))


def _point(engine: FleetEngine, program: Program, index: int, ends: dict[str, float]) -> Solved:
    """The plan of one place on the front: the cheapest first, the cleanest last."""
    fleet = engine.study.fleet
    if index == 0:
        found = program.solve(COST, fleet.gap_frac, fleet.limit_s)
        if np.isfinite(found.value):
            ends["most"] = float(_books(engine, found).kgco2e.sum())
            if engine.space.enumerated > 1:
                least = program.solve(CARBON, fleet.gap_frac, fleet.limit_s)
                ends["least"] = float(_books(engine, least).kgco2e.sum())
        return found
    share = index / (engine.space.enumerated - 1)
    bound = ends["most"] + share * (ends["least"] - ends["most"])
    return program.solve(COST, fleet.gap_frac, fleet.limit_s, {CARBON: bound * (1 + 1e-9)})


def _books(engine: FleetEngine, solved: Solved) -> Books:
    served, begun = dict(solved.served), dict(solved.begun)
    return books(engine.problem, solved.bought, solved.rented, served, begun)


def _row(engine: FleetEngine, program: Program, solved: Solved, index: int) -> dict[str, Any]:
    """A purchase plan as a row of the front, after the second set of books has passed it."""
    problem = engine.problem
    found = _books(engine, solved)
    faults = broken(problem, found, solved.bought)
    if faults:
        raise PlanError(f"a purchase plan breaks its own rules: {'; '.join(faults)}")
    watts = sum(found.site_w.values())
    peak_mw = float(np.max(watts)) / MW
    rented = engine.rented_usd
    values: dict[str, Any] = {
        "key": index,
        "plan": plan_name(index),
        "accelerator": " + ".join(_bought_chips(problem, solved)) or "rented",
        "site": " + ".join(dict.fromkeys(a.site for a in problem.assets)),
        "acquire": engine.study.costing.acquire,
        "devices": float(np.dot([a.devices for a in problem.assets], solved.bought.sum(axis=1))),
        "purchase_units": float(solved.bought.sum()),
        "own_npv_usd": found.npv_cost_usd,
        "rent_npv_usd": rented,
        "npv_usd": rented - found.npv_cost_usd,
        "capex_usd": float(found.capex_usd.sum()),
        "kgco2e": float(found.kgco2e.sum()),
        "peak_facility_mw": peak_mw,
        CALENDAR: json.dumps(calendar(problem, solved, found)),
        WORTH: json.dumps(_worth(engine, found) if index == 0 else {}),
    }
    return {name: np.array([value]) for name, value in values.items()}


def _bought_chips(problem: Problem, solved: Solved) -> list[str]:
    """Chips of which a unit is bought, each once."""
    names = [a.name for a, units in zip(problem.assets, solved.bought, strict=True) if units.sum()]
    return list(dict.fromkeys(names))


def calendar(problem: Problem, solved: Solved, found: Books) -> dict[str, Any]:
    """A purchase plan period by period, as a document."""
    horizon = problem.horizon
    return {
        "chips": sorted({asset.name for asset in problem.assets}),
        "gap_frac": solved.gap_frac,
        "status": solved.status,
        "left_usd": found.left_usd,
        "periods": [
            {
                "period": t,
                "from_year": t * horizon.years,
                "buy": _units(problem, solved.bought[:, t]),
                "rent": _units(problem, solved.rented[:, t]),
                "owned": _units(problem, found.owned[:, t]),
                "at_work": _units(problem, found.at_work[:, t]),
                "demand": {s.name: float(s.demand[t]) for s in problem.streams},
                "served": {name: float(levels[t]) for name, levels in found.served.items()},
                "runs": _runs(problem, solved, t),
                "capex_usd": float(found.capex_usd[t]),
                "running_usd": float(found.energy_usd[t] + found.holding_usd[t]),
                "rent_usd": float(found.rent_usd[t]),
                "kgco2e": float(found.kgco2e[t]),
                "site_mw": {site: float(watts[t]) / MW for site, watts in found.site_w.items()},
            }
            for t in range(horizon.periods)
        ],
    }


def _units(problem: Problem, units: Any) -> dict[str, float]:
    """Units by chip and site, those there are."""
    return {
        f"{asset.name} @ {asset.site}": float(count)
        for asset, count in zip(problem.assets, units, strict=True)
        if count > 1e-9
    }


def _runs(problem: Problem, solved: Solved, t: int) -> dict[str, str]:
    """Runs that are on in a period, and with which plan on which units."""
    found = {}
    for run in problem.runs:
        for o, option in enumerate(run.options):
            since = solved.begun[run.name][o, max(0, t - option.periods + 1) : t + 1]
            if since.sum() > 0.5:
                asset = problem.assets[option.asset]
                found[run.name] = (
                    f"{option.plan} on {option.units:g} x {asset.name} @ {asset.site}"
                )
    return found


def _worth(engine: FleetEngine, found: Books) -> dict[str, float]:
    """What one step more of each limit is worth, by solving again [$]."""
    loosened = dict(_loosened(engine.problem.limits))
    fleet = engine.study.fleet
    worth = {}
    for name, limits in loosened.items():
        other = Program(replace(engine.problem, limits=limits))
        value = other.solve(COST, fleet.gap_frac, fleet.limit_s).value
        worth[name] = max(found.npv_cost_usd - value, 0.0)
    return worth


def _loosened(limits: Limits) -> Iterator[tuple[str, Limits]]:
    """Each limit that there is, one step wider."""
    for site, watts in limits.site_w.items():
        wider = {**limits.site_w, site: watts + MW}
        yield f"+1 MW at {site}", replace(limits, site_w=wider)
    if np.isfinite(limits.budget_usd).any():
        yield "+$10M in every period", replace(limits, budget_usd=limits.budget_usd + MORE_USD)
    if np.isfinite(limits.capex_usd):
        yield "+$10M in all", replace(limits, capex_usd=limits.capex_usd + MORE_USD)
    if np.isfinite(limits.kgco2e):
        yield "+1 t CO2e in all", replace(limits, kgco2e=limits.kgco2e + 1000.0)
    if np.isfinite(limits.kgco2e_per_year):
        wider_year = limits.kgco2e_per_year + 1000.0
        yield "+1 t CO2e a year", replace(limits, kgco2e_per_year=wider_year)


def _conflict(engine: FleetEngine, solved: Solved) -> dict[str, int]:
    """Limits without which there would be a plan; "together" where it takes several."""
    if solved.status != "infeasible":
        return {solved.status: 1}
    fleet, found = engine.study.fleet, {}
    for name, limits in _without(engine.problem.limits):
        other = Program(replace(engine.problem, limits=limits))
        if np.isfinite(other.solve(COST, fleet.gap_frac, fleet.limit_s).value):
            found[name] = 1
    return found or {"demand or lead times, whatever the limits": 1}


def _without(limits: Limits) -> Iterator[tuple[str, Limits]]:
    """The limits less one of them, for each there is."""
    for site in limits.site_w:
        rest = {name: watts for name, watts in limits.site_w.items() if name != site}
        yield f"power at {site}", replace(limits, site_w=rest)
    if np.isfinite(limits.budget_usd).any():
        yield "budget_usd_per_period", replace(limits, budget_usd=limits.budget_usd * np.nan)
    none = float("nan")
    if np.isfinite(limits.capex_usd):
        yield "capex_usd", replace(limits, capex_usd=none)
    if np.isfinite(limits.kgco2e):
        yield "kgco2e", replace(limits, kgco2e=none)
    if np.isfinite(limits.kgco2e_per_year):
        yield "kgco2e_per_year", replace(limits, kgco2e_per_year=none)
