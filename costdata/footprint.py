"""Embodied carbon of one device by three methods, from the factors of embodied.csv.

pcf: the maker's product carbon footprint, or a stand-in that says so. act: die area and process,
memory, packaging (ACT). boavizta: die, memory and card by the factors of Boavizta. The methods
differ by a factor of twenty on one card; a report names the one it used.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from costdata.facts import Fact, Row, Table
from costdata.sites import Band, band_of
from simkernel.errors import MissingFact, unknown

METHODS = ("pcf", "act", "boavizta")

MM2_PER_CM2 = 100.0
BYTES_PER_GBYTE = 2.0**30  # the factors are per GB of a label such as 80 GB, which is GiB
ACT_YIELD_FRAC = 0.875  # facebookresearch/ACT@abc9fbb act/core: fab yield, memory is divided by it
ACT_PACKAGES = 6  # an H100-class device: one die and five memory stacks

LISTED = ("pcf", "scope3", "estimate")
"""First words of the rows that name chips, best first."""


@dataclass(frozen=True)
class Embodied:
    """Carbon of making one device.

    Parameters
    ----------
    kgco2e : band [kgCO2e per device]
    terms : what the typical figure is made of, summing to it
    has_host_share : the figure holds the device's share of its server already
    is_estimate : a stand-in or a rule, see `basis`
    """

    method: str
    kgco2e: Band
    terms: Mapping[str, float]
    has_host_share: bool
    is_estimate: bool
    basis: str
    facts: Mapping[str, Fact]


def embodied(factors: Table, chip: Row, method: str) -> Embodied:
    """Embodied carbon of one device of a chip.

    Notes
    -----
    Where a method needs a die area or a process that is not known, the "pcf" stand-in is given
    and the basis says why: an explicit default, never a blank.

    Raises
    ------
    UnknownName : no such method
    """
    if method not in METHODS:
        raise unknown("embodied method", method, METHODS)
    if method == "pcf":
        return _listed(factors, chip)
    lacking = _lacking(factors, chip, method)
    if lacking:
        stand_in = _listed(factors, chip)
        words = f"{method} needs {lacking} of {chip.name}, which is not known; {stand_in.basis}"
        return Embodied(**{**vars(stand_in), "is_estimate": True, "basis": words})
    return _summed(factors, chip, method)


def _listed(factors: Table, chip: Row) -> Embodied:
    """The figure listed for a chip: published first, then with a host share, then a stand-in."""
    rows = [row for row in factors.values() if chip.name in _names(row)]
    if not rows:
        raise MissingFact(
            f"embodied carbon of {chip.name} is not in embodied.csv; "
            "add a row that names it under accelerators, with its source"
        )
    best = min(rows, key=_rank)
    fact = best.facts["kgco2e"]
    return Embodied(
        method="pcf",
        kgco2e=band_of(fact),
        terms={best.text("title"): band_of(fact)[1]},
        has_host_share="host" in best.text("per"),
        is_estimate=fact.grade in ("estimate", "guess"),
        basis=f"{best.name} of embodied.csv: {best.text('note') or best.text('title')}",
        facts={best.name: fact},
    )


def _rank(row: Row) -> int:
    """A user's own row first, then published footprints, then stand-ins."""
    first = row.name.split("/")[0]
    return -1 if row.is_user else LISTED.index(first) if first in LISTED else len(LISTED)


def _summed(factors: Table, chip: Row, method: str) -> Embodied:
    used = _used(factors, chip, method)
    terms = {name: _scaled(row, amount) for name, (row, amount) in used.items()}
    kgco2e = tuple(sum(band[end] for band in terms.values()) for end in range(3))
    return Embodied(
        method=method,
        kgco2e=(kgco2e[0], kgco2e[1], kgco2e[2]),
        terms={name: band[1] for name, band in terms.items()},
        has_host_share=False,
        is_estimate=True,
        basis=f"{method}: {', '.join(f'{row.name} x {n:g}' for row, n in used.values())}",
        facts={row.name: row.facts["kgco2e"] for row, _ in used.values()},
    )


def _used(factors: Table, chip: Row, method: str) -> dict[str, tuple[Row, float]]:
    gbytes = chip.need("memory_bytes") / BYTES_PER_GBYTE
    area_mm2 = chip.need("die_area_mm2")
    if method == "act":
        return {
            "die": (factors[(_act_logic(factors, chip),)], area_mm2 / MM2_PER_CM2),
            "memory": (factors[("act/dram",)], gbytes / ACT_YIELD_FRAC),
            "packaging": (factors[("act/package",)], ACT_PACKAGES),
        }
    return {
        "card": (factors[("boavizta/card",)], 1.0),
        "die": (factors[("boavizta/gpu-die",)], area_mm2),
        "memory": (factors[("boavizta/hbm",)], gbytes),
    }


def _lacking(factors: Table, chip: Row, method: str) -> str:
    if chip.number("die_area_mm2") is None:
        return "the die area"
    return "the process" if method == "act" and not _act_logic(factors, chip) else ""


def _act_logic(factors: Table, chip: Row) -> str:
    """The ACT factor of the node nearest to the chip's process, "" where none is written."""
    written = re.search(r"(\d+)\s*(?:nm|N)", chip.text("process"))
    nodes = [int(m[1]) for row in factors if (m := re.match(r"act/logic-(\d+)nm", row[0]))]
    if not written or not nodes:
        return ""
    nearest = min(nodes, key=lambda node: abs(node - int(written[1])))
    return f"act/logic-{nearest}nm"


def _scaled(row: Row, amount: float) -> Band:
    low, typical, high = band_of(row.facts["kgco2e"])
    return low * amount, typical * amount, high * amount


def _names(row: Row) -> tuple[str, ...]:
    names = row.values.get("accelerators", ())
    return tuple(str(name) for name in names) if isinstance(names, tuple) else ()
