"""A site: what electricity costs there, how clean it is, what the building and the climate take.

Intensities of Electricity Maps (ODbL) and of Ember (CC BY-SA) come from their own files, so that
either file can be left out or replaced without touching ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from costdata.facts import Fact, Row, Table, Tables
from simkernel.errors import MissingFact

Band = tuple[float, float, float]
"""Low, typical, high."""


@dataclass(frozen=True)
class Site:
    """Where a cluster stands.

    Parameters
    ----------
    usd_per_kwh : price band of a large user's electricity [USD/kWh]
    grid_average_kgco2e_per_kwh : yearly average of the grid zone, as consumed [kgCO2e/kWh]
    grid_marginal_kgco2e_per_kwh : yearly mean of the marginal intensity, None where not known;
        of another source than the average: never subtract one from the other
    pue : facility energy over IT energy, band
    wue_onsite_l_per_kwh, wue_offsite_l_per_kwh : water at the site and at the power stations per
        kWh, None where not known
    cfe_frac : hourly carbon-free share that a cloud provider reports there, None where not known
    grid_cfe_frac : yearly carbon-free share of the grid, None where not known
    facts : every value above with its source, by name
    basis : what stands in for a figure that the region lacks, in words
    """

    name: str
    title: str
    country: str
    usd_per_kwh: Band
    grid_average_kgco2e_per_kwh: float
    grid_marginal_kgco2e_per_kwh: float | None
    pue: Band
    wue_onsite_l_per_kwh: float | None
    wue_offsite_l_per_kwh: float | None
    cfe_frac: float | None
    grid_cfe_frac: float | None
    facts: Mapping[str, Fact]
    basis: tuple[str, ...]


def site_of(tables: Tables, name: str) -> Site:
    """The site of a region's name; a figure that other files hold better is taken from there.

    Raises
    ------
    MissingFact : no price of electricity or no grid intensity, each named
    """
    row = tables["regions"][(name,)]
    facts, basis = _gathered(tables, row)
    for column, kind, item in (
        ("pue", "pue", "hyperscale"),
        ("wue_onsite_l_per_kwh", "wue", "onsite"),
    ):
        if column not in facts:
            facts[column] = _stand_in(tables["facility"], kind, item, row.schema[column].unit)
            basis.append(
                f"{column}: none known for {name}; {kind}/{item} of facility.csv stands in"
            )
    _need(name, facts)
    return Site(
        name=name,
        title=row.text("title"),
        country=row.text("country"),
        usd_per_kwh=band_of(facts["usd_per_kwh"]),
        grid_average_kgco2e_per_kwh=band_of(facts["grid_average_kgco2e_per_kwh"])[1],
        grid_marginal_kgco2e_per_kwh=_value(facts, "grid_marginal_kgco2e_per_kwh"),
        pue=band_of(facts["pue"]),
        wue_onsite_l_per_kwh=_value(facts, "wue_onsite_l_per_kwh"),
        wue_offsite_l_per_kwh=_value(facts, "wue_offsite_l_per_kwh"),
        cfe_frac=_value(facts, "cfe_frac"),
        grid_cfe_frac=_value(facts, "grid_cfe_frac"),
        facts=facts,
        basis=tuple(basis),
    )


def band_of(fact: Fact) -> Band:
    """Low, typical and high of a number; a missing end is the typical value."""
    typical = fact.number
    low = typical if fact.low is None else fact.low
    return low, typical, typical if fact.high is None else fact.high


def _gathered(tables: Tables, row: Row) -> tuple[dict[str, Fact], list[str]]:
    facts = dict(row.facts)
    basis = [row.text("note")] if row.text("note") else []
    for table in ("regions_electricity_maps", "regions_ember"):
        side: Table = tables.get(table, {})
        if row.key in side:
            beside = side[row.key]
            facts = {**beside.facts, **facts}
            basis += [beside.text("note")] if beside.text("note") not in ("", *basis) else []
    for other in ("grid_average_ember_kgco2e_per_kwh", "grid_average_owid_kgco2e_per_kwh"):
        if "grid_average_kgco2e_per_kwh" not in facts and other in facts:
            facts["grid_average_kgco2e_per_kwh"] = facts[other]
            basis.append(f"grid average: {other} (national) stands in for the grid zone")
    return facts, basis


def _stand_in(facility: Table, kind: str, item: str, unit: str) -> Fact:
    """A general figure for a site's own: never better than an estimate there."""
    general = facility[(f"{kind}/{item}",)].facts["value"]
    return replace(general, unit=unit, grade="estimate", verified=False)


def _need(name: str, facts: Mapping[str, Fact]) -> None:
    wanted = ("usd_per_kwh", "grid_average_kgco2e_per_kwh")
    faults = [
        f"{column} of site {name} is not in the tables; add it to your own regions.csv"
        for column in wanted
        if column not in facts
    ]
    if faults:
        raise MissingFact(*faults)


def _value(facts: Mapping[str, Fact], name: str) -> float | None:
    return band_of(facts[name])[1] if name in facts else None
