"""The money that prices of electricity are in: its currency and its year, of every kind of tariff.

A price of the catalogue has the date of its source; one of the study has the year that it says.
Nothing is moved from one year to another: a reader has to see where years are mixed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from costdata.catalog import Catalog
from costdata.supply import Supply
from costdata.tariff import prices_by_hour
from planner.costing.terms import HOSTED, supply_given
from planner.study.parts import Costing

CURRENCY = "US dollars"

WORDS = {
    "site": "price of {name} per kWh, of {year}",
    "own": "the study's price per kWh, of {year}",
    "hours": "prices by the hour, of {year}",
    "tiers": "prices in tiers, of {year}",
    "source": "contract or plant {name}, of {year}",
    "demand": "demand charge, of {year}",
}
"""What a note says of each kind of price."""

NO_YEAR = "a year that the study does not say (costing.bill_year)"


@dataclass(frozen=True)
class TariffPrice:
    """A price of electricity that a study pays, in `CURRENCY`.

    Parameters
    ----------
    kind : of WORDS
    name : of the site or the source, "" of the others
    year : year, month or day that the price is of; "" where nobody says
    """

    kind: str
    name: str
    year: str


def tariff_prices(costing: Costing, catalog: Catalog) -> list[TariffPrice]:
    """Every price of electricity of a study; none where the rent holds it.

    Raises
    ------
    UnknownName : no such site
    MissingFact, BadStudy : as `terms.supply_given`
    """
    if costing.acquire not in HOSTED:
        return []
    supply = supply_given(costing)
    year = "" if costing.bill_year is None else str(costing.bill_year)
    found = []
    if costing.time_of_use:
        found.append(TariffPrice("hours", "", year))
    if costing.energy_tiers:
        found.append(TariffPrice("tiers", "", year))
    found += [TariffPrice("source", source.name, year) for source in costing.sources]
    if supply is None or not _names_every_kwh(supply):
        found += _flat_prices(costing, catalog, year)
    if costing.demand_usd_per_kw_month:
        found.append(TariffPrice("demand", "", year))
    return found


def _flat_prices(costing: Costing, catalog: Catalog, year: str) -> list[TariffPrice]:
    """The price of a kWh of the study, else of each of its sites."""
    if costing.usd_per_kwh is not None:
        return [TariffPrice("own", "", year)]
    return [
        TariffPrice("site", site, catalog.site(site).facts["usd_per_kwh"].as_of)
        for site in costing.site
    ]


def _names_every_kwh(supply: Supply) -> bool:
    """Tiers, or periods that leave no hour: the site's own price is paid for nothing."""
    by_hour = prices_by_hour(supply.periods, np.nan, supply.year)
    return bool(supply.tiers) or bool(np.isfinite(by_hour).all())


def tariff_note(costing: Costing, catalog: Catalog) -> dict[str, str]:
    """The same as the note "electricity"; none where the rent holds it."""
    told = [
        WORDS[price.kind].format(name=price.name, year=price.year or NO_YEAR)
        for price in tariff_prices(costing, catalog)
    ]
    return {"electricity": f"billed in {CURRENCY}: {'; '.join(told)}"} if told else {}
