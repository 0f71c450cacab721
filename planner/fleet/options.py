"""What units of each chip can do for each workload, from the workload's own physical front."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from costdata.catalog import Catalog
from costdata.own_or_rent import CAPITAL, ENERGY
from costdata.tco import HOURS_PER_YEAR
from planner.axes import COUNTS, DERIVED, axes_of
from planner.bands import given_by, regime_of, with_bands
from planner.costing.second_pass import cost_plans
from planner.exports.bill_of_materials import lead_weeks
from planner.fleet.problem import Asset, Option
from planner.metrics import metric_names
from planner.pareto import nondominated
from planner.runs.physics import PHYSICS
from planner.runs.total import Total
from planner.search.sweep import sweep
from planner.search.workforce import Workforce
from planner.study.fleet import OF_THE_FLEET
from planner.study.parts import DEFAULT_OBJECTIVES
from planner.study.read import Study
from planner.uncertainty.inputs import Inputs
from planner.uncertainty.plans import parts_of
from simkernel.columns import Codes, Floats

MOST_OPTIONS = 4  # our choice: of a workload on one chip at one site; more make no difference
WEEKS_PER_YEAR = 365.25 / 7.0
DAYS_PER_YEAR = 365.0


@dataclass(frozen=True)
class Offer:
    """One way to do a workload, and what its units cost.

    Parameters
    ----------
    name, site : the chip and where
    plan : of the workload's front
    units : for one whole demand, spares included
    mean_w : of a unit at work, at the meter [W]
    days : of a run; NaN for a stream
    one : what it is costed from, one row
    """

    name: str
    site: str
    plan: str
    units: float
    mean_w: float
    days: float
    one: Inputs


def workload_study(study: Study, name: str) -> Study:
    """The study of one workload of a purchase plan, with the axes and limits that it has."""
    work = study.workloads[name]
    known = {axis.name for axis in axes_of(work.kind)}
    axes = {n: levels for n, levels in study.axes.items() if n.rpartition(".")[2] in known}
    if work.kind == "serve":
        axes = {n: levels for n, levels in axes.items() if n not in COUNTS}
        axes["devices"] = (DERIVED,)
    costing = study.costing
    if (
        costing.acquire == "buy" and costing.rent_plan is None
    ):  # a bridge is not reserved for years
        costing = replace(costing, rent_plan="on_demand")
    metrics = metric_names(work.kind)
    limits = {n: v for n, v in study.limits.items() if n not in OF_THE_FLEET and n in metrics}
    return replace(
        study,
        kind=work.kind,
        name=f"{study.name}: {name}",
        workloads=MappingProxyType({name: work}),
        axes=MappingProxyType(axes),
        costing=costing,
        limits=MappingProxyType(limits),
        objectives=DEFAULT_OBJECTIVES[work.kind],
        scenarios=MappingProxyType({}),
    )


def offers_of(study: Study, catalog: Catalog, workers: int | Workforce) -> list[Offer]:
    """The efficient ways to do one workload, a few for each chip and site.

    Parameters
    ----------
    study : of the workload alone

    Raises
    ------
    BadStudy, MissingFact : as a run of the study
    """
    engine, total = PHYSICS[study.kind].prepare(study), Total()
    for result in sweep(engine, workers, lambda: False):
        total.add(result)
    plans = total.physical()
    if not plans:
        return []
    rows = _rows(study, catalog, plans)
    picked = _efficient(rows)
    if not len(picked):
        return []
    some = {name: np.asarray(column)[picked] for name, column in rows.items()}
    (part,) = parts_of(study, catalog, some)
    return [_offer(study, some, part.ends.middle.take([i]), i) for i in range(len(picked))]


def asset_of(study: Study, offer: Offer) -> Asset:
    """Units of a chip at a site, at the prices of one way to use them.

    Notes
    -----
    Network, storage and management beside the units are bought with them, in the proportion of
    that plan. Upkeep and space are paid for every unit that is there; one team for all of them.
    """
    one, fleet = offer.one, study.fleet
    costs, terms = one.costs(), one.terms
    usd = float(np.asarray(costs.capex.total)[0]) / offer.units
    year = {name: float(np.asarray(value)[0]) for name, value in costs.year.terms.items()}
    moving = (*CAPITAL, *ENERGY, "carbon_price", "rent", "staff")
    hold = sum(value for name, value in year.items() if name not in moving) / offer.units
    rent = float(np.asarray(costs.rented.full_usd)[0]) / float(one.bill.purchase_units[0])
    grid = float(terms.grid_average_kgco2e_per_kwh[0])
    price = float(terms.usd_per_kwh[0]) + grid * float(terms.carbon_usd_per_t[0]) / 1000.0
    life = float(terms.it_life_years[0])
    pue = float(costs.columns["facility_mean_w"][0] / one.run.it_mean_w[0])
    periods = np.arange(fleet.periods)
    change = (1.0 + fleet.price_change_frac_per_year) ** (periods * fleet.period_years)
    shares = float(terms.embodied_life_years[0]) * HOURS_PER_YEAR * float(terms.paid_frac[0])
    made = float(np.asarray(costs.embodied.total)[0]) * shares / float(one.run.hours[0])
    return Asset(
        name=offer.name,
        site=offer.site,
        buy_usd=usd * change,
        first=max(lead_periods(study), fleet.available.get(offer.name, 0)),
        life_periods=max(round(life / fleet.period_years), 1),
        residual_frac=float(terms.residual_frac[0]),
        hold_usd=hold,
        rent_usd=rent if fleet.may_rent else math.nan,
        peak_w=float(costs.columns["facility_peak_w"][0]) / offer.units,
        idle_w=float(one.run.it_idle_w[0]) * pue / offer.units,
        usd_per_kwh=price,
        kgco2e_per_kwh=grid,
        embodied_kgco2e=made / offer.units,
        held=_held(study, offer),
        devices=float(one.bill.devices_per_unit[0]),
    )


def option_of(study: Study, offer: Offer, asset: int) -> Option:
    """A way to use units as the program takes it; a run occupies whole periods."""
    period_days = study.fleet.period_years * DAYS_PER_YEAR
    periods = 0 if math.isnan(offer.days) else math.ceil(offer.days / period_days - 1e-9)
    return Option(offer.plan, asset, offer.units, offer.mean_w, periods)


def lead_periods(study: Study) -> int:
    """Periods from order to delivery: the study's weeks, else the longest that a source names."""
    weeks = study.fleet.lead_weeks
    if weeks is None:
        weeks = float(lead_weeks()["servers"]["lead_high_weeks"])
    return math.ceil(weeks / WEEKS_PER_YEAR / study.fleet.period_years - 1e-9)


