"""Items of a bill of materials: in what each is counted, how many there are, who pays for it."""

from __future__ import annotations

from costdata.hardware_bill import HardwareBill

ITEMS = {
    "servers": ("servers", "stranded", "spares"),
    "nics": ("nics",),
    "switches": ("switches",),
    "links": ("links",),
    "domain_network": ("domain_network",),
    "storage": ("storage",),
    "head_nodes": ("head_nodes",),
    "facility": ("facility",),
}
"""Items, and the terms of capital that pay for each."""

WORDS = {
    "servers": "servers or racks",
    "nics": "network cards",
    "switches": "switches",
    "links": "connectors and cables of a port",
    "domain_network": "networks of scale-up domains above a unit",
    "storage": "storage",
    "head_nodes": "head nodes",
    "facility": "own building, provisioned IT power",
}

UNITS = {
    "servers": "unit",
    "nics": "port",
    "switches": "switch",
    "links": "port",
    "domain_network": "part",
    "storage": "PB",
    "head_nodes": "server",
}
"""In what an item is counted; a building is counted by who orders it."""


def counts_of(bill: HardwareBill) -> dict[str, float]:
    """How many of each item a bill of one row has, in UNITS.

    Parameters
    ----------
    bill : (1,)
    """
    parts = (
        bill.domain_switches, bill.domain_optics, bill.domain_fibres, bill.domain_cables
    )  # fmt: skip
    return {
        "servers": float((bill.purchase_units + bill.spare_units)[0]),
        "nics": float(bill.ports[0]),
        "switches": float(bill.switches[0]),
        "links": float(bill.ports[0]),
        "domain_network": float(sum(part[0] for part in parts)),
        "storage": float(bill.storage_pb[0]),
        "head_nodes": float(bill.head_nodes[0]),
    }
