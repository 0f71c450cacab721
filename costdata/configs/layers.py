"""Which layer is of which kind: the many ways in which files write a pattern of layers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from costdata.configs.family import Family
from costdata.configs.keys import Keys, indices, whole_list

MIXERS = {
    "full_attention": "full",
    "attention": "full",
    "full": "full",
    "global": "full",
    "*": "full",
    "global_attention": "full",
    "indexed_attention": "full",
    "sliding_attention": "window",
    "sliding": "window",
    "local": "window",
    "local_attention": "window",
    "swa": "window",
    "sliding_window": "window",
    "chunked_attention": "chunk",
    "linear_attention": "linear",
    "linear": "linear",
    "mamba": "linear",
    "mamba2": "linear",
    "M": "linear",
    "kda": "linear",
    "gated_delta_net": "linear",
    "lightning_attention": "linear",
    "conv": "conv",
    "short_conv": "conv",
    "recurrent": "recurrent",
    "minimax_m3_sparse": "sparse",
    "compressed_sparse_attention": "compressed",
    "heavily_compressed_attention": "pooled",
}
"""Names of mixers in lists and patterns, and the room's own name for each."""

MLPS = {
    "dense": "dense",
    "mlp": "dense",
    "-": "dense",
    "sparse": "moe",
    "moe": "moe",
    "E": "moe",
    "hash_moe": "moe",
}


ONLY_STATES = frozenset({"mamba", "mamba2", "falcon_mamba", "bamba"})
"""Types whose layers hold a state space where the file names no attention layer."""


@dataclass(frozen=True)
class Layer:
    """One layer of the plan: what mixes tokens, what works on each; "none" where there is none."""

    index: int
    mixer: str
    mlp: str
    settings: Any = None


def plan(keys: Keys, family: Family, layers: int) -> tuple[Layer, ...]:
    """Every layer of the headline model, first to last."""
    blocks = single_blocks(keys)
    if blocks is not None:
        return blocks
    if keys.file.get("block_configs") is not None:
        return _searched_blocks(keys, layers)
    mixers, mlps = _mixers(keys, family, layers), _mlps(keys, family, layers)
    return tuple(Layer(i, mixers[i], mlps[i]) for i in range(layers))


def single_blocks(keys: Keys, prefix: str = "") -> tuple[Layer, ...] | None:
    """Layers that hold a mixer or an MLP but not both, as Nemotron-H writes them; None if not so.

    `prefix` "mtp_" reads the pattern of the draft layers instead.
    """
    name = f"{prefix}hybrid_override_pattern"
    pattern = keys.file.get(name)
    if pattern is None:
        name = f"{prefix}layers_block_type"
        pattern = keys.file.get(name)
    if pattern is None and not prefix:
        name = "layer_types"
        pattern = keys.file.get(name)
    if not isinstance(pattern, str | list):
        return None
    if not any(item in ("-", "E", "moe", "mlp") for item in pattern):
        return None
    return tuple(
        Layer(i, "none", MLPS[item])
        if isinstance(item, str) and item in MLPS
        else Layer(i, _mixer_name(keys, name, item), "none")
        for i, item in enumerate(pattern)
    )


def block_count(keys: Keys) -> int | None:
    """Number of layers that a pattern of single blocks states, where there is one."""
    blocks = single_blocks(keys)
    return None if blocks is None else len(blocks)


def _mixer_name(keys: Keys, key: str, item: object) -> str:
    name = MIXERS.get(item) if isinstance(item, str) else None
    if name is None:
        keys.missing(
            key,
            f"{key} has {item!r}, a mixer whose shape is not known; known: {', '.join(MIXERS)}",
        )
    return name or "full"


