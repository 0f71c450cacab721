"""Forward passes of serving: a batch of decoding sequences, or prompts, through all layers.

The same products, streams and collectives as a training layer's forward pass; what differs is
what attention meets (a cache), that a step ends in one row per sequence, and that tensor ranks
all-reduce whole activations instead of gathering and scattering shares of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace

import numpy as np

from simkernel.columns import Column, Floats, is_one_row
from simkernel.exchange import collective, distinct_domains
from simkernel.hardware import (
    PRECISION_BYTES,
    PRECISIONS,
    AttentionCurve,
    Chips,
)
from simkernel.keeping import PLAIN, WIDE_BYTES
from simkernel.models import Core, LayerKind, Model, layer_counts, mean_keys
from simkernel.ops import (
    Parts,
    elementwise,
    head_product,
    layer_products,
    merged_product,
    state_scan,
)
from simkernel.passes import Pass, computed
from simkernel.roofline import (
    CoreShape,
    GemmRates,
    attention_rates,
    attention_work,
    gemm_rates,
    stream_rates,
    stream_work,
)
from simkernel.serving_engine import Engine
from simkernel.serving_rig import Rig
from simkernel.share import Share
from simkernel.stack import Stack

LEAST_BYTES = 0.9
"""Bytes of a value below which it has 4 bits."""

MOST_MEMORY_RATE_FRAC = 0.93
"""Of the rated memory bandwidth that the best stream reaches (decode attention on B200 in
engine_curves.csv: 0.89 to 0.95)."""

STATE_BYTES = 4.0
"""Of a value of a recurrent state: FP32 (Mamba-2 reference kernels, arXiv 2405.21060)."""

Meeting = Callable[[LayerKind, Core], Pass]
"""What one attention core of a layer takes."""


def decode_parts(
    rig: Rig, sequences: Column, context_tokens: Column, queries: Column = 1.0
) -> Parts:
    """One token for each of some sequences, through all layers of all stages, by what it is for.

    Parameters
    ----------
    rig : n candidates
    sequences : (n,) of one attention group and one pipeline slot
    context_tokens : (n,) keys that each of them meets, on average
    queries : (n,) tokens of each instead, which meet the same keys in one reading of them; the
        head still has one row per sequence
    """
    share = _decode_share(rig, sequences, context_tokens, queries)
    return _all_layers(rig, share, _decode_meeting(rig, share, context_tokens), share.sequences)


def decode_attention(
    rig: Rig, sequences: Column, context_tokens: Column, queries: Column = 1.0
) -> Pass:
    """Attention alone of a decode pass; as `decode_parts`."""
    share = _decode_share(rig, sequences, context_tokens, queries)
    return _all_attention(rig, _decode_meeting(rig, share, context_tokens))


def head_of(rig: Rig, rows: Column) -> Pass:
    """Logits of some rows."""
    return head_product(_share(rig, rows, rows, 1.0), rig.model, np.maximum(rows, 1.0))


def _decode_share(rig: Rig, sequences: Column, context_tokens: Column, queries: Column) -> Share:
    sequences = np.asarray(sequences, dtype=float) * np.ones(len(rig.plans))
    return _share(rig, sequences * queries, sequences, context_tokens)


def _decode_meeting(rig: Rig, share: Share, context_tokens: Column) -> Meeting:
    """What cores of decoding sequences take."""
    cache_bytes = rig.plans.cache_bytes_per_value
    is_narrow = cache_bytes < WIDE_BYTES

    def met(kind: LayerKind, core: Core) -> Pass:
        if core.kind == "state":
            return _state_step(share, core)
        both = rig.curves.latent_decode if core.kind == "mla" else rig.curves.decode
        chips = rig.kernels
        cells = {f.name: _picked(getattr(both, f.name), is_narrow) for f in fields(AttentionCurve)}
        faster = {n: cells[n] * rig.engine.cache_frac for n in ("flop_frac_max", "hbm_frac")}
        chips = replace(chips, attention=AttentionCurve(**(cells | faster)))
        rates = attention_rates(chips)
        shape = _decode_core(share, kind, core, context_tokens, cache_bytes)
        return computed(attention_work(rates, shape))

    return met


def prefill_parts(
    rig: Rig, prompts: Column, prompt_tokens: Column, context_tokens: Column = 0.0
) -> Parts:
    """Whole prompts that share one pass, through all layers of all stages, by what it is for.

    Parameters
    ----------
    rig : n candidates
    prompts : (n,) prompts of one attention group; a share of one stands for a chunk of it
    prompt_tokens : (n,) tokens of each
    context_tokens : (n,) of each that were computed before and stand in the cache
    """
    share = _share(rig, prompts * prompt_tokens, prompts, prompt_tokens)
    return _all_layers(rig, share, _prefill_meeting(rig, share, context_tokens), prompts)


def prefill_attention(
    rig: Rig, prompts: Column, prompt_tokens: Column, context_tokens: Column = 0.0
) -> Pass:
    """Attention alone of a pass over prompts; as `prefill_parts`."""
    share = _share(rig, prompts * prompt_tokens, prompts, prompt_tokens)
    return _all_attention(rig, _prefill_meeting(rig, share, context_tokens))


def _prefill_meeting(rig: Rig, share: Share, context_tokens: Column) -> Meeting:
    """What cores of prompts take."""

    def met(kind: LayerKind, core: Core) -> Pass:
        if core.kind == "state":
            return state_scan(share, core, 1.0)
        curve = rig.curves.latent_prefill if core.kind == "mla" else rig.curves.prefill
        chips = replace(rig.kernels, attention=curve)
        rates = attention_rates(chips, rig.engine.core_frac)
        return computed(attention_work(rates, _prompt_core(share, core, context_tokens)))

    return met


def _all_attention(rig: Rig, met: Meeting) -> Pass:
    """Cores of all layers, as `_all_layers` sums them."""
    total, longest = Pass(), _longest_stage(rig)
    for kind, count in zip(rig.model.kinds, layer_counts(rig.model), strict=True):
        part = sum((met(kind, core) for core in kind.cores if count), start=Pass())
        total = total + part.times(longest * count)
    return total


def _longest_stage(rig: Rig) -> Column:
    """Layers of the longest stage over the mean: the others wait for it."""
    stages, layers = rig.plans.pipeline_parallel, float(rig.model.layers)
    return np.asarray(np.ceil(layers / stages) * stages / layers)


def _all_layers(rig: Rig, share: Share, met: Meeting, rows: Column) -> Parts:
    """Layers by kind, the head over one row per sequence, and the sends between stages.

    Stages that do not divide the layers wait for the longest one.
    """
    stages, longest = rig.plans.pipeline_parallel, _longest_stage(rig)
    total: Parts = {}
    for kind, count in zip(rig.model.kinds, layer_counts(rig.model), strict=True):
        for name, part in layer_parts(rig, share, kind, met).items() if count else ():
            total[name] = total.get(name, Pass()) + part.times(longest * count)
    payload = share.tokens * rig.model.hidden * WIDE_BYTES
    send = collective(share, "send", rig.placement.pipeline, payload)
    total["pipeline_parallel"] = send.times(stages - 1.0)
    total["head"] = head_product(share, rig.model, np.maximum(rows, 1.0))
    return total


def launched_s(rig: Rig) -> Floats:
    """The host needs to launch all kernels of a step outside a captured graph; (n,) [s].

    Steps of decoding alone are captured once and replayed; those that carry prompts are launched
    kernel by kernel, and are no shorter than that, however little they compute. Layers with latent
    attention have more and smaller products.
    """
    total_s = np.zeros(len(rig.plans))
    for kind, count in zip(rig.model.kinds, layer_counts(rig.model), strict=True):
        is_latent = kind.core is not None and kind.core.kind == "mla"
        each_s = rig.engine.launch_latent_layer_s if is_latent else rig.engine.launch_layer_s
        total_s = total_s + count * each_s * _blocks(kind) / 2.0
    return total_s


def layer_parts(rig: Rig, share: Share, kind: LayerKind, met: Meeting) -> Parts:
    """Passes of one layer, by what they are for."""
    routed = tuple(w for w in kind.weights if w.split.startswith("expert"))
    dense = tuple(w for w in kind.weights if w not in routed)
    parts = {
        "gemm": _dense_products(share, replace(kind, weights=dense)),
        "elementwise": elementwise(share, rig.model, _unrouted(kind), share_of_forward=1.0),
        "tensor_parallel": _reduces(rig, share, kind),
        "floor": _small_kernels(rig.engine, kind, rig.model.hidden),
    }
    for core in kind.cores:
        parts["attention"] = parts.get("attention", Pass()) + met(kind, core)
    if kind.mlp == "moe":
        parts["experts"] = layer_products(share, replace(kind, weights=routed))
        apart = (rig.plans.attention_data_parallel > 1) * 1.0
        exchange = _exchanged(share, rig.model, kind)
        parts["expert_parallel"] = exchange.times(apart * rig.engine.exchange_passes)
    return parts


SIDE_BY_SIDE = (("q", "kv"), ("q_a", "kv_a"))
"""Matrices that engines lay into one, so that one product makes queries, keys and values: vLLM,
QKVParallelLinear and fused_qkv_a_proj; SGLang and TensorRT-LLM alike."""


def _dense_products(share: Share, kind: LayerKind) -> Pass:
    """Products of a layer but those of routed experts."""
    merged = [
        tuple(w for w in kind.weights if w.name in names)
        for names in SIDE_BY_SIDE
        if sum(w.name in names for w in kind.weights) > 1
    ]
    apart = tuple(w for w in kind.weights if not any(w in some for some in merged))
    total = layer_products(share, replace(kind, weights=apart))
    return sum((merged_product(share, kind, some) for some in merged), start=total)


def _unrouted(kind: LayerKind) -> LayerKind:
    """The layer as element-wise kernels see it: what routed tokens move is timed with experts.

    The grouped timings hold sorting, quantisation, activation and the weighted sum as well
    (aiconfigurator, collector for mixture-of-experts operators).
    """
    if kind.mlp != "moe":
        return kind
    return replace(kind, mlp="dense", mlp_width=kind.shared_width)


def _exchanged(share: Share, model: Model, kind: LayerKind) -> Pass:
    """Dispatch to the experts and combine back.

    A token goes once to a rank however many of its experts lie there, and their results are
    summed there (DeepEP README, 2025). Where there are no more ranks than experts a token uses,
    every rank gets all tokens instead (TensorRT-LLM, selection of the all-to-all method). What
    stays on the own rank needs no wire, which the collective knows.
    """
    group = share.placement.expert
    ranks, domains = group.size.astype(float), group.domains.astype(float)
    met = np.where(ranks > kind.top_k, distinct_domains(ranks, kind), ranks)
    copies = share.cut_tokens * met
    far = distinct_domains(domains, kind) / met
    remote_frac = np.where(domains > 1, np.minimum(far, 1.0), 1.0)
    both = Pass()
    for width in (share.expert_bytes, WIDE_BYTES):
        payload = copies * model.hidden * width
        both = both + collective(share, "all_to_all", group, payload, remote_frac)
    spread, inner = share.placement.expert_tensor, copies * model.hidden * WIDE_BYTES
    gather = collective(share, "all_gather", spread, inner * share.expert_tensor)
    scatter = collective(share, "reduce_scatter", spread, inner * share.expert_tensor)
    return both + gather + scatter


def _small_kernels(engine: Engine, kind: LayerKind, hidden: int) -> Pass:
    """What launches and small kernels of a layer take, however little they move."""
    norms = HEAD_NORMS if _has_head_norms(kind, hidden) else 0.0
    floor: Column = engine.layer_s * (_blocks(kind) / 2.0 + norms)
    if kind.mlp == "moe":
        floor = floor + engine.expert_layer_s
    if kind.core is not None and kind.core.kind == "mla":
        floor = floor + engine.latent_layer_s
    return Pass(floor_s=floor)


SWITCHED_FROM = 4
"""Devices from which a library lets the switches add up (NVIDIA/nccl, src/transport/nvls.cc: more
than two on a switch that can)."""

HEAD_NORMS = 0.4
"""Norms of queries and keys, two more small kernels beside the five of a layer (norms, rotation,
cache write, activation, quantisation)."""


def _has_head_norms(kind: LayerKind, hidden: int) -> bool:
    """The layer's vectors are its norms over the width and two over one head (Qwen3)."""
    is_softmax = kind.core is not None and kind.core.kind == "softmax"
    norms = kind.vector_parameters - _blocks(kind) * hidden
    return is_softmax and norms == 2 * kind.cores[0].key_dim


