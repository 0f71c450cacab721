"""Catalogue facts as the columns that costing reads: parts, prices, site terms.

One row per chip or per site; rows are stacked and taken by code. Every stand-in is told in
`notes`, and `facts` holds what a quote rests on. No cost is computed here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from statistics import median
from typing import Generic, TypeVar

import numpy as np

from costdata.catalog import Catalog
from costdata.depreciation import DEPRECIATION
from costdata.domain_network import COPPER, FIBRE, OPTIC, SWITCH
from costdata.ends import TYPICAL, end_of, part_usd, part_w, quantities, value_of
from costdata.facts import Fact
from costdata.hardware_cost import Prices
from costdata.network_build import TIERS_MOST
from costdata.offers import Part, Rent
from costdata.purchase import PurchaseUnit
from costdata.sites import Site
from costdata.terms import ACQUIRE, CARBON, CostingTerms
from simkernel.columns import Codes, Column, Floats, Masks
from simkernel.errors import BadStudy, MissingFact, unknown
from simkernel.hardware import Columns

T = TypeVar("T", bound=Columns)

RESIDUAL_YEARS = 3.0  # residual/after_36_months of facility.csv is a share after three years
NETWORK_LIFE_YEARS = 5.0  # epoch.ai ai-datacenter-cost-breakdown: IT 5; networks serve 5 to 6
BUILDING_WRITE_OFF = "macrs_15"  # IRS Pub. 946 ch. 4: improvements; a bare shell takes macrs_39
STAFF_USD_PER_YEAR = 45_000.0  # gpu-tco@d8c6534 DEFAULTS: yearly cost of one operator; localise
BUNDLE_PORTS = 8.0  # latent.space cluster sheet: cabling is sold per node of eight ports
OPTICS_PER_LINK = 2.0  # a transceiver at each end
STORAGE = "storage-nvl72-rack"
STORAGE_PB = 2.0  # investing.com, Bernstein: 20,000 USD buy the 2 PB of a rack

RENT_PLANS = {
    "buy": ("reserved_3y", "reserved_1y", "on_demand"),
    "lease": (),
    "reserved": ("reserved_3y", "reserved_1y"),
    "on_demand": ("on_demand",),
    "spot": ("spot",),
}
"""Rents that answer an acquisition, best first; for "buy" the alternative to compare with."""

BY_HOUR = ("on_demand", "spot")
"""Rents that are paid for the hours used; of the others every hour is paid."""


@dataclass(frozen=True)
class Quoted(Generic[T]):
    """A table, what had to stand in, and the facts it rests on by name."""

    table: T
    notes: tuple[str, ...]
    facts: Mapping[str, Fact]


@dataclass(frozen=True)
class RoomParts(Columns):
    """What stands beside the servers, for host ports of one rate; (k,).

    `radix`: switch ports at that rate. `port_links_usd` (k, 4): connectors and cables of one host
    port with 0 to 3 switch layers. `link_w`: optics at both ends. `nic_w`: the card of a host
    port. `domain_*` join units to scale-up domains. Storage is bulk storage: a parallel file
    system on flash costs 25 times as much.
    """

    radix: Floats
    switch_usd: Floats
    switch_w: Floats
    port_links_usd: Floats
    link_w: Floats
    nic_w: Floats
    storage_usd_per_pb: Floats
    head_node_usd: Floats
    domain_switch_usd: Floats
    domain_optic_usd: Floats
    domain_cable_usd: Floats
    domain_fibre_usd: Floats
    domain_switch_w: Floats
    domain_optic_w: Floats
    domain_cable_w: Floats


@dataclass(frozen=True)
class ChipPrices(Columns):
    """What a chip's servers cost and rent for; (k,) [$], NaN where nothing is known."""

    unit_usd: Floats
    unit_is_estimate: Masks
    rent_usd_per_device_hour: Floats
    rent_is_by_hour: Masks


