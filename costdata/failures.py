"""Mean times between failures of the components of a cluster, as the catalogue has them.

What is counted, a device, a host, a port or a switch, stands in the table; how many of each a
plan has is not known here.
"""

from __future__ import annotations

from collections.abc import Mapping

from costdata.facts import Fact, Tables
from costdata.hardware_bill import HardwareBill
from simkernel.columns import Floats
from simkernel.ledger import Ledger

S_PER_HOUR = 3600.0  # SI brochure, table 8
WHOLE = "all_components"
"""Name of the one term where a figure of one's own stands for all components."""


def component_failures_per_s(
    tables: Tables, bill: HardwareBill, device_mtbf_hours: float | None = None
) -> Ledger:
    """Failures of a job on what a plan buys, by component; spares and stranded units apart.

    Parameters
    ----------
    bill : (m,)
    device_mtbf_hours : device-hours per failure of all components together; None for the table

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
        counts = _working(bill)
        rates = {
            row.name: counts[row.text("per")] / (row.need("mtbf_h") * S_PER_HOUR)
            for row in tables["failures"].values()
        }
    return Ledger("failures_per_s", "1/s", rates)


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
