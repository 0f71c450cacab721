"""A purchase plan as a row of its study's front, once the second set of books has passed it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from planner.fleet.baselines import RENTED
from planner.fleet.calendar import calendar
from planner.fleet.check import broken
from planner.fleet.follow import Books, books
from planner.fleet.plan import Plan
from planner.fleet.problem import Problem
from planner.fleet.stored import plan_text, problem_text
from planner.fleet.tail import tail_mean
from planner.fleet.worth import left_over
from planner.space.plan_keys import plan_name
from simkernel.errors import PlanError

CALENDAR, WORTH, BASELINES = "calendar", "worth_of_more", "baselines"
"""Columns of JSON: the plan period by period, what more of each limit is worth, other plans."""

DECIDED, ASKED = "decided", "asked"
"""Columns of JSON for programs alone: what a plan decides, and the problem of all plans."""

FORM = 3
"""Of what these columns hold; raised when a name comes or goes, so that older runs are told."""


def row_of(
    problem: Problem,
    plan: Plan,
    index: int,
    baselines: Mapping[str, Any],
    worth: Mapping[str, Any],
) -> dict[str, Any]:
    """A purchase plan as a row of the front; one entry in every column.

    Parameters
    ----------
    problem, plan : what was asked and decided
    index : place on the front
    baselines, worth : the JSON of BASELINES and WORTH; like ASKED, one row holds it for all

    Raises
    ------
    PlanError : the plan breaks a rule in the second set of books
    """
    found = books(problem, plan)
    faults = broken(problem, plan, found)
    if faults:
        raise PlanError(f"a purchase plan breaks its own rules: {'; '.join(faults)}")
    told = {"form": FORM, **calendar(problem, plan, found), **left_over(problem, plan, found)}
    told["binding"] = _with_worth(told["binding"], worth)
    rent_usd = baselines.get(RENTED, {}).get("own_npv_usd", np.nan)
    chance, tail_frac = problem.tree.chance, problem.risk.tail_frac
    standing = [a for a, there in zip(problem.assets, found.there, strict=True) if there.any()]
    values: dict[str, Any] = {
        "key": index,
        "plan": plan_name(index),
        "accelerator": _words(asset.name for asset in standing),
        "site": _words(asset.site for asset in standing),
        "acquire": _words(_ways(problem, plan)),
        "devices": _most_devices(problem, found),
        "purchase_units": _bought(problem, plan),
        "own_npv_usd": found.npv_cost_usd,
        "tail_npv_usd": tail_mean(np.array(found.cost_usd), found.chances, tail_frac),
        "rent_npv_usd": rent_usd,
        "npv_usd": rent_usd - found.npv_cost_usd,
        "capex_usd": found.mean(found.capex_usd, chance),
        "kgco2e": found.mean(found.kgco2e, chance),
        "peak_facility_mw": max(sum(node["site_mw"].values()) for node in told["periods"]),
        "peak_flop_per_s": _last_flop_per_s(problem, found),
        "stranded_mw": told["stranded_mw"],
        "stranded_usd": told["stranded_usd"],
        CALENDAR: json.dumps(_without_nan(told)),
        WORTH: json.dumps(worth),
        BASELINES: json.dumps(baselines if index == 0 else {}),
        DECIDED: plan_text(plan),
        ASKED: problem_text(problem) if index == 0 else "",
    }
    return {name: np.array([value]) for name, value in values.items()}


def _with_worth(binding: Iterable[str], worth: Mapping[str, Any]) -> list[str]:
    """What binds, with limits of which a step is worth something though a unit has room."""
    paid = [one["limit"] for one in worth.values() if one["worth"]]
    return list(dict.fromkeys([*binding, *paid]))


def _words(names: Iterable[str]) -> str:
    """Names, each once."""
    return " + ".join(dict.fromkeys(names)) or "none"


def _ways(problem: Problem, plan: Plan) -> Iterator[str]:
    """How units are had: held from before, bought, or by which contract."""
    if any(asset.held for asset in problem.assets):
        yield "held"
    for deal, ordered in zip(problem.deals, plan.ordered, strict=True):
        if ordered.any():
            yield deal.name


def _most_devices(problem: Problem, found: Books) -> float:
    """Chips that are there in the period with most of them, whoever owns them."""
    each = np.array([asset.devices for asset in problem.assets])
    return float((each @ found.there).max())


def _bought(problem: Problem, plan: Plan) -> float:
    """Units bought, in the mean of futures; what is leased or rented is not."""
    is_bought = np.array([deal.name == "buy" for deal in problem.deals], dtype=bool)
    return float((plan.ordered[is_bought] * problem.tree.chance).sum())


def _last_flop_per_s(problem: Problem, found: Books) -> float:
    """What all units on the buyer's floor could do in the last period, in the mean of futures."""
    each = np.array([asset.flop_per_s * asset.is_own for asset in problem.assets])
    last = problem.tree.leaves
    return float(np.dot((each @ found.there)[last], problem.tree.chance[last]))


def _without_nan(told: dict[str, Any]) -> dict[str, Any]:
    """A document with None for what is not known."""
    return {n: None if isinstance(v, float) and np.isnan(v) else v for n, v in told.items()}
