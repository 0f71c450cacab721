"""Rows of the charts and tables of a purchase plan, as the page and the report show them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

from planner.fleet.baselines import NOTHING
from planner.fleet.document import gap_words
from planner.fleet.worth_words import worth_words

Document = Mapping[str, Any]
Row = dict[str, Any]

THIS = "this plan"
MUSD, T = 1e6, 1e3


def futures_of(document: Document) -> list[str]:
    """Every way that the future may go; one without a name where nothing parts."""
    last = max(node["period"] for node in document["calendar"])
    return [node["future"] for node in document["calendar"] if node["period"] == last]


def way(document: Document, future: str) -> list[Mapping[str, Any]]:
    """Periods of one future, those before its gates included."""
    return [
        node for node in document["calendar"]
        if node["future"] in ("", future) or future.startswith(f"{node['future']}, ")
    ]  # fmt: skip


def cash_rows(document: Document) -> list[Row]:
    """Dollars spent by the end of each period, of the plan and of those beside it [M$]."""
    years = document["caps"]["period_years"]
    plans = {THIS: document["cash_usd"]}
    plans |= {n: b["cash_usd"] for n, b in document["baselines"].items() if "cash_usd" in b}
    return [
        {"year": (t + 1) * years, "spent": usd / MUSD, "plan": name}
        for name, cash in plans.items()
        for t, usd in enumerate(accumulate(cash))
    ]


def capacity_rows(nodes: Sequence[Mapping[str, Any]]) -> list[Row]:
    """What is served of each stream, and what is asked, in multiples of its workload."""
    return [
        {"year": node["from_year"], "multiples": float(table[name]), "stream": name, "what": word}
        for node in nodes
        for word, table in (("capacity", node["served"]), ("demand", node["demand"]))
        for name in node["demand"]
    ]


def power_rows(document: Document, nodes: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Power to provide at each site, and its cap [MW]."""
    caps = document["caps"]["site_mw"]
    rows = [
        {"year": node["from_year"], "MW": mw, "site": site, "what": "provided"}
        for node in nodes
        for site, mw in node["site_mw"].items()
    ]
    return rows + [
        {"year": node["from_year"], "MW": mw, "site": site, "what": "cap"}
        for node in nodes
        for site, mw in caps.items()
    ]


def carbon_rows(document: Document, nodes: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Tonnes of each year, and the cap of a year."""
    found: dict[int, float] = {}
    for node in nodes:
        year = int(node["from_year"] + 1e-9)
        found[year] = found.get(year, 0.0) + node["kgco2e"] / T
    rows: list[Row] = [{"year": y, "t": t, "what": "emitted"} for y, t in found.items()]
    cap = document["caps"]["kgco2e_per_year"]
    return rows + ([{"year": y, "t": cap / T, "what": "cap"} for y in found] if cap else [])


def compared_rows(document: Document) -> list[Row]:
    """The plan beside renting everything, buying all at once and doing nothing."""
    own = document["metrics"]
    rows = [_compared(THIS, own, own["own_npv_usd"])]
    for name, other in document["baselines"].items():
        if name == NOTHING:
            served = ", ".join(f"{v:.0%} of {n}" for n, v in other["served_frac"].items())
            undone = ", ".join(other["runs_not_done"])
            words = f"serves {served or 'nothing'} throughout"
            words += f"; not done: {undone}" if undone else ""
            rows.append({"plan": name, "what it means": words})
        elif "why" in other:
            rows.append({"plan": name, "what it means": other["why"]})
        else:
            line = _compared(name, other, own["own_npv_usd"])
            line["what it means"] += gap_words(other, document)
            rows.append(line)
    return rows


def _compared(name: str, figures: Mapping[str, Any], own_usd: float) -> Row:
    more = (figures["own_npv_usd"] - own_usd) / MUSD
    words = "" if name == THIS else f"{abs(more):,.2f} M$ {'more' if more >= 0 else 'less'}"
    return {
        "plan": name,
        "worth today [M$]": round(figures["own_npv_usd"] / MUSD, 3),
        "capital [M$]": round(figures["capex_usd"] / MUSD, 3),
        "carbon [t]": round(figures["kgco2e"] / T, 1),
        "peak [MW]": round(figures["peak_facility_mw"], 3),
        "what it means": words,
    }


def worth_rows(document: Document) -> list[Row]:
    """What one step more of each limit is worth; never what is below the gap of the solutions."""
    return [
        {"one step more": name, "worth": worth_words(one)}
        for name, one in document["worth_of_more"].items()
    ]
