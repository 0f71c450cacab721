"""What a plan costs at a site: capital, year and run in dollars, carbon and water.

A second pass over plans that physics has finished with: m rows, each a plan with one row of
terms. A run pays for the hours it occupies and, at a `utilisation_frac` below 1, for its share of
the hours that nobody uses: their capital and upkeep, and their energy at idle power.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields

import numpy as np

from costdata import carbon, energy_bill, tco
from costdata.hardware_bill import HardwareBill
from costdata.hardware_cost import (
    EmbodiedFactors,
    Hardware,
    Prices,
    added,
    hardware_kgco2e,
    hardware_usd,
    missing_price,
)
from costdata.nulls import Nulls, bill_nulls, told
from costdata.own_or_rent import Renting, against_rent, renting, renting_all
from costdata.supply import Met, Supply, met_by, unsupplied
from costdata.terms import CARBON, CostingTerms, YearlyShares
from costdata.use import (
    YearKwh,
    contract_w,
    provided_it_w,
    share_of_years,
    terms_at_load,
    year_kwh,
)
from simkernel.columns import Codes, Column, Floats, Masks
from simkernel.errors import BadStudy, MissingFact, unknown
from simkernel.hardware import Columns
from simkernel.ledger import Ledger


@dataclass(frozen=True)
class PlanRun(Columns):
    """What physics says of each plan; (m,).

    `it_mean_w`, `it_peak_w` and, with everything on and at rest, `it_idle_w` are totals
    (`hardware_bill.it_w`), `hours` the wall clock of the run, failures included, `tokens` what it
    yields (NaN for a study without a workload).
    """

    it_mean_w: Floats
    it_peak_w: Floats
    it_idle_w: Floats
    hours: Floats
    tokens: Floats


@dataclass(frozen=True)
class PlanCosts:
    """Ledgers and columns of m plans; NaN stands for NULL and `nulls` says why.

    Parameters
    ----------
    capex : "capex_usd", paid up front
    year : "usd_per_year", a year at the use of the terms, running like this when at work
    run : "usd", the run's share of such years
    operational : "kgCO2e" of the run by accounting; one of them is `operational_kgco2e`
    embodied : "embodied_kgco2e", the run's share of making
    rented : what renting the same units costs, instead or as the plan does
    columns : metric name to (m,) column
    nulls : why metrics are NULL, by row
    """

    capex: Ledger
    year: Ledger
    run: Ledger
    operational: dict[str, Floats]
    embodied: Ledger
    rented: Renting
    columns: dict[str, Floats]
    nulls: Nulls = field(default_factory=dict)

    @property
    def reasons(self) -> dict[str, str]:
        """Metric to why it is NULL, over all rows."""
        return told(self.nulls)

    def ledgers(self) -> tuple[Ledger, ...]:
        """Everything that sums, in reading order."""
        return (self.capex, self.year, self.run, self.embodied)


def plan_costs(
    bill: HardwareBill,
    run: PlanRun,
    prices: Prices,
    embodied: EmbodiedFactors,
    terms: CostingTerms,
    shares: YearlyShares,
    accounting: str = "location_average",
    supply: Supply | None = None,
    beside: tuple[Hardware, ...] = (),
) -> PlanCosts:
    """Cost, carbon and water of every plan under its row of terms.

    Parameters
    ----------
    bill, run, prices, embodied : (m,)
    terms : (m,) or one row, already through `terms.refuse_bad_terms`
    shares : `terms.yearly_shares` of the same rows; made on the sites, then taken
    accounting : one of CARBON, for the whole table
    supply : tariff by the hour and contracts, laid over the terms; None for the terms alone
    beside : hardware that the plans have beside the first, and that `run` draws power for too

    Raises
    ------
    MissingFact : a needed figure is NaN, or the accounting has no factor at a site
    BadStudy : a negative price, a run of no hours

    Notes
    -----
    Amounts are in the money of `terms.wacc_frac`, nominal or real. The year has 8,760 hours; its
    energy is `use.year_kwh`, and dollars, energy, carbon and water of a run are its share of that
    year. `tco.usd_per_device_hour` divides a whole yearly cost by the hours sold, as here, but the
    cost here falls with use by the energy that idle hours do not draw. Carbon is priced on
    operational emissions only.
    """
    every = (Hardware(bill, prices, embodied), *beside)
    for part in every:
        _refuse(run, part.prices, part.embodied, terms, part.bill, accounting)
    reserved_w = provided_it_w(run.it_peak_w, run.it_mean_w, terms)
    terms = terms_at_load(terms, run.it_mean_w, run.it_idle_w, reserved_w)
    capex = _capex(every, terms, reserved_w)
    kwh = year_kwh(run.it_mean_w, run.it_idle_w, reserved_w, terms)
    met = unsupplied(terms, kwh.total) if supply is None else met_by(terms, kwh.total, supply)
    terms = met.terms
    intensity = _intensities(terms)[accounting]
    rented = renting_all(
        [renting(part.bill, part.prices, terms, kwh, intensity) for part in every]
    )
    devices = sum(part.bill.devices_bought for part in every)
    year = _year(np.asarray(devices), run, terms, shares, capex, reserved_w, kwh, rented)
    years = share_of_years(run.hours, terms)
    spent = Ledger("usd", "USD", year.scaled(years).terms)
    emitted = {
        name: np.asarray(carbon.operational_kgco2e(kwh.total * years, factor))
        for name, factor in _intensities(terms).items()
    }
    made = _embodied(every, terms, reserved_w, run.hours)
    working = np.asarray(sum(part.bill.devices_working for part in every))
    columns = _columns(working, run, terms, capex, year, spent, emitted[accounting], made)
    columns |= _energy(kwh, years, terms) | _water(kwh, years, met)
    columns |= {"matched_frac": met.matched_frac, "carbon_free_frac": met.clean_frac}
    columns["provisioned_w"] = reserved_w
    columns["rent_usd"] = rented.paid_usd * years
    columns |= against_rent(capex, year, rented, kwh, terms)
    columns |= {f"{name}_kgco2e": kgco2e for name, kgco2e in emitted.items()}
    nulls = bill_nulls(columns, emitted, terms, rented)
    return PlanCosts(capex, year, spent, emitted, made, rented, columns, nulls)


def _capex(every: Sequence[Hardware], terms: CostingTerms, reserved_w: Floats) -> Ledger:
    """Paid up front; nothing where hardware is rented."""
    parts = [hardware_usd(part.bill, part.prices, terms) for part in every]
    facility: Column = terms.is_hosted * terms.facility_usd_per_w * reserved_w
    return Ledger("capex_usd", "USD", {**added(parts), "facility": facility})


def _year(
    devices: Floats,
    run: PlanRun,
    terms: CostingTerms,
    shares: YearlyShares,
    capex: Ledger,
    reserved_w: Floats,
    kwh: YearKwh,
    rented: Renting,
) -> Ledger:
    """A year at the use of the terms, by what it is paid for."""
    usd = capex.terms
    network = usd["nics"] + usd["switches"] + usd["links"] + usd["domain_network"]
    gross = capex.total - usd["facility"]
    hosted = 1.0 * terms.is_hosted
    kw_months = tco.MONTHS_PER_YEAR / energy_bill.W_PER_KW
    terms_usd: dict[str, Column] = {
        "servers": usd["servers"] * shares.it_frac,
        "stranded": usd["stranded"] * shares.it_frac,
        "spares": usd["spares"] * shares.it_frac,
        "network": network * shares.network_frac,
        "storage": usd["storage"] * shares.storage_frac,
        "head_nodes": usd["head_nodes"] * shares.it_frac,
        "facility": usd["facility"] * shares.facility_frac,
        "maintenance": gross * terms.maintenance_frac,
        "insurance": capex.total * terms.insurance_frac,
        "software": hosted * devices * terms.software_usd_per_device_year,
        **_electricity_usd(run, terms, reserved_w, kwh),
        "colocation": hosted * reserved_w * kw_months * terms.colo_usd_per_kw_month,
        "staff": hosted * terms.staff_usd_per_year,
        "carbon_price": kwh.total * rented.carbon_usd_per_kwh,
        "rent": np.where(terms.is_bought, 0.0, rented.paid_usd),
    }
    return Ledger("usd_per_year", "USD/year", terms_usd)


def _electricity_usd(
    run: PlanRun, terms: CostingTerms, reserved_w: Floats, kwh: YearKwh
) -> dict[str, Column]:
    """What the utility bills a year: energy, energy contracted and not taken, demand."""
    billed_w = energy_bill.billed_w(
        energy_bill.facility_w(run.it_peak_w, terms.pue),
        contract_w(reserved_w, terms),
        terms.minimum_billing_frac,
        terms.past_peak_w,
        terms.ratchet_frac,
    )
    price = terms.is_hosted * terms.usd_per_kwh
    demand_usd = energy_bill.demand_usd_per_year(1.0, terms.demand_usd_per_kw_month) * billed_w
    return {
        "energy": energy_bill.flat_energy_usd(kwh.working, price),
        "idle_energy": energy_bill.flat_energy_usd(kwh.idle, price),
        "energy_not_taken": energy_bill.flat_energy_usd(kwh.not_taken, price),
        "demand": 1.0 * terms.is_hosted * demand_usd,
    }


def _energy(kwh: YearKwh, years: Floats, terms: CostingTerms) -> dict[str, Floats]:
    """Energy of the run's share of the year, idle hours included; (m,) each."""
    facility_kwh = kwh.total * years
    return {
        "it_mwh": facility_kwh / terms.pue / 1000.0,
        "facility_mwh": facility_kwh / 1000.0,
        "idle_mwh": kwh.idle * years / 1000.0,
    }


