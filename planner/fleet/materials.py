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
from planner.costing.items import ITEMS, UNITS, counts_of


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
    counts = {**counts_of(bill), "facility": units}
    for name, paid in ITEMS.items():
        usd = sum(terms.get(term, 0.0) for term in paid)
        if usd:
            unit = UNITS.get(name, "unit's worth")
            yield Item(name, counts[name] / units, unit, usd / total)
