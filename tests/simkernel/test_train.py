"""Laws of the training step, whatever the numbers."""

from dataclasses import fields, replace

import numpy as np
import pytest
from conftest import chip, dense_model, moe_model
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from simkernel import plugins
from simkernel.candidates import PLAIN_SCHEDULE, RECOMPUTE, TrainingPlans, plan_of
from simkernel.keeping import Keeping
from simkernel.memory import Reserve
from simkernel.models import training_flop_per_token
from simkernel.placement import order_code
from simkernel.share import power_law_imbalance
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
    schedule = draw(st.sampled_from(SCHEDULES))
    if pipeline == 1 or not plugins.find("schedules", schedule).fills(pipeline, batch):
        schedule = PLAIN_SCHEDULE
    return plan_of(
        devices=stage * pipeline,
        supernode_devices=draw(st.sampled_from([4, 8, 72])),
        tensor_parallel=tensor,
        pipeline_parallel=pipeline,
        context_parallel=context,
        expert_parallel=expert if stage % expert == 0 else 1,
        micro_batch_sequences=micro,
        global_batch_sequences=micro * batch * data,
        context_exchange_code=draw(st.integers(0, 1)),
        zero_stage=draw(st.integers(0, 3)),
        recompute_code=draw(st.integers(0, 2)),
        schedule_code=SCHEDULES.index(schedule),
        virtual_stages=2 if plugins.find("schedules", schedule).TRAITS.is_chunked else 1,
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


quick = settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.long
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


@pytest.mark.long
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


@pytest.mark.long
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


@pytest.mark.long
@quick
@given(
    plan=plans(experts=True),
    offload=st.integers(1, 3),
    name=st.sampled_from(["hbm_bytes_per_s", "peak_flop_per_s", "host_link_bytes_per_s"]),
    factor=st.floats(1.0, 8.0),
)
def test_more_bandwidth_is_never_slower_where_activations_wait_in_the_host(
    plan, offload, name, factor
):
    """A pass that waits for its copies would lend its waiting to nobody. To 0.1%: the wait for the
    first send of a turn is not lent to gradients.
    """
    schedule = plugins.find("schedules", SCHEDULES[plan.schedule_code[0]])
    assume(not schedule.TRAITS.puts_off_weights)
    plan, base = replace(plan, offload_code=np.array([offload])), chip()
    job = replace(JOB, stack=Stack(contention_frac=0.13, overlaps_tensor=True))
    better = replace(base, **{name: getattr(base, name) * factor})
    before, after = (training_step(job, MOE, c, plan, RESERVE).time.total for c in (base, better))
    assert after[0] <= before[0] * (1 + 1e-3)


@pytest.mark.long
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


def test_what_is_recomputed_whole_is_launched_again():
    """vTrain's 3.0 ms a layer hold its forward launches twice; its head is launched once."""
    job = replace(JOB, stack=Stack(dense_host_s=100.0))
    plan = plan_of(devices=8, supernode_devices=8, global_batch_sequences=8)
    again = replace(plan, recompute_code=np.array([RECOMPUTE.index("full")]))
    once_s, twice_s = (
        training_step(job, DENSE, chip(), p, RESERVE).time.terms["host"][0] for p in (plan, again)
    )
    layers = DENSE.layers
    assert twice_s == pytest.approx(once_s * (layers * 4 / 3 + 1) / (layers + 1), rel=0.001)


def test_hosts_of_tensor_ranks_keep_one_another_waiting():
    """vTrain's launch-bound layers take longer on eight ranks than on one: 28 pairs of hosts."""
    job = replace(JOB, stack=Stack(dense_host_s=100.0, tensor_host_frac=0.01))
    each = {"devices": 8, "supernode_devices": 8}
    one = plan_of(**each, global_batch_sequences=8)
    eight = plan_of(**each, tensor_parallel=8, global_batch_sequences=1)
    alone_s, waiting_s = (
        training_step(job, DENSE, chip(), p, RESERVE).time.terms["host"][0] for p in (one, eight)
    )
    layers = DENSE.layers
    assert waiting_s == pytest.approx(alone_s * (layers * 1.28 + 1) / (layers + 1), rel=0.001)


def test_work_of_the_length_of_its_launches_waits_as_well():
    """Small kernels wait for the host while large ones do not: both together take 2^(1/3)."""
    job = replace(JOB, stack=Stack())
    plan = plan_of(devices=8, supernode_devices=8, global_batch_sequences=8)
    alone = training_step(job, DENSE, chip(), plan, RESERVE).time
    bound = replace(job, stack=Stack(dense_host_s=1e-9))
    free_s = training_step(bound, DENSE, chip(), plan, RESERVE).time.total[0]
    assert free_s == pytest.approx(alone.total[0], rel=1e-9)
    slow = replace(job, stack=Stack(dense_host_s=10.0))
    step = training_step(slow, DENSE, chip(), plan, RESERVE).time
    assert step.total[0] == pytest.approx(10.0 * (DENSE.layers + 1), rel=0.01)


@pytest.mark.parametrize("changes", [{"expert_imbalance": 1.5}, {"expert_skew": 0.3}])
def test_uneven_experts_take_longer_and_more_memory(changes):
    """A router that is taken as even promises steps that no run has."""
    plan = plan_of(devices=64, supernode_devices=8, expert_parallel=8, global_batch_sequences=64)
    even, uneven = (
        training_step(job, MOE, chip(), plan, RESERVE) for job in (JOB, replace(JOB, **changes))
    )
    for name in ("gemm", "expert_parallel"):
        assert uneven.time.terms[name][0] > even.time.terms[name][0] * 1.1
    assert uneven.resident.total[0] > even.resident.total[0]
    alone = replace(plan, expert_parallel=np.array([1]))
    on_one = [
        training_step(j, MOE, chip(), alone, RESERVE) for j in (JOB, replace(JOB, **changes))
    ]
    assert on_one[0].time.total[0] == on_one[1].time.total[0]


def test_a_power_law_of_loads_is_felt_less_where_a_rank_holds_many_experts():
    """64 experts at exponent 0.5: the first has 4.27 times the mean, its rank of 8 only 1.41."""
    loads = np.arange(1, 65) ** -0.5
    found = power_law_imbalance(64, np.array([1, 8, 64]), 0.5)
    rest = (loads.sum() - 1.0) / 63 * 7
    assert found == pytest.approx([1.0, (1.0 + rest) / (8 * loads.mean()), 1 / loads.mean()])
    assert power_law_imbalance(64, np.array([8]), 0.0) == 1.0


def test_only_a_schedule_hides_the_exchange_whatever_the_stack_does():
    """An exchange hidden by the stack, and again by the schedule, would take no time at all."""
    one = plan_of(devices=64, supernode_devices=8, expert_parallel=8, global_batch_sequences=512)
    paired = replace(one, schedule_code=np.array([SCHEDULES.index("combined_1f1b")]))

    def time(plan, **stack):
        job = replace(JOB, stack=Stack(contention_frac=0.1, **stack))
        return training_step(job, MOE, chip(), plan, RESERVE).time.terms["expert_parallel"][0]

    whole_s = time(one)
    assert time(one, is_one_graph=True) == whole_s
    # Of eight micro-batches the first forward and the last backward pass have nothing beside them.
    wanted = (1 + 7 * 0.1) / 8 * whole_s
    for is_one_graph in (False, True):
        assert time(paired, is_one_graph=is_one_graph) == pytest.approx(wanted, rel=1e-9)
    alone = replace(paired, global_batch_sequences=np.array([64]))
    assert time(alone) == pytest.approx(whole_s / 8, rel=1e-9)


def test_without_a_pipeline_pairs_keep_a_layer_more_and_gather_for_both_passes():
    """A forward and a backward pass at once would be shown in the memory of one."""
    one = plan_of(
        devices=64,
        supernode_devices=8,
        expert_parallel=8,
        global_batch_sequences=512,
        zero_stage=3,
    )
    paired = replace(one, schedule_code=np.array([SCHEDULES.index("combined_1f1b")]))
    plain, both = (training_step(JOB, MOE, chip(), p, RESERVE) for p in (one, paired))
    for name, factor in (("activations", 1 + 1 / MOE.layers), ("gathered_weights", 2.0)):
        ratio = both.resident.terms[name][0] / plain.resident.terms[name][0]
        assert ratio == pytest.approx(factor, rel=1e-12), name
    assert both.outside_bytes[0] == plain.outside_bytes[0]
    wires_s = both.outside_bytes[0] / chip().scaleout_bytes_per_s[0]
    assert both.time.total[0] >= wires_s


def test_attention_takes_8_bits_only_in_a_graph_of_narrow_products():
    """Recipes of one graph take 8 bits in attention too, but not in bf16 or without experts."""
    graph = replace(JOB, stack=Stack(is_one_graph=True, narrow_attention_frac=1.25))
    plan = plan_of(devices=8, supernode_devices=8, global_batch_sequences=8, precision_code=2)

    def attention_s(job, plan, model=MOE):
        return training_step(job, model, chip(), plan, RESERVE).time.terms["attention"][0]

    assert attention_s(graph, plan) == pytest.approx(attention_s(JOB, plan) / 1.25, rel=0.02)
    wide = replace(plan, precision_code=np.array([0]))
    assert attention_s(graph, wide) == attention_s(JOB, wide)
    assert attention_s(graph, plan, DENSE) == attention_s(JOB, plan, DENSE)


def test_a_token_that_goes_once_to_a_device_sends_less_where_experts_are_few_devices():
    """8 of 64 experts on 8 devices hit 5.4 of them on average: a third of the copies stay home."""
    plan = plan_of(devices=8, supernode_devices=8, expert_parallel=8, global_batch_sequences=8)
    copies, once = (
        training_step(replace(JOB, stack=Stack(sends_once=s)), MOE, chip(), plan, RESERVE)
        for s in (False, True)
    )
    missed = np.prod([(56.0 - i) / (64.0 - i) for i in range(8)])
    ratio = once.time.terms["expert_parallel"][0] / copies.time.terms["expert_parallel"][0]
    assert ratio == pytest.approx(1.0 - missed, rel=0.02)


def test_gradients_in_16_bits_move_half_the_bytes():
    """The vendor's recipes reduce in bf16: their synchronisation would be twice too long."""
    plan = plan_of(devices=16, supernode_devices=8, global_batch_sequences=16, zero_stage=0)
    wide, short = (
        training_step(
            replace(JOB, keeping=Keeping(gradient_bytes=b)), DENSE, chip(), plan, RESERVE
        )
        for b in (4.0, 2.0)
    )
    assert short.outside_bytes[0] == pytest.approx(wide.outside_bytes[0] / 2)


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


def test_a_draft_layer_is_a_layer_in_time_and_memory_and_has_a_head_of_its_own():
    """DeepSeek-V3 trains one: its exchange and its activations would be nobody's."""
    plan = plan_of(devices=8, supernode_devices=8, expert_parallel=8, global_batch_sequences=64)
    drafted = replace(MOE, draft_codes=(0,))
    without, trained = (
        training_step(replace(JOB, has_draft_layers=has), drafted, chip(), plan, RESERVE)
        for has in (False, True)
    )
    layers = (MOE.layers + 1) / MOE.layers
    for ledger, term, factor in (
        ("time", "expert_parallel", layers),
        ("time", "embedding_and_head", 2.0),
        ("resident", "activations", layers),
        ("resident", "logits", 2.0),
    ):
        one, other = (getattr(step, ledger).terms[term][0] for step in (without, trained))
        assert other / one == pytest.approx(factor, rel=0.02), term


def piped(schedule, **changes):
    """Experts over eight domains of eight, a pipeline of eight, 64 micro-batches."""
    decisions = {
        "devices": 512,
        "supernode_devices": 8,
        "pipeline_parallel": 8,
        "expert_parallel": 64,
        "global_batch_sequences": 64 * 64,
        "schedule_code": SCHEDULES.index(schedule),
        "virtual_stages": 2 if plugins.find("schedules", schedule).TRAITS.is_chunked else 1,
    }
    return plan_of(**{**decisions, **changes})


DEEP = replace(MOE, layer_codes=(0,) * 32)


PAIRED = [name for name in SCHEDULES if plugins.find("schedules", name).TRAITS.runs_pairs]


@pytest.mark.parametrize("schedule", PAIRED)
def test_pairs_hide_the_exchange_of_experts_and_what_they_hide_costs_processors(schedule):
    """DeepSeek-V3 was 31% too slow: its exchange runs beside another micro-batch's products."""
    fast = chip(scaleout_bytes_per_s=np.array([400e9]))

    def priced(name, **changes):
        return training_step(
            replace(JOB, stack=Stack(**changes)), DEEP, fast, piped(name), RESERVE
        )

    plain, dual = priced(PLAIN_SCHEDULE).time, priced(schedule).time
    exchange_s = [time.terms["expert_parallel"][0] for time in (plain, dual)]
    assert 0.0 < exchange_s[1] < 0.5 * exchange_s[0]
    assert dual.total[0] < plain.total[0]
    contended = priced(schedule, contention_frac=0.2).time
    assert contended.terms["expert_parallel"][0] > exchange_s[1]
    alone = priced(schedule, overlaps_data=False).time
    assert alone.terms["expert_parallel"][0] > 0.9 * exchange_s[0]


@pytest.mark.parametrize("factor", [1.0, 1e-2])
def test_a_pair_is_no_shorter_than_the_work_or_the_wires_of_both(factor):
    """An overlap that is typed, not derived, would hide what no wire could carry in the time."""
    slow = chip(scaleout_bytes_per_s=np.array([50e9 * factor]))
    step = training_step(JOB, DEEP, slow, piped("dual_pipe"), RESERVE)
    assert step.network_frac[0] <= 1.0
    assert step.outside_bytes[0] <= slow.scaleout_bytes_per_s[0] * step.time.total[0]
    computed = sum(step.time.terms[name][0] for name in ("gemm", "elementwise", "attention"))
    assert step.time.total[0] >= computed


def test_a_dual_pipe_holds_weights_twice_and_a_v_once():
    """A plan that holds two stages on a device would be shown to fit where it does not."""
    plain, dual, v = (
        training_step(JOB, DEEP, chip(), piped(name), RESERVE).resident.terms
        for name in ("one_forward_one_backward", "dual_pipe", "dual_pipe_v")
    )
    for name in ("weights", "gradients"):
        assert dual[name][0] == pytest.approx(2.0 * plain[name][0], rel=0.3), name
        assert v[name][0] < 1.3 * plain[name][0], name
    assert dual["optimiser"][0] == pytest.approx(plain["optimiser"][0], rel=0.3)


@pytest.mark.parametrize("layers", [29, 30, 31, 33])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_layers_that_do_not_divide_are_all_run_by_every_schedule(schedule, layers):
    """A layer lost in an uneven cut would make the step shorter than its work."""
    uneven = replace(MOE, layer_codes=(0,) * layers)
    plan = piped(schedule)
    job = replace(JOB, has_draft_layers=True)
    step = training_step(job, replace(uneven, draft_codes=(0,)), chip(), plan, RESERVE)
    total = step.compute_frac[0] * step.time.total[0]
    one = training_step(
        job,
        replace(uneven, draft_codes=(0,)),
        chip(),
        piped(PLAIN_SCHEDULE, pipeline_parallel=1, global_batch_sequences=512 * 8),
        RESERVE,
    )
    assert total == pytest.approx(one.compute_frac[0] * one.time.total[0], rel=1e-9)
