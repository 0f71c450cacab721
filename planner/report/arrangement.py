"""A report of a cluster that serves and trains: which arrangement of the day, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from planner.archive.runs import RunRecord
from planner.archive.store import Archive
from planner.costing.recost import stored_study
from planner.decide.methods import knee
from planner.decide.scaled import scaled
from planner.documents.figures import figure
from planner.report import charts
from planner.report.blocks import Block, Heading, Listing, Paper, Picture, Points, Table, Words
from planner.report.choice import objectives
from planner.report.words import Say
from simkernel.errors import BadStudy, UnknownName

FORMS = ("pdf", "html")
SHOWN = (
    "useful_device_hours_per_day", "stops_per_day", "lost_device_hours_per_day",
    "reserve_device_hours_per_day", "idle_device_hours_per_day",
)  # fmt: skip


@dataclass(frozen=True)
class Arranged:
    """A run of a mixed study and the arrangement that its report is of.

    Parameters
    ----------
    front : columns, (n,)
    row : the arrangement: the knee of the front, or the one asked for
    is_asked : somebody named it
    """

    record: RunRecord
    front: Mapping[str, Any]
    row: int
    is_asked: bool

    def value(self, name: str, row: int | None = None) -> float:
        """A figure of a row, of the chosen one by default."""
        return float(self.front[name][self.row if row is None else row])

    def how(self, say: Say, row: int | None = None) -> str:
        """An arrangement in words: how the devices are shared, blocks, reserve."""
        at = self.row if row is None else row
        return say(
            f"shared_{self.front['arrangement'][at]}",
            block=figure(self.value("block_devices", at)),
            reserve=f"{self.value('reserve_frac', at):.0%}",
        )


def arranged(archive: Archive, run: str, plan: str = "") -> Arranged:
    """The run and the arrangement to report.

    Raises
    ------
    BadStudy : a run without a front
    UnknownName : a plan that is not on it
    """
    with archive.reading() as held:
        record = held.run(run)
        front = {n: np.ma.getdata(c) for n, c in held.front(record.run).items()}
    names = list(map(str, front.get("plan", ())))
    if not names:
        raise BadStudy(
            f"run {record.run} has no arrangement; planner show says what is in the way"
        )
    if plan:
        place = int(plan) - 1 if plan.isdigit() else -1
        if plan not in names and not 0 <= place < len(names):
            raise UnknownName(
                f"plan {plan} is not on the front of run {record.run}; wanted a place from 1 to "
                f"{len(names)} or a name that planner show {record.run} lists"
            )
        return Arranged(record, front, names.index(plan) if plan in names else place, True)
    signs = objectives(stored_study(record))
    points = np.stack([sign * np.asarray(front[n], float) for n, sign in signs.items()], axis=1)
    return Arranged(record, front, int(knee(scaled(points)).argmax()), False)


def arrangement_bytes(got: Arranged, form: str, language: str) -> bytes:
    """The report in one of FORMS, as the bytes of its file.

    Raises
    ------
    BadStudy : another form
    UnknownName : a language that it does not have
    """
    from planner.report.html import html
    from planner.report.pdf import pdf

    if form not in FORMS:
        raise BadStudy(f"a mixed study is reported as .pdf or .html, not .{form}")
    paper = arrangement_paper(got, language)
    return pdf(paper) if form == "pdf" else html(paper).encode("utf-8")


def arrangement_paper(got: Arranged, language: str) -> Paper:
    """The report ready to be set."""
    say = Say(language)
    start = got.record.start
    date = f"{got.record.started:%Y-%m-%d}"
    blocks = [*_decision(got, say), *_others(got, say), *_basis(got, say)]
    title = say("arrangement_title", study=start.study)
    return Paper(title, say("subtitle", run=got.record.run, date=date), language, blocks)


def arrangement_of(got: Arranged, language: str) -> str:
    """What is decided, in one sentence."""
    say = Say(language)
    return say(
        "arrange",
        devices=figure(got.value("devices")),
        how=got.how(say),
        useful=figure(got.value("useful_device_hours_per_day")),
        stops=figure(got.value("stops_per_day")),
    )


def _decision(got: Arranged, say: Say) -> Iterator[Block]:
    """The sentence, and what the extremes would give."""
    yield Heading(say("decision"))
    yield Words(arrangement_of(got, say.language), is_decision=True)
    useful = np.asarray(got.front["useful_device_hours_per_day"], float)
    stops = np.asarray(got.front["stops_per_day"], float)
    ends = {"arrange_most": int(useful.argmax()), "arrange_calmest": int(stops.argmin())}
    lines = [
        say(key, how=got.how(say, at), useful=figure(float(useful[at])),
            stops=figure(float(stops[at])))
        for key, at in ends.items()
        if at != got.row
    ]  # fmt: skip
    yield Points([*lines, say("arrange_no_money")])
    yield Words(say("rule_asked" if got.is_asked else "rule_knee"))


def _others(got: Arranged, say: Say) -> Iterator[Block]:
    """Every arrangement of the front, and the trade-off as a picture."""
    yield Heading(say("candidates"))
    order = [got.row, *(i for i in range(len(got.front["plan"])) if i != got.row)]
    heads = [say("col_plan"), say("col_arrangement"), *(say.metric(name) for name in SHOWN)]
    rows = [
        [str(got.front["plan"][i]), got.how(say, i), *(figure(got.value(n, i)) for n in SHOWN)]
        for i in order
    ]
    title = say("candidates_table", count=len(rows), front=len(rows))
    yield Table(title, heads, rows, (0.8, 4, 1.6, 1.2, 1.4, 1.4, 1.4), marked=0)
    if len(rows) > 1:
        yield Heading(say("front"))
        named = {i: str(got.front["plan"][i]) for i in order}
        pair = ("stops_per_day", "useful_device_hours_per_day")
        spec = charts.front(got.front, pair, got.row, named, "arrangement", say)
        yield Picture(say("arrange_front"), say("arrange_front_words"), spec)


def _basis(got: Arranged, say: Say) -> Iterator[Block]:
    """What it rests on, and how it comes out again."""
    start, summary = got.record.start, got.record.summary
    notes = summary.notes if summary else {}
    yield Heading(say("left_out"))
    yield Points([f"{n}: {text}" for n, text in notes.items() if n not in ("search", "sweep_s")])
    yield Heading(say("reproduce"))
    version = start.versions.get("planner", "")
    facts = start.facts_hash[:12]
    yield Points([say("reproduce_run", seed=start.seed, facts=facts, version=version)])
    yield Listing(start.study_text.strip())
