"""Where the electricity of a study comes from, laid over the terms of its sites.

A tariff by the hour or in tiers and sources under contract come down to one price and one
market factor per plan: those of a load that is the same in every hour, at the plan's own kWh.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from costdata import carbon
from costdata.energy_bill import W_PER_KW
from costdata.tariff import (
    Period,
    Source,
    Supplied,
    Tier,
    hours_in,
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
    `grid_clean_frac` is the carbon-free share of the grid by the hour, (h,); None for the site's
    yearly share, flat: an estimate.
    """

    year: int
    periods: tuple[Period, ...] = ()
    tiers: tuple[Tier, ...] = ()
    sources: tuple[Source, ...] = ()
    grid_clean_frac: Floats | None = None


@dataclass(frozen=True)
class Met:
    """How the energy of each plan is met; (m,).

    Parameters
    ----------
    terms : with the price and the factors that the supply comes to
    matched_frac : share met by sources in the same hour
    clean_frac : the same with what is carbon-free of the grid; NaN where that is not known
    own_frac : share from behind the meter
    """

    terms: CostingTerms
    matched_frac: Floats
    clean_frac: Floats
    own_frac: Floats


def unsupplied(terms: CostingTerms, meter_kwh: Floats) -> Met:
    """Everything from the grid, at the terms as they are."""
    nothing = 0.0 * np.asarray(meter_kwh, float)
    return Met(terms, nothing, terms.grid_clean_frac + nothing, nothing)


def supplied_year(
    meter_kwh: Floats, usd_per_kwh: Floats, grid_clean_frac: Floats, supply: Supply
) -> Supplied:
    """The year of the bill of some loads; (n,).

    Parameters
    ----------
    meter_kwh : (n,) of a year of 8,760 h, the same in every hour [kWh]
    usd_per_kwh : (n,) price of the site where neither period nor tier says another
    grid_clean_frac : (n,) carbon-free share of the site's grid; a profile of the supply goes
        before it
    """
    load_w = np.asarray(meter_kwh, float) / HOURS_PER_YEAR * W_PER_KW
    prices, clean = (
        np.broadcast_to(np.asarray(term, float), load_w.shape)
        for term in (usd_per_kwh, grid_clean_frac)
    )
    cells = {name: np.zeros(len(load_w)) for name in Supplied.__dataclass_fields__}
    pairs, code = np.unique(np.stack([prices, clean]), axis=1, return_inverse=True)
    for row, (price, share) in enumerate(pairs.T):
        mine = np.flatnonzero(code.reshape(-1) == row)
        by_hour = prices_by_hour(supply.periods, float(price), supply.year)
        profile = share if supply.grid_clean_frac is None else supply.grid_clean_frac
        part = supplied(load_w[mine], by_hour, supply.sources, profile)
        for name, cell in cells.items():
            cell[mine] = getattr(part, name)
    if supply.tiers:
        cells["grid_usd"] = np.asarray(tiered_year_usd(cells["grid_kwh"], supply.tiers))
    return Supplied(**cells)


def met_by(terms: CostingTerms, meter_kwh: Floats, supply: Supply) -> Met:
    """Price and factors that a supply comes to for each plan; (m,).

    Parameters
    ----------
    terms : (m,) or one row; `market_kgco2e_per_kwh` is the factor of what the grid gives, the
        residual mix
    meter_kwh : (m,) of a year of 8,760 h

    Notes
    -----
    The price holds at the use given: at another use more or less of a contract would be wasted.
    A contract leaves location-based carbon as it is; plant behind the meter puts its own in place
    of the grid's.

    References
    ----------
    GHG Protocol Scope 2 Guidance, ch. 6 (contracts are no part of the location-based figure) and
    ch. 5 (energy made on site and used there is not purchased).
    """
    year = supplied_year(meter_kwh, terms.usd_per_kwh, terms.grid_clean_frac, supply)
    kwh = np.asarray(meter_kwh, float) * hours_in(supply.year) / HOURS_PER_YEAR
    is_load = kwh > 0
    safe_kwh = np.where(is_load, kwh, 1.0)
    own_frac, matched, clean = (
        np.asarray(carbon.matched_frac(part, more, safe_kwh))
        for part, more in (
            (year.own_kwh, 0.0),
            (year.matched_kwh, 0.0),
            (year.matched_kwh, year.grid_clean_kwh),
        )
    )
    residual = np.broadcast_to(terms.market_kgco2e_per_kwh, kwh.shape)
    market = carbon.market_kgco2e(year.grid_kwh, residual, year.source_kgco2e) / safe_kwh
    average, marginal = (
        np.asarray(factor * np.maximum(1.0 - own_frac, 0.0) + year.own_kgco2e / safe_kwh)
        for factor in (terms.grid_average_kgco2e_per_kwh, terms.grid_marginal_kgco2e_per_kwh)
    )
    changed = replace(
        terms,
        usd_per_kwh=np.where(is_load, year.usd / safe_kwh, terms.usd_per_kwh),
        grid_average_kgco2e_per_kwh=average,
        grid_marginal_kgco2e_per_kwh=marginal,
        market_kgco2e_per_kwh=np.where(is_load & bool(supply.sources), market, residual),
    )
    return Met(changed, matched, clean, own_frac)
