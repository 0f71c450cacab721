"""What the archive says about a run: how it began, how it ended, whether it still lives.

Run ids are `r0007-3fa9c1`: a serial number, because people speak of "run 7" and order runs by
time, and six digits of what went in (study, seed, facts, versions), because equal inputs then show
equal endings on any machine.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from simkernel.errors import PlanError, UnknownName, unknown

ALIVE_S = 60.0
"""Where a process cannot be asked for, a run is taken for alive this long after its last word."""

SUMMARISED = ("finished", "stopped")
ENDINGS = (*SUMMARISED, "failed")


@dataclass(frozen=True)
class RunStart:
    """All that goes into a run.

    Parameters
    ----------
    study : name of the study
    kind : kind of the study, e.g. "train"
    study_text : the study file, letter by letter
    resolved : the study after defaults and aliases, as plain values
    seed : seed of the run
    facts_hash : hash of the fact tables and overlays in force
    versions : what ran, e.g. {"planner": "0.1.0", "numpy": "2.4.6"}
    parent : the run whose physical front is priced anew, or ""
    """

    study: str
    kind: str
    study_text: str
    resolved: Mapping[str, Any]
    seed: int
    facts_hash: str
    versions: Mapping[str, str]
    parent: str = ""

    @property
    def study_hash(self) -> str:
        """Hash of the resolved study: comments and key order do not matter."""
        return hashlib.sha256(as_json(self.resolved).encode()).hexdigest()

    @property
    def mark(self) -> str:
        """Six digits that equal inputs share."""
        inputs = [self.study_hash, self.seed, self.facts_hash, dict(self.versions), self.parent]
        return hashlib.sha256(as_json(inputs).encode()).hexdigest()[:6]


@dataclass(frozen=True)
class RunSummary:
    """All that a run says about itself at its end.

    Parameters
    ----------
    enumerated, evaluated, physical_front, front : counts of candidates
    masked : candidates per rule that needed no physics
    rejected : evaluated candidates per limit they broke
    skipped : candidates not evaluated since a bound proves that they break a limit, per limit
    seconds : from first to last candidate [s]
    evaluated_per_s_per_core : rate [1/s]
    front_hash : `pareto.rounded_hash` of the front
    notes : words per limit, e.g. what the nearest candidate lacked
    nearest : the least-violating candidate and change when nothing is feasible
    tiers : what the replays of plans came to; {} where there were none
    """

    enumerated: int
    masked: Mapping[str, int]
    evaluated: int
    rejected: Mapping[str, int]
    seconds: float
    evaluated_per_s_per_core: float
    physical_front: int
    front: int
    front_hash: str
    notes: Mapping[str, str] = field(default_factory=dict)
    nearest: Mapping[str, Any] = field(default_factory=dict)
    skipped: Mapping[str, int] = field(default_factory=dict)
    tiers: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Event:
    """Something that happened to a run: started, batch, stop_asked, finished, stopped, failed."""

    at: datetime
    name: str
    payload: Mapping[str, Any]


@dataclass(frozen=True)
class RunRecord:
    """A run as the archive knows it; `summary` is None until it has ended well."""

    run: str
    start: RunStart
    started: datetime
    host: str
    pid: int
    pid_since: str
    events: tuple[Event, ...]
    summary: RunSummary | None

    @property
    def ended(self) -> datetime | None:
        """When the run ended, None while it has not."""
        return next((e.at for e in reversed(self.events) if e.name in ENDINGS), None)

    def state(self, at: datetime) -> str:
        """One of running, finished, stopped, failed, interrupted.

        Parameters
        ----------
        at : the present, in UTC without zone
        """
        ending = next((e.name for e in reversed(self.events) if e.name in ENDINGS), None)
        if ending:
            return ending
        return "running" if self._is_alive(at) else "interrupted"

    def _is_alive(self, at: datetime) -> bool:
        """Ask the process if it is of this machine, else believe its last word for a while."""
        if self.host == socket.gethostname() and os.name == "posix":
            return process_since(self.pid) == self.pid_since
        last = max((event.at for event in self.events), default=self.started)
        return (at - last).total_seconds() < ALIVE_S


def process_since(pid: int) -> str:
    """When a process began, in a form only good for comparing; "" when there is no such process.

    Process numbers are used again, so a number alone does not say that a run still lives.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return "" if Path("/proc/self/stat").exists() else _signalled(pid)
    state, *rest = text.rpartition(")")[2].split()
    return "" if state == "Z" else rest[18]  # field 22, start time in ticks: proc(5)


def _signalled(pid: int) -> str:
    """The answer of a POSIX system without /proc."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return ""
    except PermissionError:
        return "alive"
    return "alive"


def find_run(name: str, runs: Sequence[str]) -> str:
    """The one run meant by an id, the start of one, its six digits, its number, or "last".

    Raises
    ------
    UnknownName : no such run, or several
    """
    if name == "last" and runs:
        return runs[-1]
    meant = [run for run in runs if _is_meant(name, run)]
    if len(meant) > 1:
        raise UnknownName(
            f"run {name!r} may be {', '.join(meant[:5])}; write more of the one you mean"
        )
    if not runs:
        raise UnknownName(f"run {name!r} is not known: no runs yet; `planner run STUDY` makes one")
    if not meant:
        raise unknown("run", name, runs)
    return meant[0]


def _is_meant(name: str, run: str) -> bool:
    serial, _, mark = run.partition("-")
    if name.isdigit():
        return int(name) == int(serial[1:]) or mark.startswith(name) and len(name) == len(mark)
    return bool(name) and (run.startswith(name) or mark == name)


def as_json(value: object) -> str:
    """JSON with sorted keys; numbers of NumPy are numbers, NaN and infinity are refused."""
    try:
        return json.dumps(
            value, default=_plain, sort_keys=True, allow_nan=False, ensure_ascii=False
        )
    except ValueError as fault:
        raise PlanError(f"a value for the archive is not finite or not plain: {fault}") from fault


def _plain(value: object) -> object:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, set | frozenset):
        return sorted(value)
    return str(value)
