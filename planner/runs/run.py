"""A run: search, replays, physical front, costing, front, archive, in that order; all is kept.

The archive is opened for a batch every few seconds and closed again; what a run found in less is
one batch with its front. Ctrl-C or `planner stop` ends the run early: what was swept is costed and
stored, and the run says it was stopped.
"""

from __future__ import annotations

import platform
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from typing import Any

import numpy as np

from costdata.catalog import Catalog
from planner.archive.progress import REPLAYED
from planner.archive.runs import RunStart, RunSummary
from planner.archive.schema import now
from planner.archive.store import Archive
from planner.costing.notes import costing_notes
from planner.costing.second_pass import NULL_REASONS, Costed, front_columns, front_hash
from planner.costing.terms import terms_of
from planner.explain.nearest import least_over, nearest_costed
from planner.runs.facts_used import facts_hash, facts_used
from planner.runs.kinds import cost, kind_of, sweep
from planner.runs.physics import PHYSICS, replays_of
from planner.runs.refine import Refinement, refined, why_replayed, with_spread
from planner.runs.relaxed import relaxations
from planner.runs.resume import (
    TakenUp,
    batch_of,
    explored_before,
    replayed_before,
    taken_up,
    unfinished,
)
from planner.runs.total import Total, joined
from planner.runs.trace import Trace, gone_on
from planner.search.choice import Budget, Choice, chosen
from planner.search.drivers import searched
from planner.search.replays import CLOSED_FORM, Replays
from planner.search.seam import Explored
from planner.search.sweep import BillResult
from planner.search.workforce import Workforce, cores
from planner.study.read import Study
from planner.study.written import study_document
from planner.training.breakeven import refuse_unknown_dates
from planner.training.engine import Engine
from simkernel.errors import BadStudy

FLUSH_S = 5.0
"""Seconds between batches: each open and close of the file costs up to one (LIBRARIES notes)."""

ALONE_CANDIDATES = 200_000
"""A space that one core sweeps in about the second that another process takes to load."""

SOON_S = 1.0
"""A sweep of so few seconds is kept with its front, not before: a kill loses no more than it."""

MOST_OPTIONS = 1000  # our choice: rows a person may want to see beside the front

Progress = Callable[[int, int, int, int], None]
"""Called with bills done, bills in all, candidates evaluated, plans on the physical front."""


@dataclass(frozen=True)
class Finished:
    """A run that has ended: its id, how, its summary and its costed plans (None if none feasible).

    `front` are the rows of the Pareto front as columns, best first objective first.
    """

    run: str
    state: str
    summary: RunSummary
    front: dict[str, Any]


def run_study(
    engine: Engine,
    archive: Archive,
    workers: int | Workforce | None = None,
    progress: Progress | None = None,
    budget: Budget | None = None,
    replays: int | None = None,
    *,
    is_resumed: bool = False,
) -> Finished:
    """Search a study and store everything in the archive.

    Parameters
    ----------
    workers : processes, None for as many as pay; or a cluster
    progress : told after every bill
    budget : ends the search when it is spent
    replays : plans that are replayed at most; None as the study says
    is_resumed : go on with the newest run of the same inputs that did not finish, if there is one

    Raises
    ------
    BadFile : the archive cannot be written
    BadStudy : replays are asked for of a kind of study that has none
    MissingFact : a site lacks a term of costing, or nobody knows how often machines fail
    PlanError : the run to go on with still runs

    All are found before the search begins.
    """
    refuse_unknown_dates(engine.study)
    engine = _with_replays(engine, replays)
    terms_of(engine.study.costing, engine.catalog)
    start = run_start(engine.study, engine.catalog)
    earlier = unfinished(archive, start, now()) if is_resumed else ""
    run = archive.begin_run(start, earlier)
    try:
        with _interruptible() as stop:
            some = workers or workers_for(engine.space.enumerated)
            work = _work(engine, archive, run, earlier, budget or Budget())
            if work.replays:
                work.replays.workers = workers or cores()
            if not isinstance(some, int):
                work.notes["engine"] = str(some)
            return _run(work, some, progress, stop)
    except BaseException as error:
        archive.fail_run(run, f"{type(error).__name__}: {error}")
        raise


