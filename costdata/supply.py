"""Where the electricity of a study comes from, laid over the terms of its sites.

A tariff by the hour or in tiers and sources under contract come down to one price and one
market factor per plan: those of a load that is the same in every hour, at the plan's own kWh.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from costdata.energy_bill import W_PER_KW
from costdata.tariff import (
    Period,
    Source,
    Supplied,
    Tier,
    hours_in,
    matched_market_kgco2e,
    prices_by_hour,
    supplied,
    tiered_year_usd,
)
from costdata.tco import HOURS_PER_YEAR
from costdata.terms import CostingTerms
from simkernel.columns import Floats


@dataclass(frozen=True)
class Supply:
    """A tariff and sources, the same at every site; hours without a period cost the site's price.

    `year` is the calendar year of the bill. Tiers take the place of the site's price.
    """

    year: int
    periods: tuple[Period, ...] = ()
    tiers: tuple[Tier, ...] = ()
    sources: tuple[Source, ...] = ()


def supplied_year(meter_kwh: Floats, usd_per_kwh: Floats, supply: Supply) -> Supplied:
    """The year of the bill of some loads; (n,).

    Parameters
    ----------
    meter_kwh : (n,) of a year of 8,760 h, the same in every hour [kWh]
    usd_per_kwh : (n,) price of the site where neither period nor tier says another
    """
    load_w = np.asarray(meter_kwh, float) / HOURS_PER_YEAR * W_PER_KW
    prices = np.broadcast_to(np.asarray(usd_per_kwh, float), load_w.shape)
    cells = {name: np.zeros(len(load_w)) for name in Supplied.__dataclass_fields__}
    for price in np.unique(prices):
        mine = np.flatnonzero(prices == price)
        by_hour = prices_by_hour(supply.periods, float(price), supply.year)
        part = supplied(load_w[mine], by_hour, supply.sources)
        for name, cell in cells.items():
            cell[mine] = getattr(part, name)
    if supply.tiers:
        cells["grid_usd"] = np.asarray(tiered_year_usd(cells["grid_kwh"], supply.tiers))
    return Supplied(**cells)


def terms_supplied(terms: CostingTerms, meter_kwh: Floats, supply: Supply) -> CostingTerms:
    """Terms with the price and the market factor that a supply comes to for each plan; (m,).

    Parameters
    ----------
    terms : (m,) or one row; `market_kgco2e_per_kwh` is the factor of what the grid gives, the
        residual mix
    meter_kwh : (m,) of a year of 8,760 h

    Notes
    -----
    The price holds at the use given: at another use more or less of a contract would be wasted.
    """
    year = supplied_year(meter_kwh, terms.usd_per_kwh, supply)
    kwh = np.asarray(meter_kwh, float) * hours_in(supply.year) / HOURS_PER_YEAR
    is_load = kwh > 0
    safe_kwh = np.where(is_load, kwh, 1.0)
    residual = np.broadcast_to(terms.market_kgco2e_per_kwh, kwh.shape)
    market = matched_market_kgco2e(year, residual) / safe_kwh
    return replace(
        terms,
        usd_per_kwh=np.where(is_load, year.usd / safe_kwh, terms.usd_per_kwh),
        market_kgco2e_per_kwh=np.where(is_load & bool(supply.sources), market, residual),
    )
