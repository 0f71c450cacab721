"""A purchase plan of a stored run as a document and as text: what to order, when, for what."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from planner.documents.figures import figure, human
from planner.documents.ruled import table_text
from planner.explain.plan import plain
from planner.fleet.baselines import AS_BEFORE, AT_ONCE, NOTHING, RENTED
from planner.fleet.payback import payback_months, payback_words
from planner.fleet.row import BASELINES, CALENDAR, FORM, WORTH
from planner.fleet.worth_words import worth_words
from planner.metrics import METRICS
from simkernel.errors import BadFile, BadStudy

HEADS = ("period", "arrives", "rent", "at work", "runs", "capital", "running", "rent paid", "MW")
ORDER_HEADS = (
    "order by", "units", "chip", "site", "how", "arrives", "until", "each", "in all", "a year",
)  # fmt: skip

DOING = {
    RENTED: "renting everything",
    AT_ONCE: "buying all at once",
    AS_BEFORE: "keeping to what was decided before",
}
"""What each plan beside this one is, in a sentence."""

PRICED = ("unit_usd", "usd", "usd_per_year")


def purchase_document(front: Mapping[str, Any], row: int) -> dict[str, Any]:
    """One row of the front of a purchase study, whole.

    Parameters
    ----------
    front : columns of the stored front, (n,)
    row : of it

    Raises
    ------
    BadFile : another version stored it, in another form
    """
    plan = json.loads(str(front[CALENDAR][row]))
    if plan.get("form") != FORM:
        raise BadFile(
            f"purchase plans of this run are stored in form {plan.get('form', 1)}, and this "
            f"version reads form {FORM}: run the study again"
        )
    known = [n for n in METRICS if n in front and front[n][row] is not np.ma.masked]
    figures = {name: plain(front[name][row]) for name in known}
    compared = _of_any(front, BASELINES)
    figures["payback_months"] = payback_months(plan, compared.get(RENTED, {}))
    return {
        "plan": str(front["plan"][row]),
        "metrics": figures,
        "gap_frac": plan["gap_frac"],
        "bound": plan["bound"],
        "status": plan["status"],
        "binding": plan["binding"],
        "left_usd": plan["left_usd"],
        "futures": plan["futures"],
        "cash_usd": plan["cash_usd"],
        "caps": plan["caps"],
        "calendar": plan["periods"],
        "orders": plan["orders"],
        "gates": plan["gates"],
        "worth_of_more": json.loads(str(front[WORTH][row])),
        "baselines": compared,
        "violations": [],
    }


def _of_any(front: Mapping[str, Any], name: str) -> dict[str, Any]:
    """JSON that one row of a front holds for all of them."""
    for text in front[name]:
        found: dict[str, Any] = json.loads(str(text))
        if found:
            return found
    return {}


def refuse_purchases(kind: str, what: str) -> None:
    """BadStudy where a stored run is of purchases, or a shared cluster, which have no such form.

    Parameters
    ----------
    kind : of the run's study
    what : was asked for
    """
    if kind == "mixed":
        raise BadStudy(
            f"{what} is of one plan; a mixed study has arrangements of a day, which planner show "
            "RUN --json holds whole"
        )
    if kind == "fleet":
        raise BadStudy(
            f"{what} is of one plan on one chip; a purchase plan has many: planner explain RUN "
            "PLAN --json holds its calendar"
        )


def purchase_text(document: Mapping[str, Any]) -> str:
    """The same as text: sentences, calendar, order list."""
    calendar = table_text("calendar", HEADS, calendar_rows(document))
    orders = table_text("order list", ORDER_HEADS, order_rows(document))
    return "\n".join([*purchase_lines(document), calendar, orders]) + "\n"


def purchase_lines(document: Mapping[str, Any]) -> list[str]:
    """The same as sentences, without its calendar."""
    return [
        _first_line(document),
        *_limit_lines(document),
        *_compared_lines(document),
        *_worth_lines(document),
        *_gate_lines(document),
        *_future_lines(document),
    ]


def _first_line(document: Mapping[str, Any]) -> str:
    found = document["metrics"]
    left = human(document["left_usd"], "USD")
    return (
        f"purchase plan {document['plan']} of run {document['run']}: "
        f"{human(found['own_npv_usd'], 'USD')} worth today, "
        f"{human(found['capex_usd'], 'USD')} of capital, "
        f"{human(found['kgco2e'], 'kgCO2e')}; what is left at the end is worth {left} today; "
        f"{document['status']} to {document['gap_frac']:.2%}"
    )


def _limit_lines(document: Mapping[str, Any]) -> Iterator[str]:
    """What binds, and what of the limits is left."""
    found = document["metrics"]
    if document["binding"]:
        yield f"no room for one unit more: {', '.join(document['binding'])}"
    left = []
    if found.get("stranded_mw") is not None:
        left.append(f"{found['stranded_mw']:.3g} MW")
    if found.get("stranded_usd") is not None:
        left.append(human(found["stranded_usd"], "USD"))
    if left:
        yield f"not used of the limits: {', '.join(left)}"


def _compared_lines(document: Mapping[str, Any]) -> Iterator[str]:
    """Beside renting everything, buying all at once and doing nothing."""
    own = document["metrics"]["own_npv_usd"]
    for name, other in document["baselines"].items():
        if name == NOTHING:
            served = ", ".join(f"{share:.0%} of {n}" for n, share in other["served_frac"].items())
            undone = ", ".join(other["runs_not_done"])
            yield f"{name}: {served or 'nothing'} served throughout" + (
                f"; not done: {undone}" * bool(undone)
            )
        elif "why" in other:
            yield f"{name}: {other['why']}"
        else:
            more = other["own_npv_usd"] - own
            word = "more" if more >= 0 else "less"
            told = f"{DOING[name]} would cost {human(abs(more), 'USD')} {word}"
            yield told + gap_words(other, document)
    if words := payback_words(document):
        yield words
    yield "what arrives as a period begins is ordered the lead time before"


def gap_words(other: Mapping[str, Any], document: Mapping[str, Any]) -> str:
    """How far a plan beside this one may be from its own best, where that is further than this."""
    gap = other["gap_frac"]
    return f" (to a gap of {gap:.0%})" if gap > max(2.0 * document["gap_frac"], 0.01) else ""


def _worth_lines(document: Mapping[str, Any]) -> Iterator[str]:
    told = [f"{name}: {worth_words(one)}" for name, one in document["worth_of_more"].items()]
    if told:
        yield f"worth of more: {'; '.join(told)}"


def _gate_lines(document: Mapping[str, Any]) -> Iterator[str]:
    """What is decided before each gate, and what waits for what it shows."""
    for gate in document["gates"]:
        yield (
            f"gate at period {gate['period']} ({' or '.join(gate['observe'])}): decided by then: "
            f"{_told(gate['decided'])}"
        )
        for future, placed in gate["waits"].items():
            yield f"  if {future}: {_told(placed)}"


def _future_lines(document: Mapping[str, Any]) -> Iterator[str]:
    """What each future costs, the dearest first."""
    rows = document["futures"]
    if len(rows) > 1:
        told = [
            f"{r['future']} ({r['chance']:.0%}) {human(r['own_npv_usd'], 'USD')}" for r in rows
        ]
        yield f"worth today by future: {'; '.join(told)}"


def _told(placed: Sequence[Mapping[str, Any]]) -> str:
    """Orders in words."""
    found: dict[str, float] = {}
    for one in placed:
        name = f"{one['chip']} @ {one['site']} ({one['how']})"
        found[name] = found.get(name, 0.0) + one["units"]
    return _units(found) or "nothing"


def calendar_rows(document: Mapping[str, Any]) -> list[list[str]]:
    """The calendar under HEADS."""
    return [_line(period) for period in document["calendar"]]


def order_rows(document: Mapping[str, Any]) -> list[list[str]]:
    """The order list under ORDER_HEADS."""
    return [
        [
            f"{_day(one, 'order_by')} (period {one['period']}"
            + (f" if {one['future']})" if one["future"] else ")"),
            figure(one["units"]), one["chip"], one["site"], one["how"],
            f"{_day(one, 'arrives')} (period {one['arrives']})",
            f"period {one['until']}" if one["until"] < len(document["cash_usd"]) else "the end",
            *(human(one[name], "USD") if one[name] else "" for name in PRICED),
        ]
        for one in document["orders"]
    ]  # fmt: skip


def _day(one: Mapping[str, Any], what: str) -> str:
    """The date of an order or an arrival; its week from the first day where there is none."""
    day = one[what if what == "order_by" else f"{what}_on"]
    return str(day) if day else f"week {one[f'{what}_week']:.0f}"


def _line(period: Mapping[str, Any]) -> list[str]:
    future = f", {period['future']}" if period["future"] else ""
    day = period["from_day"] or f"year {period['from_year']:g}"
    leave = [f"{figure(count)} {name}" for name, count in period["leave"].items()]
    return [
        f"{period['period']} ({day}{future})",
        "; ".join([_units(period["buy"]), *leave]).strip("; "),
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
