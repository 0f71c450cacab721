"""Every rule of a purchase plan, checked one by one on its books, apart from the program."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from planner.fleet.follow import Books
from planner.fleet.plan import Plan
from planner.fleet.problem import Option, Problem, Stream
from simkernel.columns import Floats

ROUNDING = 1e-6
"""Share by which a sum may pass its bound: solvers keep constraints to 1e-6."""


def broken(problem: Problem, plan: Plan, found: Books) -> list[str]:
    """Every rule that a plan breaks, in words; nothing where it keeps them all.

    Parameters
    ----------
    problem : whose rules
    plan : what was decided
    found : its books
    """
    return [
        *found.faults,
        *_of_orders(problem, plan),
        *_of_capacity(problem, plan, found),
        *_of_streams(problem, plan, found),
        *_of_runs(problem, plan, found),
        *_of_sites(problem, plan, found),
        *_of_money(problem, found),
        *_of_carbon(problem, found),
    ]


def _of_orders(problem: Problem, plan: Plan) -> Iterator[str]:
    periods = problem.horizon.periods
    for d, deal in enumerate(problem.deals):
        name = f"{deal.name} of {problem.assets[deal.asset].label}"
        for n in np.flatnonzero(plan.ordered[d]):
            units, due = float(plan.ordered[d, n]), int(problem.tree.period[n]) + deal.lead
            if units < 0 or units != np.rint(units):
                yield f"{name} is not ordered in whole units"
            if units % deal.step:
                yield f"{name} is {units:g} units; it is sold by {deal.step}"
            if not deal.is_had(due, periods):
                yield f"{name} arrives in period {due}, before period {deal.first}"
            if units < deal.least:
                yield f"{name} takes {units:g} units; the least is {deal.least}"
    for one in plan.left:
        if int(problem.tree.period[one.node]) % problem.review_periods:
            yield f"units of {problem.assets[one.asset].label} leave between reviews"


def _of_capacity(problem: Problem, plan: Plan, found: Books) -> Iterator[str]:
    for stream in problem.streams:
        for o, option in enumerate(stream.options):
            if plan.replicas[stream.name][o].any() and not problem.assets[option.asset].may_serve:
                yield f"{stream.name} is served on {problem.assets[option.asset].label}"
    for a, (asset, busy) in enumerate(zip(problem.assets, working(problem, found), strict=True)):
        reserve = (busy > 1e-6) * problem.limits.survive_units
        need = busy * (1.0 + asset.spare_frac) + reserve
        yield from _over(f"units of {asset.label} at work", need, found.there[a])


def working(problem: Problem, found: Books) -> Floats:
    """Units at work in the busiest part of the day; (a, n)."""
    if any(run.in_blocks for run in problem.runs):
        return np.asarray(np.maximum(found.at_work, found.by_hour.max(axis=2)))
    return found.at_work


def _of_streams(problem: Problem, plan: Plan, found: Books) -> Iterator[str]:
    for stream in problem.streams:
        need = stream.demand * (1.0 + stream.headroom_frac)
        yield from _under(f"what is served of {stream.name}", found.served[stream.name], need)
        for site in problem.sites if problem.limits.survive_site_frac else ():
            rest = served_without(problem, plan, stream, site)
            least = problem.limits.survive_site_frac * stream.demand
            yield from _under(f"what is served of {stream.name} without {site}", rest, least)


def served_without(problem: Problem, plan: Plan, stream: Stream, site: str) -> Floats:
    """What is served of a stream elsewhere, lessors' floors included; (n,)."""
    assets = problem.assets
    is_elsewhere = [not assets[o.asset].is_own or assets[o.asset].site != site
                    for o in stream.options]  # fmt: skip
    serves = np.array([option.serves for option in stream.options])
    return np.asarray((serves * is_elsewhere) @ plan.replicas[stream.name])


def _of_runs(problem: Problem, plan: Plan, found: Books) -> Iterator[str]:
    periods = problem.tree.period
    for run in problem.runs:
        when = plan.runs[run.name].when
        for end in found.ended[run.name]:
            if not 0 <= end <= run.due:
                yield f"{run.name} ends in period {end}; due in {run.due}"
        on = when.reshape(len(run.options), len(periods), -1).max(axis=2) > 0.5
        if (periods[on.any(axis=0)] < run.start).any():
            yield f"{run.name} begins before period {run.start}"
        if (on.sum(axis=0) > 1).any():
            yield f"{run.name} runs on two plans at once"


