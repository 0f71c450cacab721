"""What one whole step more of each limit is worth, by solving the problem again with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from planner.fleet.binding import binding
from planner.fleet.check import at_meter
from planner.fleet.follow import Books
from planner.fleet.plan import Plan
from planner.fleet.problem import Problem
from planner.fleet.program import CARBON, COST, FLOP, PEAK, TAIL, Program
from planner.fleet.steps import steps_of

UNITS = {COST: "USD", CARBON: "kgCO2e", PEAK: "MW", TAIL: "USD", FLOP: "1/s"}
"""Of what one step more is worth."""

SAME = 1e-7
"""Share within which two optima are one: solvers keep their tolerances to it."""


@dataclass(frozen=True)
class Effort:
    """How a program is solved: its objective, the gap at which to stop, the time [s]."""

    objective: str
    gap_frac: float
    limit_s: float


def worth_of_more(problem: Problem, plan: Plan, effort: Effort) -> dict[str, dict[str, Any]]:
    """What one step more of each limit brings of the objective, by solving again with it.

    Parameters
    ----------
    problem, plan : with the limits as they are
    effort : as the plan was found

    Returns
    -------
    By the words of the step: its "limit", "worth" in "unit", None where the gaps of the two
    solutions leave it open; "at_most", which is proved, None where time was up; of hardware
    alone the "units" it buys
    """
    found = {}
    for step in steps_of(problem):
        program = Program(step.relaxed)
        other = program.solve(effort.objective, effort.gap_frac, effort.limit_s, start=plan)
        told = {"limit": step.limit, "unit": UNITS[effort.objective]}
        found[step.words] = {**gained(plan, other, effort), **told}
        if effort.objective == FLOP:
            found[step.words]["units"] = float(other.ordered.sum() - plan.ordered.sum())
    return found


def gained(plan: Plan, other: Plan, effort: Effort) -> dict[str, float | None]:
    """How much better the best plan becomes: the difference found, and between which it lies.

    Notes
    -----
    The optimum lies between the bound and the value of a plan, so the difference of two optima
    between bound less value and value less bound; and a plan for less is one for more too.
    """
    if not other.is_there:
        return {"worth": None, "at_most": None}
    sign = -1.0 if effort.objective == FLOP else 1.0
    least, most = sign * (plan.bound - other.value), sign * (plan.value - other.bound)
    if most <= SAME * abs(plan.value):
        return {"worth": 0.0, "at_most": 0.0}
    worth = sign * (plan.value - other.value)
    return {"worth": worth if least > 0 else None, "at_most": most}


def left_over(problem: Problem, plan: Plan, found: Books) -> dict[str, Any]:
    """What of power and money is not used, and which limits bind.

    Parameters
    ----------
    problem, plan : what was asked and decided
    found : books of the plan

    Returns
    -------
    "stranded_mw", "stranded_usd": of all limits together, in the future that leaves least, NaN
    without one; "binding": names
    """
    limits, tree, left_usd = problem.limits, problem.tree, [np.inf]
    watts = at_meter(problem, plan, found)
    left_w = [w - watts.get(site, np.zeros(1)).max() for site, w in limits.site_w.items()]
    rest = np.nan_to_num(limits.budget_usd[tree.period] - found.capex_usd)
    for path in map(tree.path, tree.leaves):
        if np.isfinite(limits.capex_usd):
            left_usd.append(limits.capex_usd - found.capex_usd[path].sum())
        if np.isfinite(limits.budget_usd).any():
            left_usd.append(rest[path].sum())
    return {
        "stranded_mw": sum(left_w) / 1e6 if left_w else np.nan,
        "stranded_usd": float(min(left_usd)) if len(left_usd) > 1 else np.nan,
        "binding": binding(problem, plan, found),
    }
