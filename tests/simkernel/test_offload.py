"""State in host memory: what leaves the device arrives there, and copies take their time."""

from dataclasses import replace

import numpy as np
import pytest
from conftest import chip, dense_model

from simkernel import plugins
from simkernel.candidates import OFFLOAD, plan_of
from simkernel.keeping import PLAIN
from simkernel.memory import Reserve
from simkernel.train import training_step
from simkernel.workload import TrainingJob

JOB = TrainingJob(1e12, 8192, 65e6)
RESERVE = Reserve(0.0, 0.0)


def step(offload, link_bytes_per_s=64e9, memory_bytes_per_s=75e9, layers=8, **decisions):
    """One step of one micro-batch of a model of 8 layers, or so many, on 8 devices."""
    there = chip(
        host_link_bytes_per_s=np.array([link_bytes_per_s]),
        host_memory_bytes_per_s=np.array([memory_bytes_per_s]),
    )
    size = {"devices": 8, "supernode_devices": 8, "global_batch_sequences": 8}
    plan = plan_of(**{**size, **decisions}, offload_code=OFFLOAD.index(offload))
    return training_step(JOB, dense_model(layers=layers), there, plan, RESERVE)


def moved(offload, term, **decisions):
    """Bytes of a term that left the device."""
    before, after = (step(o, **decisions).resident.terms[term][0] for o in ("none", offload))
    return before - after


def test_the_optimiser_state_is_in_the_host_to_the_byte_and_not_on_the_device():
    """A plan would fit on its device with bytes that are nowhere, or are booked twice."""
    there = step("optimizer")
    assert there.resident.terms["optimiser"][0] == 0
    state = moved("optimizer", "optimiser")
    gradients = state * 4.0 / 12.0  # fp32 of each beside master, momentum, variance
    assert there.host_bytes[0] == pytest.approx(state + gradients, rel=1e-12)
    assert step("none").host_bytes[0] == 0


def test_half_of_the_layers_leave_half_of_what_all_leave():
    """Two layers are always on the device: one in work, one on its way."""
    layers = 8
    whole = step("none").resident.terms["activations"][0]
    assert moved("activations", "activations") == pytest.approx(
        whole * (1 - 2 / layers), rel=1e-12
    )
    assert moved("half_activations", "activations") == pytest.approx(
        whole * (1 - 2 / layers) / 2, rel=1e-12
    )
    assert step("activations").host_bytes[0] == pytest.approx(whole, rel=1e-12)


def test_activations_in_flight_of_a_pipeline_wait_in_the_host_as_well():
    """A stage of a filled pipeline keeps four micro-batches: the host has to hold them all."""
    filled = {"pipeline_parallel": 4, "schedule_code": plugins.code("schedules", "gpipe")}
    kept = step("none", **filled).resident.terms["activations"][0]
    assert step("activations", **filled).host_bytes[0] == pytest.approx(kept, rel=1e-12)


PAIRED = {
    "pipeline_parallel": 4,
    "virtual_stages": 2,
    "schedule_code": plugins.code("schedules", "combined_1f1b"),
    "global_batch_sequences": 32,
}


def test_passes_beside_each_other_have_twice_as_many_layers_in_work():
    """A forward and a backward pass at once would share the buffers of one of them."""
    layers = 40  # five on a chunk, ten on a stage
    codes = [plugins.code("schedules", name) for name in ("interleaved", "combined_1f1b")]
    plans = [{**PAIRED, "schedule_code": code} for code in codes]
    one, both = (step("activations", layers=layers, **plan).resident.terms for plan in plans)
    assert both["activations"][0] == pytest.approx(2 * one["activations"][0], rel=1e-12)


@pytest.mark.parametrize("link_bytes_per_s", [1e15, 64e9, 4e9, 1e9])
def test_pairs_hide_copies_no_further_than_the_link_allows(link_bytes_per_s):
    """A term below nothing, or a step shorter than its copies, would be bought."""
    plain, moved_there = step("none", **PAIRED), step("activations", link_bytes_per_s, **PAIRED)
    assert all(value[0] >= 0 for value in moved_there.time.terms.values())
    assert moved_there.time.total[0] >= plain.time.total[0] * (1 - 1e-12)
    copied_s = moved_there.host_bytes[0] / link_bytes_per_s
    assert moved_there.time.total[0] >= copied_s


