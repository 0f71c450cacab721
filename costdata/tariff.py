"""Electricity bills that change by the hour, by the month's use, or by contract.

Time-of-use prices, monthly tiers, and sources under contract (power purchase agreements, plant
behind the meter) against a load that is the same in every hour of a calendar year: a leap year
has its 8,784. Amounts are US dollars of the year of the bill; which site is not known here.
"""

from __future__ import annotations

import calendar
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from costdata import carbon
from costdata.energy_bill import W_PER_KW
from costdata.tco import MONTHS_PER_YEAR
from simkernel.columns import Codes, Column, Floats, Masks
from simkernel.errors import BadStudy

HOURS_PER_DAY = 24
WEEKDAYS, WEEKENDS, ALL_DAYS = "weekdays", "weekends", "all"
FIRST_WEEKEND_DAY = 5  # Monday is 0 (ISO 8601)


@dataclass(frozen=True)
class Period:
    """Hours with a price of their own; a later period goes before an earlier one.

    `months` 1 to 12; from the hour `from_hour` to before `to_hour`, through midnight where the
    first is the later.
    """

    usd_per_kwh: float
    months: tuple[int, ...] = tuple(range(1, 13))
    days: str = ALL_DAYS
    from_hour: int = 0
    to_hour: int = HOURS_PER_DAY


@dataclass(frozen=True)
class Tier:
    """A price up to so much energy of a month; infinite for the last."""

    usd_per_kwh: float
    up_to_kwh_per_month: float = float("inf")


@dataclass(frozen=True)
class Source:
    """Energy that does not come at the tariff: a contract, or plant behind the meter.

    Parameters
    ----------
    peak_w : what it gives at most, at the meter [W]
    shape_frac : (h,) of that, by the hour of the year
    usd_per_kwh : of what is paid for
    is_paid_as_produced : all of it is paid for, also beyond the load; else what is used
    excess_usd_per_kwh : what is got for energy beyond the load
    kgco2e_per_kwh : of its energy
    is_behind_meter : own plant: its energy never crosses the meter, so that location-based carbon
        and the water of power stations are of the rest
    """

    name: str
    peak_w: float
    shape_frac: Floats
    usd_per_kwh: float
    is_paid_as_produced: bool = True
    excess_usd_per_kwh: float = 0.0
    kgco2e_per_kwh: float = 0.0
    is_behind_meter: bool = False


@dataclass(frozen=True)
class Supplied:
    """A year of a steady load; (n,) each.

    Parameters
    ----------
    grid_usd, contract_usd, sold_usd : the bill is their sum, what is sold below 0
    grid_kwh, matched_kwh, excess_kwh : from the grid, from sources in the same hour, beyond it
    grid_clean_kwh : carbon-free out of the grid's
    source_kgco2e : of the sources' energy that is used
    own_kwh, own_kgco2e : the part of both that is from behind the meter
    """

    grid_usd: Floats
    contract_usd: Floats
    sold_usd: Floats
    grid_kwh: Floats
    matched_kwh: Floats
    excess_kwh: Floats
    grid_clean_kwh: Floats
    source_kgco2e: Floats
    own_kwh: Floats
    own_kgco2e: Floats

    @property
    def usd(self) -> Floats:
        """The bill of the year, demand charges apart."""
        return self.grid_usd + self.contract_usd + self.sold_usd

    @property
    def matched_frac(self) -> Floats:
        """Share of the load that sources meet in the same hour."""
        load_kwh = self.matched_kwh + self.grid_kwh
        return np.asarray(carbon.matched_frac(self.matched_kwh, 0.0, load_kwh))


def hours_in(year: int) -> int:
    """Hours of a calendar year."""
    return (366 if calendar.isleap(year) else 365) * HOURS_PER_DAY


def prices_by_hour(periods: Sequence[Period], usd_per_kwh: float, year: int) -> Floats:
    """Price of every hour of a year; (h,) [$/kWh].

    Parameters
    ----------
    usd_per_kwh : of hours that no period names
    """
    month, weekday, hour = _calendar(year)
    prices = np.full(len(hour), float(usd_per_kwh))
    for period in periods:
        is_named = np.isin(month, period.months) & _is_day(weekday, period.days)
        prices[is_named & _is_hour(hour, period)] = period.usd_per_kwh
    return prices


def tiered_usd(month_kwh: Column, tiers: Sequence[Tier]) -> Column:
    """Energy charge of a month in tiers: each kWh at the price of the tier it falls into.

    Parameters
    ----------
    month_kwh : (n,)
    tiers : in rising order, the last without an end
    """
    usd, start = 0.0 * np.asarray(month_kwh, float), 0.0
    for tier in tiers:
        inside = np.clip(month_kwh, start, tier.up_to_kwh_per_month) - start
        usd = usd + np.maximum(inside, 0.0) * tier.usd_per_kwh
        start = tier.up_to_kwh_per_month
    return usd


