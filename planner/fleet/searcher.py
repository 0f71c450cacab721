"""A search in a process of its own: a program comes in, answers go out as they become better.

It ends when whoever asked for it does, since its input ends then.
"""

from __future__ import annotations

import io
import os
import signal
import struct
import sys
import threading
from collections.abc import Mapping
from dataclasses import fields
from typing import IO, Any

import numpy as np

from planner.fleet.highs import Answer
from planner.fleet.linear import Linear
from planner.fleet.search import Written, searched

HEAD = struct.Struct("<Q")
LISTS = tuple(field.name for field in fields(Linear) if field.name != "limits")
"""Parts of a program as it is written; who keeps which row is for its writer alone."""

LAST = "last"


def main() -> None:
    """Read one program from the standard input, write its answers to the standard output."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    asked = read_frame(sys.stdin.buffer)
    if not asked:
        return
    threading.Thread(target=_end_with_asker, daemon=True).start()
    start = asked["start"] if len(asked["start"]) else None
    told = searched(
        program_of(asked), float(asked["gap_frac"]), float(asked["limit_s"]), start,
        lambda answer: write_frame(out, answer_frame(answer, is_last=False)),
    )  # fmt: skip
    write_frame(out, answer_frame(told, is_last=True))


def _end_with_asker() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


def write_frame(out: IO[bytes], arrays: Mapping[str, Any]) -> None:
    """Arrays as one frame: its length, then a NumPy archive."""
    held = io.BytesIO()
    np.savez(held, **arrays)
    out.write(HEAD.pack(held.tell()))
    out.write(held.getvalue())
    out.flush()


def read_frame(source: IO[bytes]) -> dict[str, Any]:
    """The next frame; {} at the end."""
    head = source.read(HEAD.size)
    if len(head) < HEAD.size:
        return {}
    (size,) = HEAD.unpack(head)
    body = source.read(size)
    if len(body) < size:
        return {}
    with np.load(io.BytesIO(body), allow_pickle=False) as found:
        return dict(found)


def program_frame(
    written: Written, gap_frac: float, limit_s: float, start: Any | None
) -> dict[str, Any]:
    """A program, and how it is searched, as arrays."""
    return {
        **{name: np.array(getattr(written.linear, name)) for name in LISTS},
        "cost_places": np.array(list(written.terms), dtype=np.int64),
        "cost_values": np.array(list(written.terms.values()), dtype=float),
        "fixed": written.fixed,
        "when": written.when,
        "gap_frac": gap_frac,
        "limit_s": limit_s,
        "start": np.zeros(0) if start is None else start,
    }


def program_of(asked: Mapping[str, Any]) -> Written:
    """The program of a frame."""
    linear = Linear(**{name: asked[name].tolist() for name in LISTS})
    places, values = asked["cost_places"].tolist(), asked["cost_values"].tolist()
    terms = dict(zip(places, values, strict=True))
    return Written(linear, terms, float(asked["fixed"]), asked["when"])


def answer_frame(answer: Answer, *, is_last: bool) -> dict[str, Any]:
    """An answer as arrays."""
    return {
        "status": answer.status,
        "numbers": np.array([answer.value, answer.bound, answer.gap_frac]),
        "columns": answer.columns,
        LAST: is_last,
    }


def answer_of(told: Mapping[str, Any]) -> Answer:
    """The answer of a frame."""
    value, bound, gap_frac = told["numbers"].tolist()
    return Answer(str(told["status"]), value, bound, gap_frac, told["columns"])
