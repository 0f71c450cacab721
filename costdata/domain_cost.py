"""What the scale-up network of one domain costs, draws and took to make, part by part.

Counted from the same description as its links. A server or rack that is sold whole holds it
already: this is for domains that are not, and to compare shapes and sizes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from costdata.catalog import Catalog
from costdata.facts import Row
from costdata.offers import Part
from simkernel.errors import unknown
from simkernel.wiring.description import ScaleUp
from simkernel.wiring.parts import DomainParts, DomainPorts, domain_parts

SWITCH_FACTOR = "ccf/server"
"""A switch counts as a plain rack server, as between domains (costdata.quotes)."""


@dataclass(frozen=True)
class DomainCost:
    """Of one whole domain; typical figures.

    Parameters
    ----------
    usd, w, kgco2e : by part: switches, optics; no factor of making is known for optics
    missing : parts without a price or a draw: the sums are too low by them
    """

    parts: DomainParts
    usd: Mapping[str, float]
    w: Mapping[str, float]
    kgco2e: Mapping[str, float]
    missing: tuple[str, ...]


def domain_cost(catalog: Catalog, built: str, up: ScaleUp) -> DomainCost:
    """A domain of any size, plugged together as a known one is.

    Parameters
    ----------
    built : name in scaleup_parts.csv

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
    }
    usd, w, missing = {}, {}, []
    for kind, (name, count) in counts.items():
        part = catalog.parts.get(name)
        usd[kind], w[kind] = _typical(part, "price_usd") * count, _typical(part, "power_w") * count
        if count and (part is None or part.price_usd is None or part.power_w is None):
            missing.append(f"{count} {kind}")
    made = {"switches": counts["switches"][1] * catalog.embodied_factor(SWITCH_FACTOR).number}
    return DomainCost(parts, usd, w, made, tuple(missing))


def ports_of(row: Row) -> DomainPorts:
    """How a row of scaleup_parts.csv is plugged together."""
    return DomainPorts(
        ports_per_device=int(row.need("ports_per_device")),
        switch_ports=int(row.need("switch_ports")),
        uplinks_per_switch=int(row.number("uplinks_per_switch") or 0),
        second_ports=int(row.number("second_ports") or 1),
        optics_per_device=row.number("optics_per_device") or 0.0,
    )


def _typical(part: Part | None, figure: str) -> float:
    band = None if part is None else getattr(part, figure)
    return 0.0 if band is None else float(band[1])