def stacked(tables: Iterable[T]) -> T:
    """Rows of several tables under each other."""
    every = list(tables)
    columns = {
        f.name: np.concatenate([getattr(table, f.name) for table in every])
        for f in fields(every[0])
    }
    return type(every[0])(**columns)


def room_parts(catalog: Catalog, port_bytes_per_s: float, end: int = TYPICAL) -> Quoted[RoomParts]:
    """Switch, cabling and optics for host ports of some rate, storage and head nodes.

    Parameters
    ----------
    port_bytes_per_s : one host port, one direction

    Notes
    -----
    The slowest switch that is fast enough; a faster port is split, a slower one is bundled.
    Cabling is priced per bit/s from the 400 Gb/s bundles.

    Raises
    ------
    MissingFact : a switch or a bundle without a price
    """
    switch = fitting(catalog, "switch", port_bytes_per_s)
    optic = fitting(catalog, "optic", port_bytes_per_s)
    card = fitting(catalog, "nic", port_bytes_per_s)
    bundles = sorted(
        (p for p in catalog.parts.values() if p.kind == "bundle"), key=lambda p: p.name
    )
    radix = switch.ports * _split(switch.port_bytes_per_s, port_bytes_per_s)
    links = [0.0] + [
        part_usd(p, end) / BUNDLE_PORTS * port_bytes_per_s / p.port_bytes_per_s for p in bundles
    ]
    if len(links) != TIERS_MOST + 1:
        raise MissingFact(f"cabling is priced for {len(bundles)} layers; wanted {TIERS_MOST}")
    share = min(port_bytes_per_s / optic.port_bytes_per_s, 1.0)
    carded = min(port_bytes_per_s / card.port_bytes_per_s, 1.0)
    storage = catalog.parts[STORAGE]
    table = RoomParts(
        radix=np.array([np.floor(radix)]),
        switch_usd=np.array([part_usd(switch, end)]),
        switch_w=np.array([part_w(switch, end)]),
        port_links_usd=np.array([links]),
        link_w=np.array([OPTICS_PER_LINK * part_w(optic, end) * share]),
        nic_w=np.array([part_w(card, end) * carded]),
        storage_usd_per_pb=np.array([part_usd(storage, end) / STORAGE_PB]),
        head_node_usd=np.array([end_of(catalog.planning_fact("head_node_usd"), end)]),
        **_domain_parts(catalog, end),
    )
    facts = {
        f"network.{part.name}.{key}": fact
        for part in (switch, optic, card, *bundles, storage, catalog.parts[FIBRE])
        for key, fact in quantities(part.facts).items()
    }
    notes = f"network: {switch.title} as {radix:.0f} ports of {port_bytes_per_s * 8e-9:g} Gb/s"
    return Quoted(table, (notes,), facts)


def _domain_parts(catalog: Catalog, end: int) -> dict[str, Floats]:
    """Price and draw of what joins units to scale-up domains."""
    found = {}
    for kind, name in (("switch", SWITCH), ("optic", OPTIC), ("cable", COPPER)):
        part = catalog.parts[name]
        found[f"domain_{kind}_usd"] = np.array([part_usd(part, end)])
        found[f"domain_{kind}_w"] = np.array([part_w(part, end)])
    return {**found, "domain_fibre_usd": np.array([part_usd(catalog.parts[FIBRE], end)])}