def _blocks(kind: LayerKind) -> int:
    """Sub-blocks of a layer: its cores, and its MLP; most layers have two."""
    return len(kind.cores) + (kind.mlp != "none")


def _reduces(rig: Rig, share: Share, kind: LayerKind) -> Pass:
    """All-reduce of whole activations after attention and after the MLP (Megatron-LM, 2019).

    Small messages go to all peers at once, large ones in a ring or up to the switch, which adds
    up; bytes are those of the way taken. With attention copies the MLP's results come back by the
    exchange between experts instead.
    """
    payload = share.tokens * rig.model.hidden * WIDE_BYTES
    group, once = rig.placement.tensor, rig.curves.all_reduce_once
    ring = collective(share, "all_reduce", group, payload)
    wire = rig.chips.scaleup_bytes_per_s * once.wire_frac
    latency_frac = rig.engine.reduce_latency_frac
    peers = group.size - 1.0
    at_once_s = once.base_s * latency_frac + peers * payload / wire
    up = rig.curves.all_reduce_switched
    up_s = payload / (rig.chips.scaleup_bytes_per_s * up.wire_frac)
    switched_s = np.where(group.size >= SWITCHED_FROM, up.base_s * latency_frac, np.inf) + up_s
    direct_s = np.minimum(at_once_s, switched_s)
    on_wire_s = np.maximum(ring.inside_s, ring.outside_s)
    in_ring_s = on_wire_s + (ring.floor_s - on_wire_s) * latency_frac
    is_ring = (group.domains > 1) | (in_ring_s <= direct_s)
    floor_s = np.where(is_ring, in_ring_s, direct_s) + rig.engine.reduce_floor_s
    direct_bytes = np.where(switched_s < at_once_s, payload, peers * payload)
    moved = replace(
        ring,
        floor_s=np.where(share.tensor > 1, floor_s, 0.0),
        inside_bytes=np.where(is_ring, ring.inside_bytes, direct_bytes),
    )
    apart = (rig.plans.attention_data_parallel > 1) * (kind.mlp == "moe")
    return moved.times((kind.core is not None) + (kind.mlp != "none") * (1.0 - apart))


