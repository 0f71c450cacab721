"""A run: search, replays, physical front, costing, front, archive, in that order; all is kept.

The archive is opened for a batch every few seconds and closed again; what a run found in less is
one batch with its front. Ctrl-C or `planner stop` ends the run early: what was swept is costed and
stored, and the run says it was stopped.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from planner.archive.schema import now
from planner.archive.store import Archive
from planner.costing.second_pass import Costed, front_columns
from planner.costing.terms import terms_of
from planner.runs.answer import Finished, run_start, store_answer, summary_of
from planner.runs.kinds import cost, kind_of, sweep
from planner.runs.physics import has_replay, replays_of
from planner.runs.refine import Refinement, refined, with_spread
from planner.runs.relaxed import relaxations
from planner.runs.resume import unfinished
from planner.runs.total import Total
from planner.runs.work import Work, begun
from planner.search.choice import Budget
from planner.search.drivers import searched
from planner.search.sweep import BillResult
from planner.search.workforce import Workforce, cores
from planner.training.breakeven import refuse_unknown_dates
from planner.training.engine import Engine
from simkernel.errors import BadStudy

ALONE_CANDIDATES = 200_000
"""A space that one core sweeps in about the second that another process takes to load."""

SOON_S = 1.0
"""A sweep of so few seconds is kept with its front, not before: a kill loses no more than it."""

Progress = Callable[[int, int, int, int], None]
"""Called with bills done, bills in all, candidates evaluated, plans on the physical front."""


def run_study(
    engine: Engine,
    archive: Archive,
    workers: int | Workforce | None = None,
    progress: Progress | None = None,
    budget: Budget | None = None,
    replays: int | None = None,
    *,
    is_resumed: bool = False,
    parent: str = "",
) -> Finished:
    """Search a study and store everything in the archive.

    Parameters
    ----------
    workers : processes, None for as many as pay; or a cluster
    progress : told after every bill
    budget : ends the search when it is spent
    replays : plans that are replayed at most; None as the study says
    is_resumed : go on with the newest run of the same inputs that did not finish, if there is one
    parent : the run that is solved anew

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
    start = run_start(engine.study, engine.catalog, parent)
    earlier = unfinished(archive, start, now()) if is_resumed else ""
    run = archive.begin_run(start, earlier)
    try:
        with _interruptible() as stop:
            some = workers or workers_for(engine.space.enumerated)
            work = begun(engine, archive, run, earlier, budget or Budget())
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
    if study.search.replay and not has_replay(study):
        raise BadStudy(
            f"search.replay = {study.search.replay}: a {study.kind} study has nothing to replay "
            "in this version; leave it out"
        )
    return engine if study is engine.study else replace(engine, study=study)


def _run(
    work: Work, workers: int | Workforce, progress: Progress | None, stop: list[str]
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
    summary = summary_of(engine, total, costed, front, started, notes)
    if summary.evaluated and not (front or stop or summary.nearest.get("lacks_facts")):
        own = kind_of(engine.study).nearest
        processes = workers if isinstance(workers, int) else 1
        found = own(engine) if own else relaxations(engine.study, costed, processes)
        summary = replace(summary, nearest={**summary.nearest, **found})
    summary = replace(summary, tiers=refinement.said)
    done = Finished(work.run, "stopped" if stop else "finished", summary, front)
    kept = kind_of(engine.study).kept
    beside = [refinement.rows, *(kept(engine) if kept and total.bills else ())]
    store_answer(
        work.archive, engine.study, engine.catalog, costed, done, work.flush, beside,
        refinement.priced,
    )  # fmt: skip
    return done


def _refined(work: Work, stop: list[str], started: float) -> Refinement:
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
    work: Work, workers: int | Workforce, is_stopped: Callable[[], bool]
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


def workers_for(candidates: int) -> int:
    """Processes that pay for a space of this size: one per core, or this one alone."""
    if candidates <= ALONE_CANDIDATES:
        return 1
    return cores()


def _cost(engine: Engine, total: Total, refinement: Refinement) -> Costed | None:
    """The physical front at every site, in the order of design keys."""
    plans = total.physical()
    if not plans:
        return None
    costed = cost(engine.study, engine.catalog, with_spread(plans, refinement.said))
    total.rejected.update(costed.rejected)
    return costed


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
