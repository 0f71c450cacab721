"""Limits of a purchase plan by name: their values, units, and the problem with another value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from planner.fleet.problem import Limits, Problem

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


def steps_of(limits: Limits) -> dict[str, tuple[str, float]]:
    """One whole step more of each limit there is: what it is called, its name, its size."""
    found: dict[str, tuple[str, float]] = {}
    for site in limits.site_w:
        found[f"+1 MW at {site}"] = (f"power at {site}", MW)
    for site in limits.site_it_w:
        found[f"+1 MW of racks at {site}"] = (f"IT power at {site}", MW)
    for site in limits.site_racks:
        found[f"+10 racks at {site}"] = (f"racks at {site}", 10.0)
    if np.isfinite(limits.budget_usd).any():
        found["+$10M in every period"] = ("budget_usd_per_period", 10e6)
    if np.isfinite(limits.capex_usd):
        found["+$10M in all"] = ("capex_usd", 10e6)
    if np.isfinite(limits.kgco2e):
        found["+1 t CO2e in all"] = ("kgco2e", 1000.0)
    if np.isfinite(limits.kgco2e_per_year):
        found["+1 t CO2e a year"] = ("kgco2e_per_year", 1000.0)
    return found
