"""Which limits bind a purchase plan: those that leave no room for one unit, or one step, more.

It looks at the books of the plan alone; what a step is worth says the rest.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from costdata.tco import HOURS_PER_YEAR
from planner.fleet.check import at_meter, served_without, working
from planner.fleet.follow import Books
from planner.fleet.plan import Plan
from planner.fleet.problem import Problem, Stream
from planner.fleet.steps import chip_of
from simkernel.columns import Floats

FULL = 1e-6
"""Share of a limit within which it is met exactly."""


def binding(problem: Problem, plan: Plan, found: Books) -> list[str]:
    """Limits that bind, each once, by name.

    Parameters
    ----------
    problem, plan : what was asked and decided
    found : its books
    """
    return list(dict.fromkeys([
        *_of_sites(problem, plan, found),
        *_of_money(problem, found),
        *_of_carbon(problem, found),
        *_of_streams(problem, plan, found),
        *_of_reserves(problem, plan, found),
        *_of_deals(problem, plan),
        *_of_dates(problem, found),
    ]))  # fmt: skip


def least_usd(problem: Problem) -> float:
    """The cheapest unit that is sold in any period; 0 where none is [$]."""
    prices = [float(np.nanmin(d.usd)) for d in problem.deals
              if d.name == "buy" and np.isfinite(d.usd).any()]  # fmt: skip
    return min(prices, default=0.0)


def _is_full(left: float, unit: float, bound: float) -> bool:
    """What is left of a limit is less than a unit takes, or nothing."""
    return bool(left < unit or left <= FULL * abs(bound))


def _of_sites(problem: Problem, plan: Plan, found: Books) -> Iterator[str]:
    limits = problem.limits
    rows = (("power at", at_meter(problem, plan, found), limits.site_w, "peak_w"),
            ("IT power at", found.site_it_w, limits.site_it_w, "it_w"),
            ("racks at", found.site_racks, limits.site_racks, "racks"))  # fmt: skip
    for words, used, bounds, name in rows:
        for site, bound in bounds.items():
            each = [getattr(a, name) for a in problem.assets if a.is_own and a.site == site]
            least = min((one for one in each if one > 0), default=0.0)
            most = used[site].max() if site in used else 0.0
            if least and _is_full(bound - most, least, bound):
                yield f"{words} {site}"


def _of_money(problem: Problem, found: Books) -> Iterator[str]:
    limits, tree, least = problem.limits, problem.tree, least_usd(problem)
    spent = max(found.capex_usd[tree.path(leaf)].sum() for leaf in tree.leaves)
    if least and limits.capex_usd - spent < least:
        yield "capex_usd"
    if least and (limits.budget_usd[tree.period] - found.capex_usd < least).any():
        yield "budget_usd_per_period"


def _of_carbon(problem: Problem, found: Books) -> Iterator[str]:
    """Carbon in all and of a year, and the clean share of a year."""
    limits, tree, step = problem.limits, problem.tree, problem.horizon.periods_per_year
    draws = [(a, _unit_kwh(problem, place)) for place, a in enumerate(problem.assets)]
    kg = min((a.embodied_kgco2e / a.life_periods + kwh * a.kgco2e_per_kwh for a, kwh in draws),
             default=0.0)  # fmt: skip
    dirty = min((kwh * (limits.clean_frac - a.clean_frac) for a, kwh in draws
                 if a.is_own and a.clean_frac < limits.clean_frac), default=-np.inf)  # fmt: skip
    for path in map(tree.path, tree.leaves):
        if _is_full(limits.kgco2e - found.kgco2e[path].sum(), kg, limits.kgco2e):
            yield "kgco2e"
        for nodes in (path[first : first + step] for first in range(0, len(path), step)):
            most = limits.kgco2e_per_year * len(nodes) * problem.horizon.years
            if _is_full(most - found.kgco2e[nodes].sum(), kg, most):
                yield "kgco2e_per_year"
            kwh = found.kwh[nodes].sum()
            left = found.clean_kwh[nodes].sum() - limits.clean_frac * kwh
            if kwh and dirty > 0 and _is_full(left, dirty, kwh):
                yield "clean_frac"


def _unit_kwh(problem: Problem, place: int) -> float:
    """Energy of a unit at work through one period, at the least; at rest where none works."""
    watts = [o.mean_w for work in problem.works for o in work.options if o.asset == place]
    least_w = min(watts, default=problem.assets[place].idle_w)
    return least_w * problem.horizon.years * HOURS_PER_YEAR / 1000.0


def _of_streams(problem: Problem, plan: Plan, found: Books) -> Iterator[str]:
    """Headroom, and what is served without a site, where a replica less would do without them."""
    for stream in problem.streams:
        each = _least_serves(stream, plan)
        served, need = found.served[stream.name], stream.demand * (1.0 + stream.headroom_frac)
        is_tight = (served - each < need * (1.0 - FULL)) & (stream.demand > 0)
        if (is_tight & (served - each >= stream.demand * (1.0 - FULL))).any():
            yield f"headroom_frac of {stream.name}"
        share = problem.limits.survive_site_frac
        for site in problem.sites if share else ():
            rest = served_without(problem, plan, stream, site)
            is_held = rest - each < share * stream.demand * (1.0 - FULL)
            if (is_held & (rest > 0)).any():
                yield "survive_site_frac"


def _least_serves(stream: Stream, plan: Plan) -> Floats:
    """The least that one of the replicas at work serves; infinite where none is; (n,)."""
    serves = np.array([[option.serves] for option in stream.options])
    return np.where(plan.replicas[stream.name] > 0.5, serves, np.inf).min(axis=0)


def _of_reserves(problem: Problem, plan: Plan, found: Books) -> Iterator[str]:
    """Units that may be lost, and spares, where one had unit less would do without them."""
    busy, reserve = working(problem, found), problem.limits.survive_units
    is_ordered = {deal.asset for d, deal in enumerate(problem.deals) if plan.ordered[d].any()}
    for a in sorted(is_ordered):
        spares = busy[a] * problem.assets[a].spare_frac
        left = found.there[a] - busy[a] - spares - (busy[a] > FULL) * reserve
        is_tight = (left < 1.0 - FULL) & (busy[a] > FULL)
        if reserve and (is_tight & (left + reserve >= 1.0 - FULL)).any():
            yield "survive_units"
        if (is_tight & (spares > 0) & (left + spares >= 1.0 - FULL)).any():
            yield "repair_days"


def _of_deals(problem: Problem, plan: Plan) -> Iterator[str]:
    """Least takes, and units that come in the first period in which they can."""
    for d, n in np.argwhere(plan.ordered > 0):
        deal, units = problem.deals[d], float(plan.ordered[d, n])
        if deal.least > deal.step and units < deal.least + deal.step:
            yield f"least_units of {deal.name}"
        if int(problem.tree.period[n]) + deal.lead == deal.soonest:
            if 0 < deal.lead >= deal.first:
                yield "lead_weeks"
            if deal.first > deal.lead:
                yield f"available of {chip_of(problem, deal)}"


def _of_dates(problem: Problem, found: Books) -> Iterator[str]:
    for run in problem.runs:
        if max(found.ended[run.name]) == run.due < problem.horizon.periods - 1:
            yield f"due of {run.name}"
