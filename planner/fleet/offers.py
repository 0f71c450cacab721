"""What can be had and on which terms: units on the buyer's floor, and at a lessor's beside it.

Prices, upkeep and watts of a unit are those of the plan that needs most beside it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from statistics import median

import numpy as np

from costdata.catalog import Catalog
from costdata.failures import component_failures_per_s
from costdata.own_or_rent import CAPITAL, ENERGY
from costdata.tco import HOURS_PER_YEAR
from planner.exports.bill_of_materials import lead_weeks
from planner.fleet.materials import Item, items_of
from planner.fleet.options import Offer
from planner.fleet.problem import WEEKS_PER_YEAR, Asset, Deal
from planner.study.fleet import Contract
from planner.study.read import Study
from simkernel.columns import Floats

DAYS_PER_YEAR = 365.25
SECONDS_PER_DAY = 86_400.0
RESTARTED = "software"  # of failures.csv: started again, nothing to repair


@dataclass(frozen=True)
class Unit:
    """A unit of a chip at a site: the asset on the buyer's floor, and its prices.

    Parameters
    ----------
    asset : on the buyer's floor
    usd : everything that is bought with it [$]
    rent_usd : a year of it on the study's own terms of renting; NaN where nobody rents it [$]
    residual_frac : of the price, left at the end of the life [1]
    carbon_usd_per_kwh : price of the carbon of a kWh
    together : units bought at once
    items : what it is bought with
    """

    asset: Asset
    usd: float
    rent_usd: float
    residual_frac: float
    carbon_usd_per_kwh: float
    together: int = 1
    items: tuple[Item, ...] = ()

    def dearer(self, other: Unit) -> Unit:
        """The one that needs more beside it, at the watts of the busier one."""
        first = self if self.usd >= other.usd else other
        peak_w = max(self.asset.peak_w, other.asset.peak_w)
        it_w = max(self.asset.it_w, other.asset.it_w)
        racks = max(self.asset.racks, other.asset.racks)
        asset = replace(first.asset, peak_w=peak_w, it_w=it_w, racks=racks)
        return replace(first, asset=asset, together=max(self.together, other.together))


def unit_of(study: Study, catalog: Catalog, offer: Offer) -> Unit:
    """Units of a chip at a site, at the prices of one way to use them.

    Notes
    -----
    Network, storage and management beside the units are bought with them, in the proportion of
    that plan. Upkeep and space are paid for every unit that is there; one team for all of them.
    """
    one, fleet = offer.one, study.fleet
    costs, terms = offer.costs, one.terms
    year = {name: float(np.asarray(value)[0]) for name, value in costs.year.terms.items()}
    moving = (*CAPITAL, *ENERGY, "carbon_price", "rent", "staff")
    hold = sum(value for name, value in year.items() if name not in moving) / offer.units
    grid = float(terms.grid_average_kgco2e_per_kwh[0])
    carbon_usd = grid * float(terms.carbon_usd_per_t[0]) / 1000.0
    pue = float(costs.columns["facility_mean_w"][0] / one.run.it_mean_w[0])
    shares = float(terms.embodied_life_years[0]) * HOURS_PER_YEAR * float(terms.paid_frac[0])
    made = float(np.asarray(costs.embodied.total)[0]) * shares / float(one.run.hours[0])
    asset = Asset(
        name=offer.name,
        site=offer.site,
        hold_usd=hold,
        peak_w=offer.peak_w,
        idle_w=_rest_w(study, offer, float(one.run.it_idle_w[0]) * pue / offer.units),
        it_w=offer.peak_w / float(terms.pue[0]),
        racks=offer.racks,
        usd_per_kwh=float(terms.usd_per_kwh[0]) + carbon_usd,
        kgco2e_per_kwh=grid,
        clean_frac=float(terms.grid_clean_frac[0]),
        embodied_kgco2e=made / offer.units,
        life_periods=max(round(float(terms.it_life_years[0]) / fleet.period_years), 1),
        held=_held(study, offer),
        devices=float(one.bill.devices_per_unit[0]),
        flop_per_s=offer.flop_per_s,
        spare_frac=_spare_frac(study, catalog, offer),
        kept_frac=math.nan if fleet.resale_frac is None else fleet.resale_frac,
        move_usd=math.nan if fleet.move_usd_per_unit is None else fleet.move_usd_per_unit,
    )
    return Unit(
        asset=asset,
        usd=float(np.asarray(costs.capex.total)[0]) / offer.units,
        rent_usd=float(np.asarray(costs.rented.full_usd)[0]) / float(one.bill.purchase_units[0]),
        residual_frac=float(terms.residual_frac[0]),
        carbon_usd_per_kwh=carbon_usd,
        together=math.lcm(offer.domain_units, fleet.sold_together.get(offer.name, 1)),
        items=tuple(items_of(one.bill, costs, offer.units)),
    )


def _rest_w(study: Study, offer: Offer, idle_w: float) -> float:
    """What a unit draws that no workload of the study puts to work [W].

    Where there is none, units of hardware alone are at work for their use, as a hardware study has
    it, and idle for the rest.
    """
    if study.workloads:
        return idle_w
    use = study.costing.utilisation_frac
    use = 1.0 if use is None else use
    return use * offer.mean_w + (1.0 - use) * idle_w


def _held(study: Study, offer: Offer) -> dict[int, float]:
    """Units there already by the whole periods that are left to them."""
    found: dict[int, float] = {}
    for one in study.fleet.held:
        if (one.accelerator, one.site) == (offer.name, offer.site):
            left = math.floor(one.years_left / study.fleet.period_years + 1e-9)
            found[left] = found.get(left, 0.0) + one.units
    return found


def _spare_frac(study: Study, catalog: Catalog, offer: Offer) -> float:
    """Units in repair for each at work: failures of its parts times the days that it is away."""
    if not study.fleet.repair_days:
        return 0.0
    given = study.reliability.device_mtbf_h
    hours = given if isinstance(given, float) else None
    architecture = catalog.accelerator(offer.name).architecture
    rates = component_failures_per_s(catalog.tables, offer.one.bill, hours, architecture)
    parts = [np.asarray(v).ravel()[0] for name, v in rates.terms.items() if name != RESTARTED]
    per_s = float(np.sum(parts))
    return per_s * study.fleet.repair_days * SECONDS_PER_DAY / offer.units


def deals_of(study: Study, catalog: Catalog, unit: Unit, place: int) -> Iterator[Deal]:
    """Buying, and leasing where the study has a lease; `place` is of the asset."""
    fleet, asset = study.fleet, unit.asset
    change = _change(study, fleet.price_change_frac_per_year)
    weeks = delivery_weeks(study)
    lead = _periods(study, weeks)
    if fleet.may_buy and study.costing.acquire == "buy":
        yield Deal(
            "buy", place, unit.usd * change, np.zeros(fleet.periods), lead,
            fleet.available.get(asset.name, 0), asset.life_periods, unit.residual_frac,
            step=unit.together, lead_weeks=weeks, items=unit.items,
        )  # fmt: skip
    for one in contracts_of(study, asset):
        if one.kind == "lease":
            yield contract_deal(study, one, asset, rate_of(catalog, one, unit), place)


def lessors_of(study: Study, unit: Unit) -> Iterator[tuple[Asset, list[Contract]]]:
    """Floors of lessors beside a site, each with the contracts that it offers.

    What is reserved and what is on demand is the same machine, and spot is another.
    """
    mine = [one for one in contracts_of(study, unit.asset) if one.kind != "lease"]
    for is_spot in (False, True):
        own = [one for one in mine if (one.kind == "spot") == is_spot]
        if own:
            yield replace(
                unit.asset, hold_usd=0.0, peak_w=0.0, it_w=0.0, racks=0.0, held={},
                usd_per_kwh=unit.carbon_usd_per_kwh, spare_frac=0.0, kept_frac=math.nan,
                move_usd=math.nan, is_own=False, may_serve=not is_spot,
            ), own  # fmt: skip


def contracts_of(study: Study, asset: Asset) -> list[Contract]:
    """Those of the study for a chip at a site; renting on demand where it names none."""
    fleet = study.fleet
    found = [
        one for one in fleet.contracts
        if one.accelerator in (None, asset.name) and one.site in (None, asset.site)
    ]  # fmt: skip
    if fleet.may_rent and not any(one.kind == "on_demand" for one in found):
        found.append(Contract(kind="on_demand"))
    return found


def contract_deal(
    study: Study, one: Contract, asset: Asset, usd_per_year: float, place: int
) -> Deal:
    """A contract as the program takes it; NaN dollars for what nobody offers."""
    fleet = study.fleet
    yearly = usd_per_year * _change(study, fleet.rent_change_frac_per_year)
    lead = _periods(study, one.lead_weeks)
    free = np.where(np.isfinite(yearly), 0.0, np.nan)
    first = fleet.available.get(asset.name, 0)
    term = 1 if one.term_years is None else max(round(one.term_years / fleet.period_years), 1)
    return Deal(one.kind, place, free, np.nan_to_num(yearly), lead, first, term,
                least=one.least_units, lead_weeks=one.lead_weeks)  # fmt: skip


def rate_of(catalog: Catalog, one: Contract, unit: Unit) -> float:
    """Dollars a year of a unit under a contract; NaN where no rent is known."""
    devices = unit.asset.devices
    if one.usd_per_device_hour is not None:
        return one.usd_per_device_hour * devices * HOURS_PER_YEAR
    if one.kind == "on_demand":
        return unit.rent_usd
    plan = "spot" if one.kind == "spot" else f"reserved_{3 if (one.term_years or 1) >= 3 else 1}y"
    found = [rent.usd_per_device_hour for rent in catalog.rent(unit.asset.name, plan)]
    return median(found) * devices * HOURS_PER_YEAR if found else math.nan


def delivery_weeks(study: Study) -> float:
    """Weeks from order to delivery: the study's, else the longest that a source names."""
    weeks = study.fleet.lead_weeks
    if weeks is None:
        weeks = float(lead_weeks()["servers"]["lead_high_weeks"])
    return weeks + study.fleet.late_weeks


def _periods(study: Study, weeks: float) -> int:
    return math.ceil(weeks / WEEKS_PER_YEAR / study.fleet.period_years - 1e-9)


def _change(study: Study, frac_per_year: float) -> Floats:
    """Prices of each period over those of today; (t,)."""
    years = np.arange(study.fleet.periods) * study.fleet.period_years
    return np.asarray((1.0 + frac_per_year) ** years)
