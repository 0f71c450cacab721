"""Programs decided from window to window of the calendar, and proved by their relaxation.

What is found so is the plan of a program too large for one search, and where other searches
begin. HiGHS does not look at its clock while it rounds a large program, so its search may outlast
any limit. Here the whole program is first relaxed, which gives the bound; then its whole numbers
are decided window by window, what comes later relaxed and what came before kept.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from planner.fleet import highs
from planner.fleet.highs import Answer, Model
from simkernel.columns import Codes

MOST_WHOLE = 5_000
"""Whole numbers up to which one search is tried: 2,000 take 10 s, 42,000 outlast 600 s."""

WINDOW = 4
"""Periods decided at once: a year of quarters."""

SHARE = 0.25
"""Of the gap asked for, left to each window."""


LEAST_WHOLE = 300
"""Whole numbers from which on a search begins with what the windows found."""


def is_long(whole_numbers: int) -> bool:
    """A program whose search needs a plan to begin with, and may outlast its time."""
    return whole_numbers > LEAST_WHOLE


def is_large(whole_numbers: int) -> bool:
    """A program that is decided by windows."""
    return whole_numbers > MOST_WHOLE


def solved_by_windows(
    one: Model,
    when: Codes,
    gap_frac: float,
    limit_s: float,
    tell: Callable[[Answer], None] = lambda answer: None,
) -> Answer:
    """A plan and its proved gap; status "infeasible" where the relaxation is.

    Parameters
    ----------
    one : program in the solver
    when : period in which a column is decided, -1 for what belongs to none; (c,)
    gap_frac, limit_s : as for `highs.solved`
    tell : given the bound, with columns of NaN, as soon as it is known

    References
    ----------
    Relax-and-fix: Pochet, Wolsey (2006), Production Planning by Mixed Integer Programming, 8.
    """
    deadline = time.monotonic() + limit_s
    highs.set_whole(one, np.zeros(len(one.whole), dtype=bool))
    relaxed = highs.solved(one, gap_frac, limit_s, None)
    if not np.isfinite(relaxed.value):
        return relaxed
    nothing = np.full(len(one.whole), np.nan)
    tell(Answer("relaxed", np.nan, relaxed.value, np.nan, nothing))
    last = int(when.max())
    found = relaxed
    for first in range(0, last + 1, WINDOW):
        left_s = max(deadline - time.monotonic(), 1.0)
        windows = (last - first) // WINDOW + 1
        is_now = (when >= first) & (when < first + WINDOW)
        highs.set_whole(one, one.whole & (is_now | (when < 0)))
        found = highs.solved(one, SHARE * gap_frac, left_s / windows, None)
        if not np.isfinite(found.value):
            return _none(found, one)
        kept = one.whole & is_now
        highs.fix(one, np.flatnonzero(kept), np.rint(found.columns[kept]))
    gap = abs(found.value - relaxed.value) / max(abs(found.value), 1e-9)
    status = "optimal" if gap <= gap_frac else "feasible"
    return replace(found, status=status, bound=relaxed.value, gap_frac=gap)


def _none(found: Answer, one: Model) -> Answer:
    """A window that leaves no plan proves nothing: another one may be there."""
    return replace(found, status="no plan in time", columns=np.full(len(one.whole), np.nan))
