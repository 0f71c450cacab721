"""What a layout costs per micro-batch, before anyone says how many micro-batches there are.

Everything here depends on the degrees, the placement, the micro-batch, the precision and the
recompute mode, and on nothing else of a plan: the global batch, the ZeRO stage and the schedule
order come after. So one layout is priced once for the many plans that share it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

import numpy as np

from simkernel.candidates import RECOMPUTE, TrainingPlans
from simkernel.columns import Codes, Column, Floats
from simkernel.exchange import all_sends, boundary_send, collective, mirrored
from simkernel.hardware import Chips
from simkernel.keeping import PLAIN
from simkernel.memory import (
    StageMemory,
    StageParameters,
    device_parameters,
    stage_memory,
    stage_parameters,
)
from simkernel.models import Model, layer_counts
from simkernel.offload import update_s
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
from simkernel.placement import Group, by_group_size, cut_in_runs, place
from simkernel.roofline import stream_work
from simkernel.share import Share, share_of
from simkernel.stages import STAGES, by_device, draft_counts, stage_layers, with_drafts
from simkernel.traffic import network
from simkernel.workload import TrainingJob

LAYOUT_FREE = (
    "global_batch_sequences", "zero_stage", "schedule_code", "power_cap_frac", "offload_code",
)  # fmt: skip
"""Decisions of a plan that its layout does not depend on, but for the stages a device holds."""


@dataclass(frozen=True)
class StageWork:
    """One micro-batch on one stage; `terms` are elapsed seconds by what they are for.

    `exchange` is what experts exchange in the forward pass, and again in the backward pass, and
    `tensor` what tensor ranks do between products, in either pass.
    """

    forward: Pass
    backward: Pass
    exchange: Pass
    tensor: Pass
    terms: dict[str, Floats]


@dataclass(frozen=True)
class StageSync:
    """Data-parallel collectives over the whole weights of one device.

    `gather` of bf16 weights, `scatter` and `reduce` of gradients (reduce-scatter, all-reduce).
    """

    gather: Pass
    scatter: Pass
    reduce: Pass


@dataclass(frozen=True)
class Layout:
    """One layout per row: work and memory of the first, an inner and the last stage.

    `sync`, `parameters` and `stage_layer_counts` are of the device that serves the stage, and its
    mirror where it holds two. `mean_work` and `mean_sync` are averages over all devices, the sends
    of a micro-batch included, while `send` is one send on the critical path; `dense_ranks` and
    `expert_ranks` are the devices that share out the state of dense and of expert parameters;
    `update` is the optimiser's pass over one parameter it owns, `host_update_s` its time where the
    host does it, `host_s_per_byte` that of a byte to the host; `pool_...` the same of
    a memory pool.
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
    host_update_s: Floats
    host_s_per_byte: Floats
    pool_update_s: Floats
    pool_s_per_byte: Floats
    used_per_domain: Codes
    expert_inside: Codes
    dense_sync_inside: Codes


