"""One plan's training step made ready to replay: passes of every stage, looked up, not made anew.

All times come from the tables that `turns` and `layout` made of passes for this one plan, with the
layers that each stage really has (the closed form takes the heaviest for every inner one), at two
loads of the busiest expert rank, between which a pass is taken as linear. What is replayed is one
pipeline out of `data_parallel` that do the same at the same time; where devices differ, pipelines
that keep step with each other by an exchange between experts are one class, and classes are
replayed one by one (see `draws`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from simkernel import plugins
from simkernel.candidates import TrainingPlans
from simkernel.columns import Codes, Floats
from simkernel.hardware import Chips
from simkernel.layout import Layout, layout_of
from simkernel.models import Model
from simkernel.passes import Pass
from simkernel.replay.program import Program, program_of
from simkernel.replay.walk import Paces
from simkernel.stage_times import PassTimes
from simkernel.stages import STAGES, every_stage, stage_layers
from simkernel.turns import Exposed, Turns, exposed_by_stage, turns_of
from simkernel.workload import TrainingJob

OTHER_LOAD = 1.1
"""Load of the busiest expert rank, over the job's, at which passes are looked up a second time."""


@dataclass(frozen=True)
class Pipeline:
    """One pipeline of a plan, with the times of its passes.

    Parameters
    ----------
    program : what its devices run
    layout, turns : one row for each mix of layers on an inner stage, the heaviest first
    exposed : of the first, an inner and the last device, as the closed form has them
    seconds : (stages, 5) of one chunk by model stage and kind of item
    swing_s : (stages, 5) of it, what grows with the load of the busiest expert rank
    stage_kind, stage_row : (stages,) index in STAGES, and the row of its layout
    device_kind : (devices,) the same of the device that serves a stage
    expert_layers : (stages,) layers with experts
    gather_s, reduce_s : (devices,) by which a device's gather outlasts its first pass, and its
        reduction the last one [s]
    optimiser_s : update of the weights, on the most loaded device [s]
    device_layers : (3,) layers of the first, an inner and the last device
    each_gather, each_reduce : of weights and gradients beside every pass, by kind of stage
    is_folded : a device serves a stage and its mirror
    runs_on : devices go on to their next step without waiting for the others
    """

    program: Program
    layout: Layout
    turns: Turns
    exposed: tuple[Exposed, ...]
    seconds: Floats
    swing_s: Floats
    stage_kind: Codes
    stage_row: Codes
    device_kind: Codes
    expert_layers: Floats
    gather_s: Floats
    reduce_s: Floats
    optimiser_s: float
    device_layers: Floats
    each_gather: tuple[Pass, ...]
    each_reduce: tuple[Pass, ...]
    is_folded: bool
    runs_on: bool

    @property
    def devices(self) -> int:
        """Devices along the pipeline."""
        return len(self.device_kind)

    @property
    def stages(self) -> int:
        """Stages the model is cut into, virtual ones apart."""
        return len(self.stage_kind)

    def paces(self, load: Floats | None = None, slower: Floats | None = None) -> Paces:
        """Times of a walk.

        Parameters
        ----------
        load : (stages, micro-batches) of the busiest expert rank over the job's, less one
        slower : (devices,) over one
        """
        return Paces(
            seconds=self.seconds,
            swing_s=self.swing_s,
            load_frac=np.zeros((1, 1)) if load is None else load,
            slower_frac=np.zeros(self.devices) if slower is None else slower,
            from_s=self.gather_s,
        )


