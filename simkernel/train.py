"""One optimiser step in closed form: schedule, synchronisation, optimiser, bubble.

Every candidate's step is a ledger whose terms sum to the step exactly. Not known here: failures
(see reliability), watts (see power) and money.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simkernel import plugins
from simkernel.candidates import TrainingPlans
from simkernel.columns import Codes, Floats, distinct, taken
from simkernel.hardware import Chips
from simkernel.layout import LAYOUT_FREE, Layout, StageSync, StageWork, layout_of
from simkernel.ledger import Ledger
from simkernel.memory import Reserve, resident_ledger
from simkernel.models import Model
from simkernel.passes import Pass, combine, overlapped
from simkernel.stack import Stack
from simkernel.stages import STAGES
from simkernel.workload import TrainingJob


@dataclass(frozen=True)
class Step:
    """One optimiser step of every candidate.

    Parameters
    ----------
    time : ledger "step_s"; its terms sum to the step
    resident : ledger "resident_bytes" on the fullest device
    fullest_stage : (n,) index in STAGES
    compute_frac, memory_frac, network_frac : (n,) utilisation of dense peak, memory rate and
        wires, over the step and over all devices (for watts)
    inside_bytes, outside_bytes : (n,) sent per device and step, inside and outside the domain
    used_per_domain : (n,) devices of each scale-up domain that work
    """

    time: Ledger
    resident: Ledger
    fullest_stage: Codes
    compute_frac: Floats
    memory_frac: Floats
    network_frac: Floats
    inside_bytes: Floats
    outside_bytes: Floats
    used_per_domain: Codes


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

    Notes
    -----
    Layouts that several candidates share are priced once; a candidate's numbers do not depend on
    what else is in the block.
    """
    layout = _layouts(job, model, chips, plans)
    turns = [_turn(plans, layout, job.stack, i) for i in range(len(STAGES))]
    time = _step_ledger(plans, layout, job.stack, turns)
    ranks = (layout.dense_ranks, layout.expert_ranks)
    resident, fullest = resident_ledger(
        plans, layout.parameters, layout.memory, layout.stage_layer_counts, ranks, reserve
    )
    total, step_s = _all_work(plans, layout), np.asarray(time.total)
    wires_s = np.maximum(total.inside_s, total.outside_s)
    return Step(
        time=time,
        resident=resident,
        fullest_stage=fullest,
        compute_frac=np.minimum(total.peak_compute_s / step_s, 1.0),
        memory_frac=np.minimum(total.peak_hbm_s / step_s, 1.0),
        network_frac=np.minimum(wires_s / step_s, 1.0),
        inside_bytes=total.inside_bytes + 0.0 * step_s,
        outside_bytes=total.outside_bytes + 0.0 * step_s,
        used_per_domain=layout.used_per_domain,
    )


def _layouts(job: TrainingJob, model: Model, chips: Chips, plans: TrainingPlans) -> Layout:
    """The layout of every candidate, each distinct one priced once."""
    names = [n for n in TrainingPlans.__dataclass_fields__ if n not in LAYOUT_FREE]
    columns = [getattr(plans, name) for name in names if name != "oversubscription"]
    columns.append(plans.oversubscription.view(np.int64))
    if len(chips) > 1 or job.stack.is_by_row:
        columns.append(np.arange(len(plans)))
    first, inverse = distinct(columns)
    own = layout_of(taken(job, first), model, taken(chips, first), plans.take(first))
    layout: Layout = taken(own, inverse)
    return layout


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


def _turn(plans: TrainingPlans, layout: Layout, stack: Stack, i: int) -> Turn:
    """One micro-batch on a stage: passes, what is gathered and reduced beside them, sends.

    Sends follow the passes one by one, except between chunks of an interleaved schedule, where
    they run beside them (Narayanan et al. 2021, section 4.1).
    """
    work, sync, send = layout.work[i], layout.sync[i], layout.send
    each_gather, each_reduce = _zero_masks(plans)
    gather, reduce = _gather(plans, sync).times(each_gather), _reduce(plans, sync)
    reduce = reduce.times(each_reduce)
    many, is_chunked = send.times(plans.virtual_stages * 1.0), plans.virtual_stages > 1
    elapsed, beside_s = [], []
    for done, beside in ((work.forward, gather), (work.backward, gather + reduce)):
        with_sync = overlapped(done, beside, stack)
        chunked = np.maximum(with_sync, combine(done, beside, many))
        elapsed.append(np.where(is_chunked, chunked, with_sync + send.floor_s))
        beside_s.append(with_sync - done.floor_s)
    sync_s = beside_s[0] + beside_s[1]
    alone_s = work.forward.floor_s + work.backward.floor_s
    return Turn(elapsed[0], elapsed[1], elapsed[0] + elapsed[1] - sync_s - alone_s, sync_s)


