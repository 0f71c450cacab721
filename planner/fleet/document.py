"""A purchase plan of a stored run as a document and as text: what to order, when, for what."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from planner.documents.figures import figure, human
from planner.documents.ruled import table_text
from planner.explain.plan import plain
from planner.fleet.baselines import AS_BEFORE, AT_ONCE, NOTHING, RENTED
from planner.fleet.payback import payback_months, payback_words
from planner.fleet.row import BASELINES, CALENDAR, FORM, WORTH
from planner.fleet.worth_words import limit_words, worth_words
from planner.metrics import METRICS
from planner.report.words import Say
from simkernel.errors import BadFile, BadStudy

HEADS = ("period", "arrives", "rent", "at work", "runs", "capital", "running", "rent paid", "MW")
ORDER_HEADS = (
    "order by", "units", "chip", "site", "how", "arrives", "until", "each", "in all", "a year",
)  # fmt: skip

EN = Say("en")

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


def purchase_lines(document: Mapping[str, Any], say: Say = EN) -> list[str]:
    """The same as sentences, without its calendar."""
    return [
        _first_line(document, say),
        *_limit_lines(document, say),
        *_compared_lines(document, say),
        *_worth_lines(document, say),
        *_gate_lines(document, say),
        *_future_lines(document, say),
    ]


def _first_line(document: Mapping[str, Any], say: Say) -> str:
    found = document["metrics"]
    return say(
        "fleet_first",
        plan=document["plan"],
        run=document["run"],
        worth=human(found["own_npv_usd"], "USD"),
        capital=human(found["capex_usd"], "USD"),
        carbon=human(found["kgco2e"], "kgCO2e"),
        left=human(document["left_usd"], "USD"),
        status=say.name(document["status"]),
        gap=f"{document['gap_frac']:.2%}",
    )


def _limit_lines(document: Mapping[str, Any], say: Say) -> Iterator[str]:
    """What binds, and what of the limits is left."""
    found = document["metrics"]
    if document["binding"]:
        names = say.listed([limit_words(name, say) for name in document["binding"]])
        yield say("fleet_binding", names=names)
    left = []
    if found.get("stranded_mw") is not None:
        left.append(f"{found['stranded_mw']:.3g} MW")
    if found.get("stranded_usd") is not None:
        left.append(human(found["stranded_usd"], "USD"))
    if left:
        yield say("fleet_unused", left=say.listed(left))


def _compared_lines(document: Mapping[str, Any], say: Say) -> Iterator[str]:
    """Beside renting everything, buying all at once and doing nothing."""
    own = document["metrics"]["own_npv_usd"]
    for name, other in document["baselines"].items():
        if name == NOTHING:
            yield say("fleet_nothing", name=say.name(name), **nothing_words(other, say))
        elif "why" in other:
            yield f"{say.name(name)}: {why_words(other['why'], say)}"
        else:
            more = other["own_npv_usd"] - own
            yield say(
                "fleet_dearer" if more >= 0 else "fleet_cheaper",
                what=say.name(DOING[name]),
                more=human(abs(more), "USD"),
                gap=gap_words(other, document, say),
            )
    if words := payback_words(document, say):
        yield words
    yield say("fleet_ordered")


def nothing_words(other: Mapping[str, Any], say: Say) -> dict[str, str]:
    """What doing nothing serves, and what it leaves undone, for a phrase."""
    served = say.listed([
        say("fleet_share", share=f"{share:.0%}", stream=name)
        for name, share in other["served_frac"].items()
    ])  # fmt: skip
    undone = say.listed(other["runs_not_done"])
    return {
        "served": served or say.name("nothing"),
        "undone": say("fleet_undone", runs=undone) if undone else "",
    }


def why_words(why: str, say: Say) -> str:
    """Why there is no plan beside this one."""
    first, apart, rest = why.partition(": ")
    return say.name(first) + apart + say.name(rest) if apart else say.name(first)


def gap_words(other: Mapping[str, Any], document: Mapping[str, Any], say: Say = EN) -> str:
    """How far a plan beside this one may be from its own best, where that is further than this."""
    gap = other["gap_frac"]
    is_wide = gap > max(2.0 * document["gap_frac"], 0.01)
    return say("fleet_gap", gap=f"{gap:.0%}") if is_wide else ""


def _worth_lines(document: Mapping[str, Any], say: Say) -> Iterator[str]:
    told = [
        f"{limit_words(name, say)}: {worth_words(one, say)}"
        for name, one in document["worth_of_more"].items()
    ]
    if told:
        yield say("fleet_worth", told="; ".join(told))


def _gate_lines(document: Mapping[str, Any], say: Say) -> Iterator[str]:
    """What is decided before each gate, and what waits for what it shows."""
    for gate in document["gates"]:
        yield say(
            "fleet_gate",
            period=gate["period"],
            observe=say("fleet_or").join(gate["observe"]),
            decided=_told(gate["decided"], say),
        )
        for future, placed in gate["waits"].items():
            yield say("fleet_if", future=future, told=_told(placed, say))


def _future_lines(document: Mapping[str, Any], say: Say) -> Iterator[str]:
    """What each future costs, the dearest first."""
    rows = document["futures"]
    if len(rows) > 1:
        told = [
            say(
                "fleet_future",
                future=row["future"],
                chance=f"{row['chance']:.0%}",
                worth=human(row["own_npv_usd"], "USD"),
            )
            for row in rows
        ]
        yield say("fleet_futures", told="; ".join(told))


def _told(placed: Sequence[Mapping[str, Any]], say: Say) -> str:
    """Orders in words."""
    found: dict[str, float] = {}
    for one in placed:
        name = f"{one['chip']} @ {one['site']} ({_word(one['how'], say)})"
        found[name] = found.get(name, 0.0) + one["units"]
    return _units(found) or say.name("nothing")


def _word(word: str, say: Say) -> str:
    """A word of a study: as it is written in English, by its meaning in another language."""
    return word if say.language == "en" else say.name(word)


def heads(names: Sequence[str], say: Say) -> list[str]:
    """Heads of a table of these."""
    return [_word(name, say) for name in names]


def calendar_rows(document: Mapping[str, Any], say: Say = EN) -> list[list[str]]:
    """The calendar under HEADS."""
    return [_line(period, say) for period in document["calendar"]]


def order_rows(document: Mapping[str, Any], say: Say = EN) -> list[list[str]]:
    """The order list under ORDER_HEADS."""
    last = len(document["cash_usd"])
    return [
        [
            _day(one, "order_by", one["period"], one["future"], say),
            figure(one["units"]), one["chip"], one["site"], _word(one["how"], say),
            _day(one, "arrives", one["arrives"], "", say),
            say("fleet_period", period=one["until"])
            if one["until"] < last else say.name("the end"),
            *(human(one[name], "USD") if one[name] else "" for name in PRICED),
        ]
        for one in document["orders"]
    ]  # fmt: skip


def _day(one: Mapping[str, Any], what: str, period: int, future: str, say: Say) -> str:
    """The date of an order or an arrival; its week from the first day where there is none."""
    found = one[what if what == "order_by" else f"{what}_on"]
    day = str(found) if found else say("fleet_week", week=f"{one[f'{what}_week']:.0f}")
    when = say("fleet_when", future=future) if future else ""
    return f"{day} ({say('fleet_period', period=period)}{when})"


def _line(period: Mapping[str, Any], say: Say) -> list[str]:
    future = f", {period['future']}" if period["future"] else ""
    day = period["from_day"] or say("fleet_year", year=f"{period['from_year']:g}")
    leave = [f"{figure(count)} {_placed(name, say)}" for name, count in period["leave"].items()]
    return [
        f"{period['period']} ({day}{future})",
        "; ".join([_units(period["buy"], say), *leave]).strip("; "),
        _units(period["rent"], say),
        _units(period["at_work"], say),
        "; ".join(f"{name}: {_placed(words, say)}" for name, words in period["runs"].items()),
        human(period["capex_usd"], "USD"),
        human(period["running_usd"], "USD"),
        human(period["rent_usd"], "USD"),
        ", ".join(f"{site} {mw:.2f}" for site, mw in period["site_mw"].items()),
    ]


def _units(units: Mapping[str, float], say: Say = EN) -> str:
    return ", ".join(f"{figure(count)} {_placed(name, say)}" for name, count in units.items())


PLACED_ZH = (
    (re.compile(r", rented$"), "（租用）"),
    (re.compile(r" \(lease\)$"), "（融资租赁）"),
    (re.compile(r" sold$"), " 售出"),
    (re.compile(r" to (\S+)$"), r" 迁往 \1"),
    (re.compile(r" in up to (\S+) blocks of (\S+) x "), r"：至多 \1 块，每块 \2 × "),
    (re.compile(r" on (\S+) x "), r"：\1 × "),
)
"""How units and runs are told in a calendar as it is stored, and the same in Chinese."""


def _placed(words: str, say: Say) -> str:
    """Units at their place, or a run on its units."""
    for pattern, other in PLACED_ZH if say.language == "zh" else ():
        words = pattern.sub(other, words)
    return words