def _water(kwh: YearKwh, years: Floats, met: Met) -> dict[str, Floats]:
    """Water on site, at the power stations and in all; own plant takes none there, a rule of ours.

    Solar and wind behind the meter take next to none; a generator's own is not known here.
    """
    terms = met.terms
    it_kwh = kwh.total * years / terms.pue
    offsite = terms.wue_offsite_l_per_kwh * (1.0 - met.own_frac)
    onsite_l = carbon.water_l(it_kwh, terms.wue_onsite_l_per_kwh, terms.pue, 0.0)
    offsite_l = carbon.water_l(it_kwh, 0.0, terms.pue, offsite)
    both = {"water_onsite_l": np.asarray(onsite_l), "water_offsite_l": np.asarray(offsite_l)}
    return {**both, "water_l": both["water_onsite_l"] + both["water_offsite_l"]}


def _embodied(
    every: Sequence[Hardware], terms: CostingTerms, reserved_w: Floats, hours: Floats
) -> Ledger:
    """The run's share of making everything, by time, idle hours of the life included."""
    life_hours = terms.embodied_life_years * tco.HOURS_PER_YEAR * terms.paid_frac
    share = np.asarray(carbon.embodied_share_kgco2e(1.0, hours, life_hours))
    parts = [hardware_kgco2e(part.bill, part.embodied, share) for part in every]
    facility: Column = terms.facility_kgco2e_per_w * reserved_w * share
    return Ledger("embodied_kgco2e", "kgCO2e", {**added(parts), "facility": facility})


