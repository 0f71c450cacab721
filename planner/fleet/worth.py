"""What one whole step more of each limit is worth, by solving the problem again with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from planner.fleet.follow import Books
from planner.fleet.limits import named, steps_of
from planner.fleet.plan import Plan
from planner.fleet.problem import Problem
from planner.fleet.program import FLOP, Program


@dataclass(frozen=True)
class Effort:
    """How a program is solved: its objective, the gap at which to stop, the time [s]."""

    objective: str
    gap_frac: float
    limit_s: float


def worth_of_more(problem: Problem, plan: Plan, effort: Effort) -> dict[str, float]:
    """What one step more of each limit brings of the objective: dollars, kilograms or flop/s.

    Parameters
    ----------
    problem, plan : with the limits as they are
    effort : as the plan was found

    Notes
    -----
    To within the gap of the two solutions; a plan for less is one for more, so it is not below 0.
    """
    sign = -1.0 if effort.objective == FLOP else 1.0
    found = {}
    for words, (name, step) in steps_of(problem.limits).items():
        other = _more(problem, plan, effort, name, step)
        found[words] = max(sign * (plan.value - other.value), 0.0) + 0.0
    return found


def units_of_more(problem: Problem, plan: Plan, effort: Effort) -> dict[str, float]:
    """Units more that one step more of each limit buys; of plans that buy as much as they can."""
    return {
        words: float(_more(problem, plan, effort, name, step).ordered.sum() - plan.ordered.sum())
        for words, (name, step) in steps_of(problem.limits).items()
    }


def _more(problem: Problem, plan: Plan, effort: Effort, name: str, step: float) -> Plan:
    program = Program(named(problem, name).moved(problem, step))
    return program.solve(effort.objective, effort.gap_frac, effort.limit_s, start=plan)


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