def supplied(
    load_w: Floats,
    prices_usd: Floats,
    sources: Sequence[Source],
    grid_clean_frac: Floats | float = 0.0,
) -> Supplied:
    """The year of a load that is the same in every hour.

    Parameters
    ----------
    load_w : (n,) at the meter [W]
    prices_usd : (h,) of the grid by the hour [$/kWh]
    sources : used in order, the first up to the load, then the next
    grid_clean_frac : (h,) or number, carbon-free share of what the grid gives

    Notes
    -----
    Energy of a source is used in the hour it comes or not at all: no storage, no netting over the
    month. For each load the hours below it are a prefix of the sorted hours, so a bill costs the
    logarithm of the hours, whatever the number of loads.

    References
    ----------
    GHG Protocol Scope 2 public consultation, October 2025: matching by the hour.
    """
    load_w = np.asarray(load_w, float)
    before_w = np.zeros(len(prices_usd))
    contract_usd, sold_usd, source_kgco2e, own_kwh, own_kgco2e, met_kwh, lost_kwh = (
        np.zeros(len(load_w)) for _ in range(7)
    )
    for source in sources:
        made_w = source.peak_w * source.shape_frac
        made_kwh = float(made_w.sum()) / W_PER_KW
        after_w = before_w + made_w
        used_kwh = _below(load_w, after_w) - _below(load_w, before_w)
        paid_kwh = made_kwh if source.is_paid_as_produced else used_kwh
        contract_usd += paid_kwh * source.usd_per_kwh
        if source.is_paid_as_produced:
            sold_usd -= (made_kwh - used_kwh) * source.excess_usd_per_kwh
        used_kgco2e = carbon.operational_kgco2e(used_kwh, source.kgco2e_per_kwh)
        source_kgco2e += used_kgco2e
        own_kwh += used_kwh * source.is_behind_meter
        own_kgco2e += used_kgco2e * source.is_behind_meter
        met_kwh, lost_kwh = met_kwh + used_kwh, lost_kwh + made_kwh - used_kwh
        before_w = after_w
    total_kwh = load_w * len(prices_usd) / W_PER_KW
    priced_usd, clean_kwh = (
        load_w * np.broadcast_to(weight, prices_usd.shape).sum() / W_PER_KW
        - _below(load_w, before_w, weight)
        for weight in (prices_usd, grid_clean_frac)
    )
    return Supplied(
        grid_usd=priced_usd,
        contract_usd=contract_usd,
        sold_usd=sold_usd,
        grid_kwh=total_kwh - met_kwh,
        matched_kwh=met_kwh,
        excess_kwh=lost_kwh,
        grid_clean_kwh=np.maximum(clean_kwh, 0.0),  # sums of the sorted hours round
        source_kgco2e=source_kgco2e,
        own_kwh=own_kwh,
        own_kgco2e=own_kgco2e,
    )


def tiered_year_usd(year_kwh: Column, tiers: Sequence[Tier]) -> Column:
    """A year of twelve equal months in tiers."""
    return MONTHS_PER_YEAR * tiered_usd(np.asarray(year_kwh) / MONTHS_PER_YEAR, tiers)


SHAPES = ("flat", "solar", "wind")


def shape_of(name: str, year: int) -> Floats:
    """Output by the hour over its peak: flat, a sine of daylight, or a night-heavy wind; (h,).

    Notes
    -----
    Estimates where no profile of the plant is given: solar is the positive half of a sine from 6
    to 18 h, 1 in July and 0.5 in January (capacity factor 0.24); wind 0.45 in winter nights down
    to 0.25 in summer days (0.35).
    """
    month, _, hour = _calendar(year)
    season = np.cos((month - 7) / 12.0 * 2.0 * np.pi)
    if name == "flat":
        return np.ones(len(hour))
    if name == "solar":
        day = np.maximum(np.sin((hour + 0.5 - 6.0) / 12.0 * np.pi), 0.0)
        return np.asarray(day * (0.75 + 0.25 * season))
    if name == "wind":
        night = np.cos((hour - 2.0) / HOURS_PER_DAY * 2.0 * np.pi)
        return np.asarray(0.35 - 0.05 * season + 0.05 * night)
    raise BadStudy(f"shape {name!r} is not known; give {', '.join(SHAPES)} or 24 shares of a day")


def _below(load_w: Floats, level_w: Floats, weight: Floats | float = 1.0) -> Floats:
    """Sum over the hours of weight x min(load, level) [kWh], (n,) from (n,) loads, (h,) levels."""
    order = np.argsort(level_w, kind="stable")
    sorted_w = level_w[order]
    weights = np.broadcast_to(weight, level_w.shape)[order]
    low = np.concatenate([[0.0], np.cumsum(sorted_w * weights)])
    above = np.concatenate([[0.0], np.cumsum(weights)])
    hours = np.searchsorted(sorted_w, load_w, side="left")
    return np.asarray((low[hours] + load_w * (above[-1] - above[hours])) / W_PER_KW)


def _calendar(year: int) -> tuple[Codes, Codes, Codes]:
    """Month 1 to 12, weekday (Monday 0) and hour 0 to 23 of every hour of a year; (h,) each."""
    first = calendar.weekday(year, 1, 1)
    days = [calendar.monthrange(year, month)[1] for month in range(1, 13)]
    month = np.repeat(np.arange(1, 13), np.array(days) * HOURS_PER_DAY)
    at = np.arange(len(month))
    return month, (at // HOURS_PER_DAY + first) % 7, at % HOURS_PER_DAY


def _is_day(weekday: Codes, days: str) -> Masks:
    is_weekend = weekday >= FIRST_WEEKEND_DAY
    return np.asarray(is_weekend if days == WEEKENDS else ~is_weekend | (days == ALL_DAYS))


def _is_hour(hour: Codes, period: Period) -> Masks:
    begun, not_over = hour >= period.from_hour, hour < period.to_hour
    inside = begun & not_over if period.from_hour < period.to_hour else begun | not_over
    return np.asarray(inside)
