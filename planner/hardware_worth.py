"""Own or rent: worth today, break-even use and payback, beside the cost of a device-hour.

Amounts are nominal. `npv`, `usd_per_device_hour` and the discounted months are discounted at the
study's WACC, `payback_months` and `usd_per_device_hour_undiscounted` are not; taxes are not known
here.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from costdata import tco
from costdata.bill import PlanCosts, Prices
from costdata.hardware_bill import HardwareBill
from costdata.terms import CostingTerms, yearly_shares
from simkernel.columns import Floats
from simkernel.ledger import Ledger

CAPITAL = ("servers", "stranded", "spares", "network", "storage", "head_nodes", "facility")
"""Terms of the yearly cost that recover capital; the others are paid as one goes."""

NOT_INCLUDED = (
    "taxes and depreciation, subsidies, insurance, software, people beyond the staff term, "
    "installation time, price changes over the life, failures and spare parts beyond maintenance"
)
"""What no figure of a hardware study holds."""

BASIS = (
    "amounts are nominal; npv_usd, own_npv_usd, rent_npv_usd, usd_per_device_hour and "
    "payback_discounted_months are discounted at wacc_frac; payback_months and "
    "usd_per_device_hour_undiscounted are not"
)

REPAID = ("before the life ends", "only with the residual", "not within the life")
"""When owning has repaid its price out of the rent it saves, discounted."""

REASONS = {
    "npv_usd": "nothing is owned, or no rent is known for the accelerator",
    "own_npv_usd": "nothing is owned",
    "rent_npv_usd": "no rent is known for the accelerator",
    "breakeven_utilisation_frac": "nothing is owned, or no rent is known for the accelerator",
    "payback_months": "nothing is owned, no rent is known, or it saves too little ever to repay",
    "payback_discounted_months": "as payback_months, interest included",
}


def worth(
    bill: HardwareBill,
    costs: PlanCosts,
    prices: Prices,
    terms: CostingTerms,
) -> dict[str, Floats]:
    """Columns of owning against renting over the life of the IT; (m,), NaN for NULL.

    Parameters
    ----------
    costs : `bill.plan_costs` of the same rows
    terms : one row per plan

    Notes
    -----
    Parts that live longer or shorter than the IT are charged by the year. Rent is paid for every
    hour of the life, used or not. Payback is at full use and leaves the residual out.

    References
    ----------
    tests/anchors/cost_carbon.toml G2, G11: levelised cost, break-even; `tco.payback_months`.
    """
    owned = np.where(terms.is_bought, 1.0, np.nan)
    life, wacc = terms.it_life_years, terms.wacc_frac
    years = np.asarray(tco.present_worth_frac(wacc, 0.0, life))
    device_hours = bill.purchase_units * bill.devices_per_unit * tco.HOURS_PER_YEAR
    rent_usd = prices.rent_usd_per_device_hour * device_hours
    year_usd = np.asarray(costs.year.total)
    running_usd = year_usd - _capital_usd(costs.year)
    saved_usd = (rent_usd - running_usd) / tco.MONTHS_PER_YEAR
    capex = np.asarray(costs.capex.total)
    plain_usd = running_usd + _plain_capital_usd(costs, terms)
    own_usd, rented_usd = owned * year_usd * years, rent_usd * years
    return {
        "own_npv_usd": own_usd,
        "rent_npv_usd": rented_usd,
        "npv_usd": rented_usd - own_usd,
        "usd_per_device_hour_undiscounted": np.asarray(
            tco.usd_per_device_hour(plain_usd, bill.devices_working, terms.paid_frac)
        ),
        "rent_usd_per_device_hour": prices.rent_usd_per_device_hour * 1.0,
        "breakeven_utilisation_frac": owned
        * tco.breakeven_utilisation_frac(year_usd / device_hours, prices.rent_usd_per_device_hour),
        "repaid_in_month": owned * np.ceil(_finite(tco.payback_months(capex, saved_usd, wacc))),
        "payback_months": owned * _finite(tco.payback_months(capex, saved_usd)),
        "payback_discounted_months": owned * _finite(tco.payback_months(capex, saved_usd, wacc)),
        "running_usd_per_year": running_usd,
    }


def repaid(columns: dict[str, Floats], terms: CostingTerms) -> list[str | None]:
    """When owning has repaid itself, in words; None where it is not known."""
    months, better = columns["payback_discounted_months"], columns["npv_usd"]
    life = terms.it_life_years * tco.MONTHS_PER_YEAR
    found: list[str | None] = []
    for i in range(len(months)):
        if np.isnan(better[i]):
            found.append(None)
        elif months[i] <= life[i]:  # never is NaN, which is in no life
            found.append(REPAID[0])
        else:
            found.append(REPAID[1] if better[i] >= 0 else REPAID[2])
    return found


def _finite(months: object) -> Floats:
    """Months, NaN for never."""
    found = np.asarray(months, float)
    return np.where(np.isinf(found), np.nan, found)


def _capital_usd(year: Ledger) -> Floats:
    return np.asarray(sum((year.terms[name] for name in CAPITAL), start=0.0)) + 0.0


def _plain_capital_usd(costs: PlanCosts, terms: CostingTerms) -> Floats:
    """Capital of a year without interest: price less residual, over the life of each class."""
    plain = yearly_shares(replace(terms, wacc_frac=0.0 * terms.wacc_frac))
    usd = costs.capex.terms
    network = usd["nics"] + usd["switches"] + usd["links"]
    it = usd["servers"] + usd["stranded"] + usd["spares"] + usd["storage"] + usd["head_nodes"]
    return np.asarray(
        it * plain.it_frac + network * plain.network_frac + usd["facility"] * plain.facility_frac
    )
