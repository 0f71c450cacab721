"""The survivors of a serving front replayed: the best plan in each objective, the first one sized.

A closed form that is near the replay on a few plans is believed on the rest; how near it is
stands beside each plan that was replayed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from planner.costing.second_pass import objectives_of
from planner.serving.engine import ServeEngine
from planner.serving.fleet import Sized, sized
from planner.serving.replay import Plan, Replayed, gap, plan_of, replayed
from planner.space.blocks import values_of
from planner.space.plan_keys import codes_of

Progress = Callable[[int, int], None]
"""Told how many plans have been replayed, and of how many."""


def refined(
    engine: ServeEngine, front: Mapping[str, Any], most: int, seeds: int
) -> dict[str, Any]:
    """Replays of some plans of a front as columns for the archive; {} for none.

    Parameters
    ----------
    front : columns of the front, best in the first objective first
    most : plans to replay: the best in each objective, in the order of the study
    seeds : streams of each

    Returns
    -------
    "plan", "best_in", "replicas", every latency as replayed with its interval and the gap of the
    closed form, "broken" (bounds that the replay breaks) and, of the first plan, "needed_replicas"
    """
    if not front or most <= 0:
        return {}
    rows = [_row(engine, front, at, name, seeds) for at, name in _best(engine, front)[:most]]
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: _column([row.get(name) for row in rows]) for name in names}


def _column(values: list[Any]) -> npt.NDArray[Any]:
    """Numbers, NaN where a row has none; words as they are."""
    if any(isinstance(value, str) for value in values):
        return np.array(values, dtype=object)
    return np.array([np.nan if value is None else value for value in values])


def _best(engine: ServeEngine, front: Mapping[str, Any]) -> list[tuple[int, str]]:
    """Rows that are best in an objective, each plan once, and in which."""
    wanted = engine.study.objectives
    points = objectives_of(engine.study, front)
    found: dict[str, tuple[int, str]] = {}
    for column, name in enumerate((*wanted.minimise, *wanted.maximise)):
        at = int(np.argmin(points[:, column]))
        found.setdefault(str(front["plan"][at]), (at, name))
    return list(found.values())


def _row(
    engine: ServeEngine, front: Mapping[str, Any], at: int, best_in: str, seeds: int
) -> dict[str, Any]:
    """One plan replayed, as a row of numbers and words."""
    codes = codes_of(engine.space, np.array([int(front["key"][at])]))
    accelerator = str(engine.space.levels["accelerator"][codes[0, 0]])
    plan = plan_of(engine, values_of(engine.space, codes), accelerator)
    found = replayed(plan, seeds)
    closed = {name: float(front[name][at]) for name in found.metrics if name in front}
    row: dict[str, Any] = {
        "plan": str(front["plan"][at]),
        "best_in": best_in,
        "replicas": found.replicas,
        "seeds": seeds,
        "requests": found.requests,
        "broken": "; ".join(v["limit"] for v in found.broken()),
        **_columns(found, closed),
    }
    wanted = engine.study.objectives
    is_first = best_in == (*wanted.minimise, *wanted.maximise)[0]
    return row | (_needed(plan, seeds) if is_first else {})


def _columns(found: Replayed, closed: Mapping[str, float]) -> dict[str, float]:
    columns = {f"replayed_{name}": value for name, value in found.metrics.items()}
    columns |= {f"replayed_{name}_low": value for name, value in found.low.items()}
    columns |= {f"replayed_{name}_high": value for name, value in found.high.items()}
    return columns | {f"gap_{name}": value for name, value in gap(closed, found).items()}


def _needed(plan: Plan, seeds: int) -> dict[str, Any]:
    """The smallest fleet of the plan that its replays accept; 0 where none does."""
    found: Sized = sized(plan, seeds)
    return {
        "needed_replicas": found.replicas,
        "needed_devices": found.replicas * int(plan.rig.plans.devices[0]),
    }
