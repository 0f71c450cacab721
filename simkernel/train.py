"""One optimiser step in closed form: schedule, synchronisation, optimiser, bubble.

Every candidate's step is a ledger whose terms sum to the step exactly. Not known here: failures
(see reliability), watts (see power) and money.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from simkernel import plugins
from simkernel.candidates import TrainingPlans
from simkernel.columns import Codes, Column, Floats, distinct, taken
from simkernel.hardware import Chips
from simkernel.layout import LAYOUT_FREE, Layout, layout_of
from simkernel.ledger import Ledger
from simkernel.memory import Reserve, resident_ledger
from simkernel.models import Model
from simkernel.stack import Stack
from simkernel.turns import BATCH_FREE, HIDEABLE, Kept, Turns, kept_of, turns_of
from simkernel.workload import TrainingJob


@dataclass(frozen=True)
class Step:
    """One optimiser step of every candidate.

    Parameters
    ----------
    time : ledger "step_s"; its terms sum to the step
    resident : ledger "resident_bytes" on the fullest device
    fullest_stage : (n,) index in STAGES
    host_bytes : (n,) of host memory for one device
    compute_frac, memory_frac, network_frac : (n,) utilisation of dense peak, memory rate and
        wires, over the step and over all devices (for watts)
    inside_bytes, outside_bytes : (n,) sent per device and step, inside and outside the domain
    used_per_domain : (n,) devices of each scale-up domain that work
    timed_frac : (n,) of the time of products and collectives, what times of such ones speak for;
        1 where curves are all there is
    """

    time: Ledger
    resident: Ledger
    fullest_stage: Codes
    host_bytes: Floats
    compute_frac: Floats
    memory_frac: Floats
    network_frac: Floats
    inside_bytes: Floats
    outside_bytes: Floats
    used_per_domain: Codes
    timed_frac: Column = 1.0


@dataclass(frozen=True)
class Shared:
    """Turns and what is kept in memory, one row per plan."""

    turns: Turns
    kept: Kept


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
    What candidates share is priced once: layouts, then turns of a micro-batch, then the batch and
    the schedule. A candidate's numbers do not depend on what else is in the block.
    """
    job = job.ruled
    shared = _shared(job, model, chips, plans)
    turns, kept = shared.turns, shared.kept
    domains = plans.devices / kept.used_per_domain
    time = _step_ledger(plans, turns, domains, job.stack)
    ranks = (kept.dense_ranks, kept.expert_ranks)
    counts = kept.stage_layer_counts
    resident = resident_ledger(
        plans, kept.parameters, kept.memory, counts, ranks, reserve, job.keeping
    )
    total = turns.each.times(plans.micro_batches * 1.0) + turns.once
    step_s = np.asarray(time.total)
    wires_s = np.maximum(total.inside_s, total.outside_s)
    return Step(
        time=time,
        resident=resident.ledger,
        fullest_stage=resident.fullest,
        host_bytes=resident.host_bytes,
        compute_frac=np.minimum(total.peak_compute_s / step_s, 1.0),
        memory_frac=np.minimum(total.peak_hbm_s / step_s, 1.0),
        network_frac=np.minimum(wires_s / step_s, 1.0),
        inside_bytes=total.inside_bytes + 0.0 * step_s,
        outside_bytes=total.outside_bytes + 0.0 * step_s,
        used_per_domain=kept.used_per_domain,
        timed_frac=1.0
        if chips.timed is None
        else total.timed_s / (total.timed_s + total.guessed_s),
    )


def _shared(job: TrainingJob, model: Model, chips: Chips, plans: TrainingPlans) -> Shared:
    """What does not depend on the batch and the schedule, priced once and taken to every row."""
    first, inverse = _distinct(job, chips, plans, BATCH_FREE)
    few, own, on = plans.take(first), taken(job, first), taken(chips, first)
    layout = _layouts(own, model, on, few)
    shared: Shared = taken(Shared(turns_of(few, layout, own.stack), kept_of(layout)), inverse)
    return shared


def _layouts(job: TrainingJob, model: Model, chips: Chips, plans: TrainingPlans) -> Layout:
    """The layout of every plan, each distinct one priced once."""
    first, inverse = _distinct(job, chips, plans, LAYOUT_FREE)
    own = layout_of(taken(job, first), model, taken(chips, first), plans.take(first))
    layout: Layout = taken(own, inverse)
    return layout


def _distinct(
    job: TrainingJob, chips: Chips, plans: TrainingPlans, free: Collection[str]
) -> tuple[Codes, Codes]:
    """First row of every distinct plan but for some decisions, and which of them each row is."""
    names = [n for n in TrainingPlans.__dataclass_fields__ if n not in free]
    columns = [getattr(plans, name) for name in names if name != "oversubscription"]
    columns.append(plans.oversubscription.view(np.int64))
    if plans.has_pairs:
        columns.append(plans.stages_held * 4 + plans.stage_copies * 2 + plans.runs_pairs)
    columns = [c for c in columns if (c != c[0]).any()] or columns[:1]
    if len(chips) > 1 or job.stack.is_by_row:
        columns.append(np.arange(len(plans)))
    return distinct(columns)


def _step_ledger(plans: TrainingPlans, turns: Turns, domains: Floats, stack: Stack) -> Ledger:
    """The step by what it is spent on, on the slowest device."""
    count = plans.micro_batches * 1.0
    bubble_s, hidden_s = _waited_and_hidden_s(plans, turns)
    terms = {name: value * count for name, value in turns.each_s.items()}
    if plans.has_pairs:
        terms |= _less_hidden(terms, hidden_s)
    terms["bubble"] = bubble_s
    terms |= turns.once_s
    terms["stragglers"] = _slowest_frac(domains, stack) * sum(terms.values())
    return Ledger("step_s", "s", terms)


def _less_hidden(terms: Mapping[str, Floats], hidden_s: Column) -> dict[str, Floats]:
    """What is left of the traffic that runs beside other micro-batches, each in proportion."""
    moved = {name: terms[name] for name in HIDEABLE if name in terms}
    whole_s = sum(moved.values())
    left_frac = 1.0 - hidden_s / np.where(whole_s > 0.0, whole_s, 1.0)
    return {name: value * left_frac for name, value in moved.items()}


def _slowest_frac(domains: Floats, stack: Stack) -> Floats:
    """How much longer the slowest of all scale-up domains takes than one that is alone.

    Delays have long tails: the expected maximum of n exponential ones is their mean times
    1 + 1/2 + ... + 1/n, which grows as ln n (David, Nagaraja 2003, Order Statistics, 4.6).
    """
    return stack.straggler_frac * np.log(domains)


def _waited_and_hidden_s(plans: TrainingPlans, turns: Turns) -> tuple[Floats, Column]:
    """What the slowest device waits, and what its pairs save, by each candidate's schedule."""
    stages, chunks, count = plans.pipeline_parallel, plans.virtual_stages, plans.micro_batches
    bubble_s, hidden_s = np.zeros(len(plans)), np.zeros(len(plans))
    for schedule, is_this in plugins.present("schedules", plans.schedule_code):
        span = schedule.span(turns.times, stages, chunks, count)
        bubble_s = np.where(is_this, span.bubble_s, bubble_s)
        if schedule.TRAITS.runs_pairs:
            hidden_s = np.where(is_this, span.hidden_s, hidden_s)
    return bubble_s, hidden_s
