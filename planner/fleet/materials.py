"""What a unit is bought with, item by item, as counts and shares of its price.

Network, storage and management are bought in the proportion of the plan that a unit is priced
with, so counts of a unit are parts of switches and head nodes: what an order needs is rounded up
where it is told.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from costdata.bill import PlanCosts
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
"""Items of a bill of materials, and the terms of capital that pay for each."""

WORDS = {
    "servers": "servers or racks",
    "nics": "network cards",
    "switches": "switches",
    "links": "connectors and cables of a port",
    "domain_network": "networks of scale-up domains above a unit: switches, optics, cables",
    "storage": "storage",
    "head_nodes": "head nodes",
    "facility": "own building, provisioned IT power",
}


@dataclass(frozen=True)
class Item:
    """An item that a unit is bought with.

    Parameters
    ----------
    name : one of ITEMS
    count : of it for a unit, in `unit`
    unit : in which it is counted
    share : of the price of a unit that pays for it [1]
    """

    name: str
    count: float
    unit: str
    share: float


def items_of(bill: HardwareBill, costs: PlanCosts, units: float) -> Iterator[Item]:
    """Items of one unit of a plan, those that cost something.

    Parameters
    ----------
    bill, costs : of the plan, one row
    units : servers or racks of the plan, spares included
    """
    terms = {name: float(np.asarray(v).ravel()[0]) for name, v in costs.capex.terms.items()}
    total = sum(terms.values())
    counts = {
        "servers": (units, "unit"),
        "nics": (float(bill.ports[0]), "port"),
        "switches": (float(bill.switches[0]), "switch"),
        "links": (float(bill.ports[0]), "port"),
        "domain_network": (
            float((bill.domain_switches + bill.domain_optics + bill.domain_cables)[0]), "part",
        ),
        "storage": (float(bill.storage_pb[0]), "PB"),
        "head_nodes": (float(bill.head_nodes[0]), "server"),
        "facility": (units, "unit's worth"),
    }  # fmt: skip
    for name, paid in ITEMS.items():
        usd = sum(terms.get(term, 0.0) for term in paid)
        if usd:
            count, unit = counts[name]
            yield Item(name, count / units, unit, usd / total)
