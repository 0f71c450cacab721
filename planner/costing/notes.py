"""What a reader of a costing must know: its basis and money, where prices are from, what is NULL.

Sentences only; nothing is computed from them.
"""

from __future__ import annotations

from collections.abc import Mapping

from costdata.catalog import Catalog
from costdata.quotes import chip_prices
from planner.costing.price_desk import api_of
from planner.costing.second_pass import Costed
from planner.costing.tariff_money import tariff_note
from planner.costing.terms import supply_given, terms_of
from planner.fleet.options import by_the_hour
from planner.runs.kinds import kind_of
from planner.study.parts import Costing
from planner.study.read import Study
from planner.study.settings import PRICES

BOUGHT = ("buy", "lease")
"""Ways to acquire that pay the price of a purchase."""


def costing_notes(study: Study, catalog: Catalog, costed: Costed | None) -> dict[str, str]:
    """Notes by name: those of the kind of study, "money", "price CHIP", "NULL METRIC".

    "electricity" is there where it is paid apart from the rent, and tells the money of its prices;
    "idle_prices" is there where a price is given that nothing is bought at.

    Parameters
    ----------
    costed : None where nothing was feasible
    """
    notes = {**kind_of(study).notes(study, catalog), "money": _money(study.costing, catalog)}
    notes |= tariff_note(study.costing, catalog)
    notes["scopes"] = scopes_note(study.costing)
    if supply := supply_note(study.costing):
        notes["supply"] = supply
    if api := api_of(study, catalog):
        notes["api"] = f"API prices: {'; '.join(price.told() for price in api)}; the lowest counts"
    if idle := idle_prices_note(study.costing):
        notes["idle_prices"] = idle
    if costed is None:
        return notes
    costing = by_the_hour(study.costing) if study.kind == "fleet" else study.costing
    for chip in costed.chips:
        notes[f"price {chip}"] = price_note(costing, catalog, chip)
    return notes | {f"NULL {name}": why for name, why in costed.reasons.items()}


def scopes_note(costing: Costing) -> str:
    """Which scope of the GHG Protocol each column of carbon belongs to.

    References
    ----------
    GHG Protocol Corporate Standard (scope 2) and Corporate Value Chain Standard (scope 3,
    categories 1 and 2); Scope 2 Guidance, ch. 6: both accountings are reported.
    """
    if costing.acquire not in BOUGHT:
        return (
            "rented: operational_kgco2e and embodied_kgco2e are the provider's; for the renter "
            "both are scope 3, category 1 (purchased services)"
        )
    return (
        "operational_kgco2e is scope 2: location-based in location_average_kgco2e, market-based "
        "in market_kgco2e (report both); embodied_kgco2e is scope 3, category 2 (capital goods); "
        "fuel of own plant behind the meter (scope 1) is in all three, at the factor given"
    )


def supply_note(costing: Costing) -> str:
    """What bills by the hour and contracts rest on; "" where there are none."""
    supply = supply_given(costing)
    if supply is None:
        return ""
    words = [
        f"electricity is billed on the calendar of {supply.year}, for a load that is the same in "
        "every hour"
    ]
    guessed = [s.name for s in costing.sources if isinstance(s.shape, str) and s.shape != "flat"]
    if guessed:
        words.append(
            f"the shape of {', '.join(guessed)} is an estimate: give 24 shares of its own"
        )
    if costing.sources:
        words.append(
            "sources are matched by the hour; excess is not netted; the grid's part has "
            "the market factor given, which should be the residual mix"
        )
        if not costing.grid_cfe_by_hour:
            words.append(
                "the carbon-free share of the grid is taken flat over the day, an estimate"
            )
    return "; ".join(words)


def price_note(costing: Costing, catalog: Catalog, chip: str) -> str:
    """Where the price and the rent of a chip come from."""
    all_in: Mapping[str, float] = {**costing.all_in_usd_per_device, **costing.all_in_usd_per_unit}
    own, rent = costing.price_usd, costing.rent_usd_per_device_hour
    (words,) = chip_prices(catalog, chip, costing.acquire, own, rent, costing.rent_plan).notes
    told = words.removeprefix(f"{chip}: ")
    return f"price: the study's own, all in; {told.split('; ')[-1]}" if chip in all_in else told


def idle_prices_note(costing: Costing) -> str:
    """Which prices of a purchase a study gives although it rents; "" where none is idle."""
    given = [f"costing.{name}" for name in PRICES if getattr(costing, name)]
    if costing.acquire in BOUGHT or not given:
        return ""
    return (
        f"{' and '.join(given)} {'has' if len(given) == 1 else 'have'} no effect with "
        f'costing.acquire = "{costing.acquire}"; give costing.rent_usd_per_device_hour, or '
        'acquire = "buy"'
    )


def _money(costing: Costing, catalog: Catalog) -> str:
    """The money that amounts are in and the rate at which they are discounted."""
    rate = float(terms_of(costing, catalog).wacc_frac[0])
    discounted = f"usd and usd_per_year carry interest at {rate:.4g} a year"
    if costing.money == "nominal":
        return f"nominal US dollars; {discounted}; payback_months is not discounted"
    return (
        f"real US dollars, of today; {discounted}, which is the nominal rate less an inflation of "
        f"{costing.inflation_frac:.4g}; payback_months is not discounted"
    )
