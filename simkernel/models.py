"""The shape of a model: which matrices a token meets, and what attention remembers.

The same list of matrices gives the parameter count, the FLOPs and the bytes, so the three
cannot disagree. What a file calls these things, and what a chip makes of them, is not known here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from simkernel.columns import Column
from simkernel.errors import unknown
from simkernel.ledger import Ledger

ACTIVE_CONVENTIONS = ("both_embeddings", "without_input", "without_both")
"""What publishers count as active: both embeddings, all but the input one, or neither."""


WEIGHT_BITS = {
    "fp32": 32.0,
    "bf16": 16.0,
    "fp16": 16.0,
    "fp8": 8.0,
    "int8": 8.0,
    "fp8_block": 8 + 32 / (128 * 128),  # one FP32 scale per 128 x 128: DeepSeek-V3 README_WEIGHTS
    "mxfp8": 8 + 8 / 32,  # one 8-bit scale per 32: OCP Microscaling v1.0
    "mxfp4": 4 + 8 / 32,  # the same
    "nvfp4": 4 + 8 / 16,  # one FP8 scale per 16: NVIDIA ModelOpt group_size 16
    "int4": 4 + 16 / 32,  # one 16-bit scale per 32: Kimi-K2.5 config.json
}
"""Bits that one stored weight takes, with its share of the scales."""

KEPT_PARTS = ("embedding", "head", "lookup", "router", "vectors", "other")
"""Parts that quantised files keep in 16 bits."""

MLP_NAMES = ("gate_up", "up", "down")
NAMED_PARTS = {"router": "router", "shared": "shared_experts", "index": "indexer"}


@dataclass(frozen=True)
class Weight:
    """One matrix, or `copies` equal ones of which a token meets `used`.

    Parameters
    ----------
    name : "q", "kv", "kv_a", "gate_up", "up", "down", "router", "expert_gate_up",
        "expert_down", "shared_gate_up", "index_q", "state_in", "conv", ...
    inputs, outputs : inner and outer width of the product a token makes with it
    split : how tensor parallelism cuts it: "column" | "row" | "replicated"; experts are cut by
        expert parallelism first: "expert_column" | "expert_row"
    copies : how many such matrices the layer holds (experts)
    used : how many of them one token meets (top_k)
    """

    name: str
    inputs: int
    outputs: int
    split: str
    copies: int = 1
    used: float = 1.0

    @property
    def parameters(self) -> int:
        """All copies."""
        return self.inputs * self.outputs * self.copies

    @property
    def active_parameters(self) -> float:
        """What one token meets."""
        return self.inputs * self.outputs * self.used

    @property
    def part(self) -> str:
        """The line of a parameter ledger it belongs to, from its split and its name."""
        if self.split.startswith("expert_"):
            return "experts"
        if self.name in MLP_NAMES:
            return "mlp"
        first = self.name.split("_", maxsplit=1)[0]
        return NAMED_PARTS.get(first, "mixer")


@dataclass(frozen=True)
class Core:
    """The part of a mixer that is not a matrix product with weights.

    kind "softmax": every query meets the keys before it. `window` > 0 limits them to the last
    `window` tokens (`is_chunked`: to those of its own chunk of `window` tokens),
    `selected_keys` > 0 to that many chosen by an indexer (sparse attention).
    kind "mla": softmax over a latent cache of `latent` values (not divided by tensor parallel).
    kind "state": linear attention or a state-space layer with a state of `state_values` per
    sequence and `state_flop_per_token` multiply-adds x 2, no cache growing with length;
    `conv_values` are the last inputs that its short convolution remembers.
    `compression` > 1: beside the window the cache holds one entry for that many tokens, of which
    `selected_keys` may choose. `owns_cache` is false for a layer that reads an earlier one's keys.
    """

    kind: str
    heads: int = 0
    kv_heads: int = 0
    key_dim: int = 0
    value_dim: int = 0
    latent: int = 0
    window: int = 0
    selected_keys: int = 0
    index_heads: int = 0
    index_dim: int = 0
    state_values: int = 0
    state_flop_per_token: float = 0.0
    is_chunked: bool = False
    owns_cache: bool = True
    compression: int = 1
    conv_values: int = 0

    @property
    def cache_values(self) -> int:
        """Values of one cache entry."""
        if self.kind == "state" or not self.owns_cache:
            return 0
        return (
            self.latent if self.kind == "mla" else self.kv_heads * (self.key_dim + self.value_dim)
        )


@dataclass(frozen=True)
class LayerKind:
    """One kind of layer: its matrices, its core, its vectors (norms, biases).

    `core` is None for a layer that only has an MLP. `side_core` is a second mixer that works
    beside the first (attention and state space in parallel). `mlp` is "dense", "moe" or "none".
    `mlp_width` is the width between up and down of the dense MLP or of one expert.
    `vector_parameters` are whole on every device of a tensor-parallel group,
    `expert_vector_parameters` (biases of all experts) move with the experts.
    """

    name: str
    weights: tuple[Weight, ...]
    core: Core | None
    vector_parameters: int
    mlp: str
    mlp_width: int = 0
    gated: bool = True
    experts: int = 0
    top_k: int = 0
    shared_width: int = 0
    expert_groups: int = 1
    expert_groups_used: int = 1
    expert_vector_parameters: int = 0
    side_core: Core | None = None

    @property
    def cores(self) -> tuple[Core, ...]:
        """None, one or two mixers."""
        return tuple(core for core in (self.core, self.side_core) if core is not None)


@dataclass(frozen=True)
class Model:
    """A whole model. `layer_codes[i]` is the index in `kinds` of layer i, first to last.

    `draft_codes` are the kinds of multi-token-prediction layers, outside the headline count,
    `draft_extra_parameters` their projections and norms. `vision_parameters` is the tower, set
    apart: never in `layer_codes`. `lookup_parameters` are further tables of which a token reads
    a row (learned positions, per-layer inputs). `other_parameters` is whatever else the headline
    counts (final norm, head bias). `weight_precision` is that of the bulk of the weights, while
    `kept_parts` of the parameter ledger stay in 16 bits; `cache_precision` and `state_precision`
    are what the file asks for, "" where it is silent. `notes` say what the file left open.
    `drafters` guess tokens ahead of it, one a way of drafting; one that `shares_tables` reads the
    embedding and the head of its target.
    """

    name: str
    hidden: int
    vocab: int
    tied_embeddings: bool
    max_tokens: int
    kinds: tuple[LayerKind, ...]
    layer_codes: tuple[int, ...]
    draft_codes: tuple[int, ...] = ()
    draft_extra_parameters: int = 0
    vision_parameters: int = 0
    other_parameters: int = 0
    weight_precision: str = "bf16"
    lookup_parameters: int = 0
    cache_precision: str = ""
    state_precision: str = ""
    kept_parts: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    drafters: tuple[Model, ...] = ()
    shares_tables: bool = False

    @property
    def layers(self) -> int:
        """Layers of the headline model, drafts not counted."""
        return len(self.layer_codes)


def layer_counts(model: Model) -> tuple[int, ...]:
    """How many layers there are of each kind, in the order of `model.kinds`."""
    counts = Counter(model.layer_codes)
    return tuple(counts[code] for code in range(len(model.kinds)))


def expert_parameters(kind: LayerKind) -> int:
    """Parameters that expert parallelism divides: all routed experts of one layer."""
    weights = sum(w.parameters for w in kind.weights if w.part == "experts")
    return weights + kind.expert_vector_parameters


def dense_parameters(kind: LayerKind) -> Ledger:
    """Parameters of one layer outside the routed experts, by how tensor parallelism cuts them.

    Norms and biases count as "replicated", beside "column" and "row".
    """
    terms = {"column": 0, "row": 0, "replicated": kind.vector_parameters}
    for weight in kind.weights:
        if weight.part != "experts":
            terms[weight.split] += weight.parameters
    return Ledger("dense_parameters", "parameters", {k: float(v) for k, v in terms.items()})


def layer_parameters(kind: LayerKind, active: bool = False) -> Ledger:
    """Parameters of one layer by part, all of them or (`active`) what one token meets."""
    is_state = kind.core is not None and kind.core.kind == "state"
    mixer = "state" if is_state else "attention"
    terms: dict[str, Column] = {}
    for weight in kind.weights:
        part = mixer if weight.part == "mixer" else weight.part
        size = weight.active_parameters if active else weight.parameters
        terms[part] = terms.get(part, 0.0) + float(size)
    if kind.expert_vector_parameters:
        share = kind.top_k / kind.experts if active else 1.0
        terms["experts"] += kind.expert_vector_parameters * share
    terms["vectors"] = float(kind.vector_parameters)
    return Ledger("layer_parameters", "parameters", terms)


def parameters(model: Model) -> Ledger:
    """Headline parameters of the model by part; drafts and vision tower are not in it.

    Returns
    -------
    Terms embedding, head (0 where tied), lookup, attention, state, indexer, mlp,
    shared_experts, experts, router, vectors, other [parameters]
    """
    table = float(model.vocab * model.hidden)
    ends = {"embedding": table, "head": 0.0 if model.tied_embeddings else table}
    ends["lookup"] = float(model.lookup_parameters)
    terms = ends | _layers_parts(model, model.layer_codes, active=False)
    terms["other"] = float(model.other_parameters)
    return Ledger("parameters", "parameters", terms)


def active_parameters(model: Model, convention: str = "both_embeddings") -> Ledger:
    """Parameters that one token meets, under one of `ACTIVE_CONVENTIONS`.

    Parameters
    ----------
    convention : "both_embeddings" | "without_input" | "without_both"; a tied table is the head,
        so the first two agree for it

    Raises
    ------
    UnknownName : no such convention
    """
    if convention not in ACTIVE_CONVENTIONS:
        raise unknown("active-parameter convention", convention, ACTIVE_CONVENTIONS)
    table = float(model.vocab * model.hidden)
    has_input = convention == "both_embeddings"
    ends = {
        "embedding": table if has_input and not model.tied_embeddings else 0.0,
        "head": 0.0 if convention == "without_both" else table,
        "lookup": float(model.lookup_parameters) if has_input else 0.0,
    }
    terms = ends | _layers_parts(model, model.layer_codes, active=True)
    terms["other"] = float(model.other_parameters)
    return Ledger("active_parameters", "parameters", terms)


def weight_bytes(model: Model) -> Ledger:
    """Bytes of the headline weights as the file stores them, by part, block scales included."""
    stored = WEIGHT_BITS.get(model.weight_precision, 16.0) / 8
    kept = {*KEPT_PARTS, *model.kept_parts}
    plain = max(stored, 2.0)
    terms = parameters(model).terms
    parts = {part: n * (plain if part in kept else stored) for part, n in terms.items()}
    return Ledger("weight_bytes", "bytes", parts)


def draft_parameters(model: Model) -> Ledger:
    """Parameters of the multi-token-prediction layers, outside the headline."""
    terms = _layers_parts(model, model.draft_codes, active=False)
    terms["other"] = float(model.draft_extra_parameters)
    return Ledger("draft_parameters", "parameters", terms)


def kind_kv_bytes(kind: LayerKind, tokens: Column, bytes_per_value: Column = 2.0) -> Column:
    """Bytes that one layer, before any split over devices, holds of a sequence of `tokens`.

    Parameters
    ----------
    tokens : (n,) or scalar, context length [tokens]
    bytes_per_value : (n,) or scalar; 2 for BF16 [bytes]

    Notes
    -----
    Windowed layers stop growing at their window; blocks reserved beyond it are not counted.
    """
    return sum((_kept(core, tokens) * core.cache_values for core in kind.cores), start=0.0) * (
        bytes_per_value
    )


def kv_bytes(model: Model, tokens: Column, bytes_per_value: Column = 2.0) -> Column:
    """Bytes of keys and values of one sequence, all layers; shapes as kind_kv_bytes."""
    return sum(
        (
            count * kind_kv_bytes(kind, tokens, bytes_per_value)
            for kind, count in zip(model.kinds, layer_counts(model), strict=True)
        ),
        start=0.0,
    )


def kv_bytes_per_token(model: Model, bytes_per_value: Column = 2.0) -> Column:
    """Bytes of keys and values that the first token adds, all layers [bytes per token]."""
    return kv_bytes(model, 1.0, bytes_per_value)


def index_bytes(model: Model, tokens: Column) -> Column:
    """Bytes of the keys that sparse attention's indexer keeps of one sequence.

    References
    ----------
    DeepSeek-V3.2 reference inference code: index keys in FP8, one 4-byte scale per 128 values.
    """
    widths = sum(
        count * core.index_dim
        for kind, count in zip(model.kinds, layer_counts(model), strict=True)
        for core in kind.cores
    )
    return tokens * widths * (1 + 4 / 128)


def state_bytes(
    model: Model, bytes_per_value: Column = 4.0, conv_bytes_per_value: Column = 2.0
) -> Column:
    """Bytes that recurrent layers keep of one sequence, whatever its length.

    Parameters
    ----------
    bytes_per_value, conv_bytes_per_value : of the recurrent state (FP32 where the file says
        so), and of the last inputs of the short convolutions
    """
    return sum(
        (
            count * (core.state_values * bytes_per_value + core.conv_values * conv_bytes_per_value)
            for kind, count in zip(model.kinds, layer_counts(model), strict=True)
            for core in kind.cores
        ),
        start=0.0,
    )


def mean_keys(core: Core, tokens: Column) -> Column:
    """Keys that a query meets on average in a causal sequence of `tokens`, limits included.

    Notes
    -----
    The mean of min(position, limit), to the half token: s/2 without a limit (as Megatron-LM),
    w - w^2/2s with a window or selection of w <= s, c/2 with chunks of c; compressed entries
    come beside the window.
    """
    if core.compression > 1:
        near = _mean_reach(tokens, core.window)
        return near + _mean_reach(tokens / core.compression, core.selected_keys)
    if core.is_chunked:
        return np.minimum(tokens, float(core.window)) / 2
    return _mean_reach(tokens, core.window or core.selected_keys)


def core_flop_per_token(core: Core, keys: Column) -> Column:
    """Forward FLOPs of the core for one query that meets `keys` keys; 2 per multiply-add.

    Notes
    -----
    Scores take heads x key_dim, the sum heads x value_dim multiply-adds per key; latent
    attention is counted expanded (training, prefill). A state core does not look at keys.
    """
    return 2 * keys * core.heads * (core.key_dim + core.value_dim) + core.state_flop_per_token


def index_flop_per_token(core: Core, tokens: Column) -> Column:
    """Forward FLOPs of the indexer: every key before the query is scored, s/2 on average."""
    return 2 * (tokens / 2) * core.index_heads * core.index_dim


def training_flop_per_token(
    model: Model, tokens_per_sequence: Column, convention: str = "without_input"
) -> Ledger:
    """FLOPs of forward and backward for one token of training, nothing recomputed.

    Parameters
    ----------
    tokens_per_sequence : (n,) or scalar [tokens]
    convention : as in `active_parameters`; the work really done is "without_input"

    Returns
    -------
    The terms of `active_parameters` times 6, then "core" (attention scores and sums, states)
    and "index" (scores of the sparse indexer) [flop per token]

    Notes
    -----
    Backward is twice forward; attention is causal and counted half. No drafts, no vision.

    References
    ----------
    Narayanan et al. 2021 (arXiv 2104.04473) for the structure, with causal attention halved as
    Megatron-LM's num_floating_point_operations does.
    """
    terms = dict(active_parameters(model, convention).scaled(6.0).terms)
    terms["core"] = terms["index"] = 0.0
    for kind, count in zip(model.kinds, layer_counts(model), strict=True):
        for core in kind.cores:
            keys = mean_keys(core, tokens_per_sequence)
            terms["core"] += 3 * count * core_flop_per_token(core, keys)
            terms["index"] += 3 * count * index_flop_per_token(core, tokens_per_sequence)
    return Ledger("training_flop_per_token", "flop", terms)


def _mean_reach(tokens: Column, limit: int) -> Column:
    """Mean of min(position, limit) over positions up to `tokens`; no limit where it is 0."""
    reach = np.minimum(tokens, float(limit)) if limit else tokens
    return reach - reach * reach / (2 * tokens)


def _kept(core: Core, tokens: Column) -> Column:
    """Cache entries that a layer holds of a sequence."""
    near = np.minimum(tokens, float(core.window)) if core.window else 0.0
    if core.compression > 1:
        return near + tokens / core.compression
    return near if core.window else tokens


def _layers_parts(model: Model, codes: Iterable[int], active: bool) -> dict[str, Column]:
    """Parameters of some layers by part, in reading order."""
    names = ("attention", "state", "indexer", "mlp", "shared_experts", "experts", "router")
    terms: dict[str, Column] = {name: 0.0 for name in (*names, "vectors")}
    for code, count in Counter(codes).items():
        for name, value in layer_parameters(model.kinds[code], active).terms.items():
            terms[name] += count * value
    return terms
