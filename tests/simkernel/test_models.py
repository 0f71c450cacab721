"""Counts, caches and FLOPs against published and hand-computed numbers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costdata.configs import read_model
from simkernel.errors import UnknownName
from simkernel.models import (
    Core,
    LayerKind,
    Model,
    Weight,
    active_parameters,
    dense_parameters,
    expert_parameters,
    index_bytes,
    kind_kv_bytes,
    kv_bytes,
    kv_bytes_per_token,
    layer_counts,
    layer_parameters,
    mean_keys,
    parameters,
    state_bytes,
    training_flop_per_token,
)

GIB = 2**30


def test_deepseek_attention_has_187_107_million_parameters_a_layer():
    """Latent attention counted as grouped attention would be several times that."""
    kind = read_model("deepseek-v3").kinds[1]
    latent_norms = 1536 + 512
    assert layer_parameters(kind).terms["attention"] + latent_norms == 187_107_328


def test_deepseek_takes_249_8_gflop_a_token_at_4096():
    """The figure that Megatron-LM's formula gives, and its two variants."""
    model = read_model("deepseek-v3")
    work = training_flop_per_token(model, 4096.0)
    assert work.total - work.terms["router"] == pytest.approx(249.8e9, rel=2e-4)
    assert work.total == pytest.approx(250.46e9, rel=1e-4)
    both = training_flop_per_token(model, 4096.0, "both_embeddings")
    assert both.total == pytest.approx(256.0e9, rel=1e-4)
    assert work.terms["core"] / work.total == pytest.approx(0.123, abs=0.001)


def test_llama_takes_six_times_its_parameters_and_its_core():
    """Narayanan's 72 B s L h^2 (1 + s/6h + V/12Lh) for plain layers, causal core halved."""
    model = read_model("llama-2-7b")
    work = training_flop_per_token(model, 4096.0)
    weights = 32 * (4 * 4096**2 + 3 * 4096 * 11008) + 4096 * 32000
    core = 32 * 6 * 4096 * (4096 / 2) * 2
    norms = 65 * 4096
    assert work.total == pytest.approx(6 * (weights + norms) + core, rel=1e-12)


CACHES = (  # model, tokens, bytes, why
    ("gpt-oss-120b", 1, 73_728),
    ("gpt-oss-120b", 131_072, 4.8365568e9),
    ("deepseek-v3", 163_840, 10.72265625 * GIB),
    ("gemma-3-27b", 131_072, 10.40625 * GIB),
    ("qwen3.6-27b-nvfp4", 262_144, 16.0 * GIB),
    ("llama-3.1-70b", 1, 327_680),
    ("nemotron-super-49b", 1, 200_704),
)


@pytest.mark.parametrize(("name", "tokens", "expected"), CACHES)
def test_caches_are_the_published_ones(name, tokens, expected):
    """Windows left out or charged in full, latent charged by heads: each was seen in a tool."""
    assert kv_bytes(read_model(name), float(tokens), 2.0) == expected


def test_an_eight_bit_cache_is_half_of_a_sixteen_bit_one():
    """Capacity in blocks doubles when values halve."""
    model = read_model("qwen3-32b")
    assert kv_bytes(model, 1000.0, 1.0) * 2 == kv_bytes(model, 1000.0, 2.0)


def test_a_hybrid_keeps_a_state_that_does_not_grow():
    """28 Mamba layers: 128 heads x 80 x 128 of state and 12,288 x 3 of convolution inputs."""
    model = read_model("nemotron-nano-12b-v2")
    assert state_bytes(model, 4.0, 2.0) == 28 * (128 * 80 * 128 * 4 + 12288 * 3 * 2)
    assert kv_bytes_per_token(model) == 6 * 2 * 8 * 128 * 2


def test_sparse_attention_keeps_index_keys_and_trains_on_fewer_keys():
    """DeepSeek-V3.2 meets 2,048 selected keys, and scores all of them in its indexer."""
    sparse, full = read_model("deepseek-v3.2"), read_model("deepseek-v3")
    assert kv_bytes_per_token(sparse) == kv_bytes_per_token(full)
    assert index_bytes(sparse, 1.0) == 61 * 132
    long = 131_072.0
    assert (
        training_flop_per_token(sparse, long).terms["core"]
        < 0.05 * (training_flop_per_token(full, long).terms["core"])
    )
    assert training_flop_per_token(sparse, long).terms["index"] == 61 * 3 * long * 64 * 128


