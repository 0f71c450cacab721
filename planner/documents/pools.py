"""Replays of two pools as plain documents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from planner.documents.serving import told_of
from planner.explain.plan import violations
from planner.pools.one import pair_at
from planner.pools.replay import PairPlan, pair_plan, replayed_pair
from planner.serving.replay import SEEDS
from planner.serving.survivors import TO_RUN_AT_ALL
from planner.space.plan_keys import codes_of
from planner.space.single import Single, single
from planner.study.pools import POOLS
from planner.study.read import Study

AT_ALL = (*TO_RUN_AT_ALL, "room")
"""Limits of either pool that a replay cannot look behind."""


def pools_document(study: Study, seeds: int = SEEDS) -> dict[str, Any]:
    """One pair of a study of pools replayed: the document of `planner replay --json`."""
    one = single(study)
    codes = codes_of(one.engine.space, np.array([one.key]))
    document: dict[str, Any] = {"plan": dict(_axes(one, codes[0])), "taken": dict(one.taken)}
    plan = pair_plan(one.engine, pair_at(one.engine, codes))
    broken = [
        line
        for line in violations(one.engine, plan.closed, None)
        if line["limit"].rpartition(": ")[2] in AT_ALL
    ]
    if broken:
        return {**document, "violations": broken}
    return {**document, "replay": pair_told(plan, seeds)}


def pools_replay(one: Single, seeds: int = SEEDS) -> dict[str, Any]:
    """The replay of one pair that keeps its limits in closed form."""
    codes = codes_of(one.engine.space, np.array([one.key]))
    return pair_told(pair_plan(one.engine, pair_at(one.engine, codes)), seeds)


def pair_told(plan: PairPlan, seeds: int) -> dict[str, Any]:
    """A replay of a pair as a document, with the replicas of each pool."""
    closed = {name: float(value[0]) for name, value in plan.closed.metrics.items()}
    found = told_of(plan.engine.load, replayed_pair(plan, seeds), closed, seeds)
    counts = {f"{pool}.replicas": int(closed[f"{pool}.replicas"]) for pool in POOLS}
    return {**counts, **found}


def _axes(one: Single, row: Any) -> Mapping[str, Any]:
    space = one.engine.space
    return {name: space.levels[name][code] for name, code in zip(space.axes, row, strict=True)}
