"""A purchase plan of a stored run as a document and as text: what to order, when, for what."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from planner.documents.figures import figure, human
from planner.explain.plan import plain
from planner.fleet.study import CALENDAR, WORTH
from planner.metrics import METRICS
from simkernel.errors import BadStudy

HEADS = ("period", "arrives", "rent", "at work", "runs", "capital", "running", "rent paid", "MW")


def purchase_document(front: Mapping[str, Any], row: int) -> dict[str, Any]:
    """One row of the front of a purchase study, whole.

    Parameters
    ----------
    front : columns of the stored front, (n,)
    row : of it
    """
    plan = json.loads(str(front[CALENDAR][row]))
    figures = {name: plain(front[name][row]) for name in METRICS if name in front}
    return {
        "plan": str(front["plan"][row]),
        "metrics": figures,
        "gap_frac": plan["gap_frac"],
        "status": plan["status"],
        "left_usd": plan["left_usd"],
        "calendar": plan["periods"],
        "worth_of_more": json.loads(str(front[WORTH][row])),
        "violations": [],
    }


def refuse_purchases(kind: str, what: str) -> None:
    """BadStudy where a stored run is of purchases, which have no such form.

    Parameters
    ----------
    kind : of the run's study
    what : was asked for
    """
    if kind == "fleet":
        raise BadStudy(
            f"{what} is of one plan on one chip; a purchase plan has many: planner explain RUN "
            "PLAN --json holds its calendar"
        )


def purchase_lines(document: Mapping[str, Any]) -> list[str]:
    """The same as sentences, without its calendar."""
    found = document["metrics"]
    left = human(document["left_usd"], "USD")
    lines = [
        f"purchase plan {document['plan']} of run {document['run']}: "
        f"{human(found['own_npv_usd'], 'USD')} worth today, "
        f"{human(found['capex_usd'], 'USD')} of capital, "
        f"{human(found['kgco2e'], 'kgCO2e')}; what is left at the end is worth {left} today; "
        f"{document['status']} to {document['gap_frac']:.2%}"
    ]
    if found.get("npv_usd") is not None:
        more = found["npv_usd"] if abs(found["npv_usd"]) >= 1.0 else 0.0
        lines.append(f"renting everything would cost {human(more, 'USD')} more")
    lines.append("what arrives as a period begins is ordered the lead time before")
    worth = document["worth_of_more"]
    if worth:
        told = [f"{name}: {human(round(value, 2), 'USD')}" for name, value in worth.items()]
        lines.append("worth of more, to within the gap: " + "; ".join(told))
    return lines


def calendar_rows(document: Mapping[str, Any]) -> list[list[str]]:
    """The calendar under HEADS."""
    return [_line(period) for period in document["calendar"]]


def _line(period: Mapping[str, Any]) -> list[str]:
    return [
        f"{period['period']} (year {period['from_year']:g})",
        _units(period["buy"]),
        _units(period["rent"]),
        _units(period["at_work"]),
        "; ".join(f"{name}: {words}" for name, words in period["runs"].items()),
        human(period["capex_usd"], "USD"),
        human(period["running_usd"], "USD"),
        human(period["rent_usd"], "USD"),
        ", ".join(f"{site} {mw:.2f}" for site, mw in period["site_mw"].items()),
    ]


def _units(units: Mapping[str, float]) -> str:
    return ", ".join(f"{figure(count)} {name}" for name, count in units.items())
