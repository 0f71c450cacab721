"""A report of a purchase plan: what to order by when, why, and what it costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from planner.archive.runs import RunRecord
from planner.archive.store import Archive
from planner.archive.stored_plan import stored_plan
from planner.charts import over_time
from planner.documents.figures import human
from planner.documents.purchase_rows import (
    THIS,
    Row,
    capacity_rows,
    carbon_rows,
    cash_rows,
    compared_rows,
    futures_of,
    power_rows,
    way,
    worth_rows,
)
from planner.fleet.document import (
    HEADS,
    ORDER_HEADS,
    calendar_rows,
    heads,
    order_rows,
    purchase_lines,
)
from planner.report import charts
from planner.report.basis import fact_row, given_rows, weakest_first
from planner.report.blocks import Block, Heading, Listing, Paper, Picture, Points, Table, Words
from planner.report.charts import spec_of
from planner.report.purchase_findings import emitted, powered, served, spent
from planner.report.purchase_what_if import Case, Outlook, outlook
from planner.report.what_if import SAME_FRAC
from planner.report.words import Say
from planner.report.write import refuse_without_libraries, write_bytes
from simkernel.errors import BadStudy

FORMS = ("pdf", "html", "xlsx")
WIDTH_PX = 560
SHARES = (1.6, 2, 2, 2.4, 2.4, 1.4, 1.4, 1.4, 1.8)
ORDER_SHARES = (2.6, 1, 2, 1, 1.6, 2.6, 1.5, 1.6, 1.6, 1.6)
"""Widths of columns under HEADS and ORDER_HEADS."""

EN = Say("en")
Document = Mapping[str, Any]
Fact = Mapping[str, Any]

MOST_FACTS = 20
UNTOLD = ("search", "sweep_s", "priced", "resumed")
"""Notes of a run that say nothing of its plan."""


def purchase_report(
    archive: Archive, run: str, to: Path, language: str = "en", plan: str = ""
) -> dict[str, Any]:
    """Write the report of a purchase plan; returns what `planner report --json` says of it.

    Parameters
    ----------
    to : its ending says the form: .pdf, .html or .xlsx
    language : "en" or "zh"
    plan : its name or place on the front; "" for the cheapest

    Raises
    ------
    BadStudy : another ending, a run without a plan
    UnknownName : a language that it does not have
    BadFile : the libraries are not installed, or the file cannot be written
    """
    form = to.suffix.removeprefix(".").lower()
    if form not in FORMS:
        raise BadStudy(f"--to {to.name}: a purchase plan is reported as .pdf, .html or .xlsx")
    say = Say(language)
    refuse_without_libraries()
    got = reported(archive, run, plan)
    write_bytes(to, purchase_bytes(got, form, language))
    return {
        "run": got.record.run,
        "plan": got.document["plan"],
        "site": str(got.document["site"]),
        "rule": "asked for" if plan else "cheapest",
        "decision": decision_of(got.document, say),
        "spread": [],
        "file": str(to),
        "bytes": to.stat().st_size,
    }


@dataclass(frozen=True)
class Reported:
    """A purchase run and the plan that a report is of.

    Parameters
    ----------
    document : of `explain` for the plan, with its sites
    facts : of the run, as the archive has them
    outlook : what the plan hangs on; None where the run kept too little to tell
    """

    record: RunRecord
    document: Document
    facts: Sequence[Fact]
    names: Sequence[str]
    outlook: Outlook | None


def reported(archive: Archive, run: str, plan: str = "") -> Reported:
    """The run and the plan that a report is of.

    Parameters
    ----------
    plan : its name or place on the front; "" for the cheapest

    Raises
    ------
    BadStudy : a run without a plan
    """
    with archive.reading() as held:
        record = held.run(run)
        front, facts = held.front(record.run), held.facts(record.run)
    if not len(front.get("plan", ())):
        raise BadStudy(f"run {record.run} has no purchase plan; planner show says what is in the "
                       "way")  # fmt: skip
    cheapest = str(front["plan"][int(np.argmin(front["own_npv_usd"]))])
    document = stored_plan(archive, record.run, plan or cheapest)
    names = [str(name) for name in front["plan"]]
    site = str(front["site"][names.index(document["plan"])])
    found = outlook(archive, record, document["plan"])
    return Reported(record, {**document, "site": site}, facts, names, found)


def purchase_bytes(got: Reported, form: str, language: str = "en") -> bytes:
    """The report in one of FORMS, as the bytes of its file."""
    paper = purchase_paper(got, language)
    if form == "xlsx":
        return _sheets(paper, got.document, Say(language))
    return _bytes(paper, form)


def _sheets(paper: Paper, document: Document, say: Say) -> bytes:
    from planner.report.purchase_xlsx import purchase_xlsx

    lines = [decision_of(document, say), *purchase_lines(document, say)]
    return purchase_xlsx(document, f"{paper.title}, {paper.subtitle}", lines, say)


def _bytes(paper: Paper, form: str) -> bytes:
    from planner.report.html import html
    from planner.report.pdf import pdf

    return pdf(paper) if form == "pdf" else html(paper).encode("utf-8")


def purchase_paper(got: Reported, language: str = "en") -> Paper:
    """The report ready to be set."""
    say, record, document = Say(language), got.record, got.document
    date = f"{record.started:%Y-%m-%d}"
    title = say("fleet_title", study=record.start.study)
    subtitle = say("fleet_subtitle", run=record.run, date=date, plan=document["plan"])
    blocks = [*_decision(document, say), *_calendar(document, say), *_money(document, say),
              *_uncertain(got, say), *_by_future(document, say), *_basis(got, say)]  # fmt: skip
    return Paper(title, subtitle, language, blocks)


def decision_of(document: Document, say: Say = EN) -> str:
    """What is decided, in one sentence."""
    found = document["metrics"]
    bought = [o for o in document["orders"] if o["how"] == "buy" and not o["future"]]
    units: dict[tuple[str, str], float] = {}
    for one in bought:
        name = one["chip"], one["site"]
        units[name] = units.get(name, 0.0) + one["units"]
    saved, months = found.get("npv_usd"), found.get("payback_months")
    rest = say(
        "fleet_sum",
        worth=human(found["own_npv_usd"], "USD"),
        capital=human(found["capex_usd"], "USD"),
        saved=say("fleet_saved", saved=human(saved, "USD")) if saved and saved > 0 else "",
        paid="" if months is None else say("fleet_paid", months=f"{months:.0f}"),
        gap=f"{document['gap_frac']:.2%}",
    )
    if not bought:
        return rest
    day, period = bought[0].get("order_by"), bought[0]["period"]
    told = [
        say("fleet_units", count=f"{count:,.0f}", chip=chip, site=site)
        for (chip, site), count in units.items()
    ]
    return say(
        "fleet_order",
        sure=say("fleet_sure") if len(futures_of(document)) > 1 else "",
        by=say("fleet_by", day=day) if day else say("fleet_in", period=period),
        units=say.listed(told),
        rest=rest,
    )


def _decision(document: Document, say: Say) -> Iterator[Block]:
    yield Heading(say("decision"))
    yield Words(decision_of(document, say), is_decision=True)
    yield Points(purchase_lines(document, say))
    yield _table(say("fleet_beside"), compared_rows(document, say), (2, 2, 2, 2, 2, 4))


def _table(title: str, rows: Sequence[Mapping[str, Any]], shares: Sequence[float] = ()) -> Table:
    """Rows under the names of the first one, which stands out where there are others."""
    names = list(rows[0])
    cells = [[_cell(row.get(name)) for name in names] for row in rows]
    return Table(title, names, cells, shares, marked=0 if shares else -1)


def _calendar(document: Document, say: Say) -> Iterator[Block]:
    yield Heading(say("fleet_what_to_order"))
    orders = order_rows(document, say)
    if orders:
        yield Table(say("fleet_orders"), heads(ORDER_HEADS, say), orders, ORDER_SHARES)
    rows = calendar_rows(document, say)
    yield Table(say("fleet_calendar"), heads(HEADS, say), rows, SHARES)


def _money(document: Document, say: Say) -> Iterator[Block]:
    yield Heading(say("fleet_money"))
    cash = cash_rows(document)
    rows = [{**row, "plan": say.name(row["plan"])} for row in cash]
    title = spent(cash, say)
    yield _lines(title, "fleet_cash", rows, ("spent", "spent [M$]", "plan"), say)
    if worth := worth_rows(document, say):
        yield _table(say("fleet_worth_table"), worth)


def _uncertain(got: Reported, say: Say) -> Iterator[Block]:
    """What the worth hangs on, and the plan in every scenario."""
    found = got.outlook
    if found is None:
        return
    if abs(found.now - found.then) > SAME_FRAC * abs(found.then):
        now, then = (human(usd, "USD") for usd in (found.now, found.then))
        yield Words(say("fleet_facts_moved", now=now, then=then))
    if found.swings:
        first = found.swings[0]
        yield Heading(say("tornado"))
        low, high = (human(usd, "USD") for usd in sorted((first.at_low, first.at_high)))
        title = say("tornado_title", first=say.name(first.name), low=low, high=high)
        spec = charts.tornado(found.swings, found.now, say)
        yield Picture(title, say("fleet_tornado_words"), spec)
    yield Heading(say("what_if"))
    names = [say(f"col_{n}") for n in ("scenario", "cost", "change", "best", "regret")]
    rows = [_case(one, found.cases[0].value, got.names, say) for one in found.cases]
    yield Table(say("fleet_what_if"), names, rows, (3, 2.4, 1, 1.6, 1.4), marked=0)
    yield Words(say("fleet_what_if_words", run=got.record.run))
    if found.idle:
        yield Words(say("idle", names=say.listed([say.name(name) for name in found.idle])))


def _case(one: Case, base: float, names: Sequence[str], say: Say) -> list[str]:
    """A scenario as a row of its table."""
    broken = say("fleet_breaks", limits="; ".join(one.breaks)) if one.breaks else ""
    change = one.value / base - 1.0
    return [
        say.name(one.name),
        human(one.value, "USD") + broken,
        f"{change:+.0%}" if change else "",
        names[one.best_row] if one.is_beaten else say.name(THIS),
        human(one.value - one.best, "USD") if one.is_beaten else "–",
    ]


def _by_future(document: Document, say: Say) -> Iterator[Block]:
    for future in futures_of(document):
        nodes = way(document, future)
        yield Heading(say("fleet_if_head", future=future) if future else say("fleet_over_time"))
        if rows := capacity_rows(nodes):
            how = ("multiples", "load [× workload]", "stream")
            yield _lines(served(rows, say), "fleet_capacity", rows, how, say, "what")
        rows = power_rows(document, nodes)
        how = ("MW", "at the meter [MW]", "site")
        yield _lines(powered(rows, say), "fleet_power", rows, how, say, "what")
        title, time = (_word(name, say) for name in ("carbon [tCO2e]", over_time.TIME))
        tonnes = carbon_rows(document, nodes)
        chart = over_time.years(tonnes, "t", title, time)
        yield _picture(emitted(tonnes, say), say("fleet_carbon_words"), chart)


def _lines(
    finding: str,
    key: str,
    rows: Sequence[Row],
    how: tuple[str, str, str],
    say: Say,
    dash: str = "",
) -> Picture:
    """Lines over the years under the names of a language.

    Parameters
    ----------
    finding : what the chart shows, its title
    key : of the words below it, without "_words"
    how : field along y, its title, and the field that colours tell apart
    dash : field whose values are dashed or not
    """
    y, title, colour = how
    hue = say(f"fleet_what_{colour}")
    named = [
        {**{n: v for n, v in row.items() if n != colour}, hue: row[colour],
         **({dash: say(f"fleet_what_{row[dash]}")} if dash else {})}
        for row in rows
    ]  # fmt: skip
    title, time = _word(title, say), _word(over_time.TIME, say)
    chart = over_time.lines(named, y, title, hue, dash, time)
    return _picture(finding, say(f"{key}_words"), chart)


def _word(word: str, say: Say) -> str:
    return heads((word,), say)[0]


def _basis(got: Reported, say: Say) -> Iterator[Block]:
    """Assumptions with their grades, what is left out, and how the same comes out again."""
    start = got.record.start
    yield Heading(say("register"))
    weak = weakest_first([dict(fact) for fact in got.facts])
    if weak:
        unverified = sum(not fact["verified"] for fact in weak)
        names = [say(f"col_{n}") for n in ("fact", "value", "band", "grade", "as_of", "source")]
        title = say("fleet_facts", count=f"{len(weak):,}", unverified=f"{unverified:,}")
        rows = [fact_row(fact) for fact in weak[:MOST_FACTS]]
        yield Table(title, names, rows, (3, 1.3, 1.6, 1.1, 1, 3.4))
    if given := given_rows(start.study_text):
        yield Table(say("given_table"), [say("col_given"), say("col_value")], given, (3, 5))
    yield Heading(say("left_out"))
    notes = [f"{n}: {words}" for n, words in got.document["notes"].items() if n not in UNTOLD]
    yield Points([say("left_out_always"), *notes])
    yield Heading(say("reproduce"))
    version = start.versions.get("planner", "")
    yield Points([
        say("reproduce_run", seed=start.seed, facts=start.facts_hash[:12], version=version)
    ])  # fmt: skip
    yield Listing(start.study_text.strip())


def _picture(title: str, words: str, chart: Any) -> Picture:
    return Picture(title, words, spec_of(chart.properties(width=WIDTH_PX)))


def _cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:,.6g}" if isinstance(value, float) else str(value)
