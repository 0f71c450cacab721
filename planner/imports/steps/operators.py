"""Operators of a trace as columns, and which of them runs inside which.

A profiler writes calls as intervals of a thread: one that lies inside another was called by it.
What is left of a call without its own calls is its own time.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from simkernel.columns import Codes, Floats

NOBODY = -1
"""Parent of a call that nobody called, and step of one outside all steps."""

Dims = tuple[tuple[int, ...], ...]
"""Extents of every input of a call, () for one that is no tensor."""


class Words(dict[Any, int]):
    """Distinct values in the order of their first use, each with its code."""

    def code(self, value: Any) -> int:
        """Of a value, new or known."""
        return self.setdefault(value, len(self))


@dataclass
class Calls:
    """Calls as they stream by, in the order of the file.

    Parameters
    ----------
    names, dims, threads, types : distinct values; codes beside
    identities : External id to the call that carries it
    """

    names: Words = field(default_factory=Words)
    dims: Words = field(default_factory=Words)
    threads: Words = field(default_factory=Words)
    types: Words = field(default_factory=Words)
    identities: dict[int, int] = field(default_factory=dict)
    name_codes: array[int] = field(default_factory=lambda: array("q"))
    dims_codes: array[int] = field(default_factory=lambda: array("q"))
    thread_codes: array[int] = field(default_factory=lambda: array("q"))
    type_codes: array[int] = field(default_factory=lambda: array("q"))
    starts_us: array[float] = field(default_factory=lambda: array("d"))
    lasts_us: array[float] = field(default_factory=lambda: array("d"))
    is_mark: array[int] = field(default_factory=lambda: array("b"))

    def __len__(self) -> int:
        return len(self.starts_us)

    def add(self, event: Mapping[str, Any], identity: int, *, is_mark: bool) -> None:
        """One call, or a mark that a program or its modules set around calls."""
        args = event.get("args")
        args = args if isinstance(args, dict) else {}
        if identity >= 0 and not is_mark:
            self.identities[identity] = len(self)
        self.name_codes.append(self.names.code(str(event.get("name", ""))))
        self.dims_codes.append(self.dims.code(_dims(args.get("Input Dims"))))
        self.thread_codes.append(
            self.threads.code((str(event.get("pid", "")), str(event.get("tid", ""))))
        )
        self.type_codes.append(self.types.code(_type(args.get("Input type"))))
        self.starts_us.append(float(event["ts"]))
        self.lasts_us.append(float(event["dur"]))
        self.is_mark.append(is_mark)


@dataclass(frozen=True)
class Tree:
    """Calls by nesting; (n,) each, in the order of the file.

    Parameters
    ----------
    order : of the calls by thread and time, a caller before what it calls
    parents : the innermost call around each, NOBODY without one
    own_s : without the calls inside it [s]
    """

    order: Codes
    parents: Codes
    own_s: Floats


def tree_of(calls: Calls) -> Tree:
    """Which call runs inside which."""
    starts = np.frombuffer(calls.starts_us, dtype=float)
    lasts = np.frombuffer(calls.lasts_us, dtype=float)
    threads = np.frombuffer(calls.thread_codes, dtype=np.int64)
    order = np.lexsort((-lasts, starts, threads))
    parents = np.full(len(starts), NOBODY)
    inside_us = np.zeros(len(starts))
    around: list[int] = []
    ends, thread = starts + lasts, NOBODY
    for i in order.tolist():
        if threads[i] != thread:
            around, thread = [], threads[i]
        while around and ends[around[-1]] <= starts[i]:
            around.pop()
        if around:
            parents[i] = around[-1]
            inside_us[around[-1]] += min(ends[i], ends[around[-1]]) - starts[i]
        around.append(i)
    return Tree(order, parents, np.maximum(lasts - inside_us, 0.0) * 1e-6)


def steps_of(starts_s: Floats, marks: Sequence[tuple[float, float]]) -> Codes:
    """Index of the step that each moment lies in, NOBODY between steps; (n,).

    Parameters
    ----------
    marks : start and end of every step [s]
    """
    found = np.full(len(starts_s), NOBODY)
    if not marks:
        return found
    begins, ends = (np.array(sides) for sides in zip(*sorted(marks), strict=True))
    at = np.searchsorted(begins, starts_s, side="right") - 1
    is_in = (at >= 0) & (starts_s <= ends[at])
    return np.where(is_in, at, NOBODY)


def _dims(value: object) -> Dims:
    """Extents as a trace has them; what is no list of whole numbers counts as no tensor."""
    if not isinstance(value, list):
        return ()
    return tuple(
        tuple(one)
        if isinstance(one, list) and all(type(n) is int and 0 <= n < 1 << 40 for n in one)
        else ()
        for one in value
    )


def _type(value: object) -> str:
    """Type of the first tensor among the inputs, as PyTorch names it."""
    known = value if isinstance(value, list) else []
    return next((str(one) for one in known if "Scalar" not in str(one) and one), "")
