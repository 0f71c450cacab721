"""A Dask cluster as a workforce: workers may join, leave or die, the answer stays the same.

The prepared study goes to the workers whole: tables of the user, models and traces with it, so a
worker needs no file of the study. A worker must run the very same program, since figures of
another release would stand beside ours; one that does not is left out, and its work done again by
others. What a dead worker had in hand is done again too, and every item is answered once.

References
----------
Rocklin, Dask: Parallel Computation with Blocked algorithms and Task Scheduling, SciPy 2015.
"""

from __future__ import annotations

import hashlib
import platform
from asyncio import CancelledError
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeVar

import cloudpickle
import distributed
from distributed.comm.core import CommClosedError
from distributed.scheduler import KilledWorker

import costdata
import planner
import simkernel
from planner.search.workforce import LOOK_S, StopClock, Stopped
from simkernel.errors import BadStudy, PlanError

CONNECT_S = 10.0
"""How long a scheduler is knocked for: it answers in milliseconds where it is there."""

FIRST_WORKER_S = 60.0
"""How long the first worker is waited for: those of a job queue may come after the scheduler."""

PER_CORE = 2
"""Items handed out per core: one in work, one that waits, so a stop loses little."""

MOST_TRIES = 3
"""An item whose workers die so often is at fault itself; Dask gives up on it four deaths each."""

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class Stranger:
    """The answer of a worker that runs another program: who it is, and what it runs."""

    worker: str
    runs: Mapping[str, str]