def _of_sites(problem: Problem, plan: Plan, found: Books) -> Iterator[str]:
    limits, watts = problem.limits, at_meter(problem, plan, found)
    for site in problem.sites:
        yield from _over(f"power at {site}", watts[site], limits.site_w.get(site, np.inf))
        most = limits.site_it_w.get(site, np.inf)
        yield from _over(f"IT power at {site}", found.site_it_w[site], most)
        positions = limits.site_racks.get(site, np.inf)
        yield from _over(f"racks at {site}", found.site_racks[site], positions)


def at_meter(problem: Problem, plan: Plan, found: Books) -> dict[str, Floats]:
    """Power to provide at each site, caps of units at work counted; (n,) each [W]."""
    saved = _saved_w(problem, plan)
    return {site: found.site_w[site] - saved[site] for site in problem.sites}


def _saved_w(problem: Problem, plan: Plan) -> Mapping[str, Floats]:
    """Power that units of streams and runs under a cap do not need."""
    saved = {site: np.zeros(len(problem.tree)) for site in problem.sites}
    for option, units in held_units(problem, plan):
        asset = problem.assets[option.asset]
        if asset.is_own:
            saved[asset.site] += units * max(asset.peak_w - option.peak_w, 0.0)
    return saved


def held_units(problem: Problem, plan: Plan) -> Iterator[tuple[Option, Floats]]:
    """Options with the units that they hold day and night; (n,)."""
    tree = problem.tree
    for stream in problem.streams:
        for o, option in enumerate(stream.options):
            yield option, plan.replicas[stream.name][o] * option.units
    for run in problem.runs:
        running = plan.runs[run.name]
        for o, option in enumerate(run.options):
            if running.form == "on":
                yield option, running.when[o] * option.units
            elif running.form == "begin":
                for n in np.flatnonzero(running.when[o] > 0.5):
                    on = [n in tree.path(m) and tree.period[m] - tree.period[n]
                          < option.periods - 1e-9 for m in range(len(tree))]  # fmt: skip
                    yield option, np.array(on) * option.units


def _of_money(problem: Problem, found: Books) -> Iterator[str]:
    limits, tree = problem.limits, problem.tree
    budget = np.where(np.isnan(limits.budget_usd), np.inf, limits.budget_usd)[tree.period]
    yield from _over("capital of a period", found.capex_usd, budget)
    for leaf in tree.leaves:
        total = found.capex_usd[tree.path(leaf)].sum()
        yield from _over("capital in all", np.array([total]), _or_none(limits.capex_usd))


def _of_carbon(problem: Problem, found: Books) -> Iterator[str]:
    limits, tree, step = problem.limits, problem.tree, problem.horizon.periods_per_year
    for leaf in tree.leaves:
        path = tree.path(leaf)
        total = np.array([found.kgco2e[path].sum()])
        yield from _over("carbon in all", total, _or_none(limits.kgco2e))
        for first in range(0, len(path), step):
            nodes = path[first : first + step]
            years = len(nodes) * problem.horizon.years
            yearly = np.array([found.kgco2e[nodes].sum() / years])
            yield from _over("carbon of a year", yearly, _or_none(limits.kgco2e_per_year))
            clean, kwh = found.clean_kwh[nodes].sum(), found.kwh[nodes].sum()
            if limits.clean_frac == limits.clean_frac:
                least = np.array([limits.clean_frac * kwh])
                yield from _under("carbon-free energy of a year", np.array([clean]), least)


def _or_none(bound: float) -> float:
    return np.inf if np.isnan(bound) else bound


def _over(name: str, values: Floats, bound: Floats | float) -> Iterator[str]:
    over = values > np.asarray(bound) * (1 + ROUNDING) + ROUNDING
    if over.any():
        yield f"{name} is over its limit at {_places(over)}"


def _under(name: str, values: Floats, bound: Floats) -> Iterator[str]:
    short = values < bound * (1 - ROUNDING) - ROUNDING
    if short.any():
        yield f"{name} is under its limit at {_places(short)}"


def _places(mask: Floats) -> str:
    return ", ".join(f"node {n}" for n in np.flatnonzero(mask))
