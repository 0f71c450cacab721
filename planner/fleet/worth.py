"""What one whole step more of each limit is worth, by solving the problem again with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from planner.fleet.follow import Books
from planner.fleet.limits import named, steps_of
from planner.fleet.plan import Plan
from planner.fleet.problem import Problem
from planner.fleet.program import CARBON, COST, FLOP, PEAK, TAIL, Program

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
    By the words of the step: "worth" in "unit", None where the gaps of the two solutions
    leave it open; "at_most", which is proved, None where time was up; of hardware
    alone the "units" it buys
    """
    found = {}
    for words, (name, step) in steps_of(problem.limits).items():
        program = Program(named(problem, name).moved(problem, step))
        other = program.solve(effort.objective, effort.gap_frac, effort.limit_s, start=plan)
        found[words] = {**gained(plan, other, effort), "unit": UNITS[effort.objective]}
        if effort.objective == FLOP:
            found[words]["units"] = float(other.ordered.sum() - plan.ordered.sum())
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


def left_over(problem: Problem, found: Books) -> dict[str, Any]:
    """What of each limit is not used, and which limits leave no room for one unit more.

    Parameters
    ----------
    found : books of a plan

    Returns
    -------
    "stranded_mw", "stranded_usd": of all limits together, NaN without one; "binding": names
    """
    limits, own = problem.limits, [a for a in problem.assets if a.is_own]
    binding, left_w, left_usd = [], [], []
    for site, bound in limits.site_w.items():
        left = bound - found.site_w.get(site, np.zeros(1)).max()
        left_w.append(left)
        if left < min((a.peak_w for a in own if a.site == site), default=0.0):
            binding.append(f"power at {site}")
    prices = [float(np.nanmin(d.usd)) for d in problem.deals if d.name == "buy"]
    least_usd = min(prices, default=0.0)
    if np.isfinite(limits.capex_usd):
        spent = max(found.capex_usd[problem.tree.path(n)].sum() for n in problem.tree.leaves)
        left_usd.append(limits.capex_usd - spent)
        if left_usd[-1] < least_usd:
            binding.append("capex_usd")
    budget = limits.budget_usd[problem.tree.period]
    if np.isfinite(budget).any():
        rest = (budget - found.capex_usd)[np.isfinite(budget)]
        left_usd.append(float(rest.sum()))
        if (rest < least_usd).any():
            binding.append("budget_usd_per_period")
    return {
        "stranded_mw": sum(left_w) / 1e6 if left_w else np.nan,
        "stranded_usd": min(left_usd) if left_usd else np.nan,
        "binding": binding,
    }