class Cluster:
    """The workers of a Dask scheduler; a context, left when the run ends.

    Parameters
    ----------
    address : of the scheduler, e.g. "tcp://10.0.0.1:8786"

    Raises
    ------
    BadStudy : nobody answers there, or no worker runs the same program as this one
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self.strangers: set[str] = set()
        self.faults: dict[str, str] = {}
        try:
            self.client = distributed.Client(address, timeout=CONNECT_S, set_as_default=False)
        except (OSError, ValueError) as error:
            raise BadStudy(
                f"--engine dask:{address}: no scheduler answers there ({_first_line(error)}); "
                "start one with `dask scheduler`, and give the address that it prints"
            ) from error

    def __enter__(self) -> Cluster:
        """Waits for a first worker, and looks at what all of them run."""
        try:
            self.client.wait_for_workers(1, timeout=FIRST_WORKER_S)
            self._meet()
        except BaseException as error:
            self.client.close()
            if isinstance(error, TimeoutError):
                raise BadStudy(
                    f"--engine dask:{self.address}: the scheduler has no worker; start some with "
                    f"`dask worker {self.address} --nthreads 1`"
                ) from error
            raise
        return self

    def __exit__(self, *said: object) -> None:
        """The workers stay, for the next run."""
        self.client.close()

    def __str__(self) -> str:
        cores = sum(self._cores().values())
        return f"dask: {cores} cores of {self.address} when it began"

    def spread(
        self,
        engine: Any,
        work: Callable[[Any, T], R],
        items: Sequence[T],
        is_stopped: Stopped,
    ) -> Iterator[R]:
        """Answers to all items, in the order they come; fewer where it is stopped.

        Raises
        ------
        PlanError : the scheduler went away, or an item killed every worker that took it
        """
        hand = _Hand(self, engine, work)
        queue, until = iter(items), StopClock(is_stopped)
        try:
            while until.is_worth_waiting():
                for item in until.next_few(queue, self._room() - len(hand.waiting)):
                    hand.out(item)
                if not hand.waiting:
                    return
                yield from hand.answers()
        except (CancelledError, CommClosedError, OSError) as error:
            raise PlanError(
                f"the scheduler at {self.address} went away; batches stored before are kept; "
                "start it again, then run with --resume"
            ) from error
        finally:
            if self.client.status == "running":
                self.client.cancel(list(hand.waiting))

    def known(self) -> list[str] | None:
        """Addresses that may work, None for all."""
        if not self.strangers:
            return None
        mine = [address for address in self._cores() if address not in self.strangers]
        if not mine:
            raise BadStudy(self._said_of_strangers())
        return mine

    def _room(self) -> int:
        """Items that may be out at a time; some where no worker is there just now."""
        return PER_CORE * max(sum(self._cores().values()), 1)

    def _cores(self) -> dict[str, int]:
        return {
            address: cores
            for address, cores in self.client.ncores().items()
            if address not in self.strangers
        }

    def _meet(self) -> None:
        """Ask every worker what it runs; those that differ get no work.

        One without the program cannot even be asked.
        """
        said = self.client.run(running, on_error="return")
        self.faults = {
            address: _first_line(runs) if isinstance(runs, Exception) else _differing(runs)
            for address, runs in said.items()
        }
        self.strangers |= {address for address, fault in self.faults.items() if fault}
        self.known()

    def _said_of_strangers(self) -> str:
        faults = "; ".join(f"{address}: {fault}" for address, fault in self.faults.items())
        return (
            f"--engine dask:{self.address}: no worker runs the same program as this machine "
            f"({faults}); install the same release there, with the extra `cluster`"
        )


@dataclass
class _Hand:
    """Items that are out, by their future, and how often each has been lost."""

    cluster: Cluster
    engine: Any
    work: Callable[[Any, Any], Any]
    waiting: dict[Any, Any] = field(default_factory=dict)
    lost: Counter[int] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        """The study is a task of its own: made again where all who hold it have died."""
        packed = cloudpickle.dumps(self.engine)
        self.mark = hashlib.sha256(packed).hexdigest()
        self.study = self.cluster.client.submit(_held, packed, key=f"study-{self.mark}")

    def out(self, item: Any) -> None:
        """Hand out one item."""
        future = self.cluster.client.submit(
            worked,
            *(running(), self.study, self.mark, self.work, item),
            pure=False,
            workers=self.cluster.known(),
        )
        self.waiting[future] = item

    def answers(self) -> Iterator[Any]:
        """What has come, waited for a little; what was lost goes out again."""
        try:
            with self.cluster.client.as_current():
                done = distributed.wait(list(self.waiting), LOOK_S, "FIRST_COMPLETED").done
        except TimeoutError:
            return
        for future in done:
            item = self.waiting.pop(future)
            answer = self._answer(future, item)
            if isinstance(answer, Stranger):
                self.cluster.strangers.add(answer.worker)
                self.cluster.faults[answer.worker] = _differing(answer.runs)
                self.out(item)
            elif answer is not None:
                yield answer

    def _answer(self, future: Any, item: Any) -> Any:
        """What a worker made of an item; None where it goes out again."""
        try:
            return future.result()
        except KilledWorker as error:
            key = hash(cloudpickle.dumps(item))
            self.lost[key] += 1
            if self.lost[key] >= MOST_TRIES:
                raise PlanError(
                    "every worker that took one batch died, perhaps for want of memory; batches "
                    "stored before are kept; give workers more memory, then run with --resume"
                ) from error
            self.out(item)
            return None
        except ModuleNotFoundError as error:
            raise PlanError(
                f"a worker that joined {self.cluster.address} cannot load the program ({error}); "
                "install the same release there, then run with --resume"
            ) from error


def _held(packed: bytes) -> bytes:
    return packed


def worked(
    runs: Mapping[str, str], packed: bytes, mark: str, work: Callable[[Any, T], R], item: T
) -> R | Stranger:
    """One item, done on a worker.

    Parameters
    ----------
    runs : what the coordinator runs
    packed, mark : the prepared study, and its hash
    work : a function of a room
    """
    if dict(runs) != running():
        return Stranger(distributed.get_worker().address, running())
    if mark not in _ENGINES:
        _ENGINES.clear()
        _ENGINES[mark] = cloudpickle.loads(packed)
    return work(_ENGINES[mark], item)


_ENGINES: dict[str, Any] = {}
"""The study that a worker has unpacked last."""


@cache
def running() -> dict[str, str]:
    """The program that runs here: releases that figures hang on, and a hash of its own source."""
    digest = hashlib.sha256()
    for floor in (simkernel, costdata, planner):
        for path in sorted(Path(str(floor.__file__)).parent.rglob("*.py")):
            digest.update(path.name.encode() + path.read_bytes())
    return {
        "python": ".".join(platform.python_version_tuple()[:2]),
        **{name: _release(name) for name in ("numpy", "numba", "moocore", "distributed")},
        "source of the planner": digest.hexdigest()[:12],
    }


def _release(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "none"


def _differing(runs: Mapping[str, str]) -> str:
    """What another machine has that this one has not; "" where they agree."""
    here = running()
    return ", ".join(
        f"{name} {runs.get(name)} where this machine has {own}"
        for name, own in here.items()
        if runs.get(name) != own
    )


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
