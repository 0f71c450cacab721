"""What a purchase run keeps beside its front: decisions of its plans, sweeps of its workloads."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from planner.archive.columns import Array
from planner.fleet.plan import Plan
from planner.fleet.problem import Problem
from planner.fleet.row import ASKED, CALENDAR, DECIDED, FORM
from planner.fleet.stored import plan_read, problem_read
from planner.fleet.study import WORKLOAD
from simkernel.errors import BadFile

NOT_OF_A_PLAN = ("run", "status", WORKLOAD)


def decided(front: Mapping[str, Any], row: int, run: str) -> tuple[Problem, Plan]:
    """The problem of a stored purchase run, and what one row of its front decides in it.

    Parameters
    ----------
    front : columns of the stored front, (n,)
    row, run : of it, and whose it is

    Raises
    ------
    BadFile : an earlier version stored the run, without its decisions or in another form
    """
    told = json.loads(str(front[CALENDAR][row])) if CALENDAR in front else {}
    if DECIDED not in front or told.get("form") != FORM:
        raise BadFile(
            f"run {run} was stored by a version that kept no decisions of its plans, or kept "
            "them in another form; run its study again"
        )
    problem = problem_read(next(str(text) for text in front[ASKED] if text))
    return problem, plan_read(problem, str(front[DECIDED][row]))


def swept_tables(
    kept: Mapping[str, Array], run: str, workloads: Iterable[str]
) -> dict[str, dict[str, Any]]:
    """The physical front of every workload, as its sweep left it.

    Parameters
    ----------
    kept : columns of all of them together, NULL where one has no such column
    run, workloads : whose they are

    Raises
    ------
    BadFile : an earlier version stored the run, without them
    """
    names = list(workloads)
    if names and WORKLOAD not in kept:
        raise BadFile(
            f"run {run} was stored by a version that kept nothing of its workloads' sweeps; run "
            "its study again"
        )
    return {name: _own(kept, name) for name in names}


def _own(kept: Mapping[str, Array], name: str) -> dict[str, Any]:
    """Columns of one workload, in the order of design keys, NaN for NULL."""
    rows = np.flatnonzero(np.asarray(kept[WORKLOAD]) == name)
    rows = rows[np.argsort(np.asarray(kept["key"])[rows], kind="stable")]
    found = {n: column[rows] for n, column in kept.items() if n not in NOT_OF_A_PLAN}
    return {
        n: np.ma.filled(column.astype(float), np.nan)
        if np.ma.is_masked(column)
        else np.ma.getdata(column)
        for n, column in found.items()
        if len(rows) and not np.ma.getmaskarray(column).all()
    }
