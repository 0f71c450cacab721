"""The bill of materials of a purchase plan: what each order consists of, by when, at what price.

The rows of an order add up to its capital; what is leased or rented has none and is not listed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from planner.costing.items import WORDS
from planner.exports.bill_of_materials import lead_weeks
from simkernel.errors import BadStudy

COLUMNS = (
    "order_by", "arrives_on", "if", "site", "chip", "item", "what", "quantity", "unit", "unit_usd",
    "usd", "lead_low_weeks", "lead_high_weeks", "lead_source",
)  # fmt: skip


def order_items(plan: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Rows under COLUMNS, in the order in which they are to be placed.

    Parameters
    ----------
    plan : the document of `planner explain`

    Raises
    ------
    BadStudy : the plan buys nothing
    """
    rows = list(_rows(plan))
    if not rows:
        raise BadStudy(f"purchase plan {plan['plan']} buys nothing: what it has are contracts; "
                       "planner explain RUN PLAN lists them")  # fmt: skip
    return rows


def _rows(plan: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    leads = lead_weeks()
    for order in sorted(plan["orders"], key=lambda one: float(one["order_by_week"])):
        for item in order["items"] if order["usd"] else ():
            given, is_whole = item["quantity"], item["unit"] != "PB"
            quantity = math.ceil(given - 1e-6) if is_whole else given
            row = {
                "order_by": order["order_by"] or f"week {order['order_by_week']:.0f}",
                "arrives_on": order["arrives_on"] or f"week {order['arrives_week']:.0f}",
                "if": order["future"],
                "site": order["site"],
                "chip": order["chip"],
                "what": WORDS[item["item"]],
                "item": item["item"],
                "quantity": quantity,
                "unit": item["unit"],
                "unit_usd": item["usd"] / quantity if quantity else "",
                "usd": item["usd"],
                **leads.get(item["item"], {}),
            }
            yield {name: row.get(name, "") for name in COLUMNS}
