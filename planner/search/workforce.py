"""Who does the work of a search: this process, processes of this machine, or a cluster.

Work is a function of the engine and one item; items share nothing and may be done in any order.
Each is done once, and only the process that asked writes anything down.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from planner.runs.physics import physics_of
from planner.study.written import study_from_json, study_to_json
from simkernel.errors import BadStudy, PlanError

STOP_GRACE_S = 10.0
"""Work in hand when a stop is asked has so long to end and be kept."""

LOOK_S = 1.0
"""How long an answer is waited for before a stop is asked for again."""

T = TypeVar("T")
R = TypeVar("R")
Stopped = Callable[[], bool]


class Workforce(Protocol):
    """Somebody else who works."""

    def spread(
        self,
        engine: Any,
        work: Callable[[Any, T], R],
        items: Sequence[T],
        is_stopped: Stopped,
    ) -> Iterator[R]:
        """Answers to all items, in the order they come; fewer where it is stopped."""


def spread(
    engine: Any,
    work: Callable[[Any, T], R],
    items: Sequence[T],
    workers: int | Workforce,
    is_stopped: Stopped,
) -> Iterator[R]:
    """Answers to all items, in the order they come; fewer where it is stopped.

    Parameters
    ----------
    engine : a prepared study, the first argument of all work
    work : a function of a room, so that other processes know it by name
    workers : processes of this machine, 1 for this one; or a workforce
    is_stopped : asked between items; True ends it early
    """
    if not isinstance(workers, int):
        return workers.spread(engine, work, items, is_stopped)
    if workers > 1:
        return _in_processes(engine, work, items, workers, is_stopped)
    return _alone(engine, work, items, is_stopped)


def cores() -> int:
    """Cores of this machine that this process may use."""
    if hasattr(os, "sched_getaffinity"):  # what a container or a job queue allows
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def opened(engine: str) -> Iterator[Workforce | None]:
    """The workforce that the command names, while it is needed; None for this machine.

    Parameters
    ----------
    engine : "local", or "dask:" and the address of a scheduler

    Raises
    ------
    BadStudy : another word, no library for it, or nobody there
    """
    if engine == "local":
        yield None
        return
    kind, _, address = engine.partition(":")
    if kind != "dask" or not re.fullmatch(r"(\w+://)?[^/\s]+:\d+", address):
        raise BadStudy(
            f"--engine {engine}: wanted local, or dask:ADDRESS as `dask scheduler` prints it, "
            "e.g. dask:tcp://10.0.0.1:8786"
        )
    try:
        from planner.search.cluster import Cluster
    except ModuleNotFoundError as error:
        raise BadStudy(
            f"--engine {engine}: {error.name} is not installed; install the extra `cluster`: "
            "pip install 'cluster-planner[cluster]'"
        ) from error
    with Cluster(address) as cluster:
        yield cluster


def _alone(
    engine: Any, work: Callable[[Any, T], R], items: Sequence[T], is_stopped: Stopped
) -> Iterator[R]:
    for item in items:
        if is_stopped():
            return
        yield work(engine, item)


_ENGINE: list[Any] = []


def _set_engine(study_json: str) -> None:
    """Each process reads the study once; Ctrl-C is the first process's business."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    study = study_from_json(study_json)
    _ENGINE[:] = [physics_of(study).prepare(study)]


def _end_with_parent() -> None:
    """A process whose run was killed has nobody to work for.

    The run is not the parent that the system knows, where processes are forked from a server.
    """
    run = multiprocessing.parent_process()
    if run is not None:
        run.join()
    os._exit(1)


def _work_here(work: Callable[[Any, T], R], item: T) -> R:
    return work(_ENGINE[0], item)


@contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """Processes begun inside never hear Ctrl-C, not even while they are still loading."""
    if not hasattr(signal, "pthread_sigmask"):  # no such masks on Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _in_processes(
    engine: Any,
    work: Callable[[Any, T], R],
    items: Sequence[T],
    workers: int,
    is_stopped: Stopped,
) -> Iterator[R]:
    with Processes(engine, workers) as processes:
        yield from processes.spread(engine, work, items, is_stopped)


def _context() -> Any:
    """How processes begin: forked from one that has loaded the program, where there is such.

    Never from this one: a fork would inherit DuckDB's locks.
    """
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["planner.search.sweep"])
    return context


class Processes:
    """Processes of this machine that stay between calls; a context, left when the run ends.

    Parameters
    ----------
    engine : a prepared study, which each of them reads once
    workers : how many
    """

    def __init__(self, engine: Any, workers: int) -> None:
        context = _context()
        self.workers = workers
        self.pool = ProcessPoolExecutor(
            workers, context, _set_engine, (study_to_json(engine.study),)
        )
        self.waiting: set[Future[Any]] = set()

    def __enter__(self) -> Processes:
        """They begin with the first item."""
        return self

    def __exit__(self, *said: object) -> None:
        """What is deep in an item that nobody waits for any more is ended."""
        known = getattr(self.pool, "_processes", None) or {}
        processes = list(known.values()) if self.waiting else []
        self.pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.terminate()

    def spread(
        self, engine: Any, work: Callable[[Any, T], R], items: Sequence[T], is_stopped: Stopped
    ) -> Iterator[R]:
        """Items handed out one by one; two wait per process, so a stop loses little work."""
        queue, until = iter(items), StopClock(is_stopped)
        try:
            while until.is_worth_waiting():
                for item in until.next_few(queue, 2 * self.workers - len(self.waiting)):
                    with _deaf_to_interrupts():
                        self.waiting.add(self.pool.submit(_work_here, work, item))
                if not self.waiting:
                    return
                done, self.waiting = wait(
                    self.waiting, timeout=LOOK_S, return_when=FIRST_COMPLETED
                )
                for future in done:
                    yield future.result()
        except BrokenProcessPool as error:
            raise PlanError(
                "a process of the search was killed, perhaps for want of memory; batches stored "
                "before are kept; run with --workers 1"
            ) from error


class StopClock:
    """Hands out items until a stop is asked, and says how long the last ones are waited for."""

    def __init__(self, is_stopped: Stopped) -> None:
        self.is_stopped = is_stopped
        self.stopped_at: float | None = None

    def is_worth_waiting(self) -> bool:
        """Nobody asked to stop, or not long ago."""
        if self.stopped_at is None and self.is_stopped():
            self.stopped_at = time.monotonic()
        return self.stopped_at is None or time.monotonic() - self.stopped_at < STOP_GRACE_S

    def next_few(self, queue: Iterator[T], most: int) -> Iterator[T]:
        """Items to hand out now; none once a stop was asked."""
        for _ in range(0 if self.stopped_at is not None else max(most, 0)):
            if self.is_stopped():
                return
            try:
                yield next(queue)
            except StopIteration:
                return
