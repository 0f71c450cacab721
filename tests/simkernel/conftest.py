"""Round-number chips and models for one room at a time."""

import numpy as np
import pytest

from simkernel.hardware import (
    OPERATIONS,
    PRECISIONS,
    TOPOLOGIES,
    AttentionCurve,
    Chips,
    GemmCurve,
    LinkCurve,
    PowerCurve,
    StreamCurve,
)
from simkernel.models import Core, LayerKind, Model, Weight


def chip(**changes):
    """An H100-like chip with plain efficiencies; one row."""
    one = np.ones(1)
    gemm = np.ones((1, len(PRECISIONS)))
    link = np.ones((1, len(OPERATIONS)))
    peak = np.array([[989e12, 989e12, 1979e12, 1979e12, np.nan, np.nan, np.nan, 1979e12]])
    base = {
        "name": np.array(["test"]),
        "memory_bytes": one * 80 * 2**30,
        "hbm_bytes_per_s": one * 3.35e12,
        "peak_flop_per_s": peak,
        "scaleup_bytes_per_s": one * 450e9,
        "scaleup_peer_bytes_per_s": one * 450e9,
        "scaleup_topology_code": np.array([TOPOLOGIES.index("switched")]),
        "scaleout_bytes_per_s": one * 50e9,
        "host_link_bytes_per_s": one * 64e9,
        "host_memory_bytes": one * 250e9,
        "host_memory_bytes_per_s": one * 75e9,
        "pool_memory_bytes": one * 1e12,
        "pool_bytes_per_s": one * 16e9,
        "devices_per_host": np.array([8]),
        "gemm": GemmCurve(
            *(gemm * 0.8, gemm * 96, gemm * 96, gemm * 96, gemm * 0.8, gemm * 3e-6), gemm
        ),
        "attention": AttentionCurve(one * 0.65, one * 512, one * 0.8, one * 5e-6, one * 0.8),
        "stream": StreamCurve(one * 0.85, one * 2e-6),
        "scaleup": LinkCurve(link * 0.8, link * 8e-6, link * 5e-7, link * 0.0, link * 0.0),
        "scaleout": LinkCurve(link * 0.85, link * 1e-5, link * 2e-6, link * 0.0, link * 0.0),
        "power": PowerCurve(*(one * v for v in (70, 100, 150, 1, 450, 1, 0, 700, 150, 300, 0, 0))),
    }
    return Chips(**{**base, **changes})


def dense_model(layers=32, hidden=4096, heads=32, kv_heads=8, width=14336, vocab=128256):
    """A Llama-shaped model."""
    dim = hidden // heads
    weights = (
        Weight("q", hidden, hidden, "column"),
        Weight("kv", hidden, 2 * kv_heads * dim, "column"),
        Weight("o", hidden, hidden, "row"),
        Weight("gate_up", hidden, 2 * width, "column"),
        Weight("down", width, hidden, "row"),
    )
    core = Core("softmax", heads, kv_heads, dim, dim)
    kind = LayerKind("dense", weights, core, 2 * hidden, "dense", width)
    return Model("dense", hidden, vocab, False, 8192, (kind,), (0,) * layers)


def moe_model(layers=16, hidden=4096, experts=64, top_k=8, width=1024):
    """A Qwen-shaped mixture of experts."""
    dense = dense_model(layers, hidden)
    attention = dense.kinds[0].weights[:3]
    weights = (
        *attention,
        Weight("router", hidden, experts, "replicated"),
        Weight("expert_gate_up", hidden, 2 * width, "expert_column", experts, top_k),
        Weight("expert_down", width, hidden, "expert_row", experts, top_k),
    )
    kind = LayerKind(
        "moe", weights, dense.kinds[0].core, 2 * hidden, "moe", width, True, experts, top_k
    )
    return Model("moe", hidden, 128256, False, 8192, (kind,), (0,) * layers)


@pytest.fixture
def h100():
    """The round-number chip."""
    return chip()
