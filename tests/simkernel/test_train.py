"""Laws of the training step, whatever the numbers."""

from dataclasses import fields, replace

import numpy as np
import pytest
from conftest import chip, dense_model, moe_model
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from simkernel import plugins
from simkernel.candidates import TrainingPlans, plan_of
from simkernel.memory import Reserve
from simkernel.models import training_flop_per_token
from simkernel.placement import order_code
from simkernel.stack import Stack
from simkernel.train import training_step
from simkernel.workload import TrainingJob

JOB = TrainingJob(1e12, 4096, 65e6)
RESERVE = Reserve(3.5e9, 0.05)
DENSE, MOE = dense_model(), moe_model()
SCHEDULES = plugins.names("schedules")
BEST = len(plugins.names("collectives"))


@st.composite
def plans(draw, experts=False):
    """A plan whose degrees multiply to its devices."""
    tensor, pipeline = draw(st.sampled_from([1, 2, 4, 8])), draw(st.sampled_from([1, 2, 4, 8]))
    context, data = draw(st.sampled_from([1, 2])), draw(st.sampled_from([1, 2, 4, 16]))
    micro, batch = draw(st.sampled_from([1, 2, 4])), draw(st.sampled_from([8, 16, 64]))
    expert = draw(st.sampled_from([1, 2, 4, 8])) if experts else 1
    stage = tensor * context * data
    schedule = draw(st.sampled_from(SCHEDULES)) if pipeline > 1 else "one_forward_one_backward"
    return plan_of(
        devices=stage * pipeline,
        supernode_devices=draw(st.sampled_from([4, 8, 72])),
        tensor_parallel=tensor,
        pipeline_parallel=pipeline,
        context_parallel=context,
        expert_parallel=expert if stage % expert == 0 else 1,
        micro_batch_sequences=micro,
        global_batch_sequences=micro * batch * data,
        zero_stage=draw(st.integers(0, 3)),
        recompute_code=draw(st.integers(0, 2)),
        schedule_code=SCHEDULES.index(schedule),
        virtual_stages=2 if schedule == "interleaved" else 1,
        precision_code=draw(st.sampled_from([0, 2])),
        placement_code=order_code(draw(st.sampled_from(["tp-cp-dp-pp", "tp-cp-pp-dp"]))),
        collective_code=draw(st.integers(0, BEST)),
    )


def joined(items):
    """Several plans as one table."""
    columns = {
        f.name: np.concatenate([getattr(p, f.name) for p in items]) for f in fields(TrainingPlans)
    }
    return TrainingPlans(**columns)


def step_s(model, plan, changed=None):
    """Seconds of a step on one chip."""
    return training_step(JOB, model, changed or chip(), plan, RESERVE).time.total


quick = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@quick
@given(plan=plans(), expert=plans(experts=True))
def test_terms_are_never_negative_and_sum_to_the_step(plan, expert):
    """SimAI 90: every second of a step has a name, and no name takes seconds back."""
    for model, p in ((DENSE, plan), (MOE, expert)):
        step = training_step(JOB, model, chip(), p, RESERVE)
        for name, value in step.time.terms.items():
            assert value[0] >= -1e-12, name
        total = sum(v[0] for v in step.time.terms.values())
        assert step.time.total[0] == pytest.approx(total, rel=1e-9)
        assert np.isfinite(step.time.total[0])


@quick
@given(rows=st.lists(plans(experts=True), min_size=2, max_size=6))
def test_a_block_equals_its_rows_one_at_a_time_in_any_order(rows):
    """If false, a plan's time would depend on which other plans were looked at."""
    block = training_step(JOB, MOE, chip(), joined(rows), RESERVE)
    turned = training_step(JOB, MOE, chip(), joined(rows[::-1]), RESERVE)
    for i, row in enumerate(rows):
        alone = training_step(JOB, MOE, chip(), row, RESERVE)
        for ledger in ("time", "resident"):
            one = getattr(alone, ledger).total[0]
            assert getattr(block, ledger).total[i] == pytest.approx(one, rel=1e-12)
            assert getattr(turned, ledger).total[-1 - i] == pytest.approx(one, rel=1e-12)


@quick
@given(
    plan=plans(experts=True),
    name=st.sampled_from(
        ["hbm_bytes_per_s", "scaleup_bytes_per_s", "scaleout_bytes_per_s", "peak_flop_per_s"]
    ),
    factor=st.floats(1.0, 8.0),
)
def test_more_bandwidth_or_peak_is_never_slower(plan, name, factor):
    """If false, a better chip would be advised against for being better."""
    base = chip()
    better = replace(base, **{name: getattr(base, name) * factor})
    assert step_s(MOE, plan, better)[0] <= step_s(MOE, plan, base)[0] * (1 + 1e-12)


