"""A written program searched: by windows of its calendar first, then as a whole; told as it goes.

HiGHS does not look at its clock while it rounds, so a search may outlast its limit many times. It
tells what it has whenever that becomes better, and whoever listens may end it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from planner.fleet import highs
from planner.fleet.highs import Answer
from planner.fleet.linear import Linear, Terms
from planner.fleet.windows import is_large, solved_by_windows
from simkernel.columns import Codes, Floats

SHARE = 0.3
"""Of the time, for a plan to begin a search with."""

ROUNDING = 1e-6
"""By which a solution may pass a row, of its largest term: what solvers keep."""

Tell = Callable[[Answer], None]


@dataclass(frozen=True)
class Written:
    """A program that minimises a sum of terms.

    Parameters
    ----------
    linear : its columns and rows
    terms, fixed : of what is minimised
    when : period in which each column is decided, -1 for those of none; (c,)
    """

    linear: Linear
    terms: Terms
    fixed: float
    when: Codes

    @property
    def model(self) -> highs.Model:
        """The program in a solver of its own."""
        return highs.model(self.linear, self.terms, self.fixed)

    @property
    def whole_numbers(self) -> int:
        """How many columns have to be whole."""
        return sum(self.linear.whole)

    def value(self, columns: Floats) -> float:
        """What a solution comes to."""
        return float(sum(columns[c] * v for c, v in self.terms.items())) + self.fixed

    def is_kept_by(self, columns: Floats) -> bool:
        """A solution keeps all rows and bounds, to what solvers keep."""
        one = self.linear
        if len(columns) != len(one.lower) or not np.isfinite(columns).all():
            return False
        parts = np.array(one.values) * columns[np.array(one.places, dtype=np.int64)]
        rows = np.repeat(np.arange(len(one.starts)), np.diff([*one.starts, len(one.places)]))
        sums = np.bincount(rows, parts, len(one.starts))
        room = ROUNDING * (1.0 + np.maximum.reduceat(np.abs(parts), one.starts))
        slack = ROUNDING * (1.0 + np.abs(columns))
        return bool(
            (sums >= np.array(one.row_low) - room).all()
            and (sums <= np.array(one.row_high) + room).all()
            and (columns >= np.array(one.lower) - slack).all()
            and (columns <= np.array(one.upper) + slack).all()
        )


def searched(
    written: Written, gap_frac: float, limit_s: float, start: Floats | None, tell: Tell
) -> Answer:
    """The best solution of a long program.

    Parameters
    ----------
    gap_frac : at which it may stop
    limit_s : after which it should give the best so far [s]
    start : columns to begin with
    tell : given each better solution, and the bound of the relaxation with columns of NaN
    """
    model, begun = written.model, time.monotonic()
    if start is not None and written.is_kept_by(start):
        tell(Answer("feasible", written.value(start), -np.inf, np.inf, start))
    if is_large(written.whole_numbers):
        return solved_by_windows(model, written.when, gap_frac, limit_s, tell)
    if start is None:
        near = solved_by_windows(written.model, written.when, gap_frac, SHARE * limit_s, tell)
        if near.status in ("optimal", "infeasible"):
            return near
        start = near.columns
        if np.isfinite(near.value):
            tell(near)
    left_s = max(limit_s - (time.monotonic() - begun), 1.0)
    return highs.solved(model, gap_frac, left_s, start, tell)
