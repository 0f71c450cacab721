"""One optimiser step in closed form: stages, schedule, synchronisation, optimiser, bubble.

Every candidate's step is a ledger whose terms sum to the step exactly. Not known here: failures
(see reliability), watts (see power) and money.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from simkernel import plugins
from simkernel.candidates import TrainingPlans
from simkernel.columns import Floats
from simkernel.hardware import Chips
from simkernel.ledger import Ledger
from simkernel.memory import (
    GRADIENT_BYTES,
    UPDATE_BYTES,
    Reserve,
    StageParameters,
    resident_ledger,
    stage_parameters,
)
from simkernel.models import Model
from simkernel.ops import (
    WIDE_BYTES,
    Parts,
    Share,
    boundary_send,
    collective,
    embedding_pass,
    head_backward,
    head_forward,
    layer_backward,
    layer_forward,
    share_of,
    summed,
)
from simkernel.passes import Pass, combine, computed
from simkernel.placement import Placement, place
from simkernel.roofline import stream_work
from simkernel.stages import STAGES, stage_layers
from simkernel.traffic import network
from simkernel.workload import TrainingJob


@dataclass(frozen=True)
class Step:
    """One optimiser step of every candidate.

    Parameters
    ----------
    time : ledger "step_s"; its terms sum to the step
    resident : ledger "resident_bytes" on the fullest device
    fullest_stage : (n,) index in STAGES
    placement : groups on domains
    busy_compute_frac, busy_memory_frac, busy_network_frac : (n,) time-average utilisation of
        dense peak, memory rate and wires (for watts)
    inside_bytes, outside_bytes : (n,) sent per device and step, inside and outside the domain
    state_bytes : (n,) weights and optimiser of the whole job: what a checkpoint writes
    """

    time: Ledger
    resident: Ledger
    fullest_stage: Floats
    placement: Placement
    busy_compute_frac: Floats
    busy_memory_frac: Floats
    busy_network_frac: Floats
    inside_bytes: Floats
    outside_bytes: Floats


@dataclass(frozen=True)
class StageWork:
    """Passes of one micro-batch on one stage; `terms` are floors by what they are for."""

    forward: Pass
    backward: Pass
    terms: dict[str, Floats]


def training_step(
    job: TrainingJob, model: Model, chips: Chips, plans: TrainingPlans, reserve: Reserve
) -> Step:
    """Closed form of one step for every candidate.

    Parameters
    ----------
    job, model : one of each
    chips : one row, or one row per candidate
    plans : (n,) candidates that passed the rules of the space
    reserve : memory no tensor owns

    Returns
    -------
    Step of (n,)
    """
    placement = place(plans.degrees, plans.supernode_devices, plans.placement_code)
    wires = network(chips, plans.supernode_devices, plans.oversubscription)
    share = share_of(job, chips, plans, placement, wires)
    layers = stage_layers(model, plans.pipeline_parallel, plans.virtual_stages)
    parameters = stage_parameters(share, plans, model, layers, has_drafts=job.has_draft_layers)
    stages = _stage_works(share, job, plans, model, layers)
    sync = [_sync(share, plans, parameters, i) for i in range(len(STAGES))]
    turns = [_turn(share, plans, model, stages[i], sync[i]) for i in range(len(STAGES))]
    time = _step_ledger(share, plans, parameters, layers, stages, sync, turns)
    resident, fullest = resident_ledger(share, plans, model, layers, parameters, reserve)
    return Step(
        time,
        resident,
        fullest,
        placement,
        *_utilisation(plans, stages, sync, time, share, parameters),
    )


@dataclass(frozen=True)
class Sync:
    """Passes of the data-parallel groups of one stage: gather of weights, reduction of gradients.

    `is_gather_each`, `is_reduce_each`: once per micro-batch instead of once per step (ZeRO-3,
    ZeRO-2: Rajbhandari et al. 2020, section 7).
    """

    gather: Pass
    reduce: Pass
    is_gather_each: Floats
    is_reduce_each: Floats


@dataclass(frozen=True)
class Turn:
    """Elapsed seconds of one micro-batch on one stage, sends and per-micro-batch sync included."""

    forward_s: Floats
    backward_s: Floats
    send_s: Floats
    sync_s: Floats

    @property
    def total_s(self) -> Floats:
        """Forward and backward."""
        return self.forward_s + self.backward_s


def _stage_works(
    share: Share, job: TrainingJob, plans: TrainingPlans, model: Model, layers: Floats
) -> list[StageWork]:
    """Work of one micro-batch on the first, the heaviest inner and the last stage."""
    forward = [layer_forward(share, model, kind) for kind in model.kinds]
    backward = [
        layer_backward(share, model, kind, parts)
        for kind, parts in zip(model.kinds, forward, strict=True)
    ]
    is_single = plans.pipeline_parallel == 1
    ends = _ends(share, job, model, forward, backward)
    return [
        _stage(layers[:, i, :], forward, backward, ends, has_first, has_last)
        for i, (has_first, has_last) in enumerate(
            (
                (is_single >= 0, is_single),
                (is_single < 0, is_single < 0),
                (is_single, is_single >= 0),
            )
        )
    ]


def _ends(
    share: Share, job: TrainingJob, model: Model, forward: list[Parts], backward: list[Parts]
) -> tuple[Pass, Pass, Pass, Pass]:
    """Embedding and head, forward and backward; draft layers and their heads sit with the head."""
    embed = embedding_pass(share, model)
    head_f, head_b = head_forward(share, model), head_backward(share, model)
    last_f, last_b = head_f, head_b
    if job.has_draft_layers:
        for code in model.draft_codes:
            last_f = last_f + summed(forward[code]) + head_f
            last_b = last_b + summed(backward[code]) + head_b
    return embed, embed, last_f, last_b


def _stage(
    counts: Floats,
    forward: list[Parts],
    backward: list[Parts],
    ends: tuple[Pass, Pass, Pass, Pass],
    has_first: Floats,
    has_last: Floats,
) -> StageWork:
    """Layers of a stage times their passes, with the embedding and the head where they sit."""
    first, last = has_first * 1.0, has_last * 1.0
    total_f = ends[0].times(first) + ends[2].times(last)
    total_b = ends[1].times(first) + ends[3].times(last)
    terms: dict[str, Floats] = {"ends": np.asarray(total_f.floor_s + total_b.floor_s)}
    for i in range(counts.shape[1]):
        count = counts[:, i]
        total_f = total_f + summed(forward[i]).times(count)
        total_b = total_b + summed(backward[i]).times(count)
        for parts in (forward[i], backward[i]):
            for name, part in parts.items():
                terms[name] = terms.get(name, 0.0) + part.floor_s * count
    return StageWork(total_f, total_b, terms)


def _sync(share: Share, plans: TrainingPlans, parameters: StageParameters, i: int) -> Sync:
    """Data-parallel traffic of one stage: experts over their copies, the rest over all."""
    place_ = share.placement
    zero = plans.zero_stage
    gather, reduce = Pass(), Pass()
    for group, held in (
        (place_.dense_sync, parameters.dense[:, i]),
        (place_.expert_data, parameters.expert[:, i]),
    ):
        gather = gather + collective(share, "all_gather", group, held * WIDE_BYTES)
        scatter = collective(share, "reduce_scatter", group, held * GRADIENT_BYTES)
        reduce_all = collective(share, "all_reduce", group, held * GRADIENT_BYTES)
        is_whole = (zero == 0) * 1.0
        reduce = reduce + scatter.times(1.0 - is_whole) + reduce_all.times(is_whole)
    return Sync(gather.times((zero > 0) * 1.0), reduce, (zero >= 3) * 1.0, (zero >= 2) * 1.0)


def _turn(share: Share, plans: TrainingPlans, model: Model, stage: StageWork, sync: Sync) -> Turn:
    """One micro-batch on a stage: passes, what is gathered and reduced beside them, sends.

    Sends follow the passes one by one, except between chunks of an interleaved schedule, where
    they run beside them (Megatron-LM overlap-p2p-communication).
    """
    send = boundary_send(share, model).times((plans.pipeline_parallel > 1) * 1.0)
    many = send.times(plans.virtual_stages * 1.0)
    gather = sync.gather.times(sync.is_gather_each)
    reduce = sync.reduce.times(sync.is_reduce_each)
    is_chunked = plans.virtual_stages > 1
    elapsed, alone = [], []
    for work, beside in ((stage.forward, gather), (stage.backward, gather + reduce)):
        with_sync = combine(work, beside)
        chunked = combine(work, beside, many)
        elapsed.append(np.where(is_chunked, chunked, with_sync + send.floor_s))
        alone.append(with_sync - work.floor_s)
    sync_s = alone[0] + alone[1]
    send_s = elapsed[0] + elapsed[1] - sync_s - stage.forward.floor_s - stage.backward.floor_s
    return Turn(elapsed[0], elapsed[1], send_s, sync_s)


def _exposed(stage: StageWork, sync: Sync, layers: Floats) -> Floats:
    """Seconds by which once-per-step gathers and reductions outlast the passes beside them.

    Weights are gathered beside the first forward pass, gradients reduced beside the last
    backward pass; the last layer's bucket has nothing left to run beside.
    """
    once_gather = sync.gather.times(1.0 - sync.is_gather_each)
    once_reduce = sync.reduce.times(1.0 - sync.is_reduce_each)
    out = -stage.forward.floor_s - stage.backward.floor_s
    out = out + combine(stage.forward, once_gather) + combine(stage.backward, once_reduce)
    tail = (once_gather.floor_s + once_reduce.floor_s) / np.maximum(layers.sum(-1), 1.0)
    return np.maximum(out, tail)


def _step_ledger(
    share: Share,
    plans: TrainingPlans,
    parameters: StageParameters,
    layers: Floats,
    stages: list[StageWork],
    sync: list[Sync],
    turns: list[Turn],
) -> Ledger:
    """The step by what it is spent on, on the slowest stage."""
    totals = np.stack([turn.total_s for turn in turns], axis=-1)
    is_inner = plans.pipeline_parallel > 2
    totals[:, 1] = np.where(is_inner, totals[:, 1], 0.0)
    slowest = np.argmax(totals, axis=1)
    count = plans.micro_batches * 1.0
    span_s, bubble_s = _span(plans, turns)
    terms: dict[str, Floats] = {}
    rows = np.arange(len(count))
    for name in stages[0].terms:
        each = np.stack([stage.terms[name] * np.ones_like(count) for stage in stages], axis=-1)
        terms[name] = each[rows, slowest] * count
    for name in ("send_s", "sync_s"):
        each = np.stack([getattr(turn, name) for turn in turns], axis=-1)
        label = "pipeline_send" if name == "send_s" else "data_parallel_per_micro_batch"
        terms[label] = each[rows, slowest] * count
    terms["bubble"] = bubble_s
    exposed = [_exposed(stages[i], sync[i], layers[:, i, :]) for i in range(len(stages))]
    terms["data_parallel"] = np.max(np.stack(exposed, axis=-1), axis=-1)
    terms["optimiser"] = _optimiser_s(share, plans, parameters)
    return Ledger("step_s", "s", terms)


def _span(plans: TrainingPlans, turns: list[Turn]) -> tuple[Floats, Floats]:
    """Span and bubble by the file of each candidate's schedule."""
    first, inner, last = (turn.total_s for turn in turns)
    stages, chunks, count = plans.pipeline_parallel, plans.virtual_stages, plans.micro_batches
    span, bubble = np.zeros_like(first), np.zeros_like(first)
    for code, name in enumerate(plugins.names("schedules")):
        is_this = plans.schedule_code == code
        if np.any(is_this):
            module = plugins.find("schedules", name)
            this = module.span(first, inner, last, stages, chunks, count)
            span, bubble = (
                np.where(is_this, a, b) for a, b in zip(this, (span, bubble), strict=True)
            )
    return span, bubble


