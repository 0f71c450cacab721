"""Everything a report tells of a run, looked up and computed once; no words and no file here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from costdata import catalog as catalogue
from costdata.catalog import Catalog
from planner.archive.runs import RunRecord
from planner.archive.stale_facts import stale_notes
from planner.archive.store import Archive
from planner.archive.stored_plan import plan_figures
from planner.costing.places import Asked, study_at
from planner.costing.recost import stored_study
from planner.evaluated import CLOSED_FORM, REPLAY
from planner.fleet.document import refuse_purchases
from planner.report.cash import Cash, cash_of
from planner.report.choice import SHORT, Choice, chosen, objectives
from planner.report.replayed import OfReplay, OneFront, at_its_fleet, front_of, replays_of
from planner.report.what_if import Outcome, cost_in, outcomes
from planner.serving.replay import LATENCIES
from planner.study.read import Study
from planner.uncertainty.draws import Drawn, drawn
from planner.uncertainty.inputs import Ends
from planner.uncertainty.plans import Part, parts_of
from planner.uncertainty.sources import Source, sources
from planner.uncertainty.tornado import Swing, tornado
from simkernel.columns import Codes, Floats
from simkernel.errors import BadStudy

DRAWS = 1000
MOST_DRAWN = 1000
"""Rows of a front that are drawn, the candidates among them: more would take seconds."""

MONEY = "usd"
"""The figure of the tornado and the scenarios: every kind of study has it."""


@dataclass(frozen=True)
class Gathered:
    """A run and one of its plans.

    Parameters
    ----------
    front : columns, NaN for NULL, (n,)
    choice : the plan and those beside it
    plan : its document, as `planner explain` has it, without changes
    swings : of `MONEY`, widest first
    odds : objectives of `drawn_rows` in every draw
    drawn_rows : places on the front, (r,)
    outcomes, idle : the plan in every scenario, and scenarios that change nothing
    cash : None where nothing is bought or no rent is known
    facts : of the run, as the archive has them
    ends : of the chosen row
    parts : of the rows drawn
    replayed : what the replay of the plan found, None where it was not replayed
    replays : of all plans of the run that were replayed
    fidelity : of every row of `front`: CLOSED_FORM or REPLAY
    closed : the front of the closed form, which `front` is where nothing else is known
    held : plans that keep every limit at some site as they were replayed
    stale : what of the run no longer holds, as `stale_facts.stale_notes` tells it; {} for nothing
    """

    record: RunRecord
    study: Study
    catalog: Catalog
    front: Mapping[str, Any]
    choice: Choice
    plan: Mapping[str, Any]
    swings: list[Swing]
    odds: Drawn
    drawn_rows: Codes
    outcomes: list[Outcome]
    idle: list[str]
    cash: Cash | None
    facts: list[dict[str, Any]]
    ends: Ends
    parts: list[Part]
    replayed: OfReplay | None
    replays: Mapping[str, OfReplay]
    fidelity: str
    closed: Mapping[str, Any]
    held: frozenset[str]
    stale: Mapping[str, str]

    @property
    def signs(self) -> dict[str, float]:
        """Objectives to +1 where less is better."""
        return objectives(self.study)

    def value(self, name: str, row: int | None = None) -> float:
        """A figure of a row of the front, of the chosen one by default; NaN where NULL."""
        at = self.choice.row if row is None else row
        return float(self.front[name][at]) if name in self.front else float("nan")

    def word(self, name: str, row: int | None = None) -> str:
        """A word of a row."""
        at = self.choice.row if row is None else row
        return str(self.front[name][at]) if name in self.front else ""

    @property
    def is_held_by_replay(self) -> bool:
        """A replay found that the plan keeps its bounds as priced; true of other studies."""
        is_kept = self.replayed is not None and not self.replayed.is_short
        return self.is_as_replayed or is_kept or self.study.kind != "serve"

    @property
    def is_as_replayed(self) -> bool:
        """Every row of the front is as its replay found it, and keeps every limit there."""
        return self.fidelity == REPLAY

    @cached_property
    def sources(self) -> list[Source]:
        """Where the spread of `MONEY` comes from, worked out when it is first asked for."""
        at = self.drawn_at(self.choice.row)
        part = next(one for one in self.parts if at in one.rows)
        return sources(self.ends, part.study, MONEY, self.study.seed)

    def drawn_alone(self, name: str) -> Floats:
        """A metric of the chosen plan in every draw, in the worlds of `odds`; (draws,)."""
        at = self.drawn_at(self.choice.row)
        study = next(one for one in self.parts if at in one.rows).study
        row = {n: column[[self.choice.row]] for n, column in self.front.items()}
        part = Part(np.zeros(1, dtype=np.int64), study, self.ends)
        return drawn([part], row, {name: 1.0}, DRAWS, study.seed).values[name][:, 0]

    def drawn_at(self, row: int) -> int:
        """Where a row of the front stands among those drawn."""
        return int(np.flatnonzero(self.drawn_rows == row)[0])


def gather(
    archive: Archive, run: str, plan: str = "", site: str = "", *, is_closed: bool = False
) -> Gathered:
    """A run and the plan that is asked for, or that the rule chooses.

    Parameters
    ----------
    plan : its name or its place on the front; "" for the rule
    site : where, of a named plan that is on the front at several
    is_closed : of the closed form alone, whatever was replayed

    Raises
    ------
    UnknownName : no such run, or a plan that is not on its front
    BadStudy : the run has no front
    """
    with archive.reading() as held:
        record = held.run(run)
        stored, facts = held.front(record.run), held.facts(record.run)
        replays = replays_of(held.sample(record.run))
        as_replayed = {} if is_closed else held.replayed(record.run)
    refuse_purchases(record.start.kind, "a report")
    if not len(stored.get("plan", ())):
        raise BadStudy(
            f"run {record.run} has no plan on its front; see planner show {record.run} for what "
            "is in the way"
        )
    study = stored_study(record)
    catalog = catalogue.load(Path(study.tables) if study.tables else None)
    closed = known_columns(stored)
    one = front_of(record.run, study, closed, known_columns(as_replayed), plan, site)
    front = {**one.columns, SHORT: _falls_short(one, replays)}
    rows = _same_scenario(front, one.asked or 0)
    choice = chosen(study, front, rows, one.asked)
    drawn_rows = _drawn_rows(rows, choice)
    some = {name: column[drawn_rows] for name, column in front.items()}
    parts = parts_of(study, catalog, some)
    at = int(np.flatnonzero(drawn_rows == choice.row)[0])
    part = next(one for one in parts if at in one.rows)
    own = part.ends.take(np.flatnonzero(part.rows == at))
    row = {name: column[choice.row] for name, column in front.items()}
    document = _document(record, study, row, one.fidelity)
    told = {**document, **_place_of(row), "fidelity": one.fidelity}
    with archive.reading() as held:
        stale = stale_notes(held, record, catalog, told)
    found, idle = outcomes(parts, len(drawn_rows), at, MONEY)
    return Gathered(
        record=record,
        study=study,
        catalog=catalog,
        front=front,
        choice=choice,
        plan=document,
        swings=tornado(own, part.study, MONEY),
        odds=drawn(parts, some, {**objectives(study), MONEY: 1.0}, DRAWS, study.seed),
        drawn_rows=drawn_rows,
        outcomes=found,
        idle=idle,
        cash=cash_of(own.middle),
        facts=facts,
        ends=own,
        parts=parts,
        replayed=replays.get(str(front["plan"][choice.row])),
        replays=replays,
        fidelity=one.fidelity,
        closed=closed,
        held=one.held,
        stale=stale,
    )


def scenario_table(got: Gathered) -> tuple[list[str], Floats]:
    """Names of the scenarios, and the cost of every row drawn in each; (r, s) [$]."""
    names = [one.name for one in got.outcomes]
    columns = [cost_in(got.parts, len(got.drawn_rows), name, MONEY) for name in names]
    return names, np.stack(columns, axis=1)


def _falls_short(one: OneFront, replays: Mapping[str, OfReplay]) -> Floats:
    """1 for a plan of the closed form that its replay found short; (n,)."""
    plans = np.asarray(one.columns["plan"]).astype(str)
    is_closed = one.fidelity == CLOSED_FORM
    short = [is_closed and plan in replays and replays[plan].is_short for plan in plans]
    return np.array(short, dtype=float)


def known_columns(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Stored columns, NaN for NULL."""
    return {name: _filled(column) for name, column in stored.items()}


