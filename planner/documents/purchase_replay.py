"""A purchase plan replayed at its peak: requests against latencies, runs against dates.

Of each stream the period of highest demand is replayed, request by request, on the replicas that
the plan has at work in it; where several plans serve a stream each takes its share of the
requests. A run's step is replayed on its links, and its days are stretched by what that says.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from costdata.tco import HOURS_PER_YEAR
from planner.archive.store import Archive
from planner.archive.stored_plan import plan_asked
from planner.archive.stored_purchase import decided
from planner.documents.serving import ready, told
from planner.documents.training_replay import replay_of
from planner.fleet.options import DAYS_PER_YEAR, workload_study
from planner.fleet.plan import Plan
from planner.fleet.problem import Option, Problem, Run, Stream
from planner.fleet.study import prepare
from planner.fleet.work import HOURS_PER_DAY
from planner.runs.physics import physics_of
from planner.serving.replay import replayed
from planner.space.plan_keys import plan_key
from planner.space.single import Single
from planner.study.parts import Scale, ServeWorkload
from planner.study.read import Study
from simkernel.errors import BadStudy, UnknownName

NO_WORK = "a purchase study without workloads has nothing to replay; add one"


def purchase_replay(study: Study, seeds: int) -> dict[str, Any]:
    """The document of `planner replay` for a purchase study: it is solved, its best plan replayed.

    Parameters
    ----------
    seeds : streams, or draws of a step, of each replay

    Raises
    ------
    BadStudy : a study without workloads, or without a plan
    """
    if not study.workloads:
        raise BadStudy(NO_WORK)
    engine = prepare(study)
    effort = engine.effort(engine.compared[0])
    plan = engine.program.solve(effort.objective, effort.gap_frac, effort.limit_s)
    if not plan.is_there:
        raise BadStudy(f"there is no purchase plan ({plan.status}); planner run says what is in "
                       "the way")  # fmt: skip
    return _played(engine.study, engine.problem, plan, seeds)


def stored_purchase_replay(db: Path, run: str, plan: str, seeds: int) -> dict[str, Any]:
    """The same of a plan as a run has stored it; nothing is solved.

    Parameters
    ----------
    run, plan : whose, and its name or its place on the front, 1 for the first
    seeds : streams, or draws of a step, of each replay

    Raises
    ------
    UnknownName : no such run or plan
    BadStudy : a run of another kind, or of hardware alone
    BadFile : a run of an earlier version, which kept no decisions
    """
    archive = Archive(db)
    kind = archive.run(run).start.kind
    if kind != "fleet":
        raise BadStudy(
            f'run {run} is of kind = "{kind}"; a stored plan is replayed of purchase runs; wanted '
            "planner replay STUDY --set AXIS=VALUE for the others"
        )
    record, study, wanted = plan_asked(archive, run, plan, "", "")
    if not wanted.on_front:
        raise UnknownName(f"plan {wanted.plan} is not of run {record.run}; see planner show")
    if not study.workloads:
        raise BadStudy(NO_WORK)
    problem, found = decided(
        archive.front(record.run), wanted.on_front[0]["place"] - 1, record.run
    )
    return {"run": record.run, "plan": wanted.plan, **_played(study, problem, found, seeds)}


def _played(study: Study, problem: Problem, plan: Plan, seeds: int) -> dict[str, Any]:
    """Streams and runs of a plan, each at its peak."""
    streams = [_stream(study, problem, plan, stream, seeds) for stream in problem.streams]
    runs = [_run(study, problem, plan, run, seeds) for run in problem.runs]
    return {
        "gap_frac": plan.gap_frac,
        "streams": streams,
        "runs": runs,
        "violations": [v for line in (*streams, *runs) for v in line["violations"]],
    }


def _stream(
    study: Study, problem: Problem, plan: Plan, stream: Stream, seeds: int
) -> dict[str, Any]:
    """One stream in its busiest period."""
    tree = problem.tree
    node = int(np.argmax(stream.demand))
    parts = list(_parts(problem, plan, stream, node))
    served = sum(replicas * option.serves for option, replicas in parts)
    lines, broken = [], []
    for option, replicas in parts:
        level = float(stream.demand[node]) * replicas * option.serves / served
        found = _served(study, stream.name, option, int(replicas), level, seeds)
        lines.append({"plan": option.plan, "on": problem.assets[option.asset].label,
                      "times": level, **found})  # fmt: skip
        broken += [{**v, "limit": f"{stream.name}: {v['limit']}"} for v in found["violations"]]
    return {
        "stream": stream.name,
        "period": int(tree.period[node]),
        "future": tree.words[node],
        "demand": float(stream.demand[node]),
        "parts": lines,
        "violations": broken,
    }


def _parts(
    problem: Problem, plan: Plan, stream: Stream, node: int
) -> Iterator[tuple[Option, float]]:
    """Plans at work at a node with their replicas; the same plan on one chip counts once."""
    found: dict[tuple[str, str], tuple[Option, float]] = {}
    for o, option in enumerate(stream.options):
        replicas = float(plan.replicas[stream.name][o, node])
        if replicas > 0.5:
            key = (option.plan, problem.assets[option.asset].name)
            found[key] = (option, found.get(key, (option, 0.0))[1] + replicas)
    yield from found.values()


def _served(
    study: Study, name: str, option: Option, replicas: int, level: float, seeds: int
) -> dict[str, Any]:
    """So many replicas of a plan under so many times its workload."""
    work = study.workloads[name]
    assert isinstance(work, ServeWorkload), "streams are of serving workloads"
    scale = work.scale or Scale(times=1.0, by="superpose")
    more = replace(work, scale=replace(scale, times=scale.times * level))
    scaled = replace(study, workloads=MappingProxyType({**study.workloads, name: more}))
    one = _single(workload_study(scaled, name), option.plan)
    made, closed = ready(one)
    made = made.with_replicas(replicas)
    return told(made, replayed(made, seeds), closed, seeds)


def _run(study: Study, problem: Problem, plan: Plan, run: Run, seeds: int) -> dict[str, Any]:
    """One run: its step replayed, and the latest end that follows in any future."""
    running = plan.runs[run.name]
    period_days = problem.horizon.years * DAYS_PER_YEAR
    when = running.when.reshape(len(run.options), len(problem.tree), -1).max(axis=2)
    lines, broken = [], []
    for o in np.flatnonzero(when.max(axis=1) > 0.5):
        option = run.options[int(o)]
        found = replay_of(_single(workload_study(study, run.name), option.plan), seeds)
        stretch = found["step_s"]["value"] / found["closed_form_s"]
        days = option.periods * stretch * period_days
        room = _held_periods(problem, plan, run, int(o)) * period_days
        lines.append({"plan": option.plan, "on": problem.assets[option.asset].label, "days": days,
                      "days_to_date": room, "stretch": stretch, **found})  # fmt: skip
        if days > room * (1 + 1e-9):
            broken.append(
                {"limit": f"{run.name}: days", "have": days, "need": room, "unit": "day"}
            )
    return {"run": run.name, "due": run.due, "parts": lines, "violations": broken}


def _held_periods(problem: Problem, plan: Plan, run: Run, o: int) -> float:
    """Periods from the latest begin of a run to the end of the one it is due in.

    A run that pauses, or works in troughs, has the time that it is on, less what its stops lose.
    """
    running, tree = plan.runs[run.name], problem.tree
    if running.form == "begin":
        begins = tree.period[np.flatnonzero(running.when[o] > 0.5)]
        return float(run.due + 1 - begins.max())
    found = math.inf
    for leaf in tree.leaves:
        on = running.when[o][tree.path(leaf)]
        if running.form == "on":
            begins = np.maximum(np.diff(on, prepend=0.0), 0.0).sum()
            lost = begins * run.stop_hours / (problem.horizon.years * HOURS_PER_YEAR)
            found = min(found, float(on.sum() - lost))
        else:
            share = run.options[o].block_units / run.options[o].units
            stops = np.maximum(on - np.roll(on, -1, axis=1), 0.0).sum(axis=1)
            worked = on.mean(axis=1) - stops * run.stop_hours / HOURS_PER_DAY
            found = min(found, float(worked.sum()) * share)
    return found


def _single(study: Study, plan: str) -> Single:
    """One plan of a workload's own study."""
    engine = physics_of(study).prepare(study)
    return Single(engine, plan_key(plan), MappingProxyType({}))
