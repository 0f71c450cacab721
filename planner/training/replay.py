"""Training steps replayed event by event, beside the closed form, and why the two differ.

A replay goes up a ladder, and every rung is a term of the gap: passes in their order, the step's
gathers and reductions where they happen, drawn loads of experts, drawn speeds of devices, shared
links. The terms add up to the gap. What is drawn comes from several seeds; the same seeds give the
same replay.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from planner.evaluated import Replay
from planner.study.network import Degraded
from planner.training.engine import Engine
from planner.training.evaluate import (
    UNPHYSICAL,
    chip_of,
    evaluate,
    evaluate_at,
    is_step_given,
    training_plans,
)
from simkernel.candidates import TrainingPlans
from simkernel.columns import Codes, Floats
from simkernel.errors import BadStudy
from simkernel.placement import ORDERS
from simkernel.replay.contended import NO_OUTAGES, Outages
from simkernel.replay.draws import FINITE_DRAWS, Draw, Unevenness, drawn
from simkernel.replay.phases import INSIDE, OUTSIDE, OWN_LINKS, Uplinks, no_uplinks
from simkernel.replay.step import Contended, StepReplay, contended_step, walked_step
from simkernel.replay.training import Pipeline, pipeline_of
from simkernel.stack import Stack

SEEDS = 5
LOW_FRAC, HIGH_FRAC = 0.05, 0.95
PORTS = {"domain": INSIDE, "scaleout": OUTSIDE}
"""Links of a device by their name in a study."""

ONCE = ("data_parallel", "optimiser", "stragglers", "power_cap")
"""Terms of the closed form that are not of its pipeline."""


@dataclass(frozen=True)
class Ready:
    """One plan made ready to replay.

    Parameters
    ----------
    pipeline : its passes, with every port at its full rate
    narrow : the same as the closed form has it: a thin spine slows every port
    stack : the software it runs on
    uplinks : what devices of the pipeline share above their ports
    uneven : what is drawn
    closed_s : terms of the closed form's step [s]
    marks : what the study decreed, by name, with what it means
    outages : ports that are slow or down for a part of a step
    """

    pipeline: Pipeline
    narrow: Pipeline
    stack: Stack
    uplinks: Uplinks
    uneven: Unevenness
    closed_s: Mapping[str, float]
    marks: Mapping[str, str]
    outages: Outages = NO_OUTAGES

    @property
    def whole_s(self) -> float:
        """The step in closed form."""
        return sum(self.closed_s.values())

    @property
    def slower_frac(self) -> float:
        """By how much a power cap stretches a step, as the closed form has it."""
        capped_s = self.closed_s.get("power_cap", 0.0)
        return capped_s / (self.whole_s - capped_s)

    @cached_property
    def passes_s(self) -> float:
        """Of it, the pipeline alone."""
        return sum(value for name, value in self.closed_s.items() if name not in ONCE)


@dataclass(frozen=True)
class TrainingReplay:
    """What replays of a plan found.

    Parameters
    ----------
    ready : what was replayed
    step_s : mean over the seeds
    low_s, high_s : of them, the fifth and the ninety-fifth percentile
    gap_s : replay less closed form, by what it comes from; the terms add up to the gap
    first : the replay of the first seed, on shared links
    seeds : that were replayed
    first_seed : of them
    """

    ready: Ready
    step_s: float
    low_s: float
    high_s: float
    gap_s: Mapping[str, float]
    first: Contended
    seeds: int
    first_seed: int


def ready(engine: Engine, columns: Mapping[str, Any], accelerator: str) -> Ready:
    """A plan of a space, ready to replay.

    Parameters
    ----------
    columns : one row, as `planner.space.blocks.values_of` gives it

    Raises
    ------
    BadStudy : the study gives how long a step takes
    """
    if is_step_given(engine.study):
        raise BadStudy(
            "the study pins how long a step takes, so there is nothing to replay; "
            "take mfu_frac and step_s out of [pin]"
        )
    plans = training_plans(engine, columns)
    chip, job = chip_of(engine, columns, accelerator), engine.job_on(accelerator).ruled
    ledger = evaluate(engine, columns, accelerator).ledgers["step_s"]
    narrow = wide = pipeline_of(job, engine.model, chip, plans)
    if float(plans.oversubscription[0]) > 1.0:
        full = replace(plans, oversubscription=np.ones_like(plans.oversubscription))
        wide = pipeline_of(job, engine.model, chip, full)
    uneven, marks = _unevenness(engine, plans, job.stack, int(wide.layout.used_per_domain[0]))
    if job.links.is_by_group_size:
        marks[UNPHYSICAL] = "links go by the size of a group, which no wires do; nobody is late"
    degraded = engine.study.network.degraded
    if degraded:
        marks["degraded_links"] = "; ".join(_words(one) for one in degraded)
    return Ready(
        pipeline=wide,
        narrow=narrow,
        stack=job.stack,
        uplinks=_uplinks(engine, plans, accelerator, float(chip.devices_per_host[0])),
        uneven=uneven,
        closed_s=ledger.as_dict(),
        marks=marks,
        outages=_outages(degraded, wide.devices),
    )


def replayed(plan: Ready, first_seed: int, seeds: int = SEEDS, logged: int = 0) -> TrainingReplay:
    """A plan replayed with as many draws as there are seeds.

    Parameters
    ----------
    logged : phases of the first replay to keep for a timeline
    """
    even = walked_step(plan.narrow, syncs=False), walked_step(plan.narrow)
    found, steps, first = [], [], None
    for i in range(seeds):
        gap_s, shared = _replayed_once(plan, even, first_seed + i, logged if first is None else 0)
        first = first or shared
        found.append(gap_s)
        steps.append(shared.step.step_s * (1.0 + plan.slower_frac))
    assert first is not None
    low_s, high_s = np.quantile(steps, (LOW_FRAC, HIGH_FRAC))
    gap_s = {name: float(np.mean([one[name] for one in found])) for name in found[0]}
    return TrainingReplay(
        plan, float(np.mean(steps)), float(low_s), float(high_s), gap_s, first, seeds, first_seed
    )


def _replayed_once(
    plan: Ready, even: tuple[StepReplay, StepReplay], seed: int, logged: int
) -> tuple[dict[str, float], Contended]:
    """One draw up the ladder: replay less closed form by rung [s], and the step on links.

    `even` is the pipeline alone and with the step's gathers and reductions, before anything is
    drawn.
    """
    draw = _draw(plan, seed)
    loaded = walked_step(plan.narrow, Draw(draw.load_frac, 0.0 * draw.slower_frac[:1])).step_s
    slowed = walked_step(plan.narrow, draw).step_s
    wide = walked_step(plan.pipeline, draw)
    ports = shared = contended_step(
        plan.pipeline, plan.stack, no_uplinks(plan.pipeline), wide, draw, logged
    )
    if len(plan.uplinks.ports_frac):
        shared = contended_step(plan.pipeline, plan.stack, plan.uplinks, wide, draw, logged)
    healthy_s = shared.step.step_s
    if len(plan.outages.at_s):
        shared = contended_step(
            plan.pipeline, plan.stack, plan.uplinks, wide, draw, logged, plan.outages
        )
    alone, synced = even
    closed, update_s, step_s = plan.closed_s, plan.narrow.optimiser_s, shared.step.step_s
    gap_s = {
        "pipeline": alone.passes_s - plan.passes_s,
        "data_parallel": synced.step_s - update_s - alone.passes_s - closed["data_parallel"],
        "optimiser": update_s - closed["optimiser"],
        "expert_imbalance": loaded - synced.step_s,
        "stragglers": slowed - loaded - closed["stragglers"],
        "shared_ports": ports.step.step_s - wide.step_s,
        "thin_spine": wide.step_s - slowed + healthy_s - ports.step.step_s,
        **({"degraded_links": step_s - healthy_s} if len(plan.outages.at_s) else {}),
        "power_cap": step_s * plan.slower_frac - closed.get("power_cap", 0.0),
    }
    return gap_s, shared


def replayed_plan(engine: Engine, columns: Mapping[str, Any], accelerator: str) -> Replay:
    """One plan as its replay finds it, for the loop that replays what closed form chose.

    Parameters
    ----------
    columns : its row of the space; (1,) each

    Returns
    -------
    told: the step as replayed with its interval over the seeds, the gap of the closed form to it,
    and that gap term by term; what the study decreed instead of a draw
    """
    closed = evaluate(engine, columns, accelerator)
    if closed.limits["kernels"].excess[0] > 0:
        return Replay(closed, {"broken": "no step of it can run"})
    if is_step_given(engine.study):
        return Replay(
            closed, {"broken": "", "marks": "the study gives the step: nothing replayed"}
        )
    plan = ready(engine, columns, accelerator)
    found = replayed(plan, engine.study.seed)
    told: dict[str, float | str] = {
        "seeds": found.seeds,
        "replayed_step_s": found.step_s,
        "replayed_step_s_low": found.low_s,
        "replayed_step_s_high": found.high_s,
        "gap_step_s": plan.whole_s / found.step_s - 1.0,
        **{f"gap_{name}_s": value for name, value in found.gap_s.items()},
        "marks": "; ".join(plan.marks.values()),
    }
    at_step = evaluate_at(engine, columns, accelerator, np.array([found.step_s]))
    return Replay(at_step, told)


def _words(one: Degraded) -> str:
    until = "on" if one.until_s is None else f"to {one.until_s:g} s"
    return (
        f"{one.port} port of stage {one.stage} at {one.left_frac:g} of its rate from "
        f"{one.from_s:g} s {until}"
    )


def _outages(degraded: Sequence[Degraded], devices: int) -> Outages:
    """Degraded ports as changes of links, in the order of time.

    Raises
    ------
    BadStudy : a stage that is not there, a port that never comes back, an end before the start
    """
    faults: list[str] = []
    spans: dict[int, list[tuple[float, float, float]]] = {}
    for i, one in enumerate(degraded):
        where = f"network.degraded {i + 1}"
        if one.stage >= devices:
            faults.append(f"{where}: stage {one.stage} of {devices}; give 0 to {devices - 1}")
        if one.left_frac == 0 and one.until_s is None:
            faults.append(f"{where}: a port that is down for good ends no step; give until_s")
        if one.until_s is not None and one.until_s <= one.from_s:
            faults.append(
                f"{where}: until {one.until_s:g} s, from {one.from_s:g} s; give it later"
            )
        until_s = np.inf if one.until_s is None else one.until_s
        port = OWN_LINKS * one.stage + PORTS[one.port]
        spans.setdefault(port, []).append((one.from_s, until_s, one.left_frac))
    if faults:
        raise BadStudy(*faults)
    changes = [change for link, own in spans.items() for change in _changes(link, own)]
    if not changes:
        return NO_OUTAGES
    at_s, links, left_frac = (np.array(column) for column in zip(*sorted(changes), strict=True))
    return Outages(at_s, links.astype(np.int64), left_frac)


def _changes(
    link: int, spans: Sequence[tuple[float, float, float]]
) -> Iterator[tuple[float, int, float]]:
    """What is left of a link whenever a fault on it starts or ends: the product of those at work.

    Parameters
    ----------
    spans : start, end (infinite for good) and what each leaves
    """
    edges = {edge for start_s, end_s, _ in spans for edge in (start_s, end_s)}
    for at_s in sorted(edges - {np.inf}):
        left = [frac for start_s, end_s, frac in spans if start_s <= at_s < end_s]
        yield at_s, link, math.prod(left)


def _draw(plan: Ready, seed: int) -> Draw:
    program = plan.pipeline.program
    return drawn(
        plan.uneven, plan.pipeline.expert_layers, program.devices, program.micro_batches, seed
    )


def _unevenness(
    engine: Engine, plans: TrainingPlans, stack: Stack, per_domain: int
) -> tuple[Unevenness, dict[str, str]]:
    """What is drawn for a plan, and what its study decreed instead.

    `per_domain` devices work in each scale-up domain; in a single one nobody is late.
    """
    work, marks = engine.study.training, {}
    ranks = int(plans.expert_parallel[0] * plans.expert_tensor_parallel[0])
    own = int(plans.tensor_parallel[0] * plans.context_parallel[0])
    coupled = max(ranks // own, 1) if _has_experts(engine) else 1
    ends, batch_frac = (1.0, 1.0, 1.0), _batch_frac(engine, plans)
    if work.expert_imbalance is None:
        fact, taken = engine.catalog.expert_load(engine.model.name), engine.job.expert_imbalance
        low, high = (fact.number if end is None else end for end in (fact.low, fact.high))
        ends = (low / taken, fact.number / taken, high / taken)
    elif work.expert_imbalance in (1.0, "uniform"):
        marks["even_experts"] = "no expert is liked better than another, as the study has it"
    is_single = int(plans.devices[0]) <= per_domain
    slower, slowest = 0.0 if is_single else float(np.reshape(stack.straggler_frac, -1)[0]), -1.0
    if work.stragglers is not None:
        slowest = work.stragglers - 1.0
        marks["given_stragglers"] = f"the slowest device takes {work.stragglers:g} times as long"
    classes = max(int(plans.data_parallel[0]) // coupled, 1)
    domains = max(own * coupled // per_domain, 1)
    uneven = Unevenness(*ends, batch_frac, slower, slowest, domains, classes)
    return uneven, marks


def _has_experts(engine: Engine) -> bool:
    return any(kind.mlp == "moe" for kind in engine.model.kinds)


def _batch_frac(engine: Engine, plans: TrainingPlans) -> float:
    """Deviation of the busiest rank's load between micro-batches, from finite draws.

    Loads of E ranks over which T tokens draw K experts each deviate by sqrt((E - 1) / (T K)) of
    their mean; their largest by pi / sqrt(12 ln E) of that (see FINITE_DRAWS).
    """
    ranks = int(plans.expert_parallel[0])
    top_k = max((kind.top_k for kind in engine.model.kinds if kind.mlp == "moe"), default=0)
    if ranks < 2 or not top_k:
        return 0.0
    tokens = plans.micro_batch_sequences[0] * engine.job.tokens_per_sequence
    tokens = tokens / (plans.context_parallel[0] * plans.tensor_parallel[0])
    draws = tokens * ranks * plans.expert_tensor_parallel[0] * top_k
    return float(FINITE_DRAWS * np.sqrt((ranks - 1) / draws / np.log(ranks)))


def _uplinks(engine: Engine, plans: TrainingPlans, accelerator: str, per_host: float) -> Uplinks:
    """Uplinks of the leaf switches over which a pipeline is spread, where they are scarce.

    A block is as many hosts as a leaf has ports down; what leaves a domain is taken to cross the
    uplinks of its block, as in the closed form.
    """
    stages, scarce = int(plans.pipeline_parallel[0]), float(plans.oversubscription[0])
    if scarce <= 1.0:
        return Uplinks(np.full(stages, -1), np.zeros(0))
    radix = float(engine.shelf(accelerator).parts.radix[0])
    hosts = np.floor(radix * scarce / (1.0 + scarce))
    ranks = np.arange(stages) * _stride(plans)
    block, of_device = np.unique(ranks // (hosts * per_host), return_inverse=True)
    width: Floats = np.bincount(of_device, minlength=len(block)) / scarce
    return Uplinks(of_device.reshape(-1), width)


def _stride(plans: TrainingPlans) -> int:
    """Ranks between neighbours of a pipeline."""
    sizes: dict[str, Codes] = {
        "tp": plans.tensor_parallel,
        "cp": plans.context_parallel,
        "dp": plans.data_parallel,
    }
    order = ORDERS[int(plans.placement_code[0])]
    inner = order[: order.index("pp")]
    return int(np.prod([int(sizes[name][0]) for name in inner]))