def layout_of(
    job: TrainingJob,
    model: Model,
    chips: Chips,
    plans: TrainingPlans,
    layers: Floats | None = None,
) -> Layout:
    """Work, traffic and memory of every layout.

    Parameters
    ----------
    job, model : one of each
    chips : one row, or one row per layout
    plans : (n,) layouts; the fields of LAYOUT_FREE are not looked at
    layers : (n, 3, kinds) of the first, an inner and the last stage; None for the heaviest inner
    """
    placement = place(plans.degrees, plans.supernode_devices, plans.placement_code)
    if job.links.is_by_group_size:
        placement = by_group_size(placement, plans.supernode_devices)
    wires = network(chips, plans.supernode_devices, plans.oversubscription, job.links)
    has_experts = any(kind.mlp == "moe" for kind in model.kinds)
    share = share_of(job, chips, plans, placement, wires, has_experts=has_experts)
    held, copies = plans.stages_held, plans.stage_copies
    layers = _heaviest(job, model, plans) if layers is None else layers
    is_single = plans.model_stages == 1
    parameters = stage_parameters(share, is_single, model, layers, has_drafts=job.has_draft_layers)
    parameters = device_parameters(share, held, model, parameters)
    parts = _parts(share, job, model)
    drafts = draft_counts(model, has_drafts=job.has_draft_layers)
    mean = _mean_parameters(share, job, model, plans.pipeline_parallel)
    on_device = by_device(layers.sum(-1), held)
    mean_layers = model.layers / plans.pipeline_parallel * copies
    *sync, mean_sync = _syncs(
        share,
        plans,
        np.concatenate([parameters.dense.T, mean[0][None, :] * copies]),
        np.concatenate([parameters.expert.T, mean[1][None, :] * copies]),
        np.maximum(np.concatenate([on_device.T, mean_layers[None, :]]), 1.0),
    )
    return Layout(
        work=_works(parts, share, model, is_single, with_drafts(layers, is_single, drafts)),
        sync=tuple(sync),
        mean_work=_mean_work(parts, layer_counts(model) + drafts, plans.pipeline_parallel)
        + all_sends(share, model, plans.virtual_stages * held // copies, held // copies - 1),
        mean_sync=mean_sync,
        send=boundary_send(share, model).times(1.0 - is_single),
        parameters=parameters,
        memory=stage_memory(share, is_single, model, layers, drafts),
        stage_layer_counts=on_device,
        dense_ranks=placement.dense_sync.size // plans.state_copies * copies,
        expert_ranks=placement.expert_data.size // plans.state_copies * copies,
        used_per_domain=placement.used_per_domain,
        expert_inside=placement.expert.inside,
        dense_sync_inside=placement.dense_sync.inside,
        **_updates(share, job, chips),
    )


def _heaviest(job: TrainingJob, model: Model, plans: TrainingPlans) -> Floats:
    """Layers of each kind on the first, the heaviest inner and the last stage; (n, 3, kinds)."""
    return stage_layers(
        model,
        plans.model_stages,
        plans.virtual_stages,
        has_drafts=job.has_draft_layers,
        is_even=job.stack.cuts_evenly,
        given=plans.given_layers,
    )


class _Updates(TypedDict):
    """The fields of a layout that the optimiser's places take: the device, its host, a pool."""

    update: Pass
    host_update_s: Floats
    host_s_per_byte: Floats
    pool_update_s: Floats
    pool_s_per_byte: Floats


def _updates(share: Share, job: TrainingJob, chips: Chips) -> _Updates:
    """Weights updated where their state may be kept."""
    to_host = 1.0 / chips.host_link_bytes_per_s
    in_host, to_pool = 1.0 / chips.host_memory_bytes_per_s, 1.0 / chips.pool_bytes_per_s
    update_bytes = job.keeping.update_bytes(share.reduced_bytes)
    return {
        "update": _on_device(share, update_bytes),
        "host_update_s": update_s(share.reduced_bytes, update_bytes, to_host, in_host),
        "host_s_per_byte": to_host,
        "pool_update_s": update_s(share.reduced_bytes, update_bytes, to_host, to_pool),
        "pool_s_per_byte": to_pool,
    }


def _on_device(share: Share, update_bytes: Column) -> Pass:
    """The optimiser's pass over one parameter; a timed one kept whatever its stack keeps."""
    is_timed = share.parts.timed("optimiser")
    plain_bytes = PLAIN.update_bytes(PLAIN.gradient_bytes)
    moved = update_bytes + is_timed * (plain_bytes - update_bytes)
    return computed(stream_work(share.parts.stream("optimiser", share.stream), moved))


@dataclass(frozen=True)
class _Parts:
    """Passes of one micro-batch on one device: the embedding, one layer of each kind, the heads.

    `layers` are (forward, backward) per kind, `sums` the same added up; `head` is that of the
    model and those of its draft layers, each with its loss.
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
    heads = 1.0 + draft_counts(model, has_drafts=job.has_draft_layers).sum()
    last = (head_f.times(heads), head_b.times(heads))
    return _Parts(embedding_pass(share, model), layers, sums, last)


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

    A third forward and two thirds backward; layers that are recomputed whole are launched again.
    The head and the loss launch about as many kernels as a layer, once.
    """
    stack = share.stack
    ends, total = has_head * np.reshape(stack.dense_host_s, (-1, 1)), np.zeros_like(has_head)
    host_pairs = share.tensor * (share.tensor - 1.0) / 2.0
    for i, kind in enumerate(model.kinds):
        each: Column = stack.dense_host_s
        if kind.mlp == "moe":
            started = np.where(share.is_block_scaled, kind.experts / share.expert, 0.0)
            each = stack.moe_host_s + stack.expert_host_s * started
        each = each * (1.0 + stack.tensor_host_frac * host_pairs)
        total = total + layers[:, :, i] * np.reshape(each, (-1, 1))
    is_launched = np.where(share.is_one_graph[:, None], 0.0, 1.0 / 3.0)
    again = total * (share.recompute_code == RECOMPUTE.index("full"))[:, None]
    forward, backward = ends + total, 2.0 * (ends + total) + again
    return forward * is_launched, backward * is_launched


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
    inner, exchange, tensor = [Pass(), Pass()], Pass(), Pass()
    for i, sums in enumerate(parts.sums):
        count = counts[:, i]
        inner = [total + one.times(count) for total, one in zip(inner, sums, strict=True)]
        exchange = exchange + parts.layers[i][0].get("expert_parallel", Pass()).times(count)
        tensor = tensor + parts.layers[i][0]["tensor_parallel"].times(count)
        for named in parts.layers[i]:
            for name, part in named.items():
                terms[name] = terms.get(name, 0.0) + part.floor_s * count
    works = [end + work for end, work in zip(ends, inner, strict=True)]
    waits = [_waited_s(s, work.floor_s) for s, work in zip(launches_s, works, strict=True)]
    forward, backward = (
        work + Pass(host_s=host_s, floor_s=wait_s)
        for work, host_s, wait_s in zip(works, launches_s, waits, strict=True)
    )
    return StageWork(forward, backward, exchange, tensor, {**terms, "host": waits[0] + waits[1]})


def _waited_s(launches_s: Floats, work_s: Column) -> Floats:
    """Seconds by which work takes longer because the host has to launch it.

    Small kernels wait for the host where large ones do not, so work of about the length of its
    launches waits as well: a smooth maximum of the two. Its power is the one that fits vTrain's
    measured iterations (VIA-Research/vTrain, data/ground_truth_single.csv) best of 2, 3, 4 and 6.
    Rounding leaves nothing below nought where nothing is launched.
    """
    return np.maximum(np.cbrt(launches_s**3 + work_s**3) - work_s, 0.0)


def _mean_work(parts: _Parts, counts: Floats, stages: Codes) -> Pass:
    """Forward and backward of one micro-batch through all stages, over their number.

    `counts` are the layers of each kind, drafts included.
    """
    total = parts.embed.times(2.0) + parts.head[0] + parts.head[1]
    for count, (forward, backward) in zip(counts, parts.sums, strict=True):
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


def _syncs(
    share: Share, plans: TrainingPlans, dense: Floats, expert: Floats, layers: Floats
) -> list[StageSync]:
    """Collectives of some devices that hold so many parameters and layers, (devices, n).

    One for each layer: a unit of FSDP, or a bucket of about a layer.

    Experts are synchronised over their copies, the rest over data and context, and both with the
    device that serves the same stages from the other end. Where several copies of the state are
    kept, weights are gathered and gradients scattered among those who share one, and what is left
    of the gradients reduced over the copies: hybrid sharding (Zhao et al. 2023, PyTorch FSDP,
    arXiv 2304.11277, section 3.2.2).
    """

    def by_layer(operation: str, group: Group, payload_bytes: Floats) -> Pass:
        return collective(share, operation, group, payload_bytes / layers).times(layers)

    copies, holders = plans.state_copies, plans.stage_copies
    gather, scatter, reduce = Pass(), Pass(), Pass()
    weight_bytes = share.keeping.gathered_bytes(plans.precision_code)
    for group, held in (
        (share.placement.dense_sync, dense),
        (share.placement.expert_data, expert),
    ):
        near, far = cut_in_runs(group, copies)
        weights, gradients = held * weight_bytes, held * share.reduced_bytes
        gather = gather + by_layer("all_gather", near, weights)
        scatter = scatter + by_layer("reduce_scatter", near, gradients)
        reduce = reduce + by_layer("all_reduce", group, gradients)
        if np.any(holders > 1):
            gather = gather + mirrored(share, holders, weights / near.size)
            scatter = scatter + mirrored(share, holders, gradients / near.size)
            reduce = reduce + mirrored(share, holders, gradients / group.size).times(2.0)
        if np.any(copies > 1):
            shard = gradients / (near.size * holders)
            scatter = scatter + by_layer("all_reduce", far, shard)
    return [StageSync(gather.at(i), scatter.at(i), reduce.at(i)) for i in range(len(dense))]
