"""A serving plan as its replay finds it: on a fleet that keeps every bound there.

A fleet that the load decides starts as the closed form sized it and is enlarged until the replay
keeps every bound, with the failures to survive out of work; one that the study gives is taken as
it is. Latencies are the replay's, watts the closed form's at that fleet. A fleet smaller than the
closed form's is not looked for: `planner replay --size` does that.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from planner.axes import DERIVED
from planner.evaluated import Evaluated, Limit, Replay
from planner.serving.engine import ServeEngine
from planner.serving.evaluate import evaluate
from planner.serving.fleet import GROWTH
from planner.serving.replay import LATENCIES, SEEDS, Plan, Replayed, gap, plan_of, replayed

TO_RUN_AT_ALL = ("memory", "kernels", "prompt_in_a_step", "context")
"""Limits that a replay cannot look behind; load, latencies and money it can."""

MOST_FLEETS = 8
"""Fleets tried before a plan is given up: the last is 1.7 times as large."""


def replayed_plan(engine: ServeEngine, columns: Mapping[str, Any], accelerator: str) -> Replay:
    """One plan replayed.

    Parameters
    ----------
    columns : its row of the space; (1,) each

    Returns
    -------
    told: "replicas" of the closed form and "needed_replicas" of the replay, every latency as
    replayed with its interval and the gap of the closed form at that fleet, "broken" bounds
    """
    closed = evaluate(engine, columns, accelerator)
    if any(closed.limits[name].excess[0] > 0 for name in TO_RUN_AT_ALL):
        return Replay(closed, {"broken": "no fleet can run it"})
    plan = plan_of(engine, columns, accelerator)
    fleet, found = _accepted(plan, is_given=_is_given(engine, columns))
    at_fleet = evaluate(engine, columns, accelerator, np.array([float(fleet)]))
    told = _told(plan, fleet, found, at_fleet)
    return Replay(_as_replayed(at_fleet, found), told)


def _is_given(engine: ServeEngine, columns: Mapping[str, Any]) -> bool:
    """The study says how large the fleet is."""
    is_counted = engine.space.levels["replicas"] != (DERIVED,)
    return is_counted or bool(np.asarray(columns["devices"])[0] > 0)


def _accepted(plan: Plan, *, is_given: bool) -> tuple[int, Replayed]:
    """The first fleet, from the closed form's on, that keeps every bound; else the last tried."""
    lost = int(plan.closed.lost[0])
    replicas, found = plan.replicas, None
    for left in range(MOST_FLEETS - 1, -1, -1):
        is_last = is_given or not left
        short = replayed(plan.with_replicas(max(replicas - lost, 1)), 1) if lost else None
        if short is None or not short.broken() or is_last:
            found = replayed(plan.with_replicas(replicas), SEEDS)
            worse = short if short is not None and short.broken() else found
            if is_last or not worse.broken():
                return replicas, _with_bounds_of(found, worse)
        replicas = max(math.ceil(replicas * GROWTH), replicas + 1)
    raise AssertionError("the last fleet is always returned")


def _with_bounds_of(found: Replayed, worse: Replayed) -> Replayed:
    """A whole fleet's figures, judged by what is left of it after the failures."""
    if worse is found:
        return found
    return replace(
        found,
        high=worse.high,
        refused=worse.refused,
        is_overload=worse.is_overload,
        left_out=worse.left_out,
    )


def _as_replayed(closed: Evaluated, found: Replayed) -> Evaluated:
    """The closed form at the fleet of the replay, with the replay's latencies and bounds."""
    latencies = {
        name: np.array([value])
        for name, value in found.metrics.items()
        if name.startswith(LATENCIES) and np.isfinite(value)
    }
    limits = {n: limit for n, limit in closed.limits.items() if "empty replica" not in n}
    for name, most_s in found.bounds:
        limits[name] = _limit(found.high[name], most_s, "s")
    for name, share, most in found.left_out:
        limits[name] = _limit(share, most, "1")
    limits["served"] = _limit(float(not found.requests), 0.0, "fleets that serve nobody")
    limits["refused"] = _limit(float(found.refused), 0.0, "requests")
    limits["overload"] = _limit(float(found.is_overload), 0.0, "growing queues")
    return replace(closed, metrics={**closed.metrics, **latencies}, limits=limits)


def _limit(have: float, need: float, unit: str) -> Limit:
    return Limit(np.array([0.0 if math.isnan(have) else have]), np.array([need]), unit)


def _told(plan: Plan, fleet: int, found: Replayed, closed: Evaluated) -> dict[str, float | str]:
    """What a reader is told of a replay."""
    at_fleet = {name: float(value[0]) for name, value in closed.metrics.items()}
    gaps = gap(at_fleet, found)
    return {
        "replicas": plan.replicas,
        "needed_replicas": fleet,
        "needed_devices": fleet * int(plan.rig.plans.devices[0]),
        "seeds": SEEDS,
        "requests": found.requests,
        "broken": "; ".join(v["limit"] for v in found.broken()),
        **{f"replayed_{name}": value for name, value in found.metrics.items()},
        **{f"replayed_{name}_low": value for name, value in found.low.items()},
        **{f"replayed_{name}_high": value for name, value in found.high.items()},
        **{f"gap_{name}": value for name, value in gaps.items()},
    }