def _rows(study: Study, catalog: Catalog, plans: Mapping[str, Any]) -> dict[str, Any]:
    """Plans at sites that keep the limits of costing, as columns with bands."""
    costed = cost_plans(study, catalog, plans)
    kept = np.flatnonzero(costed.worst_excess <= 0)
    rows = {name: np.asarray(column)[kept] for name, column in costed.columns.items()}
    return with_bands(study.kind, rows, given_by(study.pin), False, regime_of(study))


def _efficient(rows: Mapping[str, Any]) -> Codes:
    """Rows that no other of the same chip and site beats in units, watts and, for runs, days."""
    names = ["purchase_units", "facility_mean_w", *(["days"] if _is_run(rows) else [])]
    points = np.stack([np.asarray(rows[name], float) for name in names], axis=1)
    where = np.char.add(rows["accelerator"].astype(str), rows["site"].astype(str))
    found: list[int] = []
    for word in np.unique(where):
        own = np.flatnonzero(where == word)
        best = own[nondominated(points[own])]
        order = best[np.argsort(points[best, 0], kind="stable")]
        few = np.linspace(0, len(order) - 1, min(len(order), MOST_OPTIONS)).astype(int)
        found.extend(order[few].tolist())
    return np.array(sorted(set(found)), dtype=np.int64)


def _is_run(rows: Mapping[str, Any]) -> bool:
    return "step_s" in rows


def _offer(study: Study, rows: Mapping[str, Any], one: Inputs, i: int) -> Offer:
    units = float(one.bill.purchase_units[0] + one.bill.spare_units[0])
    mean_w: Floats = np.asarray(rows["facility_mean_w"], float)
    return Offer(
        name=str(rows["accelerator"][i]),
        site=str(rows["site"][i]),
        plan=str(rows["plan"][i]),
        units=units,
        mean_w=float(mean_w[i]) / units,
        days=float(rows["days"][i]) if study.kind == "train" else math.nan,
        one=one,
    )


def _held(study: Study, offer: Offer) -> dict[int, float]:
    """Units there already by the whole periods that are left to them."""
    found: dict[int, float] = {}
    for one in study.fleet.held:
        if (one.accelerator, one.site) == (offer.name, offer.site):
            left = math.floor(one.years_left / study.fleet.period_years + 1e-9)
            found[left] = found.get(left, 0.0) + one.units
    return found
