"""Mean times between failures of the components of a cluster, as the catalogue has them.

What is counted, a device, a host, a port or a switch, stands in the table, of one cluster of
H100; other families of chips fail as often as was published of them in all, each component by
the same factor. How many of each a plan has is not known here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from costdata.facts import Fact, Row, Tables
from costdata.hardware_bill import HardwareBill
from simkernel.columns import Floats
from simkernel.ledger import Ledger

S_PER_HOUR = 3600.0  # SI brochure, table 8
COUNTED, ANY = "hopper", "any"
"""Architecture of the cluster that components were counted on; those that nobody counted."""

NAMED_MOST = 4
"""Chips of a family that are told by name."""

WHOLE = "all_components"
"""Name of the one term where a figure of one's own stands for all components."""


def component_failures_per_s(
    tables: Tables,
    bill: HardwareBill,
    device_mtbf_hours: float | None = None,
    architecture: str = COUNTED,
) -> Ledger:
    """Failures of a job on what a plan buys, by component; spares and stranded units apart.

    Parameters
    ----------
    bill : (m,)
    device_mtbf_hours : device-hours per failure of all components together; None for the table
    architecture : of the chips, which scales our components, not those of a user's own table

    Notes
    -----
    Of hosts and ports those that work count, of switches all: a job crosses every layer.

    References
    ----------
    Exponential lifetimes: rates add.
    """
    if device_mtbf_hours is not None:
        rates = {WHOLE: bill.devices_working / (device_mtbf_hours * S_PER_HOUR)}
    else:
        counts, longer = _working(bill), longer_frac(tables, architecture)
        rates = {
            row.name: counts[row.text("per")]
            / (row.need("mtbf_h") * S_PER_HOUR * (1.0 if row.is_user else longer))
            for row in tables["failures"].values()
        }
    return Ledger("failures_per_s", "1/s", rates)


def longer_frac(tables: Tables, architecture: str) -> float:
    """Time between failures of a family of chips over that of the cluster that was counted."""
    counted = tables["failure_families"][(COUNTED,)].need("device_mtbf_h")
    return _family(tables, architecture).need("device_mtbf_h") / counted


def family_facts(tables: Tables, architecture: str) -> dict[str, Fact]:
    """The figure behind it, with its source."""
    row = _family(tables, architecture)
    return {f"failure_families.{row.name}.device_mtbf_h": row.facts["device_mtbf_h"]}


def families_told(tables: Tables, architectures: Mapping[str, str]) -> str:
    """How often some chips fail, and how well that is known, in words.

    Parameters
    ----------
    architectures : chip to its architecture
    """
    chips: dict[str, list[str]] = {}
    for chip, architecture in architectures.items():
        chips.setdefault(_family(tables, architecture).name, []).append(chip)
    words = []
    for family, names in chips.items():
        fact = tables["failure_families"][(family,)].facts["device_mtbf_h"]
        why = ", which is H100's: nobody publishes theirs" if family == ANY else ""
        words.append(
            f"{_named(names)} {fact.number:,.0f} ({fact.low:,.0f} to {fact.high:,.0f}, "
            f"{fact.grade}{why})"
        )
    return f"device-hours per failure: {'; '.join(words)}"


def _named(names: Sequence[str]) -> str:
    """Chips by name, or how many where the list would hide what is said of them."""
    if len(names) <= NAMED_MOST:
        return ", ".join(names)
    return f"{', '.join(names[: NAMED_MOST - 1])} and {len(names) - NAMED_MOST + 1} more"


def _family(tables: Tables, architecture: str) -> Row:
    """What was published of a family, or what stands for all that nobody counted."""
    rows = tables["failure_families"]
    return rows.get((architecture,)) or rows[(ANY,)]


def failure_facts(tables: Tables) -> dict[str, Fact]:
    """Every figure behind it, with its source."""
    return {
        f"failures.{row.name}.mtbf_h": row.facts["mtbf_h"] for row in tables["failures"].values()
    }


def _working(bill: HardwareBill) -> Mapping[str, Floats]:
    """How many of each the job uses; (m,)."""
    at_work = bill.devices_working / (bill.hosts * bill.devices_per_unit / bill.hosts_per_unit)
    return {
        "device": bill.devices_working,
        "host": bill.hosts * at_work,
        "port": bill.ports * at_work,
        "switch": bill.switches,
    }
