"""The cost of a plan as lines of a sheet: given figures, and formulas over them.

A line is named once and referred to by that name, so that the sheet can be laid out later. The
formulas are those of `costdata.bill` and `planner.hardware.worth`; a test recalculates the sheet
and holds it to the run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from costdata.bill import PlanCosts
from costdata.tco import HOURS_PER_YEAR, present_frac
from costdata.terms import yearly_shares
from planner.uncertainty.inputs import Inputs

IT = ("servers", "stranded", "spares", "head_nodes")
NETWORK = ("nics", "switches", "links", "domain_network")


@dataclass(frozen=True)
class Line:
    """One line.

    Parameters
    ----------
    name : by which formulas refer to it, in braces
    unit : of the value
    value : as the run has it
    formula : "" for a figure that is given
    is_open : a figure that a reader may change, and everything follows
    """

    name: str
    unit: str
    value: float
    formula: str = ""
    is_open: bool = False


def cost_lines(one: Inputs) -> list[Line]:
    """All lines of one row, those that others need first.

    Notes
    -----
    Interest is a figure to change only where the study has no taxes: with taxes the worth of the
    write-off, which follows from it by year, is a given figure.
    """
    costs = one.costs()
    kwh = _kwh(one, costs)
    return [
        *_terms(one, costs, kwh),
        *_energy(one, costs, kwh),
        *_capital(one, costs),
        *_year(one, costs),
        *_whole(one, costs),
    ]


def _terms(one: Inputs, costs: PlanCosts, kwh: Mapping[str, float]) -> Iterator[Line]:
    """Terms in force, those that a reader may change marked."""
    terms = one.terms
    is_taxed = float(terms.tax_frac[0]) > 0
    energy_usd = float(np.asarray(costs.year.terms["energy"])[0])
    price = energy_usd / kwh["working"] if kwh["working"] else 0.0
    is_hosted = bool(terms.is_hosted[0])
    yield Line("usd_per_kwh", "$/kWh", price, is_open=is_hosted and one.supply is None)
    pue = float(costs.columns["facility_mean_w"][0] / one.run.it_mean_w[0])
    yield Line("pue", "1", pue, is_open=True)
    yield Line("wacc_frac", "1/year", float(terms.wacc_frac[0]), is_open=not is_taxed)
    for name, unit in (
        ("it_life_years", "years"), ("network_life_years", "years"),
        ("storage_life_years", "years"), ("facility_life_years", "years"),
        ("residual_frac", "1"), ("maintenance_frac", "1/year"),
        ("insurance_frac", "1/year"), ("software_usd_per_device_year", "$/year"),
        ("demand_usd_per_kw_month", "$/kW-month"), ("colo_usd_per_kw_month", "$/kW-month"),
        ("staff_usd_per_year", "$/year"), ("carbon_usd_per_t", "$/t"),
    ):  # fmt: skip
        is_fixed = is_taxed and name.endswith(("life_years", "residual_frac"))
        yield Line(name, unit, float(getattr(terms, name)[0]), is_open=not is_fixed)
    yield Line("utilisation_frac", "1", float(terms.utilisation_frac[0]))
    shares = yearly_shares(terms)
    lives = (("it", True), ("network", True), ("storage", True), ("facility", False))
    for name, residual in lives:
        life = float(getattr(terms, f"{name}_life_years")[0])
        wacc = float(terms.wacc_frac[0])
        share = float(getattr(shares, f"{name}_frac")[0])
        worth = float(present_frac(wacc, life))
        annuity = (1 - worth) / wacc if wacc else life
        kept = float(terms.residual_frac[0]) * worth if residual else 0.0
        yield Line(f"{name}_before_tax_frac", "1", share * annuity + kept)


def _energy(one: Inputs, costs: PlanCosts, kwh: Mapping[str, float]) -> Iterator[Line]:
    """Watts, and the energy of a year."""
    columns, terms = costs.columns, one.terms
    fleet = float(np.broadcast_to(one.fleet, 1)[0])
    yield Line("it_mean_w", "W", float(one.run.it_mean_w[0]) * fleet)
    yield Line("it_idle_w", "W", float(one.run.it_idle_w[0]) * fleet)
    yield Line("provisioned_w", "W", float(columns["provisioned_w"][0]))
    idle = 0.0 if bool(terms.is_by_hour[0]) else 1.0
    yield Line("idle_hours_paid", "1", idle)
    hours = f"*{{pue}}*{HOURS_PER_YEAR:g}/1000"
    yield Line("working_kwh", "kWh", kwh["working"], f"{{it_mean_w}}{hours}*{{utilisation_frac}}")
    rest = f"{{it_idle_w}}{hours}*{{idle_hours_paid}}*(1-{{utilisation_frac}})"
    yield Line("idle_kwh", "kWh", kwh["idle"], rest)
    yield Line("total_kwh", "kWh", kwh["working"] + kwh["idle"], "{working_kwh}+{idle_kwh}")
    yield Line("not_taken_kwh", "kWh", kwh["not_taken"])
    yield Line("billed_w", "W", kwh["billed_w"])
    yield Line("kgco2e_per_kwh", "kgCO2e/kWh", kwh["kgco2e_per_kwh"])


def _capital(one: Inputs, costs: PlanCosts) -> Iterator[Line]:
    """What is paid up front; servers at the price of one."""
    terms = {n: float(np.asarray(v)[0]) for n, v in costs.capex.terms.items()}
    per_unit, usd = float(one.bill.devices_per_unit[0]), float(one.prices.unit_usd[0])
    is_one_price = all(float(part.prices.unit_usd[0]) == usd for part in one.beside)
    is_bought = bool(one.terms.is_bought[0]) and usd > 0 and is_one_price
    if is_bought:
        yield Line("unit_usd", "$", usd, is_open=True)
    for name, value in terms.items():
        if is_bought and name in ("servers", "stranded", "spares"):
            units = value / usd
            yield Line(f"{name}_units", f"of {per_unit:g} devices", units)
            yield Line(f"capex_{name}", "$", value, f"{{{name}_units}}*{{unit_usd}}")
        else:
            yield Line(f"capex_{name}", "$", value)
    parts = "+".join(f"{{capex_{name}}}" for name in terms)
    yield Line("capex_usd", "$", sum(terms.values()), parts)


def _year(one: Inputs, costs: PlanCosts) -> Iterator[Line]:
    """A year, term by term."""
    year = {n: float(np.asarray(v)[0]) for n, v in costs.year.terms.items()}
    hosted = 1.0 if bool(one.terms.is_hosted[0]) else 0.0
    devices = sum(b.devices_bought for b in one.bills)
    yield Line("hosted", "1", hosted)
    yield Line(
        "all_devices", "", float(np.asarray(devices)[0]) * float(np.broadcast_to(one.fleet, 1)[0])
    )
    network = "+".join(f"{{capex_{name}}}" for name in NETWORK)
    formulas = {
        **{name: f"{{capex_{name}}}*{_share('it', True)}" for name in IT},
        "network": f"({network})*{_share('network', True)}",
        "storage": f"{{capex_storage}}*{_share('storage', True)}",
        "facility": f"{{capex_facility}}*{_share('facility', False)}",
        "maintenance": "({capex_usd}-{capex_facility})*{maintenance_frac}",
        "insurance": "{capex_usd}*{insurance_frac}",
        "software": "{hosted}*{all_devices}*{software_usd_per_device_year}",
        "energy": "{working_kwh}*{usd_per_kwh}",
        "idle_energy": "{idle_kwh}*{usd_per_kwh}",
        "energy_not_taken": "{not_taken_kwh}*{usd_per_kwh}",
        "demand": "{hosted}*{billed_w}*12/1000*{demand_usd_per_kw_month}",
        "colocation": "{hosted}*{provisioned_w}*12/1000*{colo_usd_per_kw_month}",
        "staff": "{hosted}*{staff_usd_per_year}",
        "carbon_price": "{total_kwh}*{kgco2e_per_kwh}/1000*{carbon_usd_per_t}",
    }
    for name, value in year.items():
        yield Line(f"year_{name}", "$/year", value, formulas.get(name, ""))
    parts = "+".join(f"{{year_{name}}}" for name in year)
    yield Line("usd_per_year", "$/year", sum(year.values()), parts)


def _share(part: str, has_residual: bool) -> str:
    """A year's share of capital: annuity of the price less what is left of it."""
    worth = f"(1+{{wacc_frac}})^-{{{part}_life_years}}"
    left = f"-{{residual_frac}}*{worth}" if has_residual else ""
    annuity = f"IF({{wacc_frac}}=0,1/{{{part}_life_years}},{{wacc_frac}}/(1-{worth}))"
    return f"({annuity}*({{{part}_before_tax_frac}}{left}))"