def _searched_blocks(keys: Keys, layers: int) -> tuple[Layer, ...]:
    """Layers of a searched architecture (Nemotron-NAS), each with its own settings."""
    blocks = whole_list(keys, "block_configs", layers) or ()
    found = []
    for i, block in enumerate(blocks):
        attention, ffn = (searched_part(block, part) for part in ("attention", "ffn"))
        for part, own in (("attention", attention), ("ffn", ffn)):
            if own.get("replace_with_linear") or own.get("sparsify"):
                keys.missing(
                    "block_configs",
                    f"block_configs[{i}].{part} is replaced by another "
                    "layer, whose shape is not known",
                )
        mixer = "none" if attention.get("no_op") else "full"
        found.append(Layer(i, mixer, "none" if ffn.get("no_op") else "dense", block))
    return tuple(found)


def searched_part(block: object, part: str) -> Mapping[str, Any]:
    """The attention or ffn settings of one searched block."""
    own = block.get(part) if isinstance(block, dict) else None
    return own if isinstance(own, dict) else {}


def _mixers(keys: Keys, family: Family, layers: int) -> Sequence[str]:
    for read in (_listed, _numbered, _periodic):
        found = read(keys, layers)
        if found is not None:
            return found
    if keys.has("chunk"):
        return _chunked(keys, layers)
    return _windowed(keys, family, layers)


def _listed(keys: Keys, layers: int) -> Sequence[str] | None:
    """A list with one name per layer; a shorter `block_types` repeats."""
    for name in ("layer_types", "layers_block_type"):
        items = whole_list(keys, name, layers)
        if items is not None:
            return [_mixer_name(keys, name, item) for item in items]
    cycle = keys.raw("block_types")
    if isinstance(cycle, list) and cycle:
        return [_mixer_name(keys, "block_types", cycle[i % len(cycle)]) for i in range(layers)]
    ratios = whole_list(keys, "compress_ratios", layers)
    if ratios is not None:
        names = {0: "window", 4: "compressed", 128: "pooled"}
        return [names.get(r, "compressed") if isinstance(r, int) else "compressed" for r in ratios]
    sparse = keys.table("sparse_attention_config")
    if "sparse_attention_freq" in sparse:
        marks = whole_list(keys.with_values(sparse), "sparse_attention_freq", layers) or ()
        return [("full", "sparse")[bool(mark)] for mark in marks]
    return None


def _numbered(keys: Keys, layers: int) -> Sequence[str] | None:
    """Lists of marks or of layer numbers."""
    for name, marks in (
        ("attn_type_list", ("linear", "full")),
        ("hybrid_layer_pattern", ("full", "window")),
    ):
        items = whole_list(keys, name, layers)
        if items is not None:
            return [marks[bool(item)] for item in items]
    linear = keys.table("linear_attn_config")
    if linear:
        full = indices(linear.get("full_attn_layers"))  # counted from 1 in Kimi-Linear's file
        return ["full" if i + 1 in full else "linear" for i in range(layers)]
    for name, other in (("full_attn_idxs", "conv"), ("attn_layer_indices", "linear")):
        if isinstance(keys.raw(name), list):
            full = indices(keys.raw(name))
            return ["full" if i in full else other for i in range(layers)]
    return None


def _periodic(keys: Keys, layers: int) -> Sequence[str] | None:
    """One attention layer in a period of linear ones."""
    period, offset = keys.number("attn_layer_period"), keys.number("attn_layer_offset")
    if period:
        return ["full" if i % period == offset else "linear" for i in range(layers)]
    every = keys.number("full_attention_interval")
    if every:
        return ["linear" if (i + 1) % every else "full" for i in range(layers)]
    group = keys.number("layer_group_size")
    if group:  # Ring-linear: what is left over after the last whole group attends in full
        whole = layers // group * group
        return ["linear" if (i + 1) % group and i < whole else "full" for i in range(layers)]
    return ["linear"] * layers if keys.model_type in ONLY_STATES else None


def _chunked(keys: Keys, layers: int) -> Sequence[str]:
    """Llama-4: layers without rotary positions see everything, the others their own chunk."""
    rotary = whole_list(keys, "no_rope_layers", layers)
    if rotary:
        return [("full", "chunk")[bool(mark)] for mark in rotary]
    every = keys.number("no_rope_layer_interval")
    if not every:
        keys.missing(
            "no_rope_layer_interval",
            "no value for no_rope_layer_interval, which says which layers attend in chunks",
        )
        return ["full"] * layers
    return ["chunk" if (i + 1) % every else "full" for i in range(layers)]


