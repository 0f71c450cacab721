"""A report of a purchase plan: what to order by when, why, and what it costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from planner.archive.runs import RunRecord
from planner.archive.store import Archive
from planner.archive.stored_plan import stored_plan
from planner.charts import over_time
from planner.documents.figures import human
from planner.documents.purchase_rows import (
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
    order_rows,
    purchase_lines,
)
from planner.report.basis import fact_row, given_rows, weakest_first
from planner.report.blocks import Block, Heading, Listing, Paper, Picture, Points, Table, Words
from planner.report.charts import spec_of
from planner.report.words import Say
from planner.report.write import refuse_without_libraries, write_bytes
from simkernel.errors import BadStudy

FORMS = ("pdf", "html", "xlsx")
WIDTH_PX = 560
Document = Mapping[str, Any]
Fact = Mapping[str, Any]

MOST_FACTS = 20
UNTOLD = ("search", "sweep_s", "priced", "resumed")
"""Notes of a run that say nothing of its plan."""


def purchase_report(archive: Archive, run: str, to: Path, plan: str = "") -> dict[str, Any]:
    """Write the report of a purchase plan; returns what `planner report --json` says of it.

    Parameters
    ----------
    to : its ending says the form: .pdf, .html or .xlsx
    plan : its name or place on the front; "" for the cheapest

    Raises
    ------
    BadStudy : another ending, a run without a plan
    BadFile : the libraries are not installed, or the file cannot be written
    """
    form = to.suffix.removeprefix(".").lower()
    if form not in FORMS:
        raise BadStudy(f"--to {to.name}: a purchase plan is reported as .pdf, .html or .xlsx")
    refuse_without_libraries()
    record, document = reported(archive, run, plan)
    with archive.reading() as held:
        facts = held.facts(record.run)
    write_bytes(to, purchase_bytes(record, document, form, facts))
    return {
        "run": record.run,
        "plan": document["plan"],
        "site": str(document["site"]),
        "rule": "asked for" if plan else "cheapest",
        "decision": decision_of(document),
        "spread": [],
        "file": str(to),
        "bytes": to.stat().st_size,
    }


def reported(archive: Archive, run: str, plan: str = "") -> tuple[RunRecord, dict[str, Any]]:
    """The run, and the document of the plan that a report is of, with its sites.

    Parameters
    ----------
    plan : its name or place on the front; "" for the cheapest

    Raises
    ------
    BadStudy : a run without a plan
    """
    with archive.reading() as held:
        record = held.run(run)
        front = held.front(record.run)
    if not len(front.get("plan", ())):
        raise BadStudy(f"run {record.run} has no purchase plan; planner show says what is in the "
                       "way")  # fmt: skip
    cheapest = str(front["plan"][int(np.argmin(front["own_npv_usd"]))])
    document = stored_plan(archive, record.run, plan or cheapest)
    return record, {**document, "site": str(front["site"][0])}


def purchase_bytes(
    record: RunRecord, document: Document, form: str, facts: Sequence[Fact] = ()
) -> bytes:
    """The report in one of FORMS, as the bytes of its file."""
    paper = purchase_paper(record, document, facts)
    return _sheets(paper, document) if form == "xlsx" else _bytes(paper, form)


def _sheets(paper: Paper, document: Document) -> bytes:
    from planner.report.purchase_xlsx import purchase_xlsx

    lines = [decision_of(document), *purchase_lines(document)]
    return purchase_xlsx(document, f"{paper.title}, {paper.subtitle}", lines)


def _bytes(paper: Paper, form: str) -> bytes:
    from planner.report.html import html
    from planner.report.pdf import pdf

    return pdf(paper) if form == "pdf" else html(paper).encode("utf-8")


def purchase_paper(record: RunRecord, document: Document, facts: Sequence[Fact] = ()) -> Paper:
    """The report ready to be set.

    Parameters
    ----------
    record : of the run
    document : of `explain` for the plan
    facts : of the run, as the archive has them
    """
    title = f"Purchase plan: {record.start.study}"
    subtitle = f"run {record.run}, {record.started:%Y-%m-%d}, plan {document['plan']}"
    blocks = [*_decision(document), *_calendar(document), *_money(document),
              *_by_future(document), *_basis(record, document, facts)]  # fmt: skip
    return Paper(title, subtitle, "en", blocks)


def decision_of(document: Document) -> str:
    """What is decided, in one sentence."""
    found = document["metrics"]
    bought = [o for o in document["orders"] if o["how"] == "buy" and not o["future"]]
    units: dict[str, float] = {}
    for one in bought:
        name = f"{one['chip']} for {one['site']}"
        units[name] = units.get(name, 0.0) + one["units"]
    told = ", ".join(f"{count:,.0f} servers or racks of {name}" for name, count in units.items())
    first = bought[0] if bought else {}
    by = f"by {first['order_by']}" if first.get("order_by") else f"in period {first.get('period')}"
    sure = " whatever comes" if len(futures_of(document)) > 1 else ""
    own, months = found["own_npv_usd"], found.get("payback_months")
    saved = found.get("npv_usd")
    words = f"Order{sure}, the first {by}: {told}; " if told else ""
    words += f"{human(own, 'USD')} worth today, {human(found['capex_usd'], 'USD')} of capital"
    if saved is not None and saved > 0:
        words += f", {human(saved, 'USD')} less than renting everything"
    if months is not None:
        words += f", paid back in {months:.0f} months"
    return f"{words}; proved within {document['gap_frac']:.2%} of the best that there is."


def _decision(document: Document) -> Iterator[Block]:
    yield Heading("Decision")
    yield Words(decision_of(document), is_decision=True)
    yield Points(purchase_lines(document))
    rows = compared_rows(document)
    heads = list(rows[0])
    cells = [[_cell(row.get(name)) for name in heads] for row in rows]
    yield Table("Beside other ways", heads, cells, (2, 2, 2, 2, 2, 4), marked=0)


def _calendar(document: Document) -> Iterator[Block]:
    yield Heading("What to order by when")
    orders = order_rows(document)
    if orders:
        yield Table(
            "Order list", ORDER_HEADS, orders, (2.6, 1, 2, 1, 1.6, 2.6, 1.5, 1.6, 1.6, 1.6)
        )
    rows = calendar_rows(document)
    yield Table("Calendar", HEADS, rows, (1.6, 2, 2, 2.4, 2.4, 1.4, 1.4, 1.4, 1.8))


def _money(document: Document) -> Iterator[Block]:
    yield Heading("Money")
    chart = over_time.lines(cash_rows(document), "spent", "spent [M$]", "plan")
    words = "Dollars spent by the end of each period, in the mean of futures, by plan."
    yield _picture("Cash flow against other ways", words, chart)
    worth = worth_rows(document)
    if worth:
        heads = list(worth[0])
        cells = [[_cell(row[name]) for name in heads] for row in worth]
        yield Table("Worth of one step more of each limit", heads, cells)


def _by_future(document: Document) -> Iterator[Block]:
    for future in futures_of(document):
        nodes = way(document, future)
        yield Heading(f"If {future}" if future else "Capacity, power and carbon")
        if rows := capacity_rows(nodes):
            chart = over_time.lines(rows, "multiples", "load [× workload]", "stream", "what")
            yield _picture("Capacity against demand", "What is served, and what is asked.", chart)
        chart = over_time.lines(power_rows(document, nodes), "MW", "at the meter [MW]", "site",
                                   "what")  # fmt: skip
        yield _picture("Power against its caps", "Power to provide at each site.", chart)
        chart = over_time.years(carbon_rows(document, nodes), "t", "carbon [tCO2e]")
        yield _picture("Carbon of each year", "Electricity and the share of making.", chart)


def _basis(record: RunRecord, document: Document, facts: Sequence[Fact]) -> Iterator[Block]:
    """Assumptions with their grades, what is left out, and how the same comes out again."""
    say = Say("en")
    yield Heading(say("register"))
    weak = weakest_first([dict(fact) for fact in facts])
    if weak:
        unverified = sum(not fact["verified"] for fact in weak)
        heads = [say(f"col_{n}") for n in ("fact", "value", "band", "grade", "as_of", "source")]
        title = f"{len(weak):,} facts of the run, {unverified:,} of them not found in their source"
        rows = [fact_row(fact) for fact in weak[:MOST_FACTS]]
        yield Table(title, heads, rows, (3, 1.3, 1.6, 1.1, 1, 3.4))
    if given := given_rows(record.start.study_text):
        yield Table(say("given_table"), [say("col_given"), say("col_value")], given, (3, 5))
    yield Heading(say("left_out"))
    yield Points([
        say("left_out_always"),
        *(f"{name}: {words}" for name, words in document["notes"].items() if name not in UNTOLD),
    ])  # fmt: skip
    yield Heading(say("reproduce"))
    start = record.start
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
