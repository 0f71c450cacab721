"""A purchase study as a problem: its workloads swept, its units priced, its calendar laid out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Any

import numpy as np

from costdata.catalog import Catalog
from planner.costing.terms import terms_of
from planner.fleet.demand import levels_of
from planner.fleet.offers import (
    Unit,
    contract_deal,
    deals_of,
    lessors_of,
    rate_of,
    unit_of,
)
from planner.fleet.options import (
    At,
    Offer,
    Ways,
    at_middle,
    hardware_study,
    hardware_ways,
    option_of,
    swept_plans,
    ways_of,
    workload_study,
)
from planner.fleet.problem import (
    WEEKS_PER_YEAR,
    Asset,
    Deal,
    Horizon,
    Limits,
    Option,
    Problem,
    Risk,
    Run,
    Stream,
)
from planner.fleet.tree import Branch, Tree, tree_of
from planner.pareto import nondominated
from planner.search.workforce import Workforce
from planner.study.fleet import Demand
from planner.study.read import Study
from simkernel.errors import BadStudy

MW = 1e6


class Stock:
    """Assets and deals as they are found among the offers of workloads.

    Parameters
    ----------
    study, catalog : of the plan
    offers : of every workload
    """

    def __init__(self, study: Study, catalog: Catalog, offers: Sequence[Offer]) -> None:
        self.assets: list[Asset] = []
        self.deals: list[Deal] = []
        self.places: dict[tuple[str, str], list[tuple[int, float]]] = {}
        units: dict[tuple[str, str], Unit] = {}
        for offer in offers:
            where, own = (offer.name, offer.site), unit_of(study, catalog, offer)
            units[where] = units[where].dearer(own) if where in units else own
        for where, unit in units.items():
            own_place = len(self.assets)
            self.assets.append(unit.asset)
            self.places[where] = [(own_place, 0.0)]
            self.deals += list(deals_of(study, catalog, unit, own_place))
            for lessor, contracts in lessors_of(study, unit):
                place = len(self.assets)
                self.assets.append(lessor)
                lost = max(one.lost_frac for one in contracts)
                self.places[where].append((place, lost))
                self.deals += [
                    contract_deal(study, one, lessor, rate_of(catalog, one, unit), place)
                    for one in contracts
                ]

    def options(self, study: Study, offers: Sequence[Offer]) -> list[Option]:
        """Ways to do one workload: all of its plans on the buyer's floor, at a lessor's the least.

        A rent is for the unit whatever it draws, so of one chip the plan with fewest units is best
        there; of runs each plan may be the one that is done in time.
        """
        found: list[Option] = []
        least: dict[tuple[str, str], Offer] = {}
        for offer in offers:
            where = (offer.name, offer.site)
            if where not in least or offer.units < least[where].units:
                least[where] = offer
        for offer in offers:
            where = (offer.name, offer.site)
            for place, lost in self.places[where]:
                asset, is_run = self.assets[place], not math.isnan(offer.days)
                if asset.is_own or is_run or (asset.may_serve and least[where] is offer):
                    found.append(option_of(study, offer, place, lost))
        return _unbeaten(found, self.assets)


def _unbeaten(options: Sequence[Option], assets: Sequence[Asset]) -> list[Option]:
    """Options that no other on the same asset is at least as good as in all that it costs.

    Periods are whole, so of two runs that end in the same one the smaller is enough; what a
    lessor's machines draw costs nothing there, and their carbon follows from units and time.
    """
    found = []
    for place in dict.fromkeys(option.asset for option in options):
        own = [option for option in options if option.asset == place]
        points = np.array([_costs(option, assets[place]) for option in own])
        found += [own[i] for i in np.flatnonzero(nondominated(points))]
    return found


def _costs(option: Option, asset: Asset) -> tuple[float, ...]:
    """What an option takes of everything that is scarce, less being better."""
    held, energy = option.units / option.serves, option.mean_w * option.units / option.serves
    whole = math.ceil(option.periods - 1e-9)
    if not asset.is_own:
        return held, held * whole, float(whole), held * option.periods
    return held, float(whole), energy * option.periods, held * option.peak_w


def swept_of(study: Study, workers: int | Workforce) -> dict[str, dict[str, Any]]:
    """The physical front of every workload; raises as a run of each workload's own study."""
    return {name: swept_plans(workload_study(study, name), workers) for name in study.workloads}


def ways_to(
    study: Study, catalog: Catalog, swept: Mapping[str, Mapping[str, Any]]
) -> dict[str, Ways]:
    """The efficient ways to do each workload; of hardware alone its units, under no name.

    Parameters
    ----------
    swept : physical front of every workload, as `swept_of` makes them
    """
    if not study.workloads:
        return {"": hardware_ways(hardware_study(study), catalog)}
    return {
        name: ways_of(workload_study(study, name), catalog, plans) for name, plans in swept.items()
    }


