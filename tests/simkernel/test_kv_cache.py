"""Room for keys and values: published bytes per token, what is cut and what is whole."""

import numpy as np
import pytest

from costdata import catalog as catalogue
from costdata.configs import read_model
from simkernel.kv_cache import (
    free_bytes,
    reserve_bytes,
    resident_sequence_bytes,
    weight_bytes,
)
from simkernel.serving_engine import Engine
from simkernel.serving_plans import serving_plan_of

GPT_OSS = "openai--gpt-oss-120b"


def held(model, tokens, **decisions):
    plan = serving_plan_of(**decisions)
    return float(resident_sequence_bytes(read_model(model), plan, tokens)[0])


@pytest.mark.parametrize(
    ("model", "tokens", "bytes_"),
    [
        ("llama-3.1-70b", 1, 327_680),  # 2 x 80 layers x 8 heads x 128 x 2 bytes
        ("deepseek-v3", 1, 70_272),  # 61 layers x 576 x 2 bytes
        (GPT_OSS, 1, 73_728),  # 36 layers x 2 x 8 x 64 x 2: windowed layers hold the first token
        (GPT_OSS, 131_072, 18 * 2 * 8 * 64 * 2 * (131_072 + 128)),  # 4.837 GB, not 9.66
    ],
)
def test_one_device_holds_the_published_bytes_of_a_sequence(model, tokens, bytes_):
    """Another count would admit more sequences than fit, or buy memory that stays empty."""
    assert held(model, tokens) == bytes_


def test_heads_are_cut_down_to_one_a_device_and_a_latent_is_whole():
    """Dividing a latent by tensor parallelism promises eight times the room there is."""
    heads = [held("llama-3.1-70b", 1, tensor_parallel=t) for t in (1, 8, 16)]
    assert heads == [327_680, 40_960, 40_960]
    assert held("deepseek-v3", 1, tensor_parallel=8) == 70_272


def test_a_cache_in_fp8_holds_twice_the_tokens():
    """A precision that is ignored halves the capacity of every plan that asks for it."""
    half = held("llama-3.1-70b", 1000, cache_bytes_per_value=1.0)
    assert held("llama-3.1-70b", 1000) == 2 * half


def test_stages_share_layers_and_so_the_cache():
    """A pipeline of four holds a quarter of the layers on each device."""
    assert held("llama-3.1-70b", 8, pipeline_parallel=4) == 8 * 327_680 / 4


def test_weights_of_experts_are_counted_whole_not_as_active():
    """671 billion parameters in a byte each do not fit on one device, active ones would."""
    plan = serving_plan_of(precision_code=3, expert_precision_code=3)
    total = float(np.asarray(weight_bytes(read_model("deepseek-v3"), plan).total)[0])
    assert total == pytest.approx(671e9, rel=0.01)


def test_room_is_negative_where_the_weights_do_not_fit():
    """A plan that cannot hold its weights must say so, not serve from nothing."""
    model, plan = read_model("llama-3.1-405b"), serving_plan_of()
    assert free_bytes(model, Engine(), plan, 80e9)[0] < 0


@pytest.mark.parametrize("software", ["vllm", "sglang", "trtllm"])
def test_a_larger_device_never_has_less_room(software):
    """More memory would mean fewer sequences around the edge where weights fill a device."""
    engine = catalogue.load().engine(software, "hopper")
    memory = np.linspace(60e9, 200e9, 400)
    plan = serving_plan_of()
    room = [float(free_bytes(read_model("qwen3-32b"), engine, plan, m)[0]) for m in memory]
    assert np.all(np.diff(room) >= -1e-3)
    assert room[0] < 0 < room[-1]


def test_weights_and_room_and_reserve_fit_the_device():
    """An engine would be given more than there is where weights fill the device."""
    model, plan = read_model("qwen3-32b"), serving_plan_of()
    engine = catalogue.load().engine("vllm", "hopper")
    weights = float(np.asarray(weight_bytes(model, plan).total)[0])
    for memory in np.linspace(70e9, 200e9, 50):
        room = float(free_bytes(model, engine, plan, memory)[0])
        reserve = float(reserve_bytes(model, engine, plan, memory)[0])
        assert 0.0 <= reserve <= float(engine.reserve_bytes)
        assert weights + room + reserve <= memory * (1 + 1e-12)