def _columns(
    devices: Floats,
    run: PlanRun,
    terms: CostingTerms,
    capex: Ledger,
    year: Ledger,
    spent: Ledger,
    operational: Floats,
    made: Ledger,
) -> dict[str, Floats]:
    """Metrics by the names of the contract, (m,) each."""
    usd_per_year, usd, embodied = (np.asarray(x.total) for x in (year, spent, made))
    facility_mean_w = np.asarray(energy_bill.facility_w(run.it_mean_w, terms.pue))
    facility_peak_w = np.asarray(energy_bill.facility_w(run.it_peak_w, terms.pue))
    mtokens = run.tokens / 1e6
    return {
        "facility_mean_w": facility_mean_w,
        "facility_peak_w": facility_peak_w,
        "peak_facility_mw": facility_peak_w / 1e6,
        "capex_usd": np.asarray(capex.total),
        "usd_per_year": usd_per_year,
        "usd": usd,
        "usd_per_device_hour": np.asarray(
            tco.usd_per_device_hour(usd_per_year, devices, terms.utilisation_frac)
        ),
        "usd_per_mtoken": usd / mtokens,
        "operational_kgco2e": operational,
        "embodied_kgco2e": embodied,
        "kgco2e": operational + embodied,
        "kgco2e_per_mtoken": np.asarray(
            carbon.sci_kgco2e_per_unit(operational, embodied, mtokens)
        ),
    }


def _intensities(terms: CostingTerms) -> dict[str, Floats]:
    """The site's factor for each accounting; NaN where there is none."""
    factors = (
        terms.grid_average_kgco2e_per_kwh,
        terms.grid_marginal_kgco2e_per_kwh,
        terms.market_kgco2e_per_kwh,
    )
    return dict(zip(CARBON, factors, strict=True))


def _refuse(
    run: PlanRun,
    prices: Prices,
    embodied: EmbodiedFactors,
    terms: CostingTerms,
    bill: HardwareBill,
    accounting: str,
) -> None:
    """Everything missing in one error, everything impossible in the next."""
    if accounting not in CARBON:
        raise unknown("carbon accounting", accounting, CARBON)
    unknowns = {
        **missing_price(prices, terms),
        **{n: np.isnan(c) for n, c in _needed(bill, run, prices, embodied).items()},
        f"{accounting} intensity": np.isnan(_intensities(terms)[accounting]),
    }
    missing = [_missing(name, mask) for name, mask in unknowns.items() if mask.any()]
    if missing:
        raise MissingFact(*missing)
    negative = [n for n, c in _needed(bill, run, prices, embodied).items() if (c < 0).any()]
    negative += ["unit_usd"] if (prices.unit_usd < 0).any() else []
    faults = [f"{name} is negative; give 0 or more" for name in negative]
    if (run.tokens <= 0).any():
        faults.append("a run yields no tokens; give a number above 0, or NaN without a workload")
    if faults:
        raise BadStudy(*faults)


def _missing(name: str, mask: Masks) -> str:
    return f"{name} is not known in {int(mask.sum())} rows; give it or leave these rows out"


def _needed(
    bill: HardwareBill, run: PlanRun, prices: Prices, embodied: EmbodiedFactors
) -> dict[str, Floats]:
    """Columns that must be known and not negative, by name."""
    free = {
        "unit_usd",
        "unit_is_estimate",
        "rent_usd_per_device_hour",
        "rent_is_by_hour",
        "tokens",
    }
    return {
        f.name: getattr(table, f.name)
        for table in (bill, run, prices, embodied)
        for f in fields(table)
        if f.name not in free
    }


def site_rows(plans: int, sites: int) -> tuple[Codes, Codes]:
    """Row codes that put every plan at every site: (m,) plan codes, (m,) site codes."""
    return (
        np.repeat(np.arange(plans), sites),
        np.tile(np.arange(sites), plans),
    )
