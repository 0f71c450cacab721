"""Attention mixers: grouped queries, latent attention, sparse selection, compressed caches."""

from __future__ import annotations

from dataclasses import replace

from costdata.configs.family import Family
from costdata.configs.keys import Keys
from costdata.configs.parts import Part, column, row, whole
from simkernel.models import Core, Weight

INDEX_NORMS = 2  # LayerNorm with bias over the index key: DeepSeek-V3.2 reference model.py


def attention(keys: Keys, family: Family, mixer: str, layers: int) -> Part:
    """The mixer of an attention layer, of one of the kinds that layers.py names."""
    if mixer in ("compressed", "pooled") or (mixer == "window" and keys.has("o_lora_rank")):
        return _compressed(keys, mixer)
    part = (
        _latent(keys, family)
        if keys.has("kv_lora_rank")
        else _grouped(keys, family, mixer, layers)
    )
    return _limited(keys, part, mixer)


def head_dim(keys: Keys) -> int:
    """Width of a head: stated, or the hidden width divided among the heads."""
    return keys.optional("head_dim") or keys.count("hidden") // keys.count("heads") or 1


def has_bias(keys: Keys, rule: str) -> tuple[bool, bool]:
    """Whether the query, key and value projections have a bias, and whether the output has."""
    if rule in ("none", "o", "qkv", "qkvo"):
        return rule in ("qkv", "qkvo"), rule in ("o", "qkvo")
    is_on = keys.flag(
        "attention_bias", "qkv_bias", "use_qkv_bias", "add_qkv_bias", "use_bias", "bias"
    )
    is_output_on = keys.flag("attention_out_bias", default=is_on and rule == "key")
    return is_on, is_output_on


def _grouped(keys: Keys, family: Family, mixer: str, layers: int) -> Part:
    """Heads that share keys and values in groups; one group per head is plain multi-head."""
    hidden = keys.count("hidden")
    heads, kv_heads, key_dim, value_dim = _head_shape(keys, family, mixer)
    owns_cache = not _reads_earlier_cache(keys, layers)
    shares_projection = mixer == "full" and keys.flag("attention_k_eq_v")
    kv_width = kv_heads * (key_dim if shares_projection else key_dim + value_dim)
    query = heads * key_dim * (2 if _gates_in_query(keys, family) else 1)
    rank = keys.optional("query_rank")  # Step-3 factorises the query projection
    weights = [column("q", rank or hidden, query), row("o", heads * value_dim, hidden)]
    if owns_cache:
        weights.insert(1, column("kv", hidden, kv_width))
    weights += _output_gate(keys, family, heads, value_dim)
    weights += [whole("q_a", hidden, rank)] if rank else []
    has_qkv, has_o = has_bias(keys, family.bias)
    vectors = (query + (kv_width if owns_cache else 0)) * has_qkv + hidden * has_o
    vectors += _head_norms(keys, family, (heads, kv_heads if owns_cache else 0), key_dim)
    vectors += heads * _has_sinks(keys, family, mixer) + rank
    vectors += heads * value_dim * ("sub_norms" in family.extras)
    core = Core(
        "softmax",
        heads=heads,
        kv_heads=kv_heads,
        key_dim=key_dim,
        value_dim=value_dim,
        owns_cache=owns_cache,
    )
    return Part("attention", tuple(weights), vectors, core)


def _head_shape(keys: Keys, family: Family, mixer: str) -> tuple[int, int, int, int]:
    """Heads, key-value heads, key width and value width of this layer."""
    heads, key_dim = keys.count("heads"), head_dim(keys)
    kv_heads = _kv_heads(keys, heads)
    value_dim = keys.optional("value_dim", key_dim)
    if mixer == "full":
        kv_heads = keys.optional("global_kv_heads") or kv_heads
    if mixer == "full" and "wide_global" in family.extras:
        key_dim = value_dim = keys.optional("global_head_dim", key_dim)
    if mixer == "window":
        own = keys.table("attention_other_setting")
        keys = (
            keys.with_values(
                {
                    "swa_num_attention_heads": own.get("num_attention_heads"),
                    "swa_num_key_value_heads": own.get("num_attention_groups"),
                }
            )
            if own
            else keys
        )
        heads = keys.optional("window_heads") or heads
        twice = kv_heads * (2 if "twice_in_window" in family.extras else 1)
        kv_heads = keys.optional("window_kv_heads") or twice
        key_dim = keys.optional("window_head_dim") or key_dim
        value_dim = keys.optional("window_value_dim") or value_dim
    if heads % kv_heads and "heads" not in keys.faults.missing:
        keys.faults.bad.setdefault(
            "kv_heads",
            f"num_attention_heads is {heads}, which "
            f"num_key_value_heads {kv_heads} does not divide; one of them is wrong",
        )
    return heads, kv_heads, key_dim, value_dim