def test_experts_and_the_rest_are_the_whole_layer():
    """What expert parallelism divides and what tensor parallelism divides leave nothing over."""
    for name in ("deepseek-v3", "gpt-oss-120b", "qwen3.6-35b-a3b-nvfp4", "nemotron-h-56b"):
        model = read_model(name)
        layers = sum(
            count * (expert_parameters(kind) + dense_parameters(kind).total)
            for kind, count in zip(model.kinds, layer_counts(model), strict=True)
        )
        ends = parameters(model).terms
        tables = ends["embedding"] + ends["head"] + ends["lookup"] + ends["other"]
        assert layers + tables == parameters(model).total


def test_norms_are_whole_on_every_device():
    """A LayerNorm cut by tensor parallelism was a fault of another tool."""
    kind = read_model("llama-3.1-8b").kinds[0]
    assert dense_parameters(kind).terms["replicated"] == 2 * 4096


def test_active_counts_fall_from_convention_to_convention():
    """Both embeddings, all but the input, neither; a tied table is the head."""
    model = read_model("deepseek-v3")
    both, without_input, without = (
        active_parameters(model, c).total
        for c in ("both_embeddings", "without_input", "without_both")
    )
    assert both - without_input == without_input - without == 7168 * 129280
    tied = read_model("gemma-2-9b")
    assert active_parameters(tied).total == active_parameters(tied, "without_input").total
    assert active_parameters(tied).total == parameters(tied).total


def test_an_unknown_convention_is_refused():
    """Silently counting something else is how active counts differ by a billion."""
    with pytest.raises(UnknownName, match="without_input"):
        active_parameters(read_model("llama-3.1-8b"), "without_inputs")


def test_chunked_layers_meet_half_a_chunk():
    """Llama 4: a query sees only its own 8,192 tokens, half of them on average."""
    chunk = Core(
        "softmax", heads=1, kv_heads=1, key_dim=1, value_dim=1, window=8192, is_chunked=True
    )
    assert mean_keys(chunk, 65536.0) == 4096
    assert mean_keys(chunk, 4096.0) == 2048


def test_compressed_caches_keep_a_window_and_one_entry_for_many_tokens():
    """DeepSeek-V4: 128 last tokens whole, and one entry for 4 (selected) or 128 (all) before."""
    core = Core(
        "mla",
        heads=1,
        key_dim=512,
        value_dim=512,
        latent=512,
        window=128,
        compression=4,
        selected_keys=512,
    )
    kind = LayerKind("compressed", (), core, 0, "none")
    assert kind_kv_bytes(kind, 4096.0, 1.0) == 512 * (128 + 4096 / 4)
    near, far = 128 - 128**2 / 8192, 512 - 512**2 / 2048
    assert mean_keys(core, 4096.0) == near + far


def test_columns_of_contexts_give_columns_of_bytes():
    """One equation for a candidate and for a table of them."""
    model = read_model("gpt-oss-20b")
    tokens = np.array([1.0, 128.0, 4096.0])
    together = kv_bytes(model, tokens)
    assert together.tolist() == [kv_bytes(model, float(t)) for t in tokens]


@given(
    window=st.integers(1, 10_000), tokens=st.integers(1, 100_000), longer=st.integers(0, 100_000)
)
def test_a_window_never_costs_more_than_full_attention_and_never_shrinks(window, tokens, longer):
    """Mean keys grow with the sequence, stay below the window and below half the sequence."""
    core = Core("softmax", heads=1, kv_heads=1, key_dim=1, value_dim=1, window=window)
    keys = mean_keys(core, float(tokens))
    assert 0 < keys <= min(window, tokens / 2) + 1e-9
    assert mean_keys(core, float(tokens + longer)) >= keys - 1e-9


@given(tokens=st.integers(2, 400), window=st.integers(1, 400))
def test_mean_keys_agree_with_the_sum_over_positions(tokens, window):
    """The closed form is the sum over queries of min(position, window), to half a key."""
    core = Core("softmax", heads=1, kv_heads=1, key_dim=1, value_dim=1, window=window)
    counted = np.mean(np.minimum(np.arange(1, tokens + 1), window))
    assert mean_keys(core, float(tokens)) == pytest.approx(counted, abs=0.51)


def test_copies_and_use_of_experts_are_counted_apart():
    """Memory holds every expert, a token meets top_k of them."""
    weight = Weight("expert_down", 10, 20, "expert_row", copies=8, used=2)
    kind = LayerKind("moe", (weight,), None, 0, "moe", experts=8, top_k=2)
    model = Model("m", 10, 100, False, 0, (kind,), (0, 0))
    assert parameters(model).terms["experts"] == 2 * 1600
    assert active_parameters(model).terms["experts"] == 2 * 400