def _windowed(keys: Keys, family: Family, layers: int) -> Sequence[str]:
    """Full attention, with a sliding window where the file or its type puts one."""
    is_on = keys.flag("use_sliding_window", default=True)
    if not keys.has("window") or not is_on:
        return ["full"] * layers
    rule = _window_rule(keys, family)
    last = layers - 1 if "last_full" in family.extras else layers
    return [("full", "window")[rule(i) and i < last] for i in range(layers)]


def _window_rule(keys: Keys, family: Family) -> Callable[[int], bool]:
    """Whether layer i has the window."""
    every = keys.value(
        "sliding_window_pattern", "_sliding_window_pattern", "global_attn_every_n_layers"
    )
    if isinstance(every, str) and every:
        return lambda i: every[i % len(every)].upper() == "L"
    if isinstance(every, int) and every:
        return lambda i: (i + 1) % every != 0
    kind, _, number = family.window.partition(":")
    late = keys.number("max_window_layers", default=-1)
    rules: dict[str, Callable[[int], bool]] = {
        "none": lambda i: False,
        "all": lambda i: True,
        "alternate": lambda i: i % 2 == 0,
        "late": lambda i: i >= late >= 0,
        "every": lambda i: (i + 1) % int(number) != 0,
        "first": lambda i: i % int(number) != 0,
        "edges": lambda i: i != 0 and (i + 1) % int(number) != 0,
    }
    if kind == "unknown" and late >= 0:
        return rules["late"]
    if kind not in rules:
        keys.missing(
            "layer_types",
            "no value for layer_types, which says which layers have the "
            "sliding window; add it, or set sliding_window to null if none has",
        )
    return rules.get(kind, rules["none"])


def _mlps(keys: Keys, family: Family, layers: int) -> Sequence[str]:
    """Whether each layer has a "dense" MLP, "moe" or "none"."""
    if "mixer_only" in family.extras:
        return ["none"] * layers
    if not keys.at(layers - 1).has("experts") or keys.file.get("enable_moe_block") is False:
        return ["dense"] * layers
    named = whole_list(keys, "mlp_layer_types", layers)
    if named is not None:
        return [_mlp_name(keys, item) for item in named]
    marks = keys.file.get("moe_layer_freq")
    if isinstance(marks, list):
        return [
            ("dense", "moe")[bool(mark)]
            for mark in whole_list(keys, "moe_layer_freq", layers) or [1] * layers
        ]
    numbered = keys.raw("moe_layers_enum") or keys.file.get("moe_layers")
    if numbered:
        return ["moe" if i in indices(numbered) else "dense" for i in range(layers)]
    return [("dense", "moe")[_is_sparse(keys, i, layers)] for i in range(layers)]


def _mlp_name(keys: Keys, item: object) -> str:
    if not isinstance(item, str) or item not in MLPS:
        keys.missing(
            "mlp_layer_types",
            f"mlp_layer_types has {item!r}, an MLP whose shape is not "
            f"known; known: {', '.join(MLPS)}",
        )
        return "dense"
    return MLPS[item]


def _is_sparse(keys: Keys, i: int, layers: int) -> bool:
    """Whether layer i has experts, from first, last, step and exceptions."""
    step = keys.number("decoder_sparse_step", "interleave_moe_layer_step", default=1) or 1
    if (i + 1) % step or i in indices(keys.raw("mlp_only_layers")):
        return False
    period = keys.number("expert_layer_period")
    if period:
        return i % period == keys.number("expert_layer_offset")
    first = keys.number("moe_layer_start_index")
    last = keys.raw("moe_layer_end_index")
    last = last if isinstance(last, int) and last >= 0 else layers - 1
    every = keys.number("moe_layer_interval", default=1) or 1
    if not first <= i <= last or (i + 1) % every:
        return False
    frequency = keys.number("moe_layer_freq", default=1) or 1
    return i >= keys.optional("first_dense") and i % frequency == 0