def _kv_heads(keys: Keys, heads: int) -> int:
    """Key-value heads: stated, one for multi-query, groups of a searched block, or all heads."""
    group = keys.number("n_heads_in_group")
    if group:
        return max(heads // group, 1)
    if keys.flag("multi_query") and not keys.flag("new_decoder_architecture"):
        return 1
    return keys.optional("kv_heads", heads) or heads


def _reads_earlier_cache(keys: Keys, layers: int) -> bool:
    """Whether this layer, one of the last, reads the keys and values of an earlier one."""
    shared = keys.optional("shared_cache_layers")
    return bool(shared) and keys.layer is not None and keys.layer >= layers - shared


def _gates_in_query(keys: Keys, family: Family) -> bool:
    return keys.flag("attn_output_gate", default="gate_q" in family.extras)


def _output_gate(keys: Keys, family: Family, heads: int, value_dim: int) -> list[Weight]:
    """A gate on the output, one value per head or per output value."""
    hidden = keys.count("hidden")
    if "gate_full" in family.extras:
        return [column("gate", hidden, heads * value_dim)]
    return [column("gate", hidden, heads)] if "gate_heads" in family.extras else []


def _head_norms(keys: Keys, family: Family, heads: tuple[int, int], key_dim: int) -> int:
    """Norm vectors over queries and keys."""
    kind = family.qk_norm
    if kind == "key":
        kind = "head" if keys.flag("use_qk_norm", "qk_norm", "qk_layernorm") else "none"
    if keys.value("qk_norm_type") == "per_layer":
        kind = "wide"
    widths = {"none": 0, "head": sum(1 for n in heads if n), "wide": sum(heads)}
    return widths[kind] * key_dim


def _has_sinks(keys: Keys, family: Family, mixer: str) -> bool:
    """Whether each head has a learned sink beside its keys."""
    own = {"window": "add_swa_attention_sink_bias", "full": "add_full_attention_sink_bias"}
    by_type = "sinks" in family.extras or (mixer == "window" and "sinks_window" in family.extras)
    return keys.flag(own.get(mixer, ""), "use_attention_sinks", default=by_type)


def _latent(keys: Keys, family: Family) -> Part:
    """Multi-head latent attention, with the indexer of sparse attention where there is one.

    References
    ----------
    DeepSeek-V2, arXiv 2405.04434, eq. 9-19; DeepSeek-V3.2 model.py for the indexer.
    """
    hidden, heads = keys.count("hidden"), keys.count("heads")
    latent, rope = keys.count("kv_lora_rank"), keys.optional("qk_rope_head_dim")
    nope, value_dim = keys.count("qk_nope_head_dim"), keys.count("value_dim")
    q_rank = keys.optional("q_lora_rank")
    query = heads * (nope + rope)
    first = (
        (whole("q_a", hidden, q_rank), column("q_b", q_rank, query))
        if q_rank
        else (column("q", hidden, query),)
    )
    weights = (
        *first,
        whole("kv_a", hidden, latent + rope),
        column("kv_b", latent, heads * (nope + value_dim)),
        row("o", heads * value_dim, hidden),
    )
    core = Core(
        "mla",
        heads=heads,
        kv_heads=1,
        key_dim=nope + rope,
        value_dim=value_dim,
        latent=latent + rope,
    )
    part = Part("latent", weights, q_rank + latent, core)
    if has_bias(keys, family.bias)[0]:
        part = replace(part, vectors=part.vectors + q_rank + latent + rope + hidden)
    return _indexed(keys, part, q_rank or hidden)


def _indexed(keys: Keys, part: Part, query_inputs: int) -> Part:
    """The part with a lightning indexer that selects the keys each query meets."""
    heads, dim = keys.optional("index_heads"), keys.optional("index_dim")
    if not heads or not dim or part.core is None:
        return part
    core = replace(part.core, selected_keys=keys.count("index_top_k"))
    if not _has_own_indexer(keys):
        return replace(part, core=core, name=f"{part.name}_sparse_shared")
    hidden = keys.count("hidden")
    weights = (
        *part.weights,
        whole("index_q", query_inputs, heads * dim),
        whole("index_k", hidden, dim),
        whole("index_weights", hidden, heads),
    )
    core = replace(core, index_heads=heads, index_dim=dim)
    return Part(f"{part.name}_sparse", weights, part.vectors + INDEX_NORMS * dim, core)


def _has_own_indexer(keys: Keys) -> bool:
    """Whether the layer selects keys itself or takes the selection of an earlier layer."""
    layer = keys.layer or 0
    types = keys.file.get("indexer_types")
    pattern = keys.file.get("index_topk_pattern")
    if isinstance(types, list) and layer < len(types):
        return bool(types[layer] == "full")
    if isinstance(pattern, str | list) and layer < len(pattern):
        return pattern[layer] in ("F", "full")
    every = keys.number("index_topk_freq", default=1) or 1
    # Where it is not stated, 2: GlmMoeDsaConfig of transformers 5.18.
    offset = keys.number("index_skip_topk_offset", default=2)
    return bool(max(layer - offset + 1, 0) % every == 0)


def _limited(keys: Keys, part: Part, mixer: str) -> Part:
    """The part with the window, chunk or selected blocks of its kind."""
    if part.core is None or mixer == "full":
        return part
    if mixer == "sparse":
        return _block_sparse(keys, part)
    meaning = "window" if mixer == "window" else "chunk"
    core = replace(part.core, window=keys.count(meaning), is_chunked=mixer == "chunk")
    return replace(
        part, name=mixer if part.name == "attention" else f"{part.name}_{mixer}", core=core
    )


def _block_sparse(keys: Keys, part: Part) -> Part:
    """Grouped attention to selected blocks of keys (MiniMax-M3)."""
    keys = keys.with_values(keys.table("sparse_attention_config"))
    hidden, heads, dim = (keys.count(m) for m in ("hidden", "index_heads", "index_dim"))
    selected = keys.count("index_top_blocks") * keys.count("index_block")
    weights = (*part.weights, whole("index_q", hidden, heads * dim), whole("index_k", hidden, dim))
    core = replace(
        part.core or Core("softmax"), selected_keys=selected, index_heads=heads, index_dim=dim
    )
    return Part("sparse", weights, part.vectors + 2 * dim, core)


def _compressed(keys: Keys, mixer: str) -> Part:
    """One shared key-value head, a window, and beside it compressed entries (DeepSeek-V4).

    Notes
    -----
    "compressed" layers keep one entry per few tokens, select among them by an indexer, and pool
    two overlapping series; "pooled" layers keep one per many tokens and meet them all; "window"
    layers have neither.

    References
    ----------
    transformers 5.18 modeling_deepseek_v4.py.
    """
    hidden, heads, dim = keys.count("hidden"), keys.count("heads"), keys.count("head_dim")
    q_rank, o_rank, groups = (keys.count(m) for m in ("q_lora_rank", "o_lora_rank", "o_groups"))
    weights = [
        whole("q_a", hidden, q_rank),
        column("q_b", q_rank, heads * dim),
        whole("kv", hidden, dim),
        column("o_a", heads * dim // groups, o_rank * groups),
        row("o_b", o_rank * groups, hidden),
    ]
    vectors = q_rank + dim + heads
    core = Core(
        "mla",
        heads=heads,
        kv_heads=1,
        key_dim=dim,
        value_dim=dim,
        latent=dim,
        window=keys.count("window"),
    )
    if mixer == "window":
        return Part("window", tuple(weights), vectors, core)
    rate, series = _compression(keys, mixer), 2 if mixer == "compressed" else 1
    weights += [
        whole("compress_kv", hidden, series * dim),
        whole("compress_gate", hidden, series * dim),
    ]
    vectors += rate * series * dim + dim
    core = replace(core, compression=rate)
    if mixer == "compressed":
        index_heads, index = keys.count("index_heads"), keys.count("index_dim")
        weights += [
            whole("index_kv", hidden, 2 * index),
            whole("index_gate", hidden, 2 * index),
            whole("index_q", q_rank, index_heads * index),
            whole("index_weights", hidden, index_heads),
        ]
        vectors += rate * 2 * index + index
        core = replace(
            core, selected_keys=keys.count("index_top_k"), index_heads=index_heads, index_dim=index
        )
    return Part(mixer, tuple(weights), vectors, core)


def _compression(keys: Keys, mixer: str) -> int:
    """Tokens per compressed entry of this layer."""
    ratio = keys.number("compress_ratios")
    if ratio:
        return ratio
    names = {
        "compressed": ("compressed_sparse_attention", "compress_rate_csa"),
        "pooled": ("heavily_compressed_attention", "compress_rate_hca"),
    }
    table, single = names[mixer]
    rate = keys.with_values(keys.table("compress_rates")).number(table, single)
    if not rate:
        keys.missing("compress_rates", f"no value for compress_rates[{table!r}]")
    return rate or 1
