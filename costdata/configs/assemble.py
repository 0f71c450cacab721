"""From the keys of one file to a Model: kinds of layers, drafts, tables beside the embedding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from costdata.configs import state
from costdata.configs.attention import attention
from costdata.configs.family import Family, family_of
from costdata.configs.keys import Keys
from costdata.configs.layers import Layer, block_count, plan, searched_part, single_blocks
from costdata.configs.mlp import Mlp, dense, moe
from costdata.configs.parts import Part, whole
from simkernel.models import LayerKind, Model

MAX_LAYERS = 10_000  # above any published depth: a typing slip, not a model

STATE_MIXERS: dict[str, Callable[[Keys], Part]] = {
    "linear": state.linear,
    "conv": state.convolution,
    "recurrent": state.recurrent,
}


def assemble(keys: Keys, name: str) -> Model:
    """The model of one file; faults are left in `keys.faults` for the caller to raise."""
    family = family_of(keys.model_type)
    layers = _layers(keys)
    steps = plan(keys, family, layers)
    built = [_kind(keys, family, step, layers) for step in steps]
    drafted = _drafts(keys, family, steps, layers)
    kinds, codes = _distinct([*built, *drafted])
    hidden, vocab = keys.count("hidden"), keys.count("vocab")
    _check_embedding(keys, hidden)
    return Model(
        name=name,
        hidden=hidden,
        vocab=vocab,
        tied_embeddings=_is_tied(keys, built, hidden * vocab),
        max_tokens=keys.optional("max_tokens"),
        kinds=kinds,
        layer_codes=codes[: len(built)],
        draft_codes=codes[len(built) :],
        draft_extra_parameters=_draft_extras(keys, hidden),
        other_parameters=_others(keys, family, hidden, vocab, layers),
        lookup_parameters=_lookups(keys, family, hidden, layers),
        notes=tuple(keys.faults.notes),
    )


def _layers(keys: Keys) -> int:
    """Number of layers: stated, or the length of a pattern of single blocks."""
    blocks = block_count(keys)
    layers = blocks if blocks is not None else keys.count("layers")
    if layers <= MAX_LAYERS:
        return layers
    keys.faults.bad.setdefault("layers", f"{layers} layers; no model has more than {MAX_LAYERS}")
    return 1


def _kind(keys: Keys, family: Family, step: Layer, layers: int) -> LayerKind:
    """One layer as a LayerKind, named by its mixer and MLP."""
    keys = keys.at(step.index)
    if isinstance(step.settings, dict):
        keys = keys.with_values(_searched_values(step.settings))
    mixer = _mixer(keys, family, step, layers)
    mlp = _mlp(keys, family, step, layers)
    side = state.mamba2(keys) if _is_parallel(keys, family) else None
    parts = [part for part in (mixer, side, mlp.part if mlp else None) if part]
    norms = _norms(keys, family, step)
    kind = LayerKind(
        name="+".join(part.name for part in parts) or "identity",
        weights=tuple(weight for part in parts for weight in part.weights),
        core=mixer.core if mixer else None,
        side_core=side.core if side else None,
        vector_parameters=sum(part.vectors for part in parts) + norms,
        mlp=mlp.kind if mlp else "none",
    )
    kind = _with_mlp(kind, mlp) if mlp else kind
    return _doubled(kind, keys, family) if "double" in family.extras else kind


def _mixer(keys: Keys, family: Family, step: Layer, layers: int) -> Part | None:
    if step.mixer == "none":
        return None
    build = STATE_MIXERS.get(step.mixer)
    part = build(keys) if build else attention(keys, family, step.mixer, layers)
    return _with_streams(keys, _with_extras(keys, family, part))


def _mlp(keys: Keys, family: Family, step: Layer, layers: int) -> Mlp | None:
    if step.mlp == "none":
        return None
    if step.mlp == "moe":
        return moe(keys, family)
    width = None
    if "prefix_dense_intermediate_size" in keys.file and keys.has("experts"):
        width = keys.number("prefix_dense_intermediate_size") or None
    return dense(keys, family, width)


def _with_mlp(kind: LayerKind, mlp: Mlp) -> LayerKind:
    return replace(
        kind,
        mlp_width=mlp.width,
        gated=mlp.gated,
        experts=mlp.experts,
        top_k=mlp.top_k,
        shared_width=mlp.shared_width,
        expert_groups=mlp.groups,
        expert_groups_used=mlp.groups_used,
        expert_vector_parameters=mlp.expert_vectors,
    )


def _searched_values(block: dict[str, dict[str, object]]) -> dict[str, object]:
    """The settings of one searched block under the names that the other rooms read."""
    attention_block, ffn = searched_part(block, "attention"), searched_part(block, "ffn")
    values = {
        "n_heads_in_group": attention_block.get("n_heads_in_group"),
        "ffn_mult": ffn.get("ffn_mult"),
        "intermediate_size": ffn.get("intermediate_size"),
        "num_key_value_heads": attention_block.get("num_key_value_heads"),
    }
    window = attention_block.get("window_length")
    return {k: v for k, v in (values | {"sliding_window": window}).items() if v is not None}


def _norms(keys: Keys, family: Family, step: Layer) -> int:
    """Norm vectors of a layer; one that holds only a mixer or an MLP has half of them."""
    halves = (step.mixer != "none") + (step.mlp != "none")
    count = family.norms if family.norms == 1 else family.norms * halves // 2
    if "beside_mlp" in family.extras and step.mlp == "moe":
        count += 4  # three norms and the router's scale: transformers 5.18 modeling_gemma4.py
    return count * keys.count("hidden") * (2 if family.norm_bias else 1)


def _is_parallel(keys: Keys, family: Family) -> bool:
    """Whether attention and a state space work side by side in every layer (Falcon-H1)."""
    return "parallel" in family.extras


def _with_extras(keys: Keys, family: Family, part: Part) -> Part:
    """Per-layer inputs, low-rank residuals and alternating updates (Gemma 3n, Gemma 4).

    References
    ----------
    transformers 5.18 modeling_gemma3n.py and modeling_gemma4.py.
    """
    hidden, weights, vectors = keys.count("hidden"), part.weights, part.vectors
    width, rank = keys.optional("layer_input_width"), keys.optional("laurel_rank")
    if width and "layer_inputs" in family.extras:
        weights += (whole("input_gate", hidden, width), whole("input_projection", width, hidden))
        vectors += hidden
    if rank:
        weights += (whole("laurel_left", hidden, rank), whole("laurel_right", rank, hidden))
        vectors += hidden
    streams = keys.optional("altup_inputs")
    if streams:
        weights += (whole("altup_router", hidden, streams),)
        vectors += streams**2 + streams**3 + 2 * hidden
    return replace(part, weights=weights, vectors=vectors)


def _with_streams(keys: Keys, part: Part) -> Part:
    """Hyper-connections: several residual streams, mixed before and after each half layer.

    References
    ----------
    mHC, arXiv 2512.24880; layout as in transformers 5.18 modeling_deepseek_v4.py.
    """
    n = keys.optional("streams")
    if n < 2:
        return part
    if keys.model_type not in ("deepseek_v4",):
        keys.missing(
            "hc_mult",
            f"hyper-connections (hc_mult {n}) of model type "
            f"{keys.model_type!r} have a shape that is not known",
        )
    hidden, mixes = keys.count("hidden"), n * n + 2 * n
    weights = (whole("stream_mixer", n * hidden, mixes), whole("stream_mlp", n * hidden, mixes))
    return replace(part, weights=part.weights + weights, vectors=part.vectors + 2 * (mixes + 3))


def _doubled(kind: LayerKind, keys: Keys, family: Family) -> LayerKind:
    """LongCat: two attentions and two dense MLPs beside one set of experts in each layer."""
    mixers = tuple(w for w in kind.weights if w.part == "mixer")
    width = keys.count("dense_width")
    mlp = dense(keys, family, width).part
    vectors = kind.vector_parameters * 2
    return replace(
        kind,
        weights=kind.weights + mixers + mlp.weights * 2,
        side_core=kind.core,
        vector_parameters=vectors,
        name=f"double_{kind.name}",
    )


def _drafts(keys: Keys, family: Family, steps: Sequence[Layer], layers: int) -> list[LayerKind]:
    """Multi-token-prediction layers, set apart from the headline."""
    drafts = keys.optional("drafts")
    if not drafts or not steps or not keys.flag("use_mtp", default=True):
        return []
    drafts *= keys.number("mtp_transformer_layers", default=1) or 1
    if drafts > MAX_LAYERS:
        keys.faults.bad.setdefault("drafts", f"{drafts} draft layers; no model has so many")
        return []
    blocks = single_blocks(keys, prefix="mtp_")
    if blocks is not None:
        return [
            _kind(keys, family, replace(b, index=0), layers) for _ in range(drafts) for b in blocks
        ]
    is_dense = "dense_drafts" in family.extras
    attends = [step for step in steps if step.mixer not in ("none", "linear", "conv")]
    last = (attends or list(steps))[-1]
    last = replace(last, mlp="dense") if is_dense else last
    return [_kind(keys, family, last, layers)] * drafts


def _draft_extras(keys: Keys, hidden: int) -> int:
    """Per draft a projection of two hidden states to one, and three norms.

    References
    ----------
    DeepSeek-V3 README_WEIGHTS.md: eh_proj, enorm, hnorm, shared_head.norm.
    """
    drafts = keys.optional("drafts") if keys.flag("use_mtp", default=True) else 0
    return drafts * (2 * hidden * hidden + 3 * hidden)


def _distinct(built: Sequence[LayerKind]) -> tuple[tuple[LayerKind, ...], tuple[int, ...]]:
    """Each different kind once, with names made different, and the code of every layer."""
    kinds = tuple(dict.fromkeys(built))
    codes = {kind: i for i, kind in enumerate(kinds)}
    names = [kind.name for kind in kinds]
    named = tuple(
        replace(kind, name=f"{kind.name}#{names[:i].count(kind.name) + 1}")
        if names.count(kind.name) > 1
        else kind
        for i, kind in enumerate(kinds)
    )
    return named, tuple(codes[kind] for kind in built)


def _is_tied(keys: Keys, built: Sequence[LayerKind], table: int) -> bool:
    """Whether head and embedding are one table; an unknown type must say so where it matters."""
    stated = keys.value("tie_word_embeddings", "tie_embedding")
    if stated is not None:
        return bool(stated)
    weights = sum(sum(w.parameters for w in kind.weights) for kind in built)
    if table > 0.005 * weights and keys.model_type:  # half of the 1.2 % that a count may be off
        keys.missing(
            "tie_word_embeddings",
            "no value for tie_word_embeddings, and model type "
            f"{keys.model_type!r} has no known default; it changes the count by {table:,}",
        )
    keys.faults.notes.append("tie_word_embeddings is not stated: taken as false")
    return False


def _others(keys: Keys, family: Family, hidden: int, vocab: int, layers: int) -> int:
    """Final norm, embedding norm, head bias, and projections outside the layers."""
    norm = hidden * (2 if family.norm_bias else 1)
    total = 0 if "no_final_norm" in family.extras else norm
    total += norm * ("embed_norm" in family.extras)
    has_head_bias = keys.flag("lm_head_bias", default="head_bias" in family.extras)
    total += vocab * has_head_bias
    width = keys.optional("layer_input_width")
    if width and "layer_inputs" in family.extras:
        total += layers * width * hidden + width
    streams = keys.optional("altup_inputs")
    if streams:
        total += 2 * (streams - 1) * hidden * hidden
    mixed = keys.optional("streams")
    return total + (mixed * mixed * hidden + mixed + 1 if mixed > 1 else 0)


def _lookups(keys: Keys, family: Family, hidden: int, layers: int) -> int:
    """Learned positions and the table of per-layer inputs."""
    width, vocab = keys.optional("layer_input_width"), keys.optional("layer_input_vocab")
    inputs = width * vocab * layers if "layer_inputs" in family.extras else 0
    offset = 2 if "positions_offset_2" in family.extras else 0
    if "positions" not in family.extras:
        return inputs
    return inputs + (keys.count("max_tokens") + offset) * hidden


def _check_embedding(keys: Keys, hidden: int) -> None:
    """Refuse an embedding of another width than the layers."""
    width = keys.optional("word_width", hidden)
    if width != hidden:
        keys.missing(
            "word_embed_proj_dim",
            f"embedding width {width} differs from hidden_size "
            f"{hidden}; projected embeddings are not known here",
        )
