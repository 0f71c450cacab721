"""A turn: one micro-batch through one stage, before anyone says how many there are.

Passes, what is gathered, reduced and sent beside them, and what a step does once whatever its
batch. Many candidates differ only in batch, schedule or power cap: they share their turns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from simkernel.candidates import TrainingPlans
from simkernel.columns import Codes, Column, Floats
from simkernel.layout import Layout, StageSync, StageWork
from simkernel.memory import StageMemory, StageParameters
from simkernel.offload import activation_copies, where_kept, where_on_host
from simkernel.passes import Pass, combine, overlapped
from simkernel.stack import Stack
from simkernel.stage_times import PassTimes, StageTimes
from simkernel.stages import STAGES, by_device

BATCH_FREE = ("global_batch_sequences", "schedule_code", "power_cap_frac")
"""Decisions of a plan that its turns do not depend on, but for the stages a device holds."""

HIDEABLE = ("expert_parallel", "pipeline_send", "offload", "data_parallel_per_micro_batch")
"""Terms of a turn that run beside another micro-batch where a schedule pairs passes."""


@dataclass(frozen=True)
class Turns:
    """Seconds and work of every plan's turns; (n,) each.

    Parameters
    ----------
    times : passes of one turn on the first, an inner and the last stage
    each_s : terms of a turn on the slowest device
    once_s : terms of a step that come once, whatever its batch
    each, once : work of a device per turn and per step, averaged over the devices
    """

    times: StageTimes
    each_s: dict[str, Floats]
    once_s: dict[str, Floats]
    each: Pass
    once: Pass


@dataclass(frozen=True)
class Kept:
    """What the memory of a plan is made of, and the devices of a domain that work; by row."""

    parameters: StageParameters
    memory: StageMemory
    stage_layer_counts: Floats
    dense_ranks: Codes
    expert_ranks: Codes
    used_per_domain: Codes


def kept_of(layout: Layout) -> Kept:
    """The part of a layout that memory needs."""
    return Kept(**{name: getattr(layout, name) for name in Kept.__dataclass_fields__})


def turns_of(plans: TrainingPlans, layout: Layout, stack: Stack) -> Turns:
    """The turns of every plan; the fields of BATCH_FREE are not looked at.

    Parameters
    ----------
    plans : (n,)
    layout : of the same rows
    stack : of all of them, or of the same rows
    """
    moved = _copies(plans, layout)
    copies = moved or [Pass()] * len(STAGES)
    turns = [_turn(plans, layout, stack, i, copies[i]) for i in range(len(STAGES))]

    def on_devices(values: Sequence[Floats]) -> Floats:
        by_stage = np.stack([v + np.zeros(len(plans)) for v in values], axis=-1)
        if not plans.has_folds:
            return by_stage
        return by_device(by_stage, plans.stages_held) / plans.stage_copies[:, None]

    compared = on_devices([turn.times.turn_s for turn in turns])
    compared[:, 1] *= plans.model_stages > 2
    slowest, rows = np.argmax(compared, axis=1), np.arange(len(plans))

    def on_slowest(values: Sequence[Floats]) -> Floats:
        return on_devices(values)[rows, slowest]

    names = layout.work[0].terms
    each_s = {name: on_slowest([work.terms[name] for work in layout.work]) for name in names}
    each_s["pipeline_send"] = on_slowest([turn.send_s for turn in turns])
    each_s["data_parallel_per_micro_batch"] = on_slowest([turn.sync_s for turn in turns])
    each_s["offload"] = np.zeros(1)  # one row stands for all
    if moved:
        each_s["offload"] = on_slowest([turn.offload_s for turn in turns])
    updated = _updated_parameters(plans, layout)
    update_s = where_kept(plans, layout.host_update_s, layout.pool_update_s)
    once_s = {
        "data_parallel": _longest_exposed(plans, layout, stack),
        "optimiser": updated * where_on_host(plans, update_s, layout.update.hbm_s),
    }
    each, once = _work(plans, layout, updated)
    times = _with_pairs(plans, layout, stack, [turn.times for turn in turns])
    return Turns(times, each_s, once_s, each, once)


def _copies(plans: TrainingPlans, layout: Layout) -> list[Pass] | None:
    """Activations on their way to where they wait, by stage."""
    s_per_byte = where_kept(plans, layout.host_s_per_byte, layout.pool_s_per_byte)
    return activation_copies(plans, layout.memory.per_micro_batch, np.asarray(s_per_byte))


@dataclass(frozen=True)
class Turn:
    """Elapsed seconds of one micro-batch on one stage, what is beside the passes included."""

    times: PassTimes
    send_s: Floats
    sync_s: Floats
    offload_s: Floats


def _zero_masks(plans: TrainingPlans) -> tuple[Floats, Floats]:
    """Where weights are gathered, and gradients reduced, once per micro-batch (0 or 1).

    ZeRO-3 gathers for every forward and every backward, sharded gradients are reduced as they
    come (Rajbhandari et al. 2020, section 7).
    """
    return plans.is_weight_cut * 1.0, plans.is_gradient_cut * 1.0


def _gather(plans: TrainingPlans, sync: StageSync) -> Pass:
    """The gather of weights, if optimiser state is sharded at all."""
    return sync.gather.times((plans.zero_stage > 0) * 1.0)


def _reduce(plans: TrainingPlans, sync: StageSync) -> Pass:
    """The reduction of gradients: whole without ZeRO, scattered with it."""
    is_whole = (plans.zero_stage == 0) * 1.0
    return sync.reduce.times(is_whole) + sync.scatter.times(1.0 - is_whole)


def _turn(plans: TrainingPlans, layout: Layout, stack: Stack, i: int, copy: Pass) -> Turn:
    """One micro-batch on a stage: passes, what is gathered and reduced beside them, sends.

    `copy` moves activations to the host beside the forward and back beside the backward pass.

    Sends follow the passes one by one, except between chunks of an interleaved schedule, where
    they run beside them (Narayanan et al. 2021, section 4.1).
    """
    work, sync, send = layout.work[i], layout.sync[i], layout.send
    each_gather, each_reduce = _zero_masks(plans)
    gather, reduce = _gather(plans, sync).times(each_gather), _reduce(plans, sync)
    reduce = reduce.times(each_reduce)
    many, is_chunked = send.times(plans.virtual_stages * 1.0), plans.virtual_stages > 1
    elapsed, beside_s, offload_s = [], [], np.zeros(len(plans))
    for done, beside in ((work.forward, gather), (work.backward, gather + reduce)):
        with_sync = overlapped(done, beside, stack)
        chunked = np.maximum(with_sync, combine(done, beside, many))
        sent_s = np.where(is_chunked, chunked, with_sync + send.floor_s)
        copied_s = np.maximum(sent_s, copy.host_link_s)
        elapsed.append(copied_s)
        offload_s = offload_s + (copied_s - sent_s)
        beside_s.append(with_sync - done.floor_s)
    sync_s = beside_s[0] + beside_s[1]
    alone_s = work.forward.floor_s + work.backward.floor_s
    weight_s = work.backward.weight_s + np.zeros(len(plans))
    times = PassTimes(elapsed[0], elapsed[1], weight_s)
    send_s = times.turn_s - sync_s - alone_s - offload_s
    return Turn(times, send_s, sync_s, offload_s)


def _with_pairs(
    plans: TrainingPlans, layout: Layout, stack: Stack, times: Sequence[PassTimes]
) -> StageTimes:
    """Passes of the three stages, and their pairs where a schedule runs any."""
    if not plans.has_pairs:
        return StageTimes(*times)
    sends, pairs = layout.send.times(2.0 * plans.virtual_stages), []
    each_gather, each_reduce = _zero_masks(plans)
    for i, sync in enumerate(layout.sync):
        beside = sends + _gather(plans, sync).times(2.0 * each_gather)
        beside = beside + _reduce(plans, sync).times(each_reduce)
        same_s = _pair_s(layout.work[i], layout.work[i], beside, stack, (times[i], times[i]))
        mirror = (times[i], times[-1 - i])
        both_s = _pair_s(layout.work[i], layout.work[-1 - i], beside, stack, mirror)
        pairs.append(np.where(plans.stages_held > 1, both_s, same_s))
    return StageTimes(*(replace(t, pair_s=s) for t, s in zip(times, pairs, strict=True)))


def _pair_s(
    here: StageWork,
    there: StageWork,
    beside: Pass,
    stack: Stack,
    alone: tuple[PassTimes, PassTimes],
) -> Floats:
    """A forward pass on a stage beside a backward pass of another micro-batch, there.

    What experts exchange runs beside the work of the other pass, as do the sends to the next
    stages and what sharded weights and gradients take, in `beside`. Never shorter than either pass
    alone, nor longer than one after the other. Copies to the host and back go opposite ways on the
    link: each is waited for as in its own pass alone.

    References
    ----------
    DeepSeek-V3 report, section 3.2.1, figure 4.
    """
    moved = here.exchange + there.exchange
    done = (here.forward + there.backward).without(moved)
    both_s = overlapped(done, moved + beside, stack)
    forward_s, backward_s = alone[0].forward_s, alone[1].backward_s
    at_least_s = np.maximum(both_s, np.maximum(forward_s, backward_s))
    return np.minimum(at_least_s, forward_s + backward_s)


@dataclass(frozen=True)
class Exposed:
    """What one device synchronises once per step, and what of it nothing hides; (n,) each.

    Parameters
    ----------
    gather, reduce : of its weights beside the first forward pass, of its gradients beside the last
        backward pass; nothing where that is done for every micro-batch
    each_gather, each_reduce : where it is: beside each pass, and beside each backward pass
    forward_s, backward_s : passes of one micro-batch on the device, alone [s]
    gather_s, exposed_s : by which the gather outlasts the pass beside it; the same of both
    """

    gather: Pass
    reduce: Pass
    each_gather: Pass
    each_reduce: Pass
    forward_s: Column
    backward_s: Column
    gather_s: Floats
    exposed_s: Floats


def exposed_by_stage(plans: TrainingPlans, layout: Layout, stack: Stack) -> list[Exposed]:
    """Once-per-step synchronisation of the first, an inner and the last device."""
    moved = _copies(plans, layout)
    copies = moved or [Pass()] * len(STAGES)
    return [
        _exposed(plans, stack, _device_passes(plans, layout, i, copies), layout.sync[i], layers)
        for i, layers in enumerate(layout.stage_layer_counts.T)
    ]


def _longest_exposed(plans: TrainingPlans, layout: Layout, stack: Stack) -> Floats:
    """Once-per-step synchronisation of the device that waits longest for it."""
    exposed = [one.exposed_s for one in exposed_by_stage(plans, layout, stack)]
    return np.max(np.stack(exposed, axis=-1), axis=-1)


def _device_passes(
    plans: TrainingPlans, layout: Layout, i: int, copies: Sequence[Pass]
) -> tuple[Pass, Pass]:
    """Forward and backward of one micro-batch on a device: both its stages where it holds two.

    A pass that waits for its copies to the host leaves as much time for what runs beside it.
    """
    mirror = len(layout.work) - 1 - i
    here, there = layout.work[i], layout.work[mirror]
    sends = layout.send.times(plans.virtual_stages * (plans.virtual_stages > 1.0))
    passes = [_until(done, copies[i], sends) for done in (here.forward, here.backward)]
    if plans.has_folds:
        more = plans.stages_held - 1.0
        beyond = [_until(done, copies[mirror], sends) for done in (there.forward, there.backward)]
        passes = [own + other.times(more) for own, other in zip(passes, beyond, strict=True)]
    return passes[0], passes[1]


def _until(done: Pass, copy: Pass, sends: Pass) -> Pass:
    """A pass that ends no sooner than its copies do, nor than the sends that run beside it."""
    if isinstance(copy.host_link_s, float):
        return done
    return replace(done, floor_s=np.maximum(combine(done, sends), copy.host_link_s))


def _exposed(
    plans: TrainingPlans, stack: Stack, passes: tuple[Pass, Pass], sync: StageSync, layers: Floats
) -> Exposed:
    """Seconds by which once-per-step gathers and reductions outlast the passes beside them.

    Weights are gathered beside the first forward pass, gradients reduced beside the last
    backward pass; the last layer's bucket has nothing left to run beside.
    """
    each_gather, each_reduce = _zero_masks(plans)
    gathers, reduces = _gather(plans, sync), _reduce(plans, sync)
    gather, reduce = gathers.times(1.0 - each_gather), reduces.times(1.0 - each_reduce)
    forward, backward = passes
    gathered_s = overlapped(forward, gather, stack)
    out = gathered_s + overlapped(backward, reduce, stack)
    out = out - (combine(forward) + combine(backward))
    tail = (gather.floor_s + reduce.floor_s) / np.maximum(layers, 1.0)
    each = (gathers.times(each_gather), reduces.times(each_reduce))
    alone_s = (combine(forward), combine(backward))
    waited_s = (gathered_s - alone_s[0], np.maximum(out, tail))
    return Exposed(gather, reduce, *each, *alone_s, *waited_s)


def _updated_parameters(plans: TrainingPlans, layout: Layout) -> Floats:
    """Parameters whose optimiser state one device updates, on the most loaded stage; (n,)."""
    is_cut = plans.zero_stage >= 1
    dense = layout.parameters.dense / np.where(is_cut, layout.dense_ranks, 1)[:, None]
    expert = layout.parameters.expert / np.where(is_cut, layout.expert_ranks, 1)[:, None]
    return (dense + expert).max(axis=1)


def _work(plans: TrainingPlans, layout: Layout, updated: Floats) -> tuple[Pass, Pass]:
    """Work of a device per micro-batch and once per step, averaged over the stages."""
    sync = layout.mean_sync
    each_gather, each_reduce = _zero_masks(plans)
    gather, reduce = _gather(plans, sync), _reduce(plans, sync)
    each = layout.mean_work + gather.times(2.0 * each_gather) + reduce.times(each_reduce)
    on_device = np.where(plans.is_optimiser_on_host, 0.0, updated)
    once = layout.update.times(on_device) + gather.times(1.0 - each_gather)
    return each, once + reduce.times(1.0 - each_reduce)