def _decode_core(
    share: Share, kind: LayerKind, core: Core, context: Column, cache_bytes: Column
) -> CoreShape:
    """One query per sequence over its cache, read once.

    Latent attention works in the absorbed form: every head meets the whole latent of each key
    (DeepSeek-V2, arXiv 2405.04434, 2.1.2), which lies whole on every tensor rank.
    """
    keys = _keys_kept(core, context)
    heads = core.heads / share.tensor
    key_dim, value_dim = float(core.key_dim), float(core.value_dim)
    kv_heads: Column = core.kv_heads / np.minimum(share.tensor, max(core.kv_heads, 1))
    if core.kind == "mla":
        key_dim = float(core.latent)
        value_dim = float(next(w.inputs for w in kind.weights if w.name == "kv_b"))
        kv_heads = key_dim / (key_dim + value_dim)
    return CoreShape(
        queries=share.tokens,
        mean_keys=keys,
        sequence_tokens=keys,
        key_tokens=share.sequences * keys,
        heads=heads,
        kv_heads=kv_heads,
        key_dim=key_dim,
        value_dim=value_dim,
        bytes_per_value=cache_bytes,
    )


def _state_step(share: Share, core: Core) -> Pass:
    """One token per sequence through a recurrent core: its whole state is read and written back.

    A prompt keeps its state on the processor from token to token; a decode step cannot. The state
    is FP32, the last inputs of the short convolution have 16 bits (as in models.state_bytes).
    """
    held = core.state_values * STATE_BYTES + core.conv_values * WIDE_BYTES
    moved = stream_work(share.stream, 2.0 * held * share.tokens / share.tensor)
    return state_scan(share, core, 1.0) + computed(moved)