def chip_prices(
    catalog: Catalog,
    accelerator: str,
    acquire: str = "buy",
    price_usd: Mapping[str, float] | None = None,
    rent_usd_per_device_hour: float | None = None,
    rent_plan: str | None = None,
    end: int = TYPICAL,
) -> Quoted[ChipPrices]:
    """What servers of a chip cost, and what the chip rents for.

    Parameters
    ----------
    acquire : one of ACQUIRE; chooses which rents count
    price_usd : the study's own prices: per device as bought, server included, by the chip's name;
        of the whole by the server's name
    rent_usd_per_device_hour : the study's own rent
    rent_plan : "reserved", "on_demand" or "spot", what a purchase is compared with; None takes the
        best rent known, and the study's own as a rent by the hour

    Raises
    ------
    UnknownName : no such chip or acquisition
    """
    if acquire not in ACQUIRE:
        raise unknown("acquisition", acquire, ACQUIRE)
    name = catalog.accelerator_name(accelerator)
    unit = catalog.purchase_unit(name)
    usd, is_estimate, words = _unit_price(catalog, unit, price_usd or {}, end)
    wanted = (rent_plan or acquire) if acquire == "buy" else acquire
    rent, is_by_hour, rent_words = (
        (rent_usd_per_device_hour, wanted in ("buy", *BY_HOUR), "rent: the study's own")
        if rent_usd_per_device_hour is not None
        else _rent(catalog, name, wanted, end)
    )
    table = ChipPrices(
        np.array([usd]), np.array([is_estimate]), np.array([rent]), np.array([is_by_hour])
    )
    facts = {f"servers.{unit.name}.{key}": fact for key, fact in quantities(unit.facts).items()}
    return Quoted(table, (f"{name}: {words}; {rent_words}",), facts)


def prices(chips: ChipPrices, parts: RoomParts, tiers: Floats, above_frac: Column = 1.0) -> Prices:
    """Prices of every row once its number of switch layers is known.

    Parameters
    ----------
    chips, parts : (m,) or one row
    tiers : (m,) of the hardware bill; a fabric of more layers than can be built, which a limit
        forbids, has the links of the most that can
    above_frac : (m,) cables laid above the leaves over those of full bisection: what a layer adds
        to the price of a port is that of its cables
    """
    code: Codes = np.minimum(tiers, TIERS_MOST).astype(np.int64)
    per_port = np.broadcast_to(parts.port_links_usd, (len(code), TIERS_MOST + 1))

    of_port = np.take_along_axis(per_port, code[:, None], axis=1)[:, 0]
    of_leaf = np.minimum(per_port[:, 1], of_port)

    def spread(value: Floats | float) -> Floats:
        return np.broadcast_to(np.asarray(value, float), code.shape)

    return Prices(
        unit_usd=spread(chips.unit_usd),
        unit_is_estimate=np.broadcast_to(chips.unit_is_estimate, code.shape),
        switch_usd=spread(parts.switch_usd),
        port_links_usd=of_leaf + (of_port - of_leaf) * np.asarray(above_frac),
        nic_usd=spread(0.0),  # servers and racks of servers.csv come with their network cards
        storage_usd_per_pb=spread(parts.storage_usd_per_pb),
        head_node_usd=spread(parts.head_node_usd),
        domain_switch_usd=spread(parts.domain_switch_usd),
        domain_optic_usd=spread(parts.domain_optic_usd),
        domain_cable_usd=spread(parts.domain_cable_usd),
        domain_fibre_usd=spread(parts.domain_fibre_usd),
        rent_usd_per_device_hour=spread(chips.rent_usd_per_device_hour),
        rent_is_by_hour=np.broadcast_to(chips.rent_is_by_hour, code.shape),
    )


