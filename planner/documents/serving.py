"""Replays of serving plans as plain documents, and a timeline for a trace viewer."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from planner.explain.plan import nearest_change, violations
from planner.serving.evaluate import evaluate
from planner.serving.fleet import sized
from planner.serving.load import ServeLoad
from planner.serving.operations import operations_notes, survivors
from planner.serving.replay import (
    SEEDS,
    Plan,
    Replayed,
    gap,
    plan_of,
    replayed,
    requests_of,
)
from planner.serving.slo_minutes import SECONDS_PER_MINUTE
from planner.serving.survivors import TO_RUN_AT_ALL
from planner.space.blocks import values_of
from planner.space.plan_keys import codes_of
from planner.space.single import Single, single
from planner.study.read import Study
from simkernel.replay.opening import Run
from simkernel.replay.serve import replay

LOGGED_STEPS = 20_000
"""Of a timeline: what a trace viewer still opens at once."""

OF_OPERATIONS = ("slo_minutes_lost", "powered_replicas")
"""Figures of a replay that are told of what happened to the fleet."""

MICROSECONDS = 1e6
"""Unit of times in Chrome's trace event format."""


def replay_document(
    study: Study, seeds: int = SEEDS, *, is_sized: bool = False, timeline: Path | None = None
) -> dict[str, Any]:
    """One plan of a serving study replayed: the document of `planner replay --json`.

    Parameters
    ----------
    seeds : streams to replay
    is_sized : look for the smallest fleet that keeps the bounds, too
    timeline : file for the first steps as Chrome trace events
    """
    one = single(study)
    document: dict[str, Any] = {"plan": dict(_axes(one)), "taken": dict(one.taken)}
    if broken := cannot_run(one):
        return {**document, "violations": broken}
    plan, closed = ready(one)
    document["replay"] = told(plan, replayed(plan, seeds), closed, seeds)
    if not study.serving.operations.is_quiet:
        document["operations"] = _operations(plan, document["replay"])
    if is_sized:
        document["sizing"] = _sizing(one, plan, seeds)
    if timeline is not None:
        document["timeline"] = _timeline(plan, timeline)
    return document


def _operations(plan: Plan, replay: Mapping[str, Any]) -> dict[str, Any]:
    """What happened to the fleet, and what is left of it after each host in closed form."""
    study, found = plan.engine.study, plan.closed.found
    asked = study.serving.operations
    hosts = max([study.serving.survive_failures, 1, *(one.hosts for one in asked.failures)])
    return {
        "note": operations_notes(study)["operations"],
        "window_minutes": replay["window_s"] / SECONDS_PER_MINUTE,
        **{name: share for name, share, _ in replay["left_out"]},
        **{name: replay["metrics"][name]["value"] for name in OF_OPERATIONS},
        "survivors": survivors(
            plan.engine.load.peak.requests_per_s,
            float(found.saturated_per_s[0]),
            float(found.within_per_s[0]),
            plan.replicas,
            plan.lost_with_host,
            hosts,
        ),
    }


def cannot_run(one: Single) -> list[dict[str, Any]]:
    """Limits without which no request of the longest kind is served, as violations."""
    columns, accelerator = _row(one)
    found = evaluate(one.engine, columns, accelerator)
    return [v for v in violations(one.engine, found, None) if v["limit"] in TO_RUN_AT_ALL]


def ready(one: Single) -> tuple[Plan, dict[str, float]]:
    """A plan ready to replay, and its metrics in closed form."""
    columns, accelerator = _row(one)
    metrics = evaluate(one.engine, columns, accelerator).metrics
    plan = plan_of(one.engine, columns, accelerator)
    return plan, {name: float(value[0]) for name, value in metrics.items()}


def _row(one: Single) -> tuple[dict[str, Any], str]:
    """A plan as one row of its space, and its chip."""
    codes = codes_of(one.engine.space, np.array([one.key]))
    accelerator = str(one.engine.space.levels["accelerator"][codes[0, 0]])
    return values_of(one.engine.space, codes), accelerator


def told(plan: Plan, found: Replayed, closed: Mapping[str, float], seeds: int) -> dict[str, Any]:
    """A replay as a document: values with intervals, the gap of the closed form, violations.

    What no request had, such as time between tokens where all answers are one token, is left out.
    """
    return told_of(plan.engine.load, found, closed, seeds)


def told_of(
    load: ServeLoad, found: Replayed, closed: Mapping[str, float], seeds: int
) -> dict[str, Any]:
    """The same of whatever served the load."""
    window = load.window
    return {
        "replicas": found.replicas,
        "seeds": seeds,
        "window_s": window.end_s - window.start_s,
        "warm_up_s": window.start_s - window.warm_up_from_s,
        "requests": found.requests,
        "refused": found.refused,
        "preemptions": found.preemptions,
        "is_overload": found.is_overload,
        "metrics": {
            name: {"value": value, "low": found.low.get(name), "high": found.high.get(name)}
            for name, value in found.metrics.items()
            if np.isfinite(value)
        },
        "gap": {name: value for name, value in gap(closed, found).items() if np.isfinite(value)},
        "violations": found.broken(),
        "left_out": list(found.left_out),
    }


def _axes(one: Single) -> Mapping[str, Any]:
    space = one.engine.space
    codes = codes_of(space, np.array([one.key]))[0]
    return {name: space.levels[name][code] for name, code in zip(space.axes, codes, strict=True)}


def _sizing(one: Single, plan: Plan, seeds: int) -> dict[str, Any]:
    """The smallest fleet; where none helps, the floor in the way and the nearest change."""
    found = sized(plan, seeds)
    devices = float(plan.rig.plans.devices[0])
    document = {name: value for name, value in asdict(found).items() if name != "found"}
    document["devices"] = found.replicas * devices
    document["closed_form_replicas"] = int(round(float(plan.closed.replicas[0])))
    if found.floors:
        document["nearest"] = nearest_change(one.engine, one.key)
    return document


def _timeline(plan: Plan, path: Path) -> dict[str, Any]:
    """The first steps of one seed written as complete events, one row per lane."""
    load = plan.engine.load
    requests, _, _ = requests_of(plan, load)
    log = replay(
        requests,
        plan.fleet,
        plan.tables,
        Run(seed=plan.engine.study.seed, logged_steps=LOGGED_STEPS),
    ).log
    names = ("decodes", "prefills", "tokens", "running", "waiting", "blocks")
    columns: Mapping[str, Sequence[int]] = {name: getattr(log, name).tolist() for name in names}
    events = [
        {
            "name": "step with prompts" if columns["prefills"][i] else "step",
            "ph": "X",
            "ts": start * MICROSECONDS,
            "dur": step * MICROSECONDS,
            "pid": int(lane) // plan.lanes,
            "tid": int(lane) % plan.lanes,
            "args": {name: values[i] for name, values in columns.items()},
        }
        for i, (lane, start, step) in enumerate(
            zip(log.replica.tolist(), log.start_s.tolist(), log.step_s.tolist(), strict=True)
        )
    ]
    path.write_text(json.dumps({"traceEvents": events}), encoding="utf-8")
    return {"file": str(path), "steps": len(events)}
