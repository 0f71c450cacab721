"""Decisions of before as a plan to begin a search with: all columns of the program that follow.

What is stored of a plan is what was decided; stock, reserves and stops are found again by solving
for them with the decisions fixed, which takes a relaxation or two.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from planner.fleet import highs
from planner.fleet.carried import carried
from planner.fleet.plan import Plan
from planner.fleet.problem import Problem
from planner.fleet.program import COST, Program
from planner.fleet.supply import HELD
from simkernel.errors import PlanError

GAP = 0.01
"""At which what follows from decisions is good enough to begin with."""


def resumed(old: Problem, plan: Plan, program: Program, limit_s: float) -> Plan | None:
    """A plan of another problem as one of this program; None where it is none here.

    Parameters
    ----------
    old, plan : for which it was decided, and what
    program : of the problem that is solved now
    limit_s : to complete it in [s]
    """
    try:
        moved = carried(old, plan, program.problem)
        decided = dict(_decided(program, moved))
    except PlanError:
        return None
    terms, fixed = program.terms[COST]
    model = highs.model(program.linear, terms, fixed)
    columns = np.array(list(decided), dtype=np.int64)
    highs.fix(model, columns, np.array(list(decided.values()), float))
    found = highs.solved(model, GAP, limit_s, None)
    if not np.isfinite(found.value):
        return None
    return replace(moved, value=found.value, bound=-np.inf, columns=found.columns)


def _decided(program: Program, plan: Plan) -> Iterator[tuple[int, float]]:
    """Columns of everything that is decided, with their values."""
    supply, work = program.supply, program.work
    for lot in supply.lots:
        if lot.deal != HELD:
            yield lot.column, plan.ordered[lot.deal, lot.node] / lot.step
    gone = {(o.deal, o.asset, o.ordered, o.term, o.node, o.to): o.units for o in plan.left}
    for one in supply.leavings:
        lot = supply.lots[one.lot]
        key = (lot.deal, lot.asset, lot.node, lot.term, one.node, one.to)
        yield one.column, gone.get(key, 0.0) / lot.step
    for name, columns in work.serve.items():
        yield from zip(columns.ravel().tolist(), plan.replicas[name].ravel(), strict=True)
    for name, pace in work.runs.items():
        running = plan.runs[name]
        if running.form != pace.form or running.when.shape != pace.columns.shape:
            raise PlanError(f"run {name} is done in another way")
        yield from zip(pace.columns.ravel().tolist(), running.when.ravel(), strict=True)