def _whole(one: Inputs, costs: PlanCosts) -> Iterator[Line]:
    """The job's share of such years, and owning against renting over the life."""
    hours = float(one.run.hours[0])
    yield Line("job_hours", "h", hours)
    share = f"{{job_hours}}/({HOURS_PER_YEAR:g}*{{utilisation_frac}})"
    yield Line("usd", "$", float(np.asarray(costs.run.total)[0]), f"{{usd_per_year}}*{share}")
    rent = float(np.asarray(costs.rented.usd_per_year)[0])
    if not bool(one.terms.is_bought[0]) or not np.isfinite(rent):
        return
    paid = float(np.asarray(costs.rented.paid_usd)[0])
    carbon = float(np.asarray(costs.rented.carbon_usd)[0])
    yield Line("rent_usd_per_year", "$/year", paid, is_open=True)
    own_kwh = carbon / costs.rented.carbon_usd_per_kwh[0] if carbon else 0.0
    yield Line("renters_kwh", "kWh", float(own_kwh))
    worth = "IF({wacc_frac}=0,{it_life_years},(1-(1+{wacc_frac})^-{it_life_years})/{wacc_frac})"
    wacc, life = float(one.terms.wacc_frac[0]), float(one.terms.it_life_years[0])
    years = (1 - float(present_frac(wacc, life))) / wacc if wacc else life
    yield Line("life_worth_years", "years", years, worth)
    own = float(np.asarray(costs.year.total)[0]) * years
    yield Line("own_npv_usd", "$", own, "{usd_per_year}*{life_worth_years}")
    emitted = "{renters_kwh}*{kgco2e_per_kwh}/1000*{carbon_usd_per_t}"
    rented = f"({{rent_usd_per_year}}+{emitted})*{{life_worth_years}}"
    yield Line("rent_npv_usd", "$", (paid + carbon) * years, rented)
    yield Line("npv_usd", "$", (paid + carbon) * years - own, "{rent_npv_usd}-{own_npv_usd}")


def _kwh(one: Inputs, costs: PlanCosts) -> dict[str, float]:
    """Energy of a year as the run has it, and what is billed beside it."""
    terms = one.terms
    columns, year = costs.columns, costs.year.terms
    years = float(one.run.hours[0]) / (HOURS_PER_YEAR * float(terms.utilisation_frac[0]))
    total = float(columns["facility_mwh"][0]) * 1000.0 / years
    idle = float(columns["idle_mwh"][0]) * 1000.0 / years
    rate = float(terms.demand_usd_per_kw_month[0]) * 12.0 / 1000.0
    demand = float(np.asarray(year["demand"])[0])
    price = float(np.asarray(year["energy"])[0]) / (total - idle) if total > idle else 0.0
    not_taken = float(np.asarray(year["energy_not_taken"])[0])
    return {
        "working": total - idle,
        "idle": idle,
        "not_taken": not_taken / price if price else 0.0,
        "billed_w": demand / rate if rate else 0.0,
        "kgco2e_per_kwh": float(columns["operational_kgco2e"][0]) / (total * years),
    }
