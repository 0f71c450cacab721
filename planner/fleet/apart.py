"""A long program solved within its time, whatever the solver does: searched apart, and ended.

What the search has told by then is the answer: its best solution, the best bound, their gap.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from planner.fleet.highs import Answer
from planner.fleet.search import Written
from planner.fleet.searcher import LAST, answer_of, program_frame, read_frame, write_frame
from simkernel.columns import Floats
from simkernel.errors import PlanError

GRACE_S = 0.5
"""Given to a search that ends by itself at its limit, to say so."""

CHILD = "from planner.fleet.searcher import main; main()"
MOST_SAID = 500
ROOT = str(Path(__file__).parents[2])


def searched_apart(
    written: Written, gap_frac: float, limit_s: float, start: Floats | None
) -> Answer:
    """The best solution in a time that is kept.

    Parameters
    ----------
    gap_frac : at which it may stop
    limit_s : after which it gives the best so far [s]
    start : columns to begin with

    Raises
    ------
    PlanError : the search ended in an error
    """
    deadline = time.monotonic() + limit_s
    answers: list[Answer] = []
    last: list[Answer] = []
    with _child() as child:
        listener = threading.Thread(target=_listen, args=(child, answers, last), daemon=True)
        listener.start()
        try:
            assert child.stdin, "it was opened as a pipe"
            write_frame(child.stdin, program_frame(written, gap_frac, limit_s, start))
            listener.join(max(deadline + GRACE_S - time.monotonic(), 0.0))
            is_ended = listener.is_alive()
        except BrokenPipeError:
            is_ended = False
        finally:
            child.kill()
            listener.join()
        said = "" if last or is_ended else _said(child)
    if last:
        return _best([last[0], *answers], len(written.linear.lower), last[0].status)
    if not is_ended:
        raise PlanError(
            f"the search of a purchase plan ended with code {child.returncode}: {said}"
        )
    return _best(answers, len(written.linear.lower), "feasible")


def _child() -> subprocess.Popen[bytes]:
    """A process that waits for a program."""
    paths = os.pathsep.join([ROOT, *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.Popen(
        [sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": paths},
    )  # fmt: skip


def _said(child: subprocess.Popen[bytes]) -> str:
    """The end of what a process said of its error."""
    assert child.stderr, "it was opened as a pipe"
    return child.stderr.read().decode(errors="replace")[-MOST_SAID:]


def _listen(child: subprocess.Popen[bytes], answers: list[Answer], last: list[Answer]) -> None:
    """Take what the search tells until it ends."""
    assert child.stdout, "it was opened as a pipe"
    while told := read_frame(child.stdout):
        (last if told[LAST] else answers).append(answer_of(told))


def _best(answers: Sequence[Answer], columns: int, status: str) -> Answer:
    """The best solution and the best bound of all that was told.

    Parameters
    ----------
    status : of it, where there is one
    """
    found = [one for one in answers if np.isfinite(one.value) and np.isfinite(one.columns).all()]
    if not found:
        word = status if status != "feasible" else "no plan in time"
        return Answer(word, np.nan, np.nan, np.nan, np.full(columns, np.nan))
    best = min(found, key=lambda one: one.value)
    bound = max((one.bound for one in answers if not np.isnan(one.bound)), default=-np.inf)
    bound = min(bound, best.value)
    gap = abs(best.value - bound) / max(abs(best.value), 1e-9)
    return replace(best, status=status, bound=bound, gap_frac=gap)
