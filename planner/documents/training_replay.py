"""Replays of training plans as plain documents."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from planner.documents.timeline import write_timeline
from planner.evaluated import Evaluated
from planner.explain.plan import violations
from planner.space.blocks import values_of
from planner.space.plan_keys import codes_of
from planner.space.single import Single, single
from planner.study.read import Study
from planner.training.evaluate import evaluate, evaluate_at
from planner.training.replay import SEEDS, TrainingReplay, ready, replayed
from simkernel.columns import Floats
from simkernel.replay.program import KINDS, PAIR
from simkernel.replay.step import StepReplay, critical_items, device_of

LOGGED_PHASES = 40_000
"""Of a timeline: what a trace viewer still opens at once."""

TO_RUN_AT_ALL = ("kernels",)
"""Limits without which no step can run; what does not fit in memory is still replayed."""

NAMES = (*KINDS, "pair")
"""Kinds of items, in the program's order."""


def training_replay_document(
    study: Study, seeds: int = SEEDS, timeline: Path | None = None
) -> dict[str, Any]:
    """One plan of a training study replayed: the document of `planner replay --json`.

    Parameters
    ----------
    seeds : draws to replay
    timeline : file for the first replay as Chrome trace events
    """
    one = single(study)
    space = one.engine.space
    codes = codes_of(space, np.array([one.key]))[0]
    document: dict[str, Any] = {
        "plan": {n: space.levels[n][c] for n, c in zip(space.axes, codes, strict=True)},
        "taken": dict(one.taken),
    }
    columns, accelerator = row_of(one)
    found = evaluate(one.engine, columns, accelerator)
    if cannot := [v for v in _broken(one, found) if v["limit"] in TO_RUN_AT_ALL]:
        return {**document, "violations": cannot}
    plan = ready(one.engine, columns, accelerator)
    logged = LOGGED_PHASES if timeline is not None else 0
    result = replayed(plan, study.seed, seeds, logged)
    at_step = evaluate_at(one.engine, columns, accelerator, np.array([result.step_s]))
    document["replay"] = {**told(result), "violations": _broken(one, at_step)}
    if timeline is not None:
        document["timeline"] = write_timeline(result, timeline)
    return document


def replay_of(one: Single, seeds: int = SEEDS) -> dict[str, Any]:
    """A plan that breaks no limit in closed form, as replayed; violations are of its step."""
    columns, accelerator = row_of(one)
    result = replayed(ready(one.engine, columns, accelerator), one.engine.study.seed, seeds)
    at_step = evaluate_at(one.engine, columns, accelerator, np.array([result.step_s]))
    return {**told(result), "violations": _broken(one, at_step)}


def _broken(one: Single, found: Evaluated) -> list[dict[str, Any]]:
    """Limits of physics that a plan breaks; money is not looked at."""
    return [v for v in violations(one.engine, found, None) if v["limit"] in found.limits]


def row_of(one: Single) -> tuple[dict[str, Any], str]:
    """A plan as one row of its space, and its chip."""
    codes = codes_of(one.engine.space, np.array([one.key]))
    accelerator = str(one.engine.space.levels["accelerator"][codes[0, 0]])
    return values_of(one.engine.space, codes), accelerator


def told(found: TrainingReplay) -> dict[str, Any]:
    """A replay as a document: step, gap by term, critical path, stages and links.

    `gap` is closed form over replay, less one; `gap_s` replay less closed form, term by term.
    `step_s` is the mean of all seeds; critical path, stages and links are of the first.
    """
    closed_s = found.ready.whole_s
    step = found.first.step
    return {
        "seeds": found.seeds,
        "first_seed": found.first_seed,
        "first_step_s": step.step_s * (1.0 + found.ready.slower_frac),
        "events": step.events,
        "step_s": {"value": found.step_s, "low": found.low_s, "high": found.high_s},
        "closed_form_s": closed_s,
        "closed_form_terms_s": dict(found.ready.closed_s),
        "gap": {"step_s": closed_s / found.step_s - 1.0},
        "gap_s": dict(found.gap_s),
        "marks": dict(found.ready.marks),
        "critical_path": critical_path(step),
        "stages": _stages(step),
        "links": _links(found),
    }


def critical_path(step: StepReplay) -> dict[str, Any]:
    """The chain of passes that ends the step: seconds by kind, and its runs on one device."""
    items = critical_items(step)
    program, walked = step.pipeline.program, step.walked
    took_s = walked.end_s[items] - walked.start_s[items]
    spent: dict[str, float] = {
        name: float(took_s[program.cost[items] == code].sum()) for code, name in enumerate(NAMES)
    }
    spent = {name: value for name, value in spent.items() if value > 0.0}
    device = step.last_device
    ended_s = step.passes_s if not len(items) else float(walked.end_s[items[-1]])
    spent["wait"] = ended_s - float(step.begun_s[device]) - float(took_s.sum())
    spent["data_parallel"] = float(step.done_s[device] - walked.end_s[items[-1]])
    spent["optimiser"] = step.pipeline.optimiser_s
    return {"seconds": spent, "passes": len(items), "runs": _runs(step, items)}


def _runs(step: StepReplay, items: Any) -> list[dict[str, Any]]:
    """Neighbouring passes of the chain on one device taken together."""
    devices = device_of(step, items)
    edges = np.flatnonzero(np.diff(devices)) + 1
    starts, stops = [0, *edges.tolist()], [*edges.tolist(), len(items)]
    walked = step.walked
    return [
        {
            "stage": int(devices[a]),
            "from_s": float(walked.start_s[items[a]]),
            "to_s": float(walked.end_s[items[b - 1]]),
            "passes": b - a,
        }
        for a, b in zip(starts, stops, strict=True)
    ]


def _stages(step: StepReplay) -> list[dict[str, float]]:
    """Of every device along the pipeline: seconds by kind of pass, and what it waits."""
    program, walked, lines = step.pipeline.program, step.walked, []
    took_s: Floats = walked.end_s - walked.start_s
    for device in range(program.devices):
        own = slice(program.first[device], program.first[device + 1])
        sums = np.bincount(program.cost[own], weights=took_s[own], minlength=PAIR + 1)
        line: dict[str, float] = {
            "stage": float(device),
            "slower_frac": float(step.slower_frac[device]),
        }
        line |= {f"{n}_s": float(s) for n, s in zip(NAMES, sums, strict=True) if s > 0.0}
        reduce_s = float(step.done_s[device] - walked.end_s[own][-1])
        line |= {"busy_s": float(sums.sum()), "data_parallel_s": reduce_s}
        line["idle_s"] = step.step_s - line["busy_s"] - reduce_s - step.pipeline.optimiser_s
        lines.append(line)
    return lines


def _links(found: TrainingReplay) -> list[dict[str, Any]]:
    """Busy share of every chip and port of a stage, and of the uplinks stages share."""
    names = ("chip", "domain_port", "scaleout_port")
    shares: Mapping[int, Any] = dict(enumerate(found.first.busy_frac.tolist()))
    lines: list[dict[str, Any]] = [
        {"stage": stage, **{f"{n}_busy_frac": v for n, v in zip(names, values, strict=True)}}
        for stage, values in shares.items()
    ]
    uplinks = found.first.uplink_frac.tolist()
    return lines + [{"uplink": i, "busy_frac": share} for i, share in enumerate(uplinks)]
