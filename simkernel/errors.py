"""Everything that can go wrong, as one tree; the message says given, wanted, do.

PlanError                the root: catch this at the border
├── BadStudy             a study, an axis or a setting that cannot mean anything     exit 2
├── UnknownName          a name that no table, folder or file answers to             exit 2
├── BadFile              a file that is unreadable, corrupt, newer, locked or full   exit 2
├── MissingFact          the question is fair, the catalogue cannot answer it        exit 3
└── ReplayStuck          an event replay that makes no progress: our fault           exit 4

An infeasible plan is not an error: it is a result with reasons.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence


class PlanError(Exception):
    """Root of the tree; `faults` holds every fault found, in order."""

    exit_code = 4

    def __init__(self, *faults: str) -> None:
        super().__init__("\n".join(faults))
        self.faults: tuple[str, ...] = faults


class BadStudy(PlanError):
    """A study, an axis or a setting that cannot mean anything."""

    exit_code = 2


class UnknownName(PlanError):
    """A name that no table, folder or file answers to."""

    exit_code = 2


class BadFile(PlanError):
    """A file that is unreadable, corrupt, newer than this program, locked or on a full disk."""

    exit_code = 2


class MissingFact(PlanError):
    """A fair question that the catalogue cannot answer."""

    exit_code = 3


class ReplayStuck(PlanError):
    """An event replay that makes no progress."""

    exit_code = 4


def unknown(kind: str, given: str, known: Iterable[str]) -> UnknownName:
    """The error for a name that is not there, with the nearest names that are."""
    names: Sequence[str] = sorted(known)
    near = difflib.get_close_matches(given, names, n=3, cutoff=0.5)
    known_names = ", ".join(names[:20]) or "none yet"
    do = f"did you mean {' or '.join(near)}?" if near else f"known: {known_names}"
    return UnknownName(f"{kind} {given!r} is not known; {do}")
