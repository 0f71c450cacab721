"""What all devices do in a step against the model's own work: however the layers are cut."""

import pytest

from costdata.catalog import load
from simkernel import plugins
from simkernel.candidates import plan_of
from simkernel.memory import Reserve
from simkernel.models import Core, LayerKind, Model, Weight, training_flop_per_token
from simkernel.train import training_step
from simkernel.workload import TrainingJob

HIDDEN, TOKENS, BATCH = 1024, 2048, 64
JOB = TrainingJob(1e9, TOKENS, 1e12)
SCHEDULES = plugins.names("schedules")
CORE = Core("softmax", 8, 8, HIDDEN // 8, HIDDEN // 8)


def layer(width):
    """A dense layer whose MLP is so wide."""
    weights = (
        Weight("qkv", HIDDEN, 3 * HIDDEN, "column"),
        Weight("o", HIDDEN, HIDDEN, "row"),
        Weight("gate_up", HIDDEN, 2 * width, "column"),
        Weight("down", width, HIDDEN, "row"),
    )
    return LayerKind(f"mlp{width}", weights, CORE, 2 * HIDDEN, "dense", width)


UNEVEN = Model(
    *("m", HIDDEN, 8192, False, TOKENS),
    *((layer(2048), layer(8192)), (0, 1, 1, 0, 1, 0, 0, 0, 1, 1, 0, 1, 1)),
)
"""Thirteen layers of two widths in no order: no two stages are alike."""


def work(pipeline, chunks):
    """Flop of one step on all devices."""
    plan = plan_of(
        devices=8,
        supernode_devices=8,
        pipeline_parallel=pipeline,
        virtual_stages=chunks,
        schedule_code=SCHEDULES.index("interleaved" if chunks > 1 else "one_forward_one_backward"),
        micro_batch_sequences=1,
        global_batch_sequences=BATCH,
        zero_stage=0,
    )
    chip = load().chips(["H100-SXM"])
    step = training_step(JOB, UNEVEN, chip, plan, Reserve(0.0, 0.0))
    return step.compute_frac[0] * step.time.total[0] * 8 * chip.peak_flop_per_s[0, 0]


@pytest.mark.parametrize(("pipeline", "chunks"), [(2, 1), (4, 1), (8, 1), (2, 2), (4, 3)])
def test_the_flop_of_a_step_are_the_same_however_its_layers_are_cut(pipeline, chunks):
    """Watts would be those of stages that are all as heavy as the heaviest."""
    assert work(pipeline, chunks) == pytest.approx(work(1, 1), rel=1e-12)


def test_the_flop_of_a_step_are_those_of_its_model():
    """6 N D and attention; the backward core of fused attention runs its scores again."""
    own = training_flop_per_token(UNEVEN, float(TOKENS)).total * TOKENS * BATCH
    assert own <= work(1, 1) <= 1.05 * own
