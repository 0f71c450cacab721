"""MLPs: dense, routed experts, shared experts beside them."""

from __future__ import annotations

from dataclasses import dataclass

from costdata.configs.family import Family, is_gated
from costdata.configs.keys import Keys
from costdata.configs.parts import Part, column, row, whole
from simkernel.models import Weight


@dataclass(frozen=True)
class Mlp:
    """The MLP of a layer, with what LayerKind says about it."""

    part: Part
    kind: str
    width: int = 0
    gated: bool = True
    experts: int = 0
    top_k: int = 0
    shared_width: int = 0
    groups: int = 1
    groups_used: int = 1
    expert_vectors: int = 0


def dense(keys: Keys, family: Family, width: int | None = None) -> Mlp:
    """One MLP that every token meets; `width` overrides what the file states."""
    hidden, gated = keys.count("hidden"), is_gated(keys, family)
    width = dense_width(keys, family) if width is None else width
    part = Part("dense", _pair("", hidden, width, gated), _biases(keys, family, hidden, width))
    return Mlp(part, "dense", width, gated)


def dense_width(keys: Keys, family: Family) -> int:
    """Width between up and down of a dense MLP."""
    if "half_mlp" in family.extras:  # RecurrentGemma states both halves of the gated width
        return keys.count("dense_width") // 2
    if keys.flag("block_auto_adjust_ff_dim"):
        return _adjusted(keys)
    multiplier = keys.factor("ffn_mult")
    if multiplier:
        return searched_width(keys.count("hidden"), multiplier)
    stated = keys.optional("dense_width")
    if keys.model_type == "granitemoehybrid" and keys.has("shared_width"):
        return keys.count("shared_width")  # without experts only its shared MLP remains
    if (
        not stated
        and keys.value("n_inner", "expansion_ratio") is None
        and family.model_type
        in ("gpt2", "gptj", "bloom", "gpt_bigcode", "codegen", "falcon", "mpt")
    ):
        return 4 * keys.count("hidden")  # their classes' rule where no width is stated
    if keys.factor("expansion_ratio"):
        return int(keys.factor("expansion_ratio") * keys.count("hidden"))
    width = stated or keys.count("dense_width")
    is_shared_layer = keys.flag("use_double_wide_mlp") and _is_late(keys)
    return width * 2 if is_shared_layer else width


def searched_width(hidden: int, multiplier: float) -> int:
    """Width of a searched block: two thirds of multiplier x hidden, up to a multiple of 256.

    References
    ----------
    nvidia/Llama-3_3-Nemotron-Super-49B-v1 block_config.py (the LLaMA rounding rule).
    """
    raw = int(2 * multiplier * hidden / 3)
    return -(-raw // 256) * 256


def moe(keys: Keys, family: Family) -> Mlp:
    """Routed experts, of which a token meets a few, and shared ones that it always meets."""
    hidden, gated = keys.count("hidden"), is_gated(keys, family)
    experts, top_k = keys.count("experts"), keys.count("top_k")
    if top_k > experts > 1:
        keys.faults.bad.setdefault(
            "top_k",
            f"a token meets {top_k} experts, but there are "
            f"{experts}; one of num_experts_per_tok and the number of experts is wrong",
        )
    width = keys.optional("expert_width") or keys.count("plain_width")
    latent = keys.optional("latent_experts")
    weights = (
        _router(keys, hidden, experts),
        *_experts(latent or hidden, width, gated, experts, _used(keys, experts, top_k)),
    )
    if latent:
        weights += (
            whole("shared_latent_down", hidden, latent),
            whole("shared_latent_up", latent, hidden),
        )
    shared = _shared_width(keys, family, width)
    weights += _pair("shared_", hidden, shared, gated) if shared else ()
    vectors = experts * bool({"router_bias", "expert_score_bias"} & family.extras)
    vectors += hidden * ("shared_gate" in family.extras and shared > 0)
    expert_vectors = (
        experts * (_width_up(width, gated) + hidden) * ("expert_bias" in family.extras)
    )
    return Mlp(
        Part("moe", weights, vectors),
        "moe",
        width,
        gated,
        experts,
        top_k,
        shared,
        keys.optional("expert_groups", 1) or 1,
        keys.optional("expert_groups_used", 1) or 1,
        expert_vectors,
    )


def _router(keys: Keys, hidden: int, experts: int) -> Weight:
    """One score per expert; experts that do nothing are scored too."""
    return whole("router", hidden, experts + keys.optional("zero_experts"))


def _used(keys: Keys, experts: int, top_k: int) -> float:
    """Experts with weights that a token meets: the share of those it scores, if equally liked."""
    return top_k * experts / (experts + keys.optional("zero_experts"))


def _experts(
    hidden: int, width: int, gated: bool, experts: int, used: float
) -> tuple[Weight, ...]:
    up = "expert_gate_up" if gated else "expert_up"
    return (
        Weight(up, hidden, _width_up(width, gated), "expert_column", experts, used),
        Weight("expert_down", width, hidden, "expert_row", experts, used),
    )


def _shared_width(keys: Keys, family: Family, width: int) -> int:
    """Width of all shared experts together."""
    if {"beside_mlp", "shared_dense"} & family.extras:  # a dense MLP beside the experts
        return keys.count("dense_width")
    if "shared_one" in family.extras:  # Llama 4: one shared expert as wide as a routed one
        return width
    stated, count = keys.optional("shared_width"), keys.optional("shared_experts")
    if "shared_each" in family.extras:  # Ling states the width of one shared expert
        return (stated or width) * count
    return stated or count * width


def _pair(prefix: str, hidden: int, width: int, gated: bool) -> tuple[Weight, ...]:
    """Up (with its gate) and down."""
    up = f"{prefix}gate_up" if gated else f"{prefix}up"
    return (
        column(up, hidden, _width_up(width, gated)),
        row(f"{prefix}down", width, hidden),
    )


def _width_up(width: int, gated: bool) -> int:
    return width * 2 if gated else width


def _biases(keys: Keys, family: Family, hidden: int, width: int) -> int:
    has_bias = family.mlp_bias == "yes" or (
        family.mlp_bias == "key" and keys.flag("mlp_bias", "use_mlp_bias", "use_bias", "bias")
    )
    sub_norm = width * ("sub_norms" in family.extras)
    return (_width_up(width, is_gated(keys, family)) + hidden) * has_bias + sub_norm


def _is_late(keys: Keys) -> bool:
    """Whether the layer is among the last ones, which share an earlier cache."""
    first = keys.optional("layers") - keys.optional("shared_cache_layers")
    return keys.layer is not None and keys.layer >= first > 0


def _adjusted(keys: Keys) -> int:
    """LFM2: two thirds of the stated width, times a factor, up to a multiple."""
    width = int(2 * keys.count("dense_width") / 3)
    width = int((keys.factor("block_ffn_dim_multiplier") or 1) * width)
    multiple = keys.number("block_multiple_of", default=1) or 1
    return -(-width // multiple) * multiple
