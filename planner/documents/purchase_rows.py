"""Rows of the charts and tables of a purchase plan, as the page and the report show them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

from planner.fleet.baselines import NOTHING
from planner.fleet.document import gap_words, heads, nothing_words, why_words
from planner.fleet.worth_words import limit_words, worth_words
from planner.report.words import Say

Document = Mapping[str, Any]
Row = dict[str, Any]

EN = Say("en")
THIS, MEANS = "this plan", "what it means"
COMPARED = ("plan", "worth today [M$]", "capital [M$]", "carbon [t]", "peak [MW]", MEANS)
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


def compared_rows(document: Document, say: Say = EN) -> list[Row]:
    """The plan beside renting everything, buying all at once and doing nothing."""
    own = document["metrics"]
    rows = [_compared(THIS, own, own["own_npv_usd"], say)]
    plan, means = heads(("plan", MEANS), say)
    for name, other in document["baselines"].items():
        if name == NOTHING:
            words = say("fleet_serves", **nothing_words(other, say))
            rows.append({plan: say.name(name), means: words})
        elif "why" in other:
            rows.append({plan: say.name(name), means: why_words(other["why"], say)})
        else:
            line = _compared(name, other, own["own_npv_usd"], say)
            line[means] += gap_words(other, document, say)
            rows.append(line)
    return rows


def _compared(name: str, figures: Mapping[str, Any], own_usd: float, say: Say) -> Row:
    more = (figures["own_npv_usd"] - own_usd) / MUSD
    word = say("fleet_more" if more >= 0 else "fleet_less", figure=f"{abs(more):,.2f} M$")
    found = (
        say.name(name),
        round(figures["own_npv_usd"] / MUSD, 3),
        round(figures["capex_usd"] / MUSD, 3),
        round(figures["kgco2e"] / T, 1),
        round(figures["peak_facility_mw"], 3),
        "" if name == THIS else word,
    )
    return dict(zip(heads(COMPARED, say), found, strict=True))


def worth_rows(document: Document, say: Say = EN) -> list[Row]:
    """What one step more of each limit is worth; never what is below the gap of the solutions."""
    step, worth = heads(("one step more", "worth"), say)
    return [
        {step: limit_words(name, say), worth: worth_words(one, say)}
        for name, one in document["worth_of_more"].items()
    ]