def _updated_parameters(share: Share, plans: TrainingPlans, parameters: StageParameters) -> Floats:
    """Parameters whose optimiser state one device updates, on the most loaded stage; (n,)."""
    is_cut = plans.zero_stage >= 1
    dense_cut = np.where(is_cut, share.placement.dense_sync.size, 1)
    expert_cut = np.where(is_cut, share.placement.expert_data.size, 1)
    held = parameters.dense / dense_cut[:, None] + parameters.expert / expert_cut[:, None]
    return held.max(axis=1)


def _optimiser_s(share: Share, plans: TrainingPlans, parameters: StageParameters) -> Floats:
    """Adam reads and writes its state once; memory decides."""
    moved = _updated_parameters(share, plans, parameters) * UPDATE_BYTES
    return np.asarray(stream_work(share.stream, moved).elapsed_s)


def _utilisation(
    plans: TrainingPlans,
    stages: list[StageWork],
    sync: list[Sync],
    time: Ledger,
    share: Share,
    parameters: StageParameters,
) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """Time-average utilisation over the step, averaged over stages, and bytes per tier."""
    count, step_s = plans.micro_batches * 1.0, np.asarray(time.total)
    weights = _stage_weights(plans)
    total = Pass()
    for i, stage in enumerate(stages):
        each_gather = np.where(sync[i].is_gather_each > 0, 2.0 * count, 1.0)
        each_reduce = np.where(sync[i].is_reduce_each > 0, count, 1.0)
        work = (stage.forward + stage.backward).times(count)
        work = work + sync[i].gather.times(each_gather) + sync[i].reduce.times(each_reduce)
        total = total + work.times(weights[i])
    update = computed(
        stream_work(share.stream, _updated_parameters(share, plans, parameters) * UPDATE_BYTES)
    )
    total = total + replace(update, floor_s=0.0)
    network_s = np.maximum(total.inside_s, total.outside_s)
    return (
        np.minimum(total.peak_compute_s / step_s, 1.0),
        np.minimum(total.peak_hbm_s / step_s, 1.0),
        np.minimum(network_s / step_s, 1.0),
        total.inside_bytes * np.ones_like(step_s),
        total.outside_bytes * np.ones_like(step_s),
    )


def _stage_weights(plans: TrainingPlans) -> list[Floats]:
    """Share of devices on the first, inner and last stages; one stage is all first."""
    stages = plans.pipeline_parallel * 1.0
    inner = np.maximum(stages - 2, 0.0) / stages
    last = np.where(stages > 1, 1.0, 0.0) / stages
    return [1.0 / stages, inner, last]
