"""Mixers without a growing cache: state spaces, delta rules, lightning attention, convolutions."""

from __future__ import annotations

import math

from costdata.configs.attention import head_dim
from costdata.configs.keys import Keys
from costdata.configs.parts import Part, column, row, whole
from simkernel.models import Core, Weight

FLOP_PER_STATE_VALUE = 7.0  # Megatron-LM training.py, mamba scan: 7 x inner x state per token
LIGHTNING_FLOP_PER_STATE_VALUE = (
    5.0  # decay 1, outer product added 2, query read 2: arXiv 2401.04658 eq. 3
)


def linear(keys: Keys) -> Part:
    """The linear mixer that the file's keys describe.

    Told apart by their own keys: gated delta net (linear_num_value_heads), Kimi delta attention
    (linear_attn_config or linear_num_heads), Mamba-2 (heads of state), Mamba-1 (a rank for the
    time step), lightning attention (attn_type_list or a block size, no state size).
    """
    config = keys.table("linear_attn_config")
    if config:
        keys = keys.with_values(
            {
                "linear_num_heads": config.get("num_heads"),
                "linear_head_dim": config.get("head_dim"),
                "linear_conv_kernel_dim": config.get("short_conv_kernel_size"),
            }
        )
    if keys.value("linear_num_heads"):
        return _kimi_delta(keys)
    if keys.value("linear_num_value_heads"):
        return _gated_delta(keys)
    if keys.value("mamba_num_heads", "mamba_n_heads", "n_mamba_heads") or (
        keys.model_type == "mamba2"
    ):
        return mamba2(keys)
    if keys.has("mamba_state"):
        return _mamba1(keys)
    marks = ("attn_type_list", "linear_attn_alpha_factor", "layer_group_size")
    if keys.value(*marks) is not None or keys.model_type.startswith("minimax"):
        return _lightning(keys)
    keys.missing(
        "layer_types",
        "a linear-attention layer is named, but no key tells its shape: "
        "neither linear_num_value_heads, mamba_num_heads, mamba_d_state nor linear_attn_config",
    )
    return Part("state", core=Core("state"))


def mamba2(keys: Keys) -> Part:
    """Mamba-2 mixer.

    References
    ----------
    Dao and Gu, arXiv 2405.21060; layout as in transformers modeling_mamba2.py.
    """
    hidden, heads = keys.count("hidden"), keys.count("mamba_heads")
    groups, state = keys.optional("mamba_groups", 1) or 1, keys.count("mamba_state")
    inner, kernel = _inner(keys, heads), keys.count("mamba_conv")
    conv = inner + 2 * groups * state
    weights = (
        column("state_in", hidden, inner + conv + heads),
        column("conv", kernel, conv),
        row("state_out", inner, hidden),
    )
    vectors = 3 * heads + conv * _has_conv_bias(keys)
    vectors += inner * keys.flag("mamba_rms_norm", default=True)
    vectors += (inner + conv + heads + hidden) * keys.flag("mamba_proj_bias")
    return Part("mamba", weights, vectors, _state(inner * state, conv * (kernel - 1)))


def _inner(keys: Keys, heads: int) -> int:
    """Width of the state-space layer: stated, heads x head width, or expand x hidden."""
    stated = keys.optional("mamba_inner")
    if stated:
        return stated
    width = keys.value("mamba_head_dim", "mamba_d_head", "mamba_headdim", "head_dim")
    if width == "auto" or width is None:
        return keys.count("mamba_expand") * keys.count("hidden")
    return heads * keys.count("mamba_head_dim")


def _mamba1(keys: Keys) -> Part:
    """Mamba-1 mixer.

    References
    ----------
    Gu and Dao, arXiv 2312.00752; layout as in transformers modeling_jamba.py.
    """
    hidden, state, kernel = (keys.count(m) for m in ("hidden", "mamba_state", "mamba_conv"))
    stated = "mamba_inner" if keys.model_type == "jamba" else "plain_width"
    inner = keys.optional(stated) or keys.count("mamba_expand") * hidden
    rank = keys.value("mamba_dt_rank", "time_step_rank")
    rank = math.ceil(hidden / 16) if rank in (None, "auto") else keys.count("mamba_dt_rank")
    weights = (
        column("state_in", hidden, 2 * inner),
        column("conv", kernel, inner),
        row("state_x", inner, rank + 2 * state),
        column("state_dt", rank, inner),
        row("state_out", inner, hidden),
    )
    norms = rank + 2 * state if keys.model_type == "jamba" else 0
    vectors = inner * state + 2 * inner + inner * _has_conv_bias(keys) + norms
    return Part("mamba1", weights, vectors, _state(inner * state, inner * (kernel - 1)))


