"""Plans to compare a purchase plan with: renting everything, buying all at once, doing nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from planner.fleet.follow import Books, books
from planner.fleet.limits import DEMAND
from planner.fleet.problem import Deal, Problem
from planner.fleet.program import COST, Program, Slack
from planner.fleet.worth import Effort
from simkernel.columns import Floats

RENTED, AT_ONCE, NOTHING = "rent everything", "all at once", "do nothing"
AS_BEFORE = "as decided before"
"""The plan of the run that is solved anew, kept as it was decided."""


def rented(problem: Problem) -> Problem:
    """Nothing is bought or leased, what is held is given up, and no team works on it."""
    deals = [d for d in problem.deals if not problem.assets[d.asset].is_own]
    assets = [replace(a, held={}) for a in problem.assets]
    limits = replace(problem.limits, clean_frac=float("nan"))
    return replace(problem, deals=deals, assets=assets, fixed_usd=0.0, limits=limits)


def at_once(problem: Problem) -> Problem:
    """Everything is bought for the first day on which it can be had, the money being there then.

    What is rented is gone by that day: it bridges the delivery, and nothing after it.
    """
    day = first_delivery(problem)
    due = np.arange(problem.horizon.periods)

    def kept(deal: Deal) -> Floats:
        is_kept = due == day if deal.name == "buy" else due + deal.term <= day
        return np.where(is_kept, deal.usd, np.nan)

    deals = [replace(deal, usd=kept(deal)) for deal in problem.deals]
    limits = replace(problem.limits, budget_usd=problem.limits.budget_usd * np.nan)
    return replace(problem, deals=deals, limits=limits)


def first_delivery(problem: Problem) -> int:
    """First period in which something that is bought can be there; -1 where nothing ever is."""
    days = [deal.soonest for deal in problem.deals if deal.name == "buy"]
    return min((t for t in days if t < problem.horizon.periods), default=-1)


def baselines(problem: Problem, effort: Effort) -> dict[str, dict[str, Any]]:
    """What each of them comes to, or why there is no such plan.

    Parameters
    ----------
    effort : time and gap for each
    """
    found = {RENTED: _solved(rented(problem), effort)}
    if first_delivery(problem) < 0:
        found[AT_ONCE] = {"why": "nothing can be bought"}
    else:
        found[AT_ONCE] = _solved(at_once(problem), effort)
    found[NOTHING] = _nothing(problem, effort)
    return found


def _solved(other: Problem, effort: Effort) -> dict[str, Any]:
    """What the best plan of another problem comes to, or why there is none."""
    plan = Program(other).solve(COST, effort.gap_frac, effort.limit_s)
    if plan.is_there:
        return {**sums(other, books(other, plan)), "gap_frac": plan.gap_frac}
    return {"why": f"no such plan: {plan.status}"}


def sums(problem: Problem, kept: Books) -> dict[str, Any]:
    """Worth, capital, carbon, peak and cash by period of some books, in the mean of futures."""
    chance = problem.tree.chance
    peak = np.max(sum(kept.site_w.values())) if kept.site_w else 0.0
    return {
        "own_npv_usd": kept.npv_cost_usd,
        "capex_usd": kept.mean(kept.capex_usd, chance),
        "kgco2e": kept.mean(kept.kgco2e, chance),
        "peak_facility_mw": float(peak) / 1e6,
        "cash_usd": by_period(problem, cash(kept)),
    }


def cash(kept: Books) -> Floats:
    """Dollars that leave at each node; (n,)."""
    running = kept.energy_usd + kept.holding_usd + kept.rent_usd
    return kept.capex_usd + running + kept.moving_usd - kept.sold_usd


def by_period(problem: Problem, values: Floats) -> list[float]:
    """A figure of nodes in the mean of futures, period by period."""
    weighed = np.bincount(problem.tree.period, values * problem.tree.chance)
    return [float(v) for v in weighed]


def _nothing(problem: Problem, effort: Effort) -> dict[str, Any]:
    """With what is held alone: the share of each stream that it serves, and what it cannot do."""
    idle = replace(problem, deals=[], runs=[])
    served: Mapping[str, float] = {
        stream.name: 1.0 - _short(replace(idle, streams=[stream]), stream.name, effort)
        for stream in problem.streams
    }
    undone = [run.name for run in problem.runs]
    return {"served_frac": dict(served), "runs_not_done": undone}


def _short(problem: Problem, name: str, effort: Effort) -> float:
    """The share of a stream that cannot be served."""
    limits = replace(problem.limits, survive_site_frac=0.0)
    program = Program(replace(problem, limits=limits))
    short = program.least_slack(Slack((DEMAND + name,)), effort.limit_s)
    return min(short, 1.0) if np.isfinite(short) else 1.0