@quick
@given(plan=plans(experts=True))
def test_no_device_works_faster_than_its_peak_and_no_wire_carries_more_than_its_rate(plan):
    """open-instruct 1108: more than 100% of peak is an error of the model, not a result."""
    base = chip()
    step = training_step(JOB, MOE, base, plan, RESERVE)
    tokens = plan.global_batch_sequences * JOB.tokens_per_sequence
    flop = training_flop_per_token(MOE, 4096.0).total * tokens / plan.devices
    peak = base.peak_flop_per_s[0, plan.precision_code]
    assert flop[0] <= peak[0] * step.time.total[0]
    assert step.inside_bytes[0] <= base.scaleup_bytes_per_s[0] * step.time.total[0]
    assert step.outside_bytes[0] <= base.scaleout_bytes_per_s[0] * step.time.total[0]
    assert step.memory_frac[0] <= 1.0


@quick
@given(plan=plans())
def test_the_degrees_multiply_to_the_devices(plan):
    """aiconfigurator 1476: a degree left out of the product makes a plan look cheaper."""
    product = plan.tensor_parallel * plan.context_parallel * plan.pipeline_parallel
    assert (product * plan.data_parallel)[0] == plan.devices[0]
    assert plan.degrees.world[0] == plan.devices[0]


@pytest.mark.parametrize("expert", [8, 16, 32, 64])
def test_simai_298_expert_parallel_without_tensor_parallel_is_priced(expert):
    """TP = 1 with EP > 1 evaluates, and its traffic takes time."""
    plan = plan_of(
        devices=64, supernode_devices=8, expert_parallel=expert, global_batch_sequences=64
    )
    step = training_step(JOB, MOE, chip(), plan, RESERVE)
    assert step.time.terms["expert_parallel"][0] > 0
    degrees = plan.degrees
    assert (degrees.expert * degrees.expert_tensor * degrees.expert_data)[0] == 64


def test_astra_sim_207_no_link_is_a_dead_knob():
    """Halving a link's rate must slow the step that runs on it."""
    plan = plan_of(devices=64, supernode_devices=8, tensor_parallel=8, global_batch_sequences=64)
    base = chip()
    for name in ("scaleup_bytes_per_s", "scaleout_bytes_per_s", "hbm_bytes_per_s"):
        slow = replace(base, **{name: getattr(base, name) / 2})
        assert step_s(DENSE, plan, slow)[0] > step_s(DENSE, plan, base)[0] * 1.0001, name


def test_a_larger_domain_is_never_slower_when_groups_fit_it():
    """The supernode question: experts inside one domain leave the scale-out network."""
    plan = plan_of(devices=64, supernode_devices=8, expert_parallel=64, global_batch_sequences=64)
    wide = replace(plan, supernode_devices=np.array([64]))
    near, far = (training_step(JOB, MOE, chip(), p, RESERVE) for p in (wide, plan))
    assert near.time.total[0] < far.time.total[0]
    assert near.outside_bytes[0] < far.outside_bytes[0]


def test_a_step_is_never_shorter_than_the_launches_of_its_layers():
    """vTrain's eager stack: 3.6 ms a layer and micro-batch, however small the work."""
    job = replace(JOB, tokens_per_sequence=64, stack=Stack(dense_host_s=3.6e-3))
    plan = plan_of(devices=8, supernode_devices=8, global_batch_sequences=32)
    step = training_step(job, DENSE, chip(), plan, RESERVE)
    assert step.time.total[0] >= 4 * DENSE.layers * 3.6e-3
    assert step.time.terms["host"][0] > 0


def test_a_pipeline_gives_zero_3_no_memory_over_zero_1():
    """torchtitan keeps gathered weights in a pipeline: a plan that hopes otherwise runs out."""
    plan = plan_of(devices=64, supernode_devices=8, pipeline_parallel=8, global_batch_sequences=64)
    kept = [
        training_step(JOB, DENSE, chip(), replace(plan, zero_stage=np.array([z])), RESERVE)
        for z in (1, 3)
    ]
    assert kept[0].resident.total[0] == kept[1].resident.total[0]
    assert kept[0].time.total[0] == pytest.approx(kept[1].time.total[0], rel=1e-12)


@pytest.mark.parametrize("pipeline", [1, 2, 4, 8, 16, 32, 64])
def test_simai_270_every_pipeline_depth_is_priced(pipeline):
    """A simulator that hangs at PP > 2 would leave these out; time must stay finite and named."""
    deep = dense_model(layers=64)
    plan = plan_of(
        devices=64, supernode_devices=8, pipeline_parallel=pipeline, global_batch_sequences=256
    )
    step = training_step(JOB, deep, chip(), plan, RESERVE)
    assert np.isfinite(step.time.total[0])
    assert (step.time.terms["bubble"][0] > 0) == (pipeline > 1)


def test_simai_239_a_message_below_every_table_takes_a_positive_time():
    """64 KiB: latency and bandwidth, never a -1 that is taken for seconds."""
    job = replace(JOB, tokens_per_sequence=8)
    plan = plan_of(devices=16, supernode_devices=8, tensor_parallel=8, global_batch_sequences=2)
    step = training_step(job, DENSE, chip(), plan, RESERVE)
    assert step.time.terms["tensor_parallel"][0] > 0
    assert all(np.all(np.isfinite(v)) for v in step.time.terms.values())