def _with_replays(engine: Engine, replays: int | None) -> Engine:
    """The engine of a study that says how many plans are replayed, if it is said here."""
    study = engine.study
    if replays is not None and replays != replays_of(study):
        study = replace(study, search=replace(study.search, replay=replays))
    if study.search.replay and (study.kind not in PHYSICS or not PHYSICS[study.kind].replay):
        raise BadStudy(
            f"search.replay = {study.search.replay}: a {study.kind} study has nothing to replay "
            "in this version; leave it out"
        )
    return engine if study is engine.study else replace(engine, study=study)


@dataclass
class _Work:
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


def _work(engine: Engine, archive: Archive, run: str, earlier: str, budget: Budget) -> _Work:
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
    return _Work(
        engine, archive, run, budget, choice, explored, replays, total, done, notes, trace
    )


def _run(
    work: _Work, workers: int | Workforce, progress: Progress | None, stop: list[str]
) -> Finished:
    started, engine, total = time.perf_counter(), work.engine, work.total

    def is_stopped() -> bool:
        if not stop:
            stop.extend(work.why_stop(time.perf_counter() - started))
        return bool(stop)

    for result in _results(work, workers, is_stopped):
        work.add(result)
        if progress:
            bills = len(engine.space.bill_codes)
            progress(total.bills, bills, total.evaluated, total.front_rows)
        if work.is_due(result):
            work.flush(work.archive)
    sweep_s = time.perf_counter() - started
    if sweep_s > SOON_S or work.replays:
        work.flush(work.archive)
    refinement = _refined(work, stop, started)
    costed = _cost(engine, total, refinement)
    front = front_columns(engine.study, costed) if costed else {}
    notes = {**work.notes, "sweep_s": f"{sweep_s:.3f}"}
    summary = _summary(engine, total, costed, front, started, notes)
    if summary.evaluated and not (front or stop or summary.nearest.get("lacks_facts")):
        own = kind_of(engine.study).nearest
        processes = workers if isinstance(workers, int) else 1
        found = own(engine) if own else relaxations(engine.study, costed, processes)
        summary = replace(summary, nearest={**summary.nearest, **found})
    summary = replace(summary, tiers=refinement.said)
    done = Finished(work.run, "stopped" if stop else "finished", summary, front)
    rows = refinement.rows
    store_answer(work.archive, engine.study, engine.catalog, costed, done, work.flush, rows)
    return done


def _refined(work: _Work, stop: list[str], started: float) -> Refinement:
    """Replays of what the search found worth it, unless a person or the time says to end.

    A budget of evaluations is of the closed form; an evolution that has spent it has its front.
    """
    is_swept, seconds = work.choice.driver == "sweep", Budget(seconds=work.budget.seconds)
    if not (work.replays and work.explored) or (stop and (is_swept or stop != ["budget"])):
        return Refinement()

    def is_stopped() -> bool:
        if not stop and seconds(0, time.perf_counter() - started):
            stop.append("budget")
        return bool(stop) and (stop != ["budget"] or seconds(0, time.perf_counter() - started))

    work.replays.after, work.replays.is_stopped = lambda: work.look_up(stop), is_stopped
    most = replays_of(work.engine.study)
    with work.replays as costly:
        found = refined(
            work.explored, work.total.physical(), costly, most, is_stopped, is_whole=is_swept
        )
    if work.explored.since.evaluated:
        work.add(work.explored.settled())
    return found


def _results(
    work: _Work, workers: int | Workforce, is_stopped: Callable[[], bool]
) -> Iterator[BillResult]:
    """What the chosen driver finds."""
    if work.choice.driver != "sweep":
        assert work.explored is not None, "every search has a memory"
        yield from searched(work.engine, work.choice.driver, is_stopped, work.explored)
        return
    yield from sweep(work.engine, workers, is_stopped, work.done)
    again, total = kind_of(work.engine.study).sweep_again, work.total
    if again and not total.fronts and any(total.skipped.values()):
        yield from again(work.engine, workers, is_stopped, work.done)


def store_answer(
    archive: Archive,
    study: Study,
    catalog: Catalog,
    costed: Costed | None,
    done: Finished,
    flush: Callable[[Archive], None] = lambda held: None,
    replayed: Mapping[str, Any] | None = None,
) -> None:
    """The end of a run: what is not stored yet, facts, front, options, then summary.

    Plans that were replayed stand where options of other kinds stand.
    """
    sold = {"accelerator": costed.chips} if costed else {}
    facts = facts_used(study, catalog, sold)
    options = options_of(costed) if costed and kind_of(study).keeps_options else {}
    with archive.writing() as held:
        flush(held)
        held.append_facts(done.run, facts)
        if done.front:
            held.append_front(done.run, _with_fidelity(study, done.front))
        for sample in (options, dict(replayed or {})):
            if sample:
                held.append_sample(done.run, sample)
        held.finish_run(done.run, done.summary, done.state)