def site_terms(
    catalog: Catalog,
    sites: Sequence[str],
    own: Mapping[str, float] | None = None,
    acquire: str = "buy",
    accounting: str = "location_average",
    end: int = TYPICAL,
) -> Quoted[CostingTerms]:
    """Terms of each site, in the order given; the study's own figures go before the catalogue's.

    Parameters
    ----------
    own : field of CostingTerms to a number for all sites; also `life_years` (IT, network and
        carbon) and `grid_kgco2e_per_kwh` (the marginal one if that is chosen, else the average)
    end : end of the bands of price, PUE, colocation, upkeep, residual and staff; interest and
        lives have none, they are chosen

    Notes
    -----
    Without a figure of its own a study has no demand charge, no carbon price, no contract and is
    colocated. The residual falls by the same share every year.

    Raises
    ------
    UnknownName : no such site, acquisition or accounting
    BadStudy : a figure that is no term of costing
    """
    for kind, given, known in (
        ("acquisition", acquire, ACQUIRE),
        ("accounting", accounting, CARBON),
    ):
        if given not in known:
            raise unknown(kind, given, known)
    chosen = _own_terms(own or {}, accounting)
    general, facts = _general(catalog, chosen, end)
    rows, notes = [], []
    for name in sites:
        site = catalog.site(name)
        colo = catalog.facility("colo", "us_primary" if site.country == "USA" else "global")
        row = {
            **general,
            **_of_site(site, end),
            "colo_usd_per_kw_month": end_of(colo, end),
            **chosen,
        }
        if chosen.get("facility_usd_per_w") and "colo_usd_per_kw_month" not in chosen:
            row["colo_usd_per_kw_month"] = 0.0
        rows.append({**row, "acquire_code": ACQUIRE.index(acquire)})
        facts |= {
            f"regions.{site.name}.{key}": fact for key, fact in quantities(site.facts).items()
        }
        facts[f"facility.colo.{site.country}"] = colo
        notes += [f"{site.name}: {words}" for words in site.basis]
    columns = {
        f.name: np.array([row[f.name] for row in rows], int if f.name.endswith("code") else float)
        for f in fields(CostingTerms)
    }
    return Quoted(CostingTerms(**columns), tuple(notes), facts)


def _own_terms(own: Mapping[str, float], accounting: str) -> dict[str, float]:
    """The study's figures by field."""
    lives = ("it_life_years", "network_life_years", "embodied_life_years")
    is_marginal = accounting == "location_marginal"
    factor = f"grid_{'marginal' if is_marginal else 'average'}_kgco2e_per_kwh"
    spread = {"life_years": lives, "grid_kgco2e_per_kwh": (factor,)}
    known = {f.name for f in fields(CostingTerms)} - {"acquire_code"}
    strange = [name for name in own if name not in known and name not in spread]
    if strange:
        raise BadStudy(
            *(f"{name} is no term of costing; known: {sorted(known)}" for name in strange)
        )
    several = {field: own[name] for name in spread if name in own for field in spread[name]}
    return {**several, **{name: value for name, value in own.items() if name in known}}


def _general(
    catalog: Catalog, own: Mapping[str, float], end: int
) -> tuple[dict[str, float], dict[str, Fact]]:
    """Terms that are the same everywhere, and the facts they come from."""
    facts = {
        f"facility.{kind}.{item}": catalog.facility(kind, item)
        for kind, item in (
            ("wacc", "default"),
            ("life", "it"),
            ("life", "facility"),
            ("residual", "after_36_months"),
            ("maintenance", "annual"),
            ("staff", "small_fleet"),
        )
    }
    wacc, it_life, hall_life = map(value_of, list(facts.values())[:3])
    residual, upkeep, people = (end_of(fact, end) for fact in list(facts.values())[3:])
    life = own.get("it_life_years", it_life)
    return {
        "wacc_frac": wacc,
        "it_life_years": life,
        "network_life_years": NETWORK_LIFE_YEARS,
        "storage_life_years": own.get("storage_life_years", life),
        "facility_life_years": hall_life,
        "residual_frac": residual ** (life / RESIDUAL_YEARS),
        "maintenance_frac": upkeep,
        "insurance_frac": 0.0,
        "software_usd_per_device_year": 0.0,
        "tax_frac": 0.0,
        "credit_frac": 0.0,
        "bonus_frac": 0.0,
        "depreciation_code": DEPRECIATION.index("macrs_5"),
        "facility_depreciation_code": DEPRECIATION.index(BUILDING_WRITE_OFF),
        "demand_usd_per_kw_month": 0.0,
        "minimum_billing_frac": 0.0,
        "contract_w": 0.0,
        "past_peak_w": 0.0,
        "ratchet_frac": 0.0,
        "minimum_take_frac": 0.0,
        "facility_usd_per_w": 0.0,
        "staff_usd_per_year": people * STAFF_USD_PER_YEAR,
        "market_kgco2e_per_kwh": np.nan,
        "carbon_usd_per_t": 0.0,
        "utilisation_frac": 1.0,
        "embodied_life_years": life,
        "facility_kgco2e_per_w": 0.0,
        "pue_fixed_frac": 0.0,
        "pue_proportional_frac": np.nan,
        "pue_climate_frac": 0.0,
        "power_oversubscription": 1.0,
        "headroom_frac": catalog.planning("provision_headroom_frac"),
    }, facts