def _prompt_core(share: Share, core: Core, context: Column) -> CoreShape:
    """Causal attention within each prompt and to what is in its cache; latent attention expanded.

    Keys met by the tokens after a context are those of the whole less those of the context.
    """
    own = np.asarray(share.sequence_tokens, dtype=float)
    tokens = own + context
    before = context * mean_keys(core, np.maximum(context, 1.0))
    keys = (tokens * mean_keys(core, tokens) - before) / own
    kv_heads = core.heads if core.kind == "mla" else core.kv_heads
    return CoreShape(
        queries=share.tokens,
        mean_keys=keys,
        sequence_tokens=tokens,
        key_tokens=share.tokens * (tokens / own),
        heads=core.heads / share.tensor,
        kv_heads=kv_heads / np.minimum(share.tensor, kv_heads),
        key_dim=core.key_dim,
        value_dim=core.value_dim,
        bytes_per_value=WIDE_BYTES,
    )


def _picked(values: Floats, is_narrow: Floats) -> Floats:
    """One of two columns, by row."""
    if is_one_row(values) and (is_narrow == is_narrow[0]).all():
        return values[:1, int(is_narrow[0])]
    return np.where(is_narrow, values[:, 1], values[:, 0])


def _keys_kept(core: Core, context: Column) -> Column:
    """Keys that one more query meets: all, the window, or the selected ones."""
    limit = core.window or core.selected_keys
    near = np.minimum(context, float(limit)) if limit else context
    return near + context / core.compression if core.compression > 1 else near


