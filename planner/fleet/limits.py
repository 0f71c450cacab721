"""Limits of a purchase plan by name: their values, units, and the problem with another value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from planner.fleet.problem import Problem

MW = 1e6
DEMAND, SITE = "demand of ", {
    "power at ": "site_w", "IT power at ": "site_it_w", "racks at ": "site_racks",
}  # fmt: skip
"""Words before the name of a stream, and before that of a site with the table of its bounds."""

TOTALS: Mapping[str, str] = {
    "capex_usd": "USD", "kgco2e": "kgCO2e", "kgco2e_per_year": "kgCO2e/year",
}  # fmt: skip


@dataclass(frozen=True)
class Named:
    """A limit.

    Parameters
    ----------
    name : as rows of the program are labelled
    given : its value, in `unit`; NaN where it is one for each period
    moved : the problem with the limit relaxed by so many of the program's steps
    scale : of a step in `unit`; below 0 where relaxing lowers the value
    """

    name: str
    unit: str
    given: float
    moved: Callable[[Problem, float], Problem]
    scale: float = 1.0


def named(problem: Problem, name: str) -> Named:
    """A limit of a problem by the name of its rows."""
    limits = problem.limits
    if name.startswith(DEMAND):
        return Named(name, "of what is asked", 1.0, _less_demand(name), -1.0)
    for word, table in SITE.items():
        if name.startswith(word):
            site = name.removeprefix(word)
            scale, unit = (1.0, "positions") if table == "site_racks" else (1.0 / MW, "MW")
            given = getattr(limits, table)[site] * scale
            return Named(name, unit, given, _site(table, site), scale)
    if name == "budget_usd_per_period":
        return Named(name, "USD more in every period", 0.0, _budget)
    if name == "survive_site_frac":
        return Named(name, "of each stream", limits.survive_site_frac, _survived,
                     -limits.survive_site_frac)  # fmt: skip
    return Named(name, TOTALS[name], getattr(limits, name), _total(name))


def with_limits(problem: Problem, **other: object) -> Problem:
    """The problem with some limits changed."""
    return replace(problem, limits=replace(problem.limits, **other))  # type: ignore[arg-type]


def _less_demand(name: str) -> Callable[[Problem, float], Problem]:
    stream = name.removeprefix(DEMAND)

    def moved(problem: Problem, steps: float) -> Problem:
        return replace(problem, streams=[
            replace(one, demand=one.demand * max(1.0 - steps, 0.0)) if one.name == stream else one
            for one in problem.streams
        ])  # fmt: skip

    return moved


def _site(table: str, site: str) -> Callable[[Problem, float], Problem]:
    def moved(problem: Problem, steps: float) -> Problem:
        own = getattr(problem.limits, table)
        return with_limits(problem, **{table: {**own, site: own[site] + steps}})

    return moved


def _budget(problem: Problem, steps: float) -> Problem:
    return with_limits(problem, budget_usd=problem.limits.budget_usd + steps)


def _survived(problem: Problem, steps: float) -> Problem:
    share = problem.limits.survive_site_frac * max(1.0 - steps, 0.0)
    return with_limits(problem, survive_site_frac=share)


def _total(name: str) -> Callable[[Problem, float], Problem]:
    def moved(problem: Problem, steps: float) -> Problem:
        return with_limits(problem, **{name: getattr(problem.limits, name) + steps})

    return moved
