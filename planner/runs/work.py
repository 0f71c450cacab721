"""A run on its way: what it found so far, and what of that is not in the archive yet."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from planner.archive.progress import REPLAYED
from planner.archive.store import Archive
from planner.runs.kinds import kind_of
from planner.runs.physics import replays_of
from planner.runs.refine import why_replayed
from planner.runs.resume import TakenUp, batch_of, explored_before, replayed_before, taken_up
from planner.runs.total import Total
from planner.runs.trace import Trace, gone_on
from planner.search.choice import Budget, Choice, chosen
from planner.search.replays import Replays
from planner.search.seam import Explored
from planner.search.sweep import BillResult
from planner.training.engine import Engine

FLUSH_S = 5.0
"""Seconds between batches: each open and close of the file costs up to one (LIBRARIES notes)."""


@dataclass
class Work:
    """A run on its way: what it found, and what of it is not in the archive yet.

    Parameters
    ----------
    choice : the driver
    explored : the memory of a search, or of what a sweep finds worth a replay; else None
    replays : the costly tier, None where nothing is to be replayed
    total : all results so far; those of the run it goes on with included
    done : indices of bills to leave out
    unsaved : results since the last batch
    notes : for the summary
    trace : how the front grew
    """

    engine: Engine
    archive: Archive
    run: str
    budget: Budget
    choice: Choice
    explored: Explored | None
    replays: Replays | None
    total: Total
    done: frozenset[int]
    notes: dict[str, str]
    trace: Trace
    unsaved: list[BillResult] = field(default_factory=list)
    flushed: float = field(default_factory=time.perf_counter)
    looked: float = field(default_factory=time.perf_counter)
    began: float = field(default_factory=time.perf_counter)

    def add(self, result: BillResult) -> None:
        """One more result."""
        self.total.add(result)
        self.unsaved.append(result)
        if self.explored and len(result.near):
            self.explored.remember(result.near)

    def is_due(self, result: BillResult) -> bool:
        """A batch is large enough, and whole."""
        return result.is_settled and time.perf_counter() - self.flushed > FLUSH_S

    def why_stop(self, gone_s: float) -> list[str]:
        """What ends the run now, if anything; the archive is asked every few seconds.

        Whether results come or not: those of a cluster may be long in coming.
        """
        if self.budget(self.total.evaluated, gone_s):
            return ["budget"]
        if time.perf_counter() - self.looked <= FLUSH_S:
            return []
        self.looked = time.perf_counter()
        return ["stop"] if _is_stop_asked(self.archive, self.run) else []

    def flush(self, archive: Archive) -> None:
        """Write down what is not in the archive yet."""
        if self.unsaved:
            is_empty = not self.total.fronts
            self.trace.add(result.front for result in self.unsaved if result.front)
            line = self.trace.told(self.total.evaluated, time.perf_counter() - self.began)
            found = batch_of(self.choice.driver, self.unsaved, self.explored, is_empty, line)
            archive.append_batch(self.run, found)
            self.unsaved = []
        if self.replays and self.replays.unsaved:
            known, keys = self.replays.known, self.replays.unsaved
            archive.tell(self.run, REPLAYED, {str(key): known[key].as_plain() for key in keys})
            self.replays.unsaved = []
        self.flushed = time.perf_counter()

    def look_up(self, stop: list[str]) -> None:
        """Write down what is due, and see whether a person wants the run to end."""
        if time.perf_counter() - self.flushed > FLUSH_S:
            self.flush(self.archive)
            stop += [] if stop or not _is_stop_asked(self.archive, self.run) else ["stop"]


def begun(engine: Engine, archive: Archive, run: str, earlier: str, budget: Budget) -> Work:
    """A run about to begin, or to go on."""
    taken = taken_up(archive, run) if earlier else TakenUp()
    most = replays_of(engine.study)
    if taken.driver:
        choice = Choice(taken.driver, f"as run {earlier}, of which this is the rest")
    else:
        choice = chosen(engine, budget, kind_of(engine.study).is_searchable, most)
    notes = {"search": f"{choice.driver}: {choice.reason}"}
    if most:
        notes["replay"] = why_replayed(engine.study, most)
    if earlier:
        notes["resumed"] = f"{taken.total.evaluated} evaluations of run {earlier} were kept"
    explored = Explored(engine) if most or choice.driver != "sweep" else None
    if explored:
        front = taken.total.physical() if choice.driver != "sweep" else None
        explored_before(archive, run, explored, front)
    replays = Replays(engine, replayed_before(archive, run) if earlier else {}) if most else None
    trace = gone_on(engine, taken.trace, taken.total.fronts)
    total, done = taken.total, taken.bills
    return Work(engine, archive, run, budget, choice, explored, replays, total, done, notes, trace)


def _is_stop_asked(archive: Archive, run: str) -> bool:
    return any(event.name == "stop_asked" for event in archive.run(run).events)