def _of_site(site: Site, end: int) -> dict[str, float]:
    def known(value: float | None) -> float:
        return np.nan if value is None else value

    return {
        "usd_per_kwh": site.usd_per_kwh[end],
        "pue": site.pue[end],
        "grid_average_kgco2e_per_kwh": site.grid_average_kgco2e_per_kwh,
        "grid_marginal_kgco2e_per_kwh": known(site.grid_marginal_kgco2e_per_kwh),
        "grid_clean_frac": known(site.grid_cfe_frac),
        "wue_onsite_l_per_kwh": known(site.wue_onsite_l_per_kwh),
        "wue_offsite_l_per_kwh": known(site.wue_offsite_l_per_kwh),
    }


def _unit_price(
    catalog: Catalog, unit: PurchaseUnit, own: Mapping[str, float], end: int
) -> tuple[float, bool, str]:
    """Price of the whole, whether it is an estimate, and where it comes from."""
    if unit.name in own:
        return own[unit.name], False, f"price: the study's own for a {unit.name}"
    by_chip = {catalog.resolve("accelerator", name): usd for name, usd in own.items()}
    if unit.accelerator in by_chip:
        return (
            by_chip[unit.accelerator] * unit.devices,
            False,
            "price: the study's own, per device",
        )
    if unit.price_usd is None:
        return np.nan, False, unit.basis
    return unit.price_usd[end], unit.is_estimate, unit.basis


def rents_of(catalog: Catalog, accelerator: str, wanted: str) -> tuple[str, list[Rent]]:
    """The first rent plan with a price, and its prices; "" and none where nobody rents it out.

    Parameters
    ----------
    wanted : of RENT_PLANS
    """
    for plan in RENT_PLANS[wanted]:
        if found := catalog.rent(accelerator, plan):
            return plan, found
    return "", []


def _rent(catalog: Catalog, name: str, acquire: str, end: int) -> tuple[float, bool, str]:
    """Lowest, median or highest of the known rents on the first plan that has any.

    Returns
    -------
    rent, NaN where none is known; whether it is paid for used hours only; where it is from
    """
    plan, found = rents_of(catalog, name, acquire)
    if not found:
        return np.nan, False, "rent: none is known"
    usd = (min, median, max)[end](rent.usd_per_device_hour for rent in found)
    dates = sorted(rent.as_of for rent in found)
    words = f"rent: median of {len(found)} {plan} prices, {dates[0]} to {dates[-1]}"
    return usd, plan in BY_HOUR, words


def fitting(catalog: Catalog, kind: str, port_bytes_per_s: float) -> Part:
    """The slowest part of a kind that carries the rate, else the fastest there is."""
    parts = [p for p in catalog.parts.values() if p.kind == kind and p.price_usd and p.power_w]
    if not parts:
        raise MissingFact(f"no {kind} with price and power is in network.csv; add one")
    enough = [p for p in parts if p.port_bytes_per_s >= port_bytes_per_s]
    if enough:
        return min(enough, key=lambda p: p.port_bytes_per_s)
    return max(parts, key=lambda p: p.port_bytes_per_s)


def _split(port_bytes_per_s: float, wanted_bytes_per_s: float) -> float:
    """Ports of the wanted rate in one port: whole splits of a faster, a share of a slower one."""
    ratio = port_bytes_per_s / wanted_bytes_per_s
    return float(np.floor(ratio)) if ratio >= 1 else 1.0 / float(np.ceil(1.0 / ratio))