def test_copies_beside_a_pass_cost_only_what_outlasts_it():
    """Out beside forward, back beside backward: a link of seconds shows, a fast one does not."""
    plain, fast, slow = step("none"), step("activations", 1e15), step("activations", 1e9)
    assert fast.time.total[0] == pytest.approx(plain.time.total[0], rel=1e-12)
    assert fast.time.terms["offload"][0] == 0
    kept = plain.resident.terms["activations"][0]
    assert slow.time.terms["offload"][0] > 0
    copies_s = 2 * kept / 1e9
    once = ("data_parallel", "optimiser", "stragglers", "bubble")
    busy_s = sum(v[0] for name, v in slow.time.terms.items() if name not in once)
    assert busy_s == pytest.approx(copies_s, rel=1e-12)


def test_a_host_updates_in_the_time_its_link_and_memory_need():
    """Gradient out (4 bytes), 30 bytes of memory, weight back (2): nothing of it is hidden."""
    parameters = step("none").resident.terms["optimiser"][0] / 12
    wanted = parameters * (6 / 64e9 + 30 / 75e9)
    assert step("optimizer").time.terms["optimiser"][0] == pytest.approx(wanted, rel=1e-12)


def test_a_pool_is_a_place_like_the_host_at_its_own_rate():
    """A tier of CXL would be as fast as the host, or hold what the host holds as well."""
    host, pool = step("activations", 1e9), step("pool_activations", 1e9)
    assert pool.resident.total[0] == host.resident.total[0]
    assert pool.host_bytes[0] == host.host_bytes[0]
    kept = step("none").resident.terms["activations"][0]
    assert host.time.terms["offload"][0] > pool.time.terms["offload"][0]  # 1 GB/s against 16
    slow = replaced_pool("pool_activations", 1e9)
    assert slow.time.total[0] == pytest.approx(host.time.total[0], rel=1e-12)
    assert replaced_pool("pool_half_activations", 1e9).host_bytes[0] == pytest.approx(kept / 2)
    parameters = step("none").resident.terms["optimiser"][0] / 12
    wanted = parameters * (6 / 64e9 + 30 / 16e9)
    assert step("pool_optimizer").time.terms["optimiser"][0] == pytest.approx(wanted, rel=1e-12)


def replaced_pool(offload, pool_bytes_per_s):
    """A step on a chip whose pool has another rate."""
    size = {"devices": 8, "supernode_devices": 8, "global_batch_sequences": 8}
    plan = plan_of(**size, offload_code=OFFLOAD.index(offload))
    there = chip(pool_bytes_per_s=np.array([pool_bytes_per_s]))
    return training_step(JOB, dense_model(layers=8), there, plan, RESERVE)


def test_a_plan_that_keeps_all_is_the_same_beside_one_that_offloads():
    """A chip whose host is unknown would spoil the plans that never ask for it."""
    job, model = JOB, dense_model(layers=8)
    unknown = chip(host_link_bytes_per_s=np.array([np.nan]))
    size = {"devices": 8, "supernode_devices": 8, "global_batch_sequences": 16}
    alone = plan_of(**size)
    both = replace(alone, offload_code=np.array([0, 3])).take(np.array([0, 0]))
    both = replace(both, offload_code=np.array([0, 3]))
    one = training_step(job, model, unknown, alone, RESERVE)
    two = training_step(job, model, unknown, both, RESERVE)
    assert two.time.total[0] == one.time.total[0]
    assert two.resident.total[0] == one.resident.total[0]
    assert np.isnan(two.time.total[1])


def test_a_stack_that_reduces_in_sixteen_bits_moves_two_bytes_less_to_update_a_parameter():
    """Every stack's optimiser would read fp32 gradients, whatever it keeps."""
    assert PLAIN.update_bytes(PLAIN.gradient_bytes) == 30.0
    assert replace(PLAIN, gradient_bytes=2.0).update_bytes(2.0) == 28.0