def pipeline_of(job: TrainingJob, model: Model, chips: Chips, plans: TrainingPlans) -> Pipeline:
    """The pipeline of one plan.

    Parameters
    ----------
    job, model : one of each
    chips, plans : one row

    Raises
    ------
    BadStudy : the schedule cannot be run with so many micro-batches
    """
    job = job.ruled
    mixes = _mixes(job, model, plans)
    rows = plans.take(np.zeros(len(mixes.layers), dtype=np.int64))
    layout = layout_of(job, model, chips, rows, mixes.layers)
    turns = turns_of(rows, layout, job.stack)
    schedule = plugins.names("schedules")[int(plans.schedule_code[0])]
    program = program_of(
        schedule,
        int(plans.pipeline_parallel[0]),
        int(plans.virtual_stages[0]),
        int(plans.micro_batches[0]),
    )
    exposed = tuple(exposed_by_stage(rows, layout, job.stack))
    stage_kind, stage_row = _kinds(int(plans.model_stages[0])), mixes.stage_row
    device_kind = _kinds(program.devices)
    chunks = float(plans.virtual_stages[0])
    seconds = _seconds(turns)[stage_row, stage_kind] / chunks
    other = replace(job, expert_imbalance=job.expert_imbalance * OTHER_LOAD)
    busier = turns_of(rows, layout_of(other, model, chips, rows, mixes.layers), job.stack)
    gather_s = np.array([float(one.gather_s[0]) for one in exposed])
    both_s = np.array([float(one.exposed_s[0]) for one in exposed])
    return Pipeline(
        program=program,
        layout=layout,
        turns=turns,
        exposed=exposed,
        seconds=seconds,
        swing_s=(_seconds(busier)[stage_row, stage_kind] / chunks - seconds) / (OTHER_LOAD - 1.0),
        stage_kind=stage_kind,
        stage_row=stage_row,
        device_kind=device_kind,
        expert_layers=mixes.every @ [kind.mlp == "moe" for kind in model.kinds],
        gather_s=gather_s[device_kind],
        reduce_s=(both_s - gather_s)[device_kind],
        optimiser_s=float(turns.once_s["optimiser"][0]),
        device_layers=np.maximum(layout.stage_layer_counts[0], 1.0),
        each_gather=tuple(one.each_gather for one in exposed),
        each_reduce=tuple(one.each_reduce for one in exposed),
        is_folded=bool(plans.stages_held[0] > 1),
        runs_on=bool(plugins.find("schedules", schedule).TRAITS.steps_run_on),
    )


@dataclass(frozen=True)
class _Mixes:
    """Layers of every stage, and the distinct mixes that inner ones have.

    Parameters
    ----------
    every : (stages, kinds)
    layers : (n, 3, kinds) of the first, an inner and the last stage, the heaviest inner first
    stage_row : (stages,) which of these a stage is priced by
    """

    every: Floats
    layers: Floats
    stage_row: Codes


def _mixes(job: TrainingJob, model: Model, plans: TrainingPlans) -> _Mixes:
    stages, chunks = int(plans.model_stages[0]), int(plans.virtual_stages[0])
    even = job.stack.cuts_evenly
    ends = (int(plans.first_stage_layers[0]), int(plans.last_stage_layers[0]))
    every = every_stage(model, stages, chunks, job.has_draft_layers, even, ends)
    heaviest = stage_layers(
        model,
        plans.model_stages,
        plans.virtual_stages,
        has_drafts=job.has_draft_layers,
        is_even=even,
        given=plans.given_layers,
    )
    stage_row = np.zeros(stages, dtype=np.int64)
    found = [heaviest[0, 1]]
    for stage in range(1, stages - 1):
        same = [i for i, mix in enumerate(found) if (mix == every[stage]).all()]
        stage_row[stage] = same[0] if same else len(found)
        found += [] if same else [every[stage]]
    layers = np.repeat(heaviest, len(found), axis=0)
    layers[:, 1] = found
    return _Mixes(every, layers, stage_row)


def _kinds(count: int) -> Codes:
    """First, inner and last of so many; a single one is the first."""
    kinds = np.full(count, STAGES.index("inner"))
    kinds[-1], kinds[0] = STAGES.index("last"), STAGES.index("first")
    return kinds


def _seconds(turns: Turns) -> Floats:
    """Passes of a whole stage by kind of item, in the program's order of kinds; (n, 3, 5)."""
    times = turns.times
    rows = len(turns.each_s["pipeline_send"])
    return np.stack([_by_kind(one, rows) for one in (times.first, times.inner, times.last)], 1)


def _by_kind(one: PassTimes, rows: int) -> Floats:
    columns = (one.forward_s, one.backward_s, one.input_s, one.weight_s, one.pair_s)
    return np.stack([np.broadcast_to(column, (rows,)) for column in columns], axis=1)