def _with_fidelity(study: Study, front: Mapping[str, Any]) -> Mapping[str, Any]:
    """A front that says which tier it is of, where there is another."""
    if study.kind not in PHYSICS or not PHYSICS[study.kind].replay:
        return front
    return {**front, "fidelity": np.full(len(front["plan"]), CLOSED_FORM, dtype=object)}


def options_of(costed: Costed) -> dict[str, Any]:
    """Costed rows of a study whose every row is an answer, those of the front first.

    Returns
    -------
    columns, with "is_front" and the limits a row breaks in "over"; (n,) with n <= MOST_OPTIONS
    """
    order = np.argsort(~costed.is_front, kind="stable")[:MOST_OPTIONS]
    names = np.array(list(costed.limits), dtype=object)
    over = ["; ".join(sorted(names[excess > 0])) for excess in costed.excess[:, order].T]
    table = {name: np.asarray(column)[order] for name, column in costed.columns.items()}
    return {
        **table,
        "is_front": costed.is_front[order],
        "over": np.array(over, dtype=object),
        NULL_REASONS: costed.null_reasons(order),
    }


def run_start(study: Study, catalog: Catalog, parent: str = "") -> RunStart:
    """All that goes into a run, or into pricing the run `parent` anew."""
    return RunStart(
        study=study.name,
        kind=study.kind,
        study_text=study.text,
        resolved=study_document(study),
        seed=study.seed,
        facts_hash=facts_hash(catalog),
        versions={
            "planner": version("cluster-planner"),
            "python": platform.python_version(),
            "numpy": np.__version__,
        },
        parent=parent,
    )


def workers_for(candidates: int) -> int:
    """Processes that pay for a space of this size: one per core, or this one alone."""
    if candidates <= ALONE_CANDIDATES:
        return 1
    return cores()


def _is_stop_asked(archive: Archive, run: str) -> bool:
    return any(event.name == "stop_asked" for event in archive.run(run).events)


def _cost(engine: Engine, total: Total, refinement: Refinement) -> Costed | None:
    """The physical front at every site, in the order of design keys."""
    plans = total.physical()
    if not plans:
        return None
    costed = cost(engine.study, engine.catalog, with_spread(plans, refinement.said))
    total.rejected.update(costed.rejected)
    return costed


def _summary(
    engine: Engine,
    total: Total,
    costed: Costed | None,
    front: Mapping[str, Any],
    started: float,
    notes: Mapping[str, str],
) -> RunSummary:
    return RunSummary(
        enumerated=engine.space.enumerated,
        masked=dict(total.masked),
        evaluated=total.evaluated,
        rejected={name: n for name, n in total.rejected.items() if n},
        skipped={name: n for name, n in total.skipped.items() if n},
        seconds=time.perf_counter() - started,
        evaluated_per_s_per_core=total.evaluated / max(total.cpu_s, 1e-9),
        physical_front=total.front_rows,
        front=len(front["plan"]) if front else 0,
        front_hash=front_hash(engine.study, front),
        notes={
            **{f"missing_fact {chip}": why for chip, why in engine.missing.items()},
            **notes,
            **costing_notes(engine.study, engine.catalog, costed),
        },
        nearest={} if front else _nearest(engine.study, total, costed),
    )


def _nearest(study: Study, total: Total, costed: Costed | None) -> dict[str, Any]:
    """Why no plan is on the front: what costing says of plans, else the least-violating ones."""
    if costed:
        return nearest_costed(study, costed)
    return least_over(joined(total.nearest)) if total.nearest else {}


@contextmanager
def _interruptible() -> Iterator[list[str]]:
    """Inside, the first Ctrl-C only asks to stop; a second one interrupts as usual."""
    stop: list[str] = []
    before = signal.getsignal(signal.SIGINT)

    def ask(number: int, frame: Any) -> None:
        stop.append("interrupt")
        signal.signal(signal.SIGINT, before)

    try:
        signal.signal(signal.SIGINT, ask)
    except ValueError:  # not the main thread: no signals to catch
        yield stop
        return
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)
