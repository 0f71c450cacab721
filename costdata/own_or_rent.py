"""What is bought against renting as many whole units, both at the use that the terms give.

Rent by the hour is paid for the hours used, a reservation for all of them. Dollars are before
tax; the payback knows no taxes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from costdata import carbon, tco
from costdata.hardware_bill import HardwareBill
from costdata.hardware_cost import Prices
from costdata.terms import CostingTerms
from costdata.use import YearKwh
from simkernel.columns import Floats, Masks
from simkernel.ledger import Ledger

CAPITAL = ("servers", "stranded", "spares", "network", "storage", "head_nodes", "facility")
"""Terms of a year that repay what was bought."""

ENERGY = ("energy", "idle_energy", "energy_not_taken")
"""Terms of a year that are paid per kWh."""


@dataclass(frozen=True)
class Renting:
    """Renting the units of a plan for a year at the use of its terms; (m,), NaN: no rent known.

    Parameters
    ----------
    is_by_hour : paid for hours used only
    full_usd : rent of all hours of a year [$]
    paid_usd : rent of the hours that are paid [$]
    carbon_usd : price of the carbon that the renter's hours emit [$]
    carbon_usd_per_kwh : price of the carbon of a kWh [$/kWh]
    """

    is_by_hour: Masks
    full_usd: Floats
    paid_usd: Floats
    carbon_usd: Floats
    carbon_usd_per_kwh: Floats

    @property
    def usd_per_year(self) -> Floats:
        """All that renting costs a year."""
        return self.paid_usd + self.carbon_usd


def renting(
    bill: HardwareBill, prices: Prices, terms: CostingTerms, kwh: YearKwh, kgco2e_per_kwh: Floats
) -> Renting:
    """Renting whole units: instead of what is bought, or as the plan does.

    Parameters
    ----------
    bill, prices, terms, kwh : (m,)
    kgco2e_per_kwh : (m,) of the accounting that is priced

    Notes
    -----
    Machines emit the same at work whoever owns them; idle hours emit on account of whoever keeps
    them.
    """
    is_by_hour = np.where(terms.is_bought, prices.rent_is_by_hour, terms.is_by_hour)
    full_usd = prices.rent_usd_per_device_hour * rented_devices(bill) * tco.HOURS_PER_YEAR
    own_kwh = kwh.working + np.where(is_by_hour, 0.0, kwh.idle)
    usd_per_kwh = np.asarray(carbon.carbon_usd(kgco2e_per_kwh, terms.carbon_usd_per_t))
    paid_usd = full_usd * np.where(is_by_hour, terms.utilisation_frac, 1.0)
    return Renting(is_by_hour, full_usd, paid_usd, own_kwh * usd_per_kwh, usd_per_kwh)


def renting_all(parts: Sequence[Renting]) -> Renting:
    """All hardware of a plan rented: by the hour where all of it is; (m,)."""
    first, *others = parts
    for part in others:
        is_by_hour = first.is_by_hour & part.is_by_hour
        carbon_usd = np.maximum(first.carbon_usd, part.carbon_usd)  # of one plan's energy
        first = replace(
            first,
            is_by_hour=is_by_hour,
            full_usd=first.full_usd + part.full_usd,
            paid_usd=first.paid_usd + part.paid_usd,
            carbon_usd=carbon_usd,
        )
    return first


def rented_devices(bill: HardwareBill) -> Floats:
    """Devices in the units rented: whole units, no spares of one's own."""
    return bill.purchase_units * bill.devices_per_unit


def against_rent(
    capex: Ledger, year: Ledger, rented: Renting, kwh: YearKwh, terms: CostingTerms
) -> dict[str, Floats]:
    """Break-even use and payback of what is bought; (m,), NaN where there is none.

    Notes
    -----
    Owning is the whole year less the carbon that renting would pay for too. `breakeven` is that
    cost at the use given over the rent of all hours: owning wins where the use given is above it.
    `npv_zero` is the use at which both are equal, the hours that are not used at idle power: the
    same whatever use is given. Neither exists against a reservation, which is paid whatever the
    use. The payback counts no residual.

    References
    ----------
    tests/anchors/cost_carbon.toml G11: own over rent at full use; capital over rent avoided less
    own running cost.
    """
    is_compared = terms.is_bought & (rented.full_usd > 0)
    own_usd = np.asarray(year.total - rented.carbon_usd)
    running = own_usd - sum(year.terms[name] for name in CAPITAL)
    paid_usd = np.where(is_compared, rented.paid_usd, np.nan)
    saved_usd_per_month = (paid_usd - running) / tco.MONTHS_PER_YEAR
    plain, discounted = (
        np.asarray(tco.payback_months(capex.total, saved_usd_per_month, rate))
        for rate in (0.0, terms.wacc_frac)
    )
    by_hour_usd = np.where(is_compared & rented.is_by_hour, rented.full_usd, np.nan)
    return {
        "breakeven_utilisation_frac": own_usd / by_hour_usd,
        "npv_zero_utilisation_frac": _npv_zero_frac(
            year, by_hour_usd, kwh, terms, rented.carbon_usd_per_kwh
        ),
        "payback_months": np.where(np.isfinite(plain), plain, np.nan),
        "payback_discounted_months": np.where(np.isfinite(discounted), discounted, np.nan),
    }


def _npv_zero_frac(
    year: Ledger, rent_usd: Floats, kwh: YearKwh, terms: CostingTerms, carbon_usd_per_kwh: Floats
) -> Floats:
    """The use u at which a year of owning costs a year of renting by the hour; above 1: never.

    Notes
    -----
    rent u = fixed + p max(W u + I (1 - u), least) + c I (1 - u), with W and I the energy of a
    year of work and of rest, p its price and c its carbon price. The right side is the larger of
    two straight lines, so u is the larger of two crossings.
    """
    p, c = terms.is_hosted * terms.usd_per_kwh, carbon_usd_per_kwh
    fixed = year.total - sum(year.terms[name] for name in (*ENERGY, "carbon_price"))
    rest_usd = (p + c) * kwh.rest_kwh
    taken = _crossing(fixed + rest_usd, rent_usd - p * kwh.work_kwh + rest_usd)
    held = _crossing(fixed + p * kwh.least_kwh + c * kwh.rest_kwh, rent_usd + c * kwh.rest_kwh)
    return np.maximum(taken, held)


def _crossing(fixed_usd: Floats, gained_usd: Floats) -> Floats:
    """Where a rising line meets a fixed cost; NaN where it does not rise."""
    rising = np.where(gained_usd > 0, gained_usd, np.nan)
    return np.asarray(fixed_usd / rising)