def problem_of(
    study: Study, catalog: Catalog, ways: Mapping[str, Ways], at: At = at_middle
) -> Problem:
    """The study as a problem.

    Parameters
    ----------
    ways : to do every workload, as `ways_to` finds them
    at : where uncertain inputs stand
    """
    fleet = study.fleet
    offers = {name: own.offers(at) for name, own in ways.items()}
    every = [offer for own in offers.values() for offer in own]
    terms = every[0].one.terms if every else terms_of(study.costing, catalog)
    stock = Stock(study, catalog, every)
    tree = calendar_of(study)
    streams, runs = [], []
    for name, work in study.workloads.items():
        demand = fleet.demand.get(name, Demand())
        options = stock.options(study, _in_blocks(name, demand, offers[name]))
        if work.kind == "serve":
            streams.append(_stream(study, name, demand, options, tree))
        else:
            runs.append(_run(study, name, demand, options, stock.assets))
    years = fleet.period_years
    horizon = Horizon(fleet.periods, years, float(terms.wacc_frac[0]), _first_day(study))
    return Problem(
        horizon, tree, stock.assets, stock.deals,
        streams, runs, limits_of(study), float(terms.staff_usd_per_year[0]),
        risk=Risk(fleet.risk.weight, fleet.risk.tail_frac) if fleet.risk else Risk(),
        move_periods=max(math.ceil(fleet.move_weeks / WEEKS_PER_YEAR / years - 1e-9), 1),
        review_periods=max(round(fleet.review_years / years), 1),
    )  # fmt: skip


def _first_day(study: Study) -> date | None:
    return date.fromisoformat(study.fleet.first_day) if study.fleet.first_day else None


def calendar_of(study: Study) -> Tree:
    """Periods, and the branches that may come."""
    fleet = study.fleet
    return tree_of(fleet.periods, [
        Branch(b.name, b.period, b.chance, b.demand,
               math.ceil(b.late_weeks / WEEKS_PER_YEAR / fleet.period_years - 1e-9))
        for b in fleet.branches
    ])  # fmt: skip


def limits_of(study: Study) -> Limits:
    """What must not be passed."""
    fleet, limits = study.fleet, study.limits
    watts = {site: mw * MW for site, mw in fleet.site_mw.items()}
    if "peak_facility_mw" in limits:
        for site in study.costing.site:
            own = limits["peak_facility_mw"] * MW
            watts[site] = min(watts.get(site, own), own)
    return Limits(
        site_w=watts,
        budget_usd=np.array(fleet.budget_usd_per_period or [np.nan] * fleet.periods, float),
        capex_usd=limits.get("capex_usd", math.nan),
        kgco2e=limits.get("kgco2e", math.nan),
        kgco2e_per_year=math.nan if fleet.kgco2e_per_year is None else fleet.kgco2e_per_year,
        site_it_w={site: mw * MW for site, mw in fleet.site_it_mw.items()},
        site_racks=fleet.site_racks,
        clean_frac=math.nan if fleet.clean_frac is None else fleet.clean_frac,
        survive_units=fleet.survive_units,
        survive_site_frac=fleet.survive_site_frac,
    )


def _stream(study: Study, name: str, demand: Demand, options: list[Option], tree: Tree) -> Stream:
    levels = levels_of(study.fleet, demand)[tree.period] * tree.factors.get(name, 1.0)
    by_hour = np.array(demand.by_hour or (1.0,), float)
    return Stream(name, levels, options, by_hour, demand.headroom_frac)


def _run(
    study: Study, name: str, demand: Demand, options: list[Option], assets: Sequence[Asset]
) -> Run:
    due = study.fleet.periods - 1 if demand.due is None else demand.due
    if (devices := demand.block_devices) is not None:
        options = [replace(o, block_units=devices / assets[o.asset].devices) for o in options]
    return Run(name, demand.start, due, options, demand.may_pause, demand.stop_hours)


def _in_blocks(name: str, demand: Demand, offers: Sequence[Offer]) -> list[Offer]:
    """Ways to do a run whose blocks hold whole copies of its model, and no more than all of them.

    Raises
    ------
    BadStudy : there are some, and in none of them does a block do so
    """
    block = demand.block_devices
    if block is None:
        return list(offers)
    found = [o for o in offers if block % o.copy_devices == 0 and block <= o.devices]
    if offers and not found:
        copies = sorted({f"{o.copy_devices} of {o.devices:g}" for o in offers})
        raise BadStudy(
            f"fleet.demand.{name}.block_devices is {block}, and a copy of the model takes "
            f"{', '.join(copies)} devices; wanted a multiple of one, no more than all"
        )
    return found