def _filled(column: Any) -> Any:
    """NaN for NULL in numbers, words as they are."""
    if np.ma.is_masked(column):
        return np.ma.filled(column.astype(float), np.nan)
    return np.ma.getdata(column)


def _same_scenario(front: Mapping[str, Any], row: int) -> Codes:
    """Rows that compete with one: all, or those of its scenario."""
    count = len(front["plan"])
    if "scenario" not in front:
        return np.arange(count)
    return np.flatnonzero(np.asarray(front["scenario"]) == front["scenario"][row])


def _drawn_rows(rows: Codes, choice: Choice) -> Codes:
    """The candidates, then others evenly spread over the front."""
    spread = np.linspace(0, len(rows) - 1, min(len(rows), MOST_DRAWN)).astype(int)
    return np.array(list(dict.fromkeys([*choice.rows, *rows[spread].tolist()])), dtype=np.int64)


def _place_of(row: Mapping[str, Any]) -> dict[str, str]:
    """Plan, site and scenario of a row, "" where it has none."""
    return {name: str(row.get(name, "")) for name in ("plan", "site", "scenario")}


def _document(
    record: RunRecord, study: Study, row: Mapping[str, Any], fidelity: str
) -> dict[str, Any]:
    """The plan as `planner explain` has it, at its own place and with the fleet of its row."""
    site, scenario = str(row["site"]), str(row.get("scenario", ""))
    here = study_at(study, site, scenario)
    wanted = Asked(str(row["plan"]), site, scenario, ())
    if fidelity == CLOSED_FORM:
        return plan_figures(record, here, wanted, with_changes=False)
    found = plan_figures(record, at_its_fleet(here, row), wanted, with_changes=False)
    replayed = {name: float(row[name]) for name in found["metrics"] if name.startswith(LATENCIES)}
    return {**found, "metrics": {**found["metrics"], **replayed}}
