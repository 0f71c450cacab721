"""What a layout costs per micro-batch, before anyone says how many micro-batches there are.

Everything here depends on the degrees, the placement, the micro-batch, the precision and the
recompute mode, and on nothing else of a plan: the global batch, the ZeRO stage and the schedule
order come after. So one layout is priced once for the many plans that share it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simkernel.candidates import RECOMPUTE, TrainingPlans
from simkernel.columns import Codes, Column, Floats
from simkernel.exchange import all_sends, boundary_send, collective
from simkernel.hardware import Chips
from simkernel.memory import (
    UPDATE_BYTES,
    StageMemory,
    StageParameters,
    stage_memory,
    stage_parameters,
)
from simkernel.models import Model, layer_counts
from simkernel.ops import (
    Parts,
    embedding_pass,
    head_backward,
    head_forward,
    layer_backward,
    layer_forward,
    summed,
)
from simkernel.passes import Pass, computed
from simkernel.placement import place
from simkernel.roofline import stream_work
from simkernel.share import WIDE_BYTES, Share, share_of
from simkernel.stages import STAGES, stage_layers
from simkernel.traffic import network
from simkernel.workload import TrainingJob

LAYOUT_FREE = ("global_batch_sequences", "zero_stage", "schedule_code", "power_cap_frac")
"""Decisions of a plan that its layout does not depend on."""


@dataclass(frozen=True)
class StageWork:
    """One micro-batch on one stage; `terms` are elapsed seconds by what they are for."""

    forward: Pass
    backward: Pass
    terms: dict[str, Floats]


@dataclass(frozen=True)
class StageSync:
    """Data-parallel collectives over the whole weights of one stage.

    `gather` of bf16 weights, `scatter` and `reduce` of gradients (reduce-scatter,
    all-reduce). `update_dense`, `update_expert`: optimiser over unsharded parameters.
    """

    gather: Pass
    scatter: Pass
    reduce: Pass


@dataclass(frozen=True)
class Layout:
    """One layout per row: work, traffic and memory of the first, an inner and the last stage.

    `mean_work` and `mean_sync` are averages over all stages, the sends of a micro-batch included,
    while `send` is one send on the critical path; `dense_ranks`, `expert_ranks` are the sizes of
    the data-parallel groups; `update` is the optimiser's pass over one parameter it owns.
    """

    work: tuple[StageWork, ...]
    sync: tuple[StageSync, ...]
    mean_work: Pass
    mean_sync: StageSync
    send: Pass
    parameters: StageParameters
    memory: StageMemory
    stage_layer_counts: Floats
    dense_ranks: Codes
    expert_ranks: Codes
    update: Pass
    used_per_domain: Codes
    expert_inside: Codes
    dense_sync_inside: Codes


def layout_of(job: TrainingJob, model: Model, chips: Chips, plans: TrainingPlans) -> Layout:
    """Work, traffic and memory of every layout.

    Parameters
    ----------
    job, model : one of each
    chips : one row, or one row per layout
    plans : (n,) layouts; the fields of LAYOUT_FREE are not looked at
    """
    placement = place(plans.degrees, plans.supernode_devices, plans.placement_code)
    wires = network(chips, plans.supernode_devices, plans.oversubscription)
    has_experts = any(kind.mlp == "moe" for kind in model.kinds)
    share = share_of(job, chips, plans, placement, wires, has_experts=has_experts)
    layers = stage_layers(
        model, plans.pipeline_parallel, plans.virtual_stages, has_drafts=job.has_draft_layers
    )
    is_single = plans.pipeline_parallel == 1
    parameters = stage_parameters(share, is_single, model, layers, has_drafts=job.has_draft_layers)
    one_parameter = np.full(len(plans), UPDATE_BYTES)
    parts = _parts(share, job, model)
    mean = _mean_parameters(share, job, model, plans.pipeline_parallel)
    *sync, mean_sync = _syncs(
        share,
        np.concatenate([parameters.dense.T, mean[0][None, :]]),
        np.concatenate([parameters.expert.T, mean[1][None, :]]),
    )
    return Layout(
        work=_works(parts, share, model, is_single, layers),
        sync=tuple(sync),
        mean_work=_mean_work(parts, model, plans.pipeline_parallel)
        + all_sends(share, model, plans.virtual_stages),
        mean_sync=mean_sync,
        send=boundary_send(share, model).times(1.0 - is_single),
        parameters=parameters,
        memory=stage_memory(share, is_single, model, layers),
        stage_layer_counts=layers.sum(-1),
        dense_ranks=placement.dense_sync.size,
        expert_ranks=placement.expert_data.size,
        update=computed(stream_work(share.stream, one_parameter)),
        used_per_domain=placement.used_per_domain,
        expert_inside=placement.expert.inside,
        dense_sync_inside=placement.dense_sync.inside,
    )


@dataclass(frozen=True)
class _Parts:
    """Passes of one micro-batch on one device: the embedding, one layer of each kind, the head.

    `layers` are (forward, backward) per kind, `sums` the same added up; the head goes with the
    loss and with the draft layers and their heads.
    """

    embed: Pass
    layers: tuple[tuple[Parts, Parts], ...]
    sums: tuple[tuple[Pass, Pass], ...]
    head: tuple[Pass, Pass]


def _parts(share: Share, job: TrainingJob, model: Model) -> _Parts:
    forward = [layer_forward(share, model, kind) for kind in model.kinds]
    backward = [
        layer_backward(share, model, kind, parts)
        for kind, parts in zip(model.kinds, forward, strict=True)
    ]
    layers = tuple(zip(forward, backward, strict=True))
    sums = tuple((summed(f), summed(b)) for f, b in layers)
    head_f, head_b = head_forward(share, model), head_backward(share, model)
    last_f, last_b = head_f, head_b
    for code in model.draft_codes if job.has_draft_layers else ():
        last_f = last_f + sums[code][0] + head_f
        last_b = last_b + sums[code][1] + head_b
    return _Parts(embedding_pass(share, model), layers, sums, (last_f, last_b))


def _works(
    parts: _Parts, share: Share, model: Model, is_single: Codes, layers: Floats
) -> tuple[StageWork, ...]:
    """Work of one micro-batch on the first, the heaviest inner and the last stage."""
    alone, always = is_single * 1.0, np.ones(len(is_single))
    at = ((always, alone), (alone * 0.0, alone * 0.0), (alone, always))
    host_s = _host_s(share, model, layers, np.stack([last for _, last in at], axis=-1))
    return tuple(
        _stage(parts, layers[:, i, :], first, last, (host_s[0][:, i], host_s[1][:, i]))
        for i, (first, last) in enumerate(at)
    )


def _host_s(share: Share, model: Model, layers: Floats, has_head: Floats) -> tuple[Floats, Floats]:
    """Seconds the host launches a stage's kernels for one micro-batch, forward and back; (n, 3).

    A third forward and two thirds backward; what is recomputed whole is launched again. The head
    and the loss launch about as many kernels as a layer.
    """
    stack = share.stack
    total = has_head * np.reshape(stack.dense_host_s, (-1, 1))
    for i, kind in enumerate(model.kinds):
        each: Column = stack.dense_host_s
        if kind.mlp == "moe":
            started = np.where(share.is_block_scaled, kind.experts / share.expert, 0.0)
            each = stack.moe_host_s + stack.expert_host_s * started
        total = total + layers[:, :, i] * np.reshape(each, (-1, 1))
    total = np.where(share.is_one_graph[:, None], 0.0, total)
    again = (share.recompute_code == RECOMPUTE.index("full")) * 1.0
    return total / 3.0, total / 3.0 * (2.0 + again[:, None])


def _stage(
    parts: _Parts,
    counts: Floats,
    has_embed: Floats,
    has_head: Floats,
    launches_s: tuple[Floats, Floats],
) -> StageWork:
    """Layers of a stage times their passes, with the embedding and the head where they sit."""
    embed = parts.embed.times(has_embed)
    ends = (embed + parts.head[0].times(has_head), embed + parts.head[1].times(has_head))
    terms: dict[str, Floats] = {
        "embedding_and_head": np.asarray(ends[0].floor_s + ends[1].floor_s)
    }
    inner = [Pass(), Pass()]
    for i, sums in enumerate(parts.sums):
        count = counts[:, i]
        inner = [total + one.times(count) for total, one in zip(inner, sums, strict=True)]
        for named in parts.layers[i]:
            for name, part in named.items():
                terms[name] = terms.get(name, 0.0) + part.floor_s * count
    works = [end + work for end, work in zip(ends, inner, strict=True)]
    waits = [_waited_s(s, work.floor_s) for s, work in zip(launches_s, works, strict=True)]
    forward, backward = (
        work + Pass(host_s=host_s, floor_s=wait_s)
        for work, host_s, wait_s in zip(works, launches_s, waits, strict=True)
    )
    return StageWork(forward, backward, {**terms, "host": waits[0] + waits[1]})


def _waited_s(launches_s: Floats, work_s: Column) -> Floats:
    """Seconds by which work takes longer because the host has to launch it.

    Small kernels wait for the host where large ones do not, so work of about the length of its
    launches waits as well: a smooth maximum of the two. Its power is the one that fits vTrain's
    measured iterations (VIA-Research/vTrain, data/ground_truth_single.csv) best of 2, 3, 4 and 6.
    """
    return np.asarray(np.cbrt(launches_s**3 + work_s**3) - work_s)


def _mean_work(parts: _Parts, model: Model, stages: Codes) -> Pass:
    """Forward and backward of one micro-batch through all stages, over their number."""
    total = parts.embed.times(2.0) + parts.head[0] + parts.head[1]
    for count, (forward, backward) in zip(layer_counts(model), parts.sums, strict=True):
        total = total + (forward + backward).times(float(count))
    return total.times(1.0 / stages)


def _mean_parameters(
    share: Share, job: TrainingJob, model: Model, stages: Codes
) -> tuple[Floats, Floats]:
    """Dense and expert parameters of a device of the average stage; (n,) each."""
    mean_layers = np.array(layer_counts(model)) / stages[:, None]
    layers = np.repeat(mean_layers[:, None, :], len(STAGES), axis=1)
    is_single = stages == 1
    held = stage_parameters(share, is_single, model, layers, has_drafts=job.has_draft_layers)

    def mean(each: Floats) -> Floats:
        first, inner, last = each.T
        ends = (first - inner) + np.where(is_single, 0.0, last - inner)
        return inner + ends / stages

    return mean(held.dense), mean(held.expert)


def _syncs(share: Share, dense: Floats, expert: Floats) -> list[StageSync]:
    """Collectives of some stages, whose parameters are (stages, n) on one device.

    Experts are synchronised over their copies, the rest over data and context.
    """
    gather, scatter, reduce = Pass(), Pass(), Pass()
    for group, held in (
        (share.placement.dense_sync, dense),
        (share.placement.expert_data, expert),
    ):
        gather = gather + collective(share, "all_gather", group, held * WIDE_BYTES)
        gradients = held * share.reduced_bytes
        scatter = scatter + collective(share, "reduce_scatter", group, gradients)
        reduce = reduce + collective(share, "all_reduce", group, gradients)
    return [StageSync(gather.at(i), scatter.at(i), reduce.at(i)) for i in range(len(dense))]
