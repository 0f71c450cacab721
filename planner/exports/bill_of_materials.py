"""What a plan buys, item by item, with prices and lead times.

Counts and prices are those the plan was priced with; the rows sum to its `capex_usd`. Pools of
their own are ordered apart: a switch that joins them is in the lot of one.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from costdata.catalog import Catalog
from costdata.hardware_cost import Hardware, hardware_usd
from planner.calibration.kernels import TABLES
from planner.costing.items import ITEMS, UNITS, WORDS, counts_of
from planner.costing.price_desk import bought_by, desk_of
from planner.costing.quoted import is_pooled
from planner.study.pools import DECODE, POOLS, PREFILL
from planner.study.read import Study
from simkernel.errors import BadStudy

COLUMNS = (
    "item", "what", "quantity", "unit", "unit_usd", "usd", "lead_low_weeks", "lead_high_weeks",
    "lead_source",
)  # fmt: skip
LEAD_TIMES = TABLES / "rules" / "lead_times.csv"

BOUGHT = ("accelerator", "devices", "supernode_devices", "oversubscription")
"""Axes that say what is bought."""

POOL_WORDS = {PREFILL: "prompts", DECODE: "answers"}

SHAPED = ("scaleout_fabric", "scaleup_topology", "scaleup_gbytes_per_s", "chassis_devices")
"""Further ones, which hardware alone does not have."""


def bill_rows(study: Study, catalog: Catalog, plan: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Items of a plan, pool by pool, the dearest kind first.

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
    leads, rows = lead_weeks(), []
    for lot in _lots(study, catalog, plan):
        for item, (what, quantity, unit) in _items(lot).items():
            if quantity:
                usd = sum(lot.usd[name] for name in ITEMS[item])
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


@dataclass(frozen=True)
class _Lot:
    """What one pool buys, or all of a plan that has none.

    `own` is what it is for, "" of a plan without pools; `facility_w` are those of a building that
    is built for the whole plan.
    """

    own: str
    chip: str
    part: Hardware
    usd: Mapping[str, float]
    facility_w: float


def _lots(study: Study, catalog: Catalog, plan: Mapping[str, Any]) -> list[_Lot]:
    """Hardware of a plan by pool, with what is paid for it; a building stands in the last."""
    axes, is_apart = plan["axes"], is_pooled(plan["axes"])
    chips = [axes[f"{pool}.accelerator"] for pool in POOLS] if is_apart else [axes["accelerator"]]
    desk = desk_of(study, catalog, list(dict.fromkeys(chips)))
    bought = bought_by(desk, _columns(plan, POOLS if is_apart else ()))
    parts = [Hardware(bought.bill, bought.quoted, bought.made), *bought.beside]
    paid: Mapping[str, float] = plan["ledgers"]["capex_usd"]["terms"]
    facility_w = plan["metrics"]["provisioned_w"] * (paid["facility"] > 0)
    if not is_apart:
        return [_Lot("", chips[0], parts[0], paid, facility_w)]
    terms, last = desk.terms.take(np.zeros(1, np.int64)), len(parts) - 1
    return [
        _Lot(
            own=f", for {POOL_WORDS[pool]}",
            chip=chip,
            part=part,
            usd={
                **_numbers(hardware_usd(part.bill, part.prices, terms)),
                "facility": paid["facility"] * (at == last),
            },
            facility_w=facility_w * (at == last),
        )
        for at, (pool, chip, part) in enumerate(zip(POOLS, chips, parts, strict=True))
    ]


def _numbers(terms: Mapping[str, Any]) -> dict[str, float]:
    """Terms of one row as numbers."""
    return {name: float(np.asarray(value).item()) for name, value in terms.items()}


def _columns(plan: Mapping[str, Any], pools: Sequence[str]) -> dict[str, Any]:
    """The plan as columns of one row, under the names that the price desk reads."""
    axes, metrics = plan["axes"], plan["metrics"]
    columns = {"it_mean_w": np.array([metrics["it_mean_w"]])}
    for own in [f"{pool}." for pool in pools] or [""]:
        for name in (*BOUGHT, *SHAPED):
            if (value := axes.get(f"{own}{name}", axes.get(name))) is not None:
                columns[f"{own}{name}"] = np.array([value])
        used = metrics.get(f"{own}used_per_domain", axes[f"{own}supernode_devices"])
        columns[f"{own}used_per_domain"] = np.array(
            [used]
        )  # hardware alone: all of a domain works
    return columns


def _items(lot: _Lot) -> dict[str, tuple[str, float, str]]:
    """Item to what it is, how many, and of which unit."""
    bill = lot.part.bill
    spare = f", {bill.spare_units[0]:.0f} of them spare" if bill.spare_units[0] else ""
    counts = counts_of(bill)
    counts["nics"] *= lot.part.prices.nic_usd[0] > 0
    counts["facility"] = lot.facility_w
    more = {
        "servers": f" of {bill.devices_per_unit[0]:.0f} x {lot.chip}{spare}",
        "switches": f", {bill.tiers[0]:.0f} layers",
        "domain_network": f": {bill.domain_switches[0]:.0f} switches, "
        f"{bill.domain_optics[0]:.0f} optics, {bill.domain_fibres[0]:.0f} fibre and "
        f"{bill.domain_cables[0]:.0f} copper cables",
    }
    return {
        item: (
            WORDS[item] + more.get(item, "") + ("" if item == "facility" else lot.own),
            counts[item],
            UNITS.get(item, "W"),
        )
        for item in ITEMS
    }