def _gated_delta(keys: Keys) -> Part:
    """Gated delta net (Qwen3-Next, Qwen3.5, OLMo hybrid).

    References
    ----------
    Yang et al., arXiv 2412.06464; layout as in transformers modeling_qwen3_next.py.
    """
    hidden = keys.count("hidden")
    key_heads, value_heads = keys.count("linear_key_heads"), keys.count("linear_value_heads")
    key_dim, value_dim = keys.count("linear_key_dim"), keys.count("linear_value_dim")
    kernel, values = keys.count("linear_conv"), value_heads * value_dim
    conv = 2 * key_heads * key_dim + values
    weights = (
        column("state_in", hidden, conv + values),
        column("state_gates", hidden, 2 * value_heads),
        column("conv", kernel, conv),
        row("state_out", values, hidden),
    )
    core = _state(value_heads * key_dim * value_dim, conv * (kernel - 1))
    return Part("delta", weights, 2 * value_heads + value_dim, core)


def _kimi_delta(keys: Keys) -> Part:
    """Kimi delta attention: a delta rule with a decay per channel.

    References
    ----------
    Kimi Linear, arXiv 2510.26692; layout as in transformers modeling_kimi_linear.py.
    """
    hidden, heads, dim = (keys.count(m) for m in ("hidden", "linear_key_heads", "linear_key_dim"))
    kernel, width = keys.count("linear_conv"), heads * dim
    gate: tuple[Weight, ...] = (
        whole("state_gate_a", hidden, dim),
        column("state_gate_b", dim, width),
    )
    if keys.table("linear_attn_config").get("use_full_rank_gate"):
        gate = (column("state_gate", hidden, width),)
    weights = (
        column("state_in", hidden, 3 * width),
        column("conv", kernel, 3 * width),
        whole("state_decay_a", hidden, dim),
        column("state_decay_b", dim, width),
        column("state_beta", hidden, heads),
        *gate,
        row("state_out", width, hidden),
    )
    core = _state(heads * dim * dim, 3 * width * (kernel - 1))
    return Part("kimi_delta", weights, width + heads + dim, core)


def _lightning(keys: Keys) -> Part:
    """Lightning attention: linear attention with a fixed decay and an output gate (MiniMax-01).

    References
    ----------
    MiniMax-01, arXiv 2501.08313; layout as in transformers modeling_minimax.py.
    """
    hidden, heads = keys.count("hidden"), keys.count("heads")
    dim = head_dim(keys)
    width = heads * dim
    weights = (
        column("state_in", hidden, 3 * width),
        column("state_gate", hidden, width),
        row("state_out", width, hidden),
    )
    flop = LIGHTNING_FLOP_PER_STATE_VALUE * heads * dim * dim
    core = Core("state", state_values=heads * dim * dim, state_flop_per_token=flop)
    return Part("lightning", weights, width, core)


def convolution(keys: Keys) -> Part:
    """Gated short convolution (LFM2): the only memory is the last few inputs."""
    hidden, kernel = keys.count("hidden"), keys.count("conv_width")
    weights = (
        column("state_in", hidden, 3 * hidden),
        column("conv", kernel, hidden),
        row("state_out", hidden, hidden),
    )
    vectors = 5 * hidden * keys.flag("conv_bias")
    core = Core("state", conv_values=hidden * (kernel - 1))
    return Part("convolution", weights, vectors, core)


def recurrent(keys: Keys) -> Part:
    """Real-gated linear recurrent unit (RecurrentGemma).

    References
    ----------
    De et al., arXiv 2402.19427, eq. 1-4; layout as in transformers modeling_recurrent_gemma.py.
    """
    hidden, heads = keys.count("hidden"), keys.count("heads")
    width, kernel = keys.optional("recurrent_width") or hidden, keys.count("recurrent_conv")
    gates = Weight("state_gates", width // heads, width, "column")
    weights = (
        column("state_in", hidden, 2 * width),
        column("conv", kernel, width),
        gates,
        gates,
        row("state_out", width, hidden),
    )
    vectors = 2 * width + hidden + 4 * width
    return Part("recurrent", weights, vectors, _state(width, width * (kernel - 1)))


def _state(values: int, conv_values: int) -> Core:
    return Core(
        "state",
        state_values=values,
        conv_values=conv_values,
        state_flop_per_token=FLOP_PER_STATE_VALUE * values,
    )


def _has_conv_bias(keys: Keys) -> bool:
    return keys.flag("use_conv_bias", "mamba_conv_bias", default=True)
