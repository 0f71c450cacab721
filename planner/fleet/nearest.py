"""What would have to give where no purchase plan exists: each limit's least relaxation, proved.

One limit at a time is given a slack that is made as small as it can be, all others kept; dates of
runs are put off period by period, the share of clean energy is bisected. The problem with the
relaxed limit is solved again before anything is said.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from planner.fleet.limits import DEMAND, Named, named, with_limits
from planner.fleet.problem import Problem
from planner.fleet.program import COST, Program, Slack
from planner.fleet.soonest import too_soon
from planner.fleet.steps import chip_of
from simkernel.errors import BadStudy

DIGITS = 4
"""Significant digits of a relaxed limit, rounded away from the limit given."""

CLOSE = 1e-6
"""Share within which a solver keeps a limit, and a rounded value counts as that number."""

ANY_PLAN = 0.9
"""Gap at which a plan that only has to exist may stop."""

HALVINGS = 12


def nearest_change(problem: Problem, limit_s: float) -> dict[str, Any]:
    """How far each limit has to be relaxed until there is a plan, all others kept.

    Parameters
    ----------
    problem : that has no plan
    limit_s : for each time that it is solved [s]

    Returns
    -------
    "relaxations": one line per limit, with the value "needed", or "why" there is none;
    "together": the share by which all must give where one is not enough; "conflict": the limits
    each of which alone is in the way; "why": workloads that come before any unit can be there
    """
    program = Program(problem)

    def is_there(other: Problem) -> bool:
        try:
            return Program(other).solve(COST, ANY_PLAN, limit_s).is_there
        except BadStudy:
            return False

    lines = [_line(program, name, is_there, limit_s) for name in program.limits]
    lines += list(_dates(problem, is_there))
    lines += list(_leads(problem, is_there))
    lines += list(_sales(problem, is_there))
    if np.isfinite(problem.limits.clean_frac):
        lines.append(_clean(problem, is_there))
    found: dict[str, Any] = {"relaxations": lines}
    if why := list(too_soon(problem)):
        found["why"] = why
    found["conflict"] = [line["limit"] for line in lines if line["needed"] is not None]
    if not found["conflict"] and len(program.limits) > 1:
        found["together"] = _together(program, limit_s)
    return found


def _line(
    program: Program, name: str, is_there: Callable[[Problem], bool], limit_s: float
) -> dict[str, Any]:
    """The least relaxation of one limit."""
    limit = named(program.problem, name)
    line: dict[str, Any] = {
        "limit": name, "given": limit.given, "unit": limit.unit, "needed": None,
    }  # fmt: skip
    steps = program.least_slack(Slack((name,)), limit_s)
    if not np.isfinite(steps):
        return {**line, "why": "without it no plan keeps the other limits either"}
    needed = _outward(limit, steps)
    if not is_there(limit.moved(program.problem, (needed - limit.given) / limit.scale)):
        return {**line, "why": f"no plan was found at {needed:g}, which should do"}
    share = needed / limit.given - 1.0 if limit.given else None
    return {**line, "needed": needed, "change_frac": share, "is_smallest": True}


def _outward(limit: Named, steps: float) -> float:
    """The value that a relaxation comes to, rounded away from the one given."""
    value = limit.given + steps * limit.scale
    if not value:
        return 0.0
    scale = 10.0 ** (DIGITS - 1 - math.floor(math.log10(abs(value))))
    away = math.floor if limit.scale < 0 else math.ceil
    return away(value * scale * (1.0 - math.copysign(CLOSE, limit.scale))) / scale


def _dates(problem: Problem, is_there: Callable[[Problem], bool]) -> Iterator[dict[str, Any]]:
    """The first period by whose end each run can be done, all else kept."""
    last = problem.horizon.periods - 1
    for i, run in enumerate(problem.runs):
        line: dict[str, Any] = {
            "limit": f"date of {run.name}", "given": run.due, "unit": "period", "needed": None,
        }  # fmt: skip
        for due in range(run.due + 1, last + 1):
            runs = [*problem.runs[:i], replace(run, due=due), *problem.runs[i + 1 :]]
            if is_there(replace(problem, runs=runs)):
                share = due / run.due - 1.0 if run.due else None
                yield {**line, "needed": due, "change_frac": share, "is_smallest": True}
                break
        else:
            yield {**line, "why": f"no date until the last period, {last}, is enough"}


def _leads(problem: Problem, is_there: Callable[[Problem], bool]) -> Iterator[dict[str, Any]]:
    """How much sooner what is ordered has to come, all else kept."""
    given = max((deal.lead for deal in problem.deals), default=0)
    line: dict[str, Any] = {
        "limit": "lead_weeks", "given": given, "unit": "periods from order to delivery",
        "needed": None,
    }  # fmt: skip
    for sooner in range(1, given + 1):
        deals = [replace(deal, lead=max(deal.lead - sooner, 0)) for deal in problem.deals]
        if is_there(replace(problem, deals=deals)):
            share = (given - sooner) / given - 1.0
            yield {**line, "needed": given - sooner, "change_frac": share, "is_smallest": True}
            return
    if given:
        yield {**line, "why": "without it no plan keeps the other limits either"}


def _sales(problem: Problem, is_there: Callable[[Problem], bool]) -> Iterator[dict[str, Any]]:
    """How much sooner a chip has to be sold, all else kept."""
    firsts = {chip_of(problem, deal): deal.first for deal in problem.deals if deal.first}
    for chip, given in firsts.items():
        line: dict[str, Any] = {
            "limit": f"available of {chip}", "given": given, "unit": "period", "needed": None,
        }  # fmt: skip
        for first in range(given - 1, -1, -1):
            deals = [replace(d, first=first) if chip_of(problem, d) == chip else d
                     for d in problem.deals]  # fmt: skip
            if is_there(replace(problem, deals=deals)):
                share = first / given - 1.0
                yield {**line, "needed": first, "change_frac": share, "is_smallest": True}
                break
        else:
            yield {**line, "why": "without it no plan keeps the other limits either"}


def _clean(problem: Problem, is_there: Callable[[Problem], bool]) -> dict[str, Any]:
    """The largest carbon-free share that a plan can have, all else kept."""
    given = problem.limits.clean_frac
    line = {"limit": "clean_frac", "given": given, "unit": "of the energy", "needed": None}
    low, high = 0.0, given
    if not is_there(with_limits(problem, clean_frac=0.0)):
        return {**line, "why": "without it no plan keeps the other limits either"}
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (
            (middle, high) if is_there(with_limits(problem, clean_frac=middle)) else (low, middle)
        )
    change = low / given - 1.0
    return {**line, "needed": low, "change_frac": change, "is_smallest": False}


def _together(program: Program, limit_s: float) -> dict[str, Any]:
    """The share by which all limits but demand must give until there is a plan."""
    names = tuple(name for name in program.limits if not name.startswith(DEMAND))
    share = program.least_slack(Slack(names, together=True), limit_s) if names else np.nan
    if not np.isfinite(share):
        return {"change_frac": None, "why": "no share more of each is enough: demand and lead "
                "times alone leave no plan"}  # fmt: skip
    return {"change_frac": share, "is_smallest": True}