def _exposed(
    plans: TrainingPlans, stack: Stack, work: StageWork, sync: StageSync, layers: Floats
) -> Floats:
    """Seconds by which once-per-step gathers and reductions outlast the passes beside them.

    Weights are gathered beside the first forward pass, gradients reduced beside the last
    backward pass; the last layer's bucket has nothing left to run beside.
    """
    each_gather, each_reduce = _zero_masks(plans)
    gather = _gather(plans, sync).times(1.0 - each_gather)
    reduce = _reduce(plans, sync).times(1.0 - each_reduce)
    alone_s = work.forward.floor_s + work.backward.floor_s
    out = overlapped(work.forward, gather, stack) + overlapped(work.backward, reduce, stack)
    out = out - alone_s
    tail = (gather.floor_s + reduce.floor_s) / np.maximum(layers, 1.0)
    return np.maximum(out, tail)


def _step_ledger(plans: TrainingPlans, layout: Layout, stack: Stack, turns: list[Turn]) -> Ledger:
    """The step by what it is spent on, on the slowest stage."""
    totals = np.stack([turn.total_s for turn in turns], axis=-1)
    totals[:, 1] *= plans.pipeline_parallel > 2
    slowest, rows = np.argmax(totals, axis=1), np.arange(len(plans))
    count = plans.micro_batches * 1.0

    def on_slowest(values: list[Floats]) -> Floats:
        return np.stack([v + 0.0 * count for v in values], axis=-1)[rows, slowest]

    terms = {
        name: on_slowest([work.terms[name] for work in layout.work]) * count
        for name in layout.work[0].terms
    }
    terms["pipeline_send"] = on_slowest([turn.send_s for turn in turns]) * count
    terms["data_parallel_per_micro_batch"] = on_slowest([turn.sync_s for turn in turns]) * count
    terms["bubble"] = _bubble_s(plans, turns)
    exposed = [
        _exposed(plans, stack, layout.work[i], layout.sync[i], layout.stage_layer_counts[:, i])
        for i in range(len(STAGES))
    ]
    terms["data_parallel"] = np.max(np.stack(exposed, axis=-1), axis=-1)
    terms["optimiser"] = _updated_parameters(plans, layout) * layout.update.hbm_s
    terms["stragglers"] = _slowest_frac(plans, stack) * sum(terms.values())
    return Ledger("step_s", "s", terms)


def _slowest_frac(plans: TrainingPlans, stack: Stack) -> Floats:
    """How much longer the slowest of all devices takes than the mean one.

    Expected maximum of n normal deviates, sigma sqrt(2 ln n) to first order (Cramer 1946,
    Mathematical Methods of Statistics, 28.6).
    """
    return stack.straggler_frac * np.sqrt(2.0 * np.log(plans.devices))


def _bubble_s(plans: TrainingPlans, turns: list[Turn]) -> Floats:
    """What the slowest stage waits, by the file of each candidate's schedule."""
    times = [turn.total_s for turn in turns]
    stages, chunks, count = plans.pipeline_parallel, plans.virtual_stages, plans.micro_batches
    bubble = np.zeros(len(plans))
    for code, name in enumerate(plugins.names("schedules")):
        _, this = plugins.find("schedules", name).span(*times, stages, chunks, count)
        bubble = np.where(plans.schedule_code == code, this, bubble)
    return bubble


def _updated_parameters(plans: TrainingPlans, layout: Layout) -> Floats:
    """Parameters whose optimiser state one device updates, on the most loaded stage; (n,)."""
    is_cut = plans.zero_stage >= 1
    dense = layout.parameters.dense / np.where(is_cut, layout.dense_ranks, 1)[:, None]
    expert = layout.parameters.expert / np.where(is_cut, layout.expert_ranks, 1)[:, None]
    return (dense + expert).max(axis=1)


def _all_work(plans: TrainingPlans, layout: Layout) -> Pass:
    """Everything a device does in a step, averaged over the stages."""
    count, sync = plans.micro_batches * 1.0, layout.mean_sync
    each_gather, each_reduce = _zero_masks(plans)
    gathers = np.where(each_gather > 0, 2.0 * count, 1.0)
    reduces = np.where(each_reduce > 0, count, 1.0)
    total = layout.mean_work.times(count)
    total = total + layout.update.times(_updated_parameters(plans, layout))
    return total + _gather(plans, sync).times(gathers) + _reduce(plans, sync).times(reduces)
