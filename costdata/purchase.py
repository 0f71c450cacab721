"""What is bought as a whole: a server of eight, a rack of 72, a supernode of 384.

Where a chip has no server with a price, the price is estimated from the price of the chip and the
ratio of server to chips in the servers that have one, and says so. A chip that is not sold is
rent-only, and says so too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median

from costdata.facts import Fact, Row, Table, Tables
from costdata.sites import Band

SMALLEST_SERVER = 2
"""Ratios are taken from servers of at least two devices: a single superchip is its own server."""


@dataclass(frozen=True)
class PurchaseUnit:
    """The smallest whole that one buys.

    Parameters
    ----------
    name : name of the server or rack, or "host of 8 x H20" where none is listed
    devices : devices in it
    price_usd : band of the whole, None where the chip is not sold or nothing is known
    max_power_w : input power to provide for, typical of the band; None where nothing is known
    max_power_band_w : its band
    typical_power_w : input power under load, None where not known
    rack_units : height, None where not known
    is_liquid : coolant has to come to it, None where not known
    is_estimate : the price or the power comes from a rule, see `basis`
    rent_only : no price to buy at
    missing : facts that are not there: "price_usd", "max_power_w"
    basis : where price and power come from, in words
    """

    name: str
    accelerator: str
    devices: int
    price_usd: Band | None
    max_power_w: float | None
    max_power_band_w: Band | None
    typical_power_w: float | None
    rack_units: float | None
    is_liquid: bool | None
    is_estimate: bool
    rent_only: bool
    missing: tuple[str, ...]
    basis: str
    facts: Mapping[str, Fact]


@dataclass(frozen=True)
class _Answer:
    """A band, or None, with the words that say where it comes from."""

    band: Band | None
    is_rule: bool
    words: str


def purchase_unit(tables: Tables, chip: Row) -> PurchaseUnit:
    """The purchase unit of a chip: its first server or rack that is one, else a host."""
    server = _server(tables["servers"], chip.name)
    devices = int(server.need("devices") if server else chip.need("devices_per_host"))
    price = _price(tables, chip, server, devices)
    power = _power(tables, chip, server, devices)
    missing = [n for n, a in (("price_usd", price), ("max_power_w", power)) if a.band is None]
    return PurchaseUnit(
        name=server.name if server else f"host of {devices} x {chip.name}",
        accelerator=chip.name,
        devices=devices,
        price_usd=price.band,
        max_power_w=power.band[1] if power.band else None,
        max_power_band_w=power.band,
        typical_power_w=server.number("typical_power_w") if server else None,
        rack_units=server.number("rack_units") if server else None,
        is_liquid=_is_liquid(server),
        is_estimate=price.is_rule or power.is_rule,
        rent_only=price.band is None,
        missing=tuple(missing),
        basis=f"price: {price.words}; power: {power.words}",
        facts=server.facts if server else {},
    )


def server_over_chips(tables: Tables) -> tuple[Band, int]:
    """Price of a server over the price of its chips, low, median and high, and of how many.

    Notes
    -----
    From the servers of two or more devices that hold a host and whose price was found in its
    source, with chips that have a price of their own which is no model.
    """
    ratios = [
        server.need("price_usd") / (server.need("devices") * chip.need("price_usd"))
        for server, chip in _pairs(tables)
        if _is_known(server, "price_usd") and _is_sold(chip)
    ]
    return (min(ratios), median(ratios), max(ratios)), len(ratios)


def server_over_tdp(tables: Tables) -> tuple[Band, int]:
    """Rated power of a server over the limits of its chips, and of how many servers."""
    ratios = [
        server.need("max_power_w") / (server.need("devices") * chip.need("tdp_w"))
        for server, chip in _pairs(tables)
        if _is_known(server, "max_power_w") and chip.number("tdp_w")
    ]
    return (min(ratios), median(ratios), max(ratios)), len(ratios)


def _server(servers: Table, accelerator: str) -> Row | None:
    found = (
        row
        for row in servers.values()
        if row.text("accelerator") == accelerator and row.values["is_purchase_unit"]
    )
    return max(found, key=lambda row: row.is_user, default=None)


def _is_liquid(server: Row | None) -> bool | None:
    cooling = server.text("cooling") if server else ""
    return cooling == "liquid" if cooling else None


def _pairs(tables: Tables) -> Iterable[tuple[Row, Row]]:
    chips = tables["accelerators"]
    for server in tables["servers"].values():
        chip = chips.get((server.text("accelerator"),))
        if chip and server.values["has_host"] and server.need("devices") >= SMALLEST_SERVER:
            yield server, chip


def _is_known(row: Row, column: str) -> bool:
    fact = row.facts.get(column)
    return fact is not None and fact.verified


def _is_sold(chip: Row) -> bool:
    basis = chip.text("price_basis")
    return chip.number("price_usd") is not None and basis != "model_estimate"


def _price(tables: Tables, chip: Row, server: Row | None, devices: int) -> _Answer:
    if server and server.values["has_host"] and (band := server.band("price_usd")):
        return _listed(server, "price_usd", band)
    if not _is_sold(chip):
        why = chip.text("price_basis").replace("_", " ")
        return _Answer(None, False, f"none: {chip.name} has no price to buy at ({why})")
    ratio, of = server_over_chips(tables)
    low, typical, high = (devices * usd for usd in chip.band("price_usd") or (0.0, 0.0, 0.0))
    words = f"{devices} chips x {_shown(ratio)}, server over chips in {of} servers of servers.csv"
    return _Answer((low * ratio[0], typical * ratio[1], high * ratio[2]), True, words)


def _power(tables: Tables, chip: Row, server: Row | None, devices: int) -> _Answer:
    if server and (rated := server.number("max_power_w")) is not None:
        return _listed(server, "max_power_w", (rated, rated, rated))
    limit_w = chip.number("tdp_w")
    if limit_w is None:
        return _Answer(None, False, f"none: neither a server nor a limit of {chip.name} is known")
    ratio, of = server_over_tdp(tables)
    words = f"{devices} x {limit_w:g} W x {_shown(ratio)}, rated over chip limits in {of} servers"
    low, typical, high = (devices * limit_w * share for share in ratio)
    return _Answer((low, typical, high), True, words)


def _listed(server: Row, column: str, band: Band) -> _Answer:
    """A figure of servers.csv; it counts as an estimate where it was not found in its source."""
    fact = server.facts[column]
    words = "" if fact.verified else f", {fact.grade}, not found in its source"
    return _Answer(band, not fact.verified, f"servers.csv, {server.name}{words}")


def _shown(ratio: Band) -> str:
    return f"{ratio[1]:.2f} ({ratio[0]:.2f} to {ratio[2]:.2f})"
