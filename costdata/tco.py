"""Money over time: capital, rent and tokens as dollars of one moment or of one year.

Amounts are nominal unless a rate made by `real_rate_frac` is used throughout. An unknown (NaN)
goes through every equation as unknown; who may not pass is refused by the bill. What anything
costs is not known here.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from simkernel.columns import Column, Floats, Masks

HOURS_PER_YEAR = 8760.0  # 365 x 24 h, GSF SCI SPEC.md; a leap year has 8,784 (energy_bill)
MONTHS_PER_YEAR = 12.0  # calendar
S_PER_HOUR = 3600.0  # SI brochure, table 8
MACRS_5_YEAR_FRAC = (0.2, 0.32, 0.192, 0.1152, 0.1152, 0.0576)  # IRS Pub. 946 table A-1


def capital_recovery_frac(rate_frac: Column, life_years: Column) -> Column:
    """Yearly payment that repays one unit of capital with interest over its life.

    Parameters
    ----------
    rate_frac : (n,) or number, discount rate per year, above -1 [1]
    life_years : (n,) or number, may be infinite [year]

    Returns
    -------
    (n,) share of the capital per year; 1/life at zero rate, the rate itself for an endless life

    References
    ----------
    PyPSA pypsa/costs.py `annuity`: r / (1 - (1 + r)^-n).
    """
    rate, is_endless = np.asarray(rate_frac, float), np.isinf(life_years)
    life = np.where(is_endless, 1.0, life_years)
    is_free = np.abs(rate) < 1e-12  # below it the interest is lost in the rounding
    paid = np.where(is_free, 1.0, rate)
    annuity = np.where(is_free, 1 / life, paid / -np.expm1(-life * np.log1p(paid)))
    share: Floats = np.where(is_endless, np.maximum(rate, 0.0), annuity)
    return share


def present_frac(rate_frac: Column, years: Column) -> Column:
    """Worth today of one unit paid after some years; 0 for a payment that never comes.

    References
    ----------
    Definition of the discount factor: (1 + r)^-n.
    """
    is_never = np.isinf(years)
    worth = np.exp(-np.where(is_never, 0.0, years) * np.log1p(rate_frac))
    today: Floats = np.where(is_never, 0.0 * worth, worth)
    return today


def present_worth_frac(
    rate_frac: Column, escalation_frac: Column, life_years: Column, first_growth_year: int = 1
) -> Column:
    """Worth today of one unit paid at the end of every year and growing.

    Parameters
    ----------
    rate_frac, escalation_frac : (n,) or number, discount and growth per year [1]
    life_years : (n,) or number of payments [year]
    first_growth_year : 1 when the first payment has already grown (REopt `annuity`),
        2 when it has not yet (REopt `annuity_escalation`)

    References
    ----------
    REopt.jl src/core/utils.jl `annuity`: x (1 - x^N) / (1 - x) with x = (1 + e)/(1 + d).
    """
    growth = np.log1p(escalation_frac) - np.log1p(rate_frac)
    is_level = growth == 0
    safe = np.where(is_level, 1.0, growth)
    series = np.exp(safe) * np.expm1(life_years * safe) / np.expm1(safe)
    worth = np.where(is_level, life_years + 0.0 * growth, series)
    return worth / (1.0 + np.asarray(escalation_frac)) ** (first_growth_year - 1)


def npv_usd(cash_usd: npt.ArrayLike, rate_frac: Column) -> Column:
    """Worth today of yearly payments; the first row is today.

    Parameters
    ----------
    cash_usd : (k,) or (k, n) payment after 0, 1, ... k-1 years, costs and incomes by sign [$]
    rate_frac : number or (n,) [1]
    """
    cash = np.asarray(cash_usd, float)
    years = np.arange(len(cash), dtype=float).reshape(-1, *[1] * (cash.ndim - 1))
    worth: Column = (cash * present_frac(rate_frac, years)).sum(axis=0)
    return worth


def real_rate_frac(nominal_frac: Column, inflation_frac: Column) -> Column:
    """Discount rate for amounts in the money of today (Fisher's identity)."""
    return (1.0 + nominal_frac) / (1.0 + inflation_frac) - 1.0


def annual_capital_usd(
    capex_usd: Column, residual_usd: Column, rate_frac: Column, life_years: Column
) -> Column:
    """Equal yearly payments for an asset that is sold for a residual at the end of its life.

    Parameters
    ----------
    capex_usd, residual_usd : (n,) paid today, received after the life, not discounted [$]

    References
    ----------
    CRF (overnight - residual/(1 + r)^n): PyPSA costs.py; order of terms as in
    tests/anchors/cost_carbon.toml G2.
    """
    net = capex_usd - residual_usd * present_frac(rate_frac, life_years)
    return capital_recovery_frac(rate_frac, life_years) * net


def effective_capex_usd(
    capex_usd: Column,
    tax_frac: Column,
    rate_frac: Column,
    credit_frac: Column = 0.0,
    bonus_frac: Column = 0.0,
    schedule_frac: tuple[float, ...] = MACRS_5_YEAR_FRAC,
    basis_reduction_frac: float = 0.5,  # REopt.jl macrs_itc_reduction: half of the credit
) -> Column:
    """Capital left to carry after depreciation has lowered the tax.

    Parameters
    ----------
    tax_frac, credit_frac, bonus_frac : (n,) income tax, investment credit (year 1), share
        written off in year 1 [1]
    schedule_frac : share written off at the end of years 1, 2, ...

    References
    ----------
    REopt.jl src/core/utils.jl `effective_cost`.
    """
    basis = capex_usd * (1.0 - basis_reduction_frac * credit_frac)
    first = tax_frac * basis * bonus_frac + capex_usd * credit_frac
    shield = first * present_frac(rate_frac, 1.0)
    for year, share in enumerate(schedule_frac, start=1):
        written_off = tax_frac * basis * (1.0 - bonus_frac) * share
        shield = shield + written_off * present_frac(rate_frac, float(year))
    return capex_usd - shield


def usd_per_device_hour(
    usd_per_year: Column,
    devices: Column,
    sold_frac: Column = 1.0,
    hours_per_year: float = HOURS_PER_YEAR,
) -> Column:
    """Levelised cost of a device-hour: the whole yearly cost over the hours put to use.

    References
    ----------
    (sum of CRF x CapEx + yearly costs) / (N x 8,760 x sold): tests/anchors/cost_carbon.toml G2.
    """
    return usd_per_year / (devices * hours_per_year * sold_frac)


def levelised_usd(cost_usd: npt.ArrayLike, output: npt.ArrayLike, rate_frac: Column) -> Column:
    """Cost of one unit of output when both come over years: both are discounted.

    Parameters
    ----------
    cost_usd, output : (k,) or (k, n) in year 0, 1, ...; output in any unit

    References
    ----------
    Levelised cost, OSeMOSYS Global PR 254: an undiscounted denominator is wrong once volume grows.
    """
    return npv_usd(cost_usd, rate_frac) / npv_usd(output, rate_frac)


def usd_per_mtoken(usd_per_hour: Column, tokens_per_s: Column) -> Column:
    """Cost of a million tokens of one kind from a fleet's hourly cost.

    Parameters
    ----------
    usd_per_hour : (n,) of all devices deployed, spares and other pools included [$/h]
    tokens_per_s : (n,) input, output or both: the caller says which in the name it gives

    References
    ----------
    InferenceX docs/tco-calculator.md: $/h x (1e6/tokens_per_s)/3600.
    """
    return usd_per_hour * (1e6 / tokens_per_s) / S_PER_HOUR


def breakeven_utilisation_frac(
    own_usd_per_device_hour: Column, rent_usd_per_device_hour: Column
) -> Column:
    """Share of the hours above which owning is cheaper than renting by the hour.

    Above 1 owning never pays.

    References
    ----------
    own/rent at full use: tests/anchors/cost_carbon.toml G11.
    """
    return own_usd_per_device_hour / rent_usd_per_device_hour


def payback_months(
    capex_usd: Column, saving_usd_per_month: Column, rate_frac: Column = 0.0
) -> Column:
    """Months until monthly savings have repaid the capital; infinite when they never do.

    Parameters
    ----------
    saving_usd_per_month : (n,) rent avoided less own running cost [$/month]
    rate_frac : (n,) per year; 0 gives the undiscounted payback [1]

    Returns
    -------
    (n,) [month]; a report that can not say "never" leaves the key out

    References
    ----------
    gpu-tco tco.js (CapEx / (rent - own opex)); discounted: -ln(1 - C i/s)/ln(1 + i),
    i = (1 + r)^(1/12) - 1.
    """
    step = np.log1p(rate_frac) / MONTHS_PER_YEAR
    is_free = step == 0
    saving = np.asarray(saving_usd_per_month, float)
    is_losing: Masks = saving <= 0
    ratio = capex_usd / np.where(is_losing, 1.0, saving)
    needed = ratio * np.expm1(step)
    is_never = (is_losing & (np.asarray(capex_usd) > 0)) | (needed >= 1)
    reached = np.where(is_never, 0.0, needed)
    discounted = -np.log1p(-reached) / np.where(is_free, 1.0, step)
    months: Floats = np.where(is_free, ratio, discounted)
    return np.where(is_never, np.inf, np.maximum(months, 0.0))
