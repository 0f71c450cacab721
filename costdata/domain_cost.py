"""What the scale-up network of one domain costs, draws and took to make, part by part.

Counted from the same description as its links. A server or rack that is sold whole holds it
already: this is for domains that are not, and to compare shapes and sizes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil

from costdata.catalog import Catalog
from costdata.domain_network import FIBRE, OPTICS_PER_FIBRE
from costdata.ends import TYPICAL, end_of
from costdata.facts import Fact, Row
from costdata.offers import Part
from simkernel.errors import unknown
from simkernel.wiring.description import ScaleUp
from simkernel.wiring.parts import DomainParts, DomainPorts, domain_parts


@dataclass(frozen=True)
class DomainCost:
    """Of one whole domain.

    Parameters
    ----------
    usd, w, kgco2e : by part: switches, optics, fibres; copper inside a rack is not counted
    missing : parts without a price or a draw: the sums are too low by them
    facts : what carbon of making rests on
    """

    parts: DomainParts
    usd: Mapping[str, float]
    w: Mapping[str, float]
    kgco2e: Mapping[str, float]
    missing: tuple[str, ...]
    facts: Mapping[str, Fact]


def domain_cost(catalog: Catalog, built: str, up: ScaleUp, end: int = TYPICAL) -> DomainCost:
    """A domain of any size, plugged together as a known one is.

    Parameters
    ----------
    built : name in scaleup_parts.csv
    end : of the bands of parts

    Raises
    ------
    UnknownName : no such domain
    """
    rows = catalog.tables["scaleup_parts"]
    if (built,) not in rows:
        raise unknown("domain as it is built", built, (row.name for row in rows.values()))
    row = rows[(built,)]
    parts = domain_parts(up, ports_of(row))
    counts = {
        "switches": (row.text("switch_part"), parts.first_switches + parts.second_switches),
        "optics": (row.text("optic_part"), parts.optics),
        "fibres": (FIBRE, ceil(parts.optics / OPTICS_PER_FIBRE)),
    }
    usd, w, missing = {}, {}, []
    for kind, (name, count) in counts.items():
        part = catalog.parts.get(name)
        usd[kind], w[kind] = _at(part, "price_usd", end) * count, _at(part, "power_w", end) * count
        has_draw = kind == "fibres" or (part is not None and part.power_w is not None)
        if count and (part is None or part.price_usd is None or not has_draw):
            missing.append(f"{count} {kind}")
    factors = {
        kind: catalog.parts[name].embodied for kind, (name, n) in counts.items() if n and name
    }
    factors["switches"] = row.text("switch_embodied") or factors["switches"]
    facts = {kind: catalog.embodied_factor(name) for kind, name in factors.items()}
    made = {kind: counts[kind][1] * end_of(fact, end) for kind, fact in facts.items()}
    used = {f"embodied.{factors[kind]}": fact for kind, fact in facts.items()}
    return DomainCost(parts, usd, w, made, tuple(missing), used)


def row_of_unit(catalog: Catalog, unit: str) -> Row | None:
    """The domain as it is built that a server or rack of servers.csv holds; None for a board."""
    rows = catalog.tables["scaleup_parts"].values()
    return next((row for row in rows if unit in row.names("units")), None)


def whole_domain(row: Row) -> ScaleUp:
    """The domain that a row of scaleup_parts.csv describes; its rates are not asked for here."""
    devices, group = int(row.need("devices")), int(row.need("group_devices"))
    return ScaleUp(row.text("shape"), devices, 1.0, 1.0, group_devices=group)


def ports_of(row: Row) -> DomainPorts:
    """How a row of scaleup_parts.csv is plugged together."""
    return DomainPorts(
        ports_per_device=int(row.need("ports_per_device")),
        switch_ports=int(row.need("switch_ports")),
        uplinks_per_switch=int(row.number("uplinks_per_switch") or 0),
        second_ports=int(row.number("second_ports") or 1),
        optics_per_device=row.number("optics_per_device") or 0.0,
    )


def _at(part: Part | None, figure: str, end: int) -> float:
    band = None if part is None else getattr(part, figure)
    return 0.0 if band is None else float(band[end])
