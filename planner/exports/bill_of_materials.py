"""What a plan buys, item by item, with prices and lead times.

Counts and prices are those the plan was priced with; the rows sum to its `capex_usd`.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from typing import Any

import numpy as np

from costdata.catalog import Catalog
from planner.calibration.kernels import TABLES
from planner.costing.items import ITEMS, UNITS, WORDS, counts_of
from planner.costing.price_desk import Bought, bought_by, desk_of
from planner.study.read import Study
from simkernel.errors import BadStudy

COLUMNS = (
    "item", "what", "quantity", "unit", "unit_usd", "usd", "lead_low_weeks", "lead_high_weeks",
    "lead_source",
)  # fmt: skip
LEAD_TIMES = TABLES / "rules" / "lead_times.csv"

BOUGHT = ("accelerator", "devices", "supernode_devices", "oversubscription")
"""Axes that say what is bought."""

SHAPED = ("scaleout_fabric", "scaleup_topology", "scaleup_gbytes_per_s", "chassis_devices")
"""Further ones, which hardware alone does not have."""


def bill_rows(study: Study, catalog: Catalog, plan: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Items of a plan, the dearest kind first.

    Parameters
    ----------
    plan : the document of `planner explain`

    Raises
    ------
    BadStudy : the plan buys nothing
    """
    paid: Mapping[str, float] = plan["ledgers"]["capex_usd"]["terms"]
    if not any(paid.values()):
        raise BadStudy(
            f'plan {plan["plan"]} is had by acquire = "{study.costing.acquire}" and buys nothing; '
            'recost it with costing.acquire = "buy", or export focus.csv'
        )
    bought = _bought(study, catalog, plan)
    leads = lead_weeks()
    rows = []
    for item, (what, quantity, unit) in _items(bought, plan).items():
        usd = sum(paid[name] for name in ITEMS[item])
        if quantity:
            row = {"item": item, "what": what, "quantity": quantity, "unit": unit}
            row |= {"unit_usd": usd / quantity, "usd": usd, **leads.get(item, {})}
            rows.append({name: row.get(name, "") for name in COLUMNS})
    return rows


def lead_weeks() -> dict[str, dict[str, str]]:
    """Weeks from order to delivery by item, where a source says; the rest is not known."""
    with LEAD_TIMES.open(newline="", encoding="utf-8") as file:
        return {
            row["item"]: {
                "lead_low_weeks": row["low_weeks"],
                "lead_high_weeks": row["high_weeks"],
                "lead_source": f"{row['source']} ({row['as_of']}, {row['grade']})",
            }
            for row in csv.DictReader(file)
        }


def _bought(study: Study, catalog: Catalog, plan: Mapping[str, Any]) -> Bought:
    """The counts of one plan."""
    bought = [*BOUGHT, *(name for name in SHAPED if name in plan["axes"])]
    columns = {name: np.array([plan["axes"][name]]) for name in bought}
    working = plan["metrics"].get("used_per_domain", plan["axes"]["supernode_devices"])
    columns["used_per_domain"] = np.array([working])  # hardware alone: all of a domain works
    columns["it_mean_w"] = np.array([plan["metrics"]["it_mean_w"]])
    return bought_by(desk_of(study, catalog, [plan["axes"]["accelerator"]]), columns)


def _items(bought: Bought, plan: Mapping[str, Any]) -> dict[str, tuple[str, float, str]]:
    """Item to what it is, how many, and of which unit."""
    bill = bought.bill
    chip = plan["axes"]["accelerator"]
    spare = f", {bill.spare_units[0]:.0f} of them spare" if bill.spare_units[0] else ""
    is_built = plan["ledgers"]["capex_usd"]["terms"]["facility"] > 0
    counts = counts_of(bill)
    counts["nics"] *= bought.quoted.nic_usd[0] > 0
    counts["facility"] = plan["metrics"]["provisioned_w"] * is_built
    more = {
        "servers": f" of {bill.devices_per_unit[0]:.0f} x {chip}{spare}",
        "switches": f", {bill.tiers[0]:.0f} layers",
        "domain_network": f": {bill.domain_switches[0]:.0f} switches, "
        f"{bill.domain_optics[0]:.0f} optics, {bill.domain_fibres[0]:.0f} fibre and "
        f"{bill.domain_cables[0]:.0f} copper cables",
    }
    return {
        item: (WORDS[item] + more.get(item, ""), counts[item], UNITS.get(item, "W"))
        for item in ITEMS
    }
