"""A plan that was decided for one problem, taken as it is into another: other prices, same orders.

Deals, assets and options are found again by what they are, not by their places: another site or
another price may leave one out or bring one in.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from planner.fleet.baselines import sums
from planner.fleet.check import broken
from planner.fleet.follow import books
from planner.fleet.plan import Left, Plan, Running
from planner.fleet.problem import Option, Problem
from simkernel.columns import Floats
from simkernel.errors import PlanError

MOST_FAULTS = 3


def kept_as_decided(old: Problem, plan: Plan, new: Problem) -> dict[str, Any]:
    """What a plan of another problem comes to in this one, or why it is none here.

    Parameters
    ----------
    old, plan : for which it was decided, and what
    new : in which it is kept
    """
    try:
        moved = carried(old, plan, new)
    except PlanError as error:
        return {"why": str(error)}
    kept = books(new, moved)
    if faults := broken(new, moved, kept):
        return {"why": f"it breaks limits: {'; '.join(faults[:MOST_FAULTS])}"}
    return {**sums(new, kept), "gap_frac": 0.0}


def carried(old: Problem, plan: Plan, new: Problem) -> Plan:
    """The same decisions in another problem.

    Raises
    ------
    PlanError : another calendar, or something that it uses and that cannot be had here
    """
    if not np.array_equal(old.tree.period, new.tree.period) or old.tree.words != new.tree.words:
        raise PlanError("it was decided for another calendar")
    deals = _places(_deals(old), _deals(new))
    assets = _places(_assets(old), _assets(new))

    def asset(place: int) -> int:
        return _found(assets, place, "units") if place >= 0 else place

    left = tuple(
        Left(_found(deals, one.deal, "a deal") if one.deal >= 0 else one.deal, asset(one.asset),
             one.ordered, one.term, one.node, one.units, asset(one.to))
        for one in plan.left
    )  # fmt: skip
    options = {
        work.name: _places(_options(old, work.options), _options(new, other.options))
        for work, other in zip(old.works, new.works, strict=True)
    }
    counts = {work.name: len(work.options) for work in new.works}
    return replace(
        plan,
        ordered=_moved(plan.ordered, deals, len(new.deals)),
        left=left,
        replicas={n: _moved(v, options[n], counts[n]) for n, v in plan.replicas.items()},
        runs={
            n: Running(run.form, _moved(run.when, options[n], counts[n]))
            for n, run in plan.runs.items()
        },
        columns=np.zeros(0),
    )


def _moved(values: Floats, places: Mapping[int, int], count: int) -> Floats:
    """Rows of decisions at their new places; (count, ...)."""
    found = np.zeros((count, *values.shape[1:]))
    for place, row in enumerate(values):
        if row.any():
            found[_found(places, place, "a way to have or to use units")] = row
    return found


def _found(places: Mapping[int, int], place: int, what: str) -> int:
    if place not in places:
        raise PlanError(f"it uses {what} that cannot be had any more")
    return places[place]


def _places(old: Sequence[Hashable], new: Sequence[Hashable]) -> dict[int, int]:
    """Where each old thing is among the new ones, those that are still there."""
    where = {key: place for place, key in enumerate(new)}
    return {place: where[key] for place, key in enumerate(old) if key in where}


def _assets(problem: Problem) -> list[Hashable]:
    return [(a.name, a.site, a.is_own, a.may_serve) for a in problem.assets]


def _deals(problem: Problem) -> list[Hashable]:
    """Each deal by its units, its kind and its term; those alike by their order."""
    return list(_numbered(
        (_assets(problem)[deal.asset], deal.name, deal.term) for deal in problem.deals
    ))  # fmt: skip


def _options(problem: Problem, options: Sequence[Option]) -> list[Hashable]:
    assets = _assets(problem)
    return [(option.plan, assets[option.asset]) for option in options]


def _numbered(keys: Iterator[Hashable]) -> Iterator[Hashable]:
    seen: dict[Hashable, int] = {}
    for key in keys:
        seen[key] = seen.get(key, -1) + 1
        yield key, seen[key]
