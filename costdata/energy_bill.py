"""Electricity: from what the machines draw to what the meter bills.

Two scopes, never mixed: IT is what servers, network and storage draw, facility is what the meter
sees, PUE times more. The tariff's figures come from the site; which site is not known here.
"""

from __future__ import annotations

import numpy as np

from costdata.tco import HOURS_PER_YEAR, MONTHS_PER_YEAR
from simkernel.columns import Codes, Column, Floats
from simkernel.errors import BadStudy

W_PER_KW = 1000.0  # SI brochure, table 7
DAYS_PER_MONTH = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)  # Gregorian calendar
BILLED_PAST_MONTHS = 11  # AEP Ohio general service schedules (from memory)


def pue_at_load_frac(load_frac: Column, fixed_frac: Column, proportional_frac: Column) -> Column:
    """Power usage effectiveness at part load.

    Parameters
    ----------
    load_frac : (n,) IT load over rated IT load, above 0 [1]
    fixed_frac : overhead that runs at any load, over rated IT load [1]
    proportional_frac : overhead that follows the IT load [1]

    References
    ----------
    PUE(L) = 1 + b + a/L, a form chosen here; at high load it stays inside the 1.07-1.46 of
    Green-Software-Foundation/real-time-cloud.
    """
    return 1.0 + proportional_frac + fixed_frac / load_frac


def climate_frac(wet_bulb_c: Floats, frac_per_k: Column, from_wet_bulb_c: Column) -> Column:
    """What warm and humid hours add to PUE, mean of a year.

    Parameters
    ----------
    wet_bulb_c : (k,) wet-bulb temperatures of equal parts of a year, such as months [C]
    frac_per_k : added per kelvin above where cooling without compressors ends [1/K]
    from_wet_bulb_c : where that is [C]

    References
    ----------
    c max(0, T_wb - T_0), a form chosen here: compressors start where the tower no longer cools.
    """
    added: Column = (frac_per_k * np.maximum(wet_bulb_c - from_wet_bulb_c, 0.0)).mean(axis=0)
    return added


def facility_w(it_w: Column, pue: Column) -> Column:
    """Power at the meter; PUE enters here and nowhere else (ISO/IEC 30134-2)."""
    return it_w * pue


def energy_kwh(mean_w: Column, hours: Column) -> Column:
    """Energy of a mean power over some hours, in the scope of that power."""
    return mean_w * hours / W_PER_KW


def flat_energy_usd(facility_kwh: Column, usd_per_kwh: Column) -> Column:
    """Energy charge at one price; a negative price is an income."""
    return facility_kwh * usd_per_kwh


def hourly_energy_usd(facility_w_by_hour: Floats, usd_per_kwh: Floats) -> Column:
    """Energy charge when the price changes by the hour.

    Parameters
    ----------
    facility_w_by_hour : (h,) or (h, n) mean power of each hour at the meter [W]
    usd_per_kwh : same shape or (h,) [$/kWh]

    Raises
    ------
    BadStudy : the hours do not meet a price each
    """
    if len(facility_w_by_hour) != len(usd_per_kwh):
        raise BadStudy(
            f"the load has {len(facility_w_by_hour)} hours, the prices {len(usd_per_kwh)}; "
            "give both for the same hours (a leap year has 8,784)"
        )
    usd: Column = (energy_kwh(facility_w_by_hour, 1.0) * usd_per_kwh).sum(axis=0)
    return usd


def take_or_pay_kwh(facility_kwh: Column, contract_kwh: Column, minimum_frac: Column) -> Column:
    """Energy that is billed under a contract with a minimum take."""
    return np.maximum(facility_kwh, minimum_frac * contract_kwh)


def month_of_hour(hours: int) -> Codes:
    """Month 0..11 of each hour of a common (8,760 h) or a leap year (8,784 h).

    Raises
    ------
    BadStudy : any other number of hours
    """
    extra = hours - int(HOURS_PER_YEAR)
    if extra not in (0, 24):
        raise BadStudy(f"an hourly year has {hours:,} hours; give 8,760, or 8,784 in a leap year")
    days = np.array(DAYS_PER_MONTH)
    days[1] += extra // 24
    return np.repeat(np.arange(12), 24 * days)


def monthly_peak_w(facility_w_by_hour: Floats) -> Floats:
    """Highest hour of each month, (12,) or (12, n) from (h,) or (h, n) [W].

    Raises
    ------
    BadStudy : the series is not a whole year of hours
    """
    first = np.flatnonzero(np.diff(month_of_hour(len(facility_w_by_hour)), prepend=-1))
    return np.maximum.reduceat(facility_w_by_hour, first, axis=0)


def billed_w(
    peak_w: Column,
    contract_w: Column,
    minimum_frac: Column,
    past_peak_w: Column = 0.0,
    ratchet_frac: Column = 0.0,
) -> Column:
    """Demand a month is billed for: its peak, or what contract and ratchet hold it to.

    Parameters
    ----------
    peak_w : (n,) highest demand of the month [W]
    contract_w, minimum_frac : contracted demand and the least share billed of it
    past_peak_w, ratchet_frac : highest demand of the months before and the share that stays

    References
    ----------
    AEP Ohio data-centre settlement, 2024: 85 % of the contract (60 % before).
    """
    floor = np.maximum(minimum_frac * contract_w, ratchet_frac * past_peak_w)
    return np.maximum(peak_w, floor)


def demand_usd_per_year(billed_by_month_w: Floats | float, usd_per_kw_month: Column) -> Column:
    """Demand charge of a year: twelve equal months from a number, or months on the first axis.

    The penalty is per kW of capacity; energy does not enter.
    """
    months = np.asarray(billed_by_month_w, float)
    if months.ndim == 0:
        return months * MONTHS_PER_YEAR / W_PER_KW * usd_per_kw_month
    year: Column = months.sum(axis=0) / W_PER_KW * usd_per_kw_month
    return year


def ratcheted_w(
    peak_by_month_w: Floats, contract_w: Column, minimum_frac: Column, ratchet_frac: Column
) -> Floats:
    """Billed demand of each month when a share of the highest past month stays billed.

    Parameters
    ----------
    peak_by_month_w : (k,) or (k, n) months in order; the months before the first are unknown
        and taken as no higher than the ones that follow

    Returns
    -------
    same shape [W]
    """
    billed = np.empty_like(peak_by_month_w)
    for month in range(len(billed)):
        past = peak_by_month_w[max(0, month - BILLED_PAST_MONTHS) : month + 1].max(axis=0)
        billed[month] = billed_w(
            peak_by_month_w[month], contract_w, minimum_frac, past, ratchet_frac
        )
    return billed


def blended_usd_per_kwh(energy_usd: Column, demand_usd: Column, facility_kwh: Column) -> Column:
    """All-in price of a kWh once the demand charge is spread over the energy."""
    return (energy_usd + demand_usd) / facility_kwh