def _share(rig: Rig, tokens: Column, sequences: Column, sequence_tokens: Column) -> Share:
    """What one device holds of a pass, and the rates it works at."""
    plans, engine = rig.plans, rig.engine
    tokens = np.asarray(tokens, dtype=float) * np.ones(len(plans))
    widths = np.array(PRECISION_BYTES)
    wide = np.where(plans.precision_code == PRECISIONS.index("fp16"), 1, 0)
    return Share(
        tokens=tokens,
        own_tokens=tokens,
        cut_tokens=tokens / plans.tensor_parallel,
        is_sequence_cut=np.zeros(len(plans), dtype=bool),
        sequences=sequences,
        sequence_tokens=sequence_tokens,
        tensor=plans.tensor_parallel,
        head_ranks=np.ones_like(plans.tensor_parallel),
        expert=plans.expert_parallel,
        expert_tensor=plans.expert_tensor_parallel,
        input_bytes=widths[plans.precision_code],
        expert_bytes=widths[plans.expert_precision_code],
        gemm=_products_on(rig.kernels, plans.precision_code, engine, 1.0),
        grouped_gemm=_products_on(
            rig.grouped_kernels, plans.expert_precision_code, engine, engine.grouped_frac
        ),
        wide_gemm=_products_on(rig.kernels, wide, engine, 1.0),
        attention=attention_rates(rig.kernels, engine.core_frac),
        stream=stream_rates(rig.kernels),
        placement=rig.placement,
        network=rig.network,
        collective_code=plans.collective_code,
        recompute_code=np.zeros(len(plans), dtype=int),
        is_half=wide == 1,
        is_one_graph=np.zeros(len(plans), dtype=bool),
        expert_imbalance=1.0,
        expert_skew=0.0,
        stack=Stack(
            stream_passes=engine.stream_passes, router_spread_frac=engine.router_spread_frac
        ),
        keeping=PLAIN,
        copied_experts=plans.copied_experts,
    )


def _products_on(chips: Chips, codes: Floats, engine: Engine, more: Column) -> GemmRates:
    """Product curves with the engine's share of the rate and of the floor.

    One row where all candidates are one chip and one precision.
    """
    given = np.ndim(more) > 0 or engine.is_by_row
    if len(chips) == 1 and not given and (codes == codes[0]).all():
        codes = codes[:1]
    is_narrow = np.array(PRECISION_BYTES)[codes] < WIDE_BYTES
    reached = np.where(is_narrow, engine.narrow_gemm_frac, engine.gemm_frac) * more
    is_least = np.array(PRECISION_BYTES)[codes] < LEAST_BYTES
    memory = np.where(is_narrow, engine.narrow_memory_rate_frac, engine.memory_rate_frac)
    memory = np.where(is_least, engine.least_memory_rate_frac, memory)
    rates = gemm_rates(chips, codes, reached)
    most = chips.gemm.most_flop_frac[np.arange(len(chips)), codes] * reached
    return replace(
        rates,
        floor_s=rates.floor_s * engine.kernel_floor_frac,
        best_s_per_flop=np.maximum(rates.best_s_per_flop, rates.peak_s_per_flop),
        least_s_per_flop=rates.peak_s_per_flop / np.minimum(most, 1.0),
        best_s_per_byte=np.maximum(
            rates.best_s_per_byte / memory, rates.peak_s_per_byte / MOST_MEMORY_RATE_FRAC
        ),
    )
