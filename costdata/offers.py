"""What is on offer by the hour, and what parts of a network and a store cost and draw."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from costdata.facts import Fact, Row, Table
from costdata.sites import Band
from simkernel.errors import unknown

PLANS = ("on_demand", "spot", "reserved_1y", "reserved_3y")
"""Terms of a rent."""


@dataclass(frozen=True)
class Rent:
    """One dated price of one device for one hour.

    Parameters
    ----------
    devices : devices that must be taken together
    as_of : date of the price, year, month or day
    verified : the price was found in its source
    """

    provider: str
    instance: str
    accelerator: str
    devices: int
    region: str
    plan: str
    usd_per_device_hour: float
    as_of: str
    source: str
    grade: str
    verified: bool
    note: str


@dataclass(frozen=True)
class Part:
    """A switch, an optic, a cable, a network card, storage.

    Parameters
    ----------
    per : what one price and one draw are of
    ports : ports of one part, 0 where it has none
    port_bytes_per_s : rate of one port in one direction, 0 where it has none [bytes/s]
    price_usd, power_w : bands, None where not known
    embodied : factor of embodied.csv of making one, "" where none is known
    """

    name: str
    kind: str
    title: str
    per: str
    ports: int
    port_bytes_per_s: float
    price_usd: Band | None
    power_w: Band | None
    embodied: str
    facts: Mapping[str, Fact]


def rents(prices: Table, accelerator: str, plan: str) -> list[Rent]:
    """Prices of a chip on a plan, newest first, then cheapest first.

    Raises
    ------
    UnknownName : no such plan
    """
    if plan not in PLANS:
        raise unknown("plan", plan, PLANS)
    found = [_rent(row) for row in prices.values() if row.text("accelerator") == accelerator]
    wanted = sorted((r for r in found if r.plan == plan), key=lambda r: r.usd_per_device_hour)
    return sorted(wanted, key=lambda r: r.as_of, reverse=True)


def part_of(row: Row) -> Part:
    """The part that a row of network.csv describes."""
    return Part(
        name=row.name,
        kind=row.text("kind"),
        title=row.text("title"),
        per=row.text("per"),
        ports=int(row.number("ports") or 0),
        port_bytes_per_s=row.number("port_gbytes_per_s_per_direction") or 0.0,
        price_usd=row.band("price_usd"),
        power_w=row.band("power_w"),
        embodied=row.text("embodied"),
        facts=row.facts,
    )


def _rent(row: Row) -> Rent:
    fact = row.facts["usd_per_device_hour"]
    return Rent(
        provider=row.text("provider"),
        instance=row.text("instance"),
        accelerator=row.text("accelerator"),
        devices=int(row.need("devices")),
        region=row.text("region"),
        plan=row.text("plan"),
        usd_per_device_hour=row.need("usd_per_device_hour"),
        as_of=fact.as_of,
        source=fact.source,
        grade=fact.grade,
        verified=fact.verified,
        note=row.text("note"),
    )
