"""Own or rent over the life of the hardware: worth today, and the cost of a device-hour both ways.

Break-even use and payback come with the bill. Dollars are before tax: taxes come in through the
yearly shares of capital (`costdata.depreciation`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from costdata import tco
from costdata.bill import PlanCosts
from costdata.hardware_bill import HardwareBill
from costdata.hardware_cost import Prices
from costdata.own_or_rent import CAPITAL
from costdata.terms import CostingTerms, yearly_shares
from planner.study.parts import Costing
from simkernel.columns import Floats

LEFT_OUT = {
    "tax_frac": "taxes and depreciation",
    "credit_frac": "subsidies",
    "insurance_frac": "insurance",
    "software_usd_per_device_year": "software",
}
"""Keys of [costing] and what no figure of a hardware study holds without them."""

NEVER_INCLUDED = (
    "people beyond the staff term, installation time, price changes over the life, failures and "
    "spare parts beyond maintenance"
)


def not_included(costing: Costing) -> str:
    """What no figure of a hardware study holds."""
    lacking = [words for key, words in LEFT_OUT.items() if not getattr(costing, key)]
    return ", ".join([*lacking, NEVER_INCLUDED])


BASIS = (
    "npv_usd, own_npv_usd, rent_npv_usd, usd_per_device_hour, breakeven_utilisation_frac, "
    "npv_zero_utilisation_frac and payback_discounted_months are discounted at wacc_frac; "
    "payback_months and usd_per_device_hour_undiscounted are not; breakeven_utilisation_frac has "
    "the cost of owning at the use given, npv_zero_utilisation_frac is the use at which npv_usd "
    "is 0"
)

REPAID = ("before the life ends", "only with the residual", "not within the life")
"""When owning has repaid its price out of the rent it saves, discounted."""


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
    Parts that live longer or shorter than the IT are charged by the year. Rent by the hour is
    paid for the hours used, a reservation for all; a price of carbon on both sides. `npv_usd` is 0
    where the use given is `breakeven_utilisation_frac`: at `npv_zero_utilisation_frac`.

    References
    ----------
    tests/anchors/cost_carbon.toml G2: CRF x capital net of its residual, over the life.
    """
    years = np.asarray(tco.present_worth_frac(terms.wacc_frac, 0.0, terms.it_life_years))
    year = costs.year
    running_usd = np.asarray(year.total - sum(year.terms[name] for name in CAPITAL))
    plain_usd = running_usd + _plain_capital_usd(costs, terms)
    own_usd = np.where(terms.is_bought, year.total * years, np.nan)
    rented_usd = costs.rented.usd_per_year * years
    return {
        "own_npv_usd": own_usd,
        "rent_npv_usd": rented_usd,
        "npv_usd": rented_usd - own_usd,
        "usd_per_device_hour_undiscounted": np.asarray(
            tco.usd_per_device_hour(plain_usd, bill.devices_working, terms.utilisation_frac)
        ),
        "rent_usd_per_device_hour": prices.rent_usd_per_device_hour * 1.0,
        "running_usd_per_year": running_usd,
        "repaid_in_month": np.ceil(costs.columns["payback_discounted_months"]),
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


def _plain_capital_usd(costs: PlanCosts, terms: CostingTerms) -> Floats:
    """Capital of a year without interest: price less residual, over the life of each class."""
    plain = yearly_shares(replace(terms, wacc_frac=0.0 * terms.wacc_frac))
    usd = costs.capex.terms
    network = usd["nics"] + usd["switches"] + usd["links"] + usd["domain_network"]
    it = usd["servers"] + usd["stranded"] + usd["spares"] + usd["head_nodes"]
    return np.asarray(
        it * plain.it_frac
        + network * plain.network_frac
        + usd["storage"] * plain.storage_frac
        + usd["facility"] * plain.facility_frac
    )
