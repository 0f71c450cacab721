"""Work of one layer on one device: which products, cores, streams and collectives it runs.

A layer is a sequence of passes by what they are for ("gemm", "attention", ...), forward and
backward. Under sequence parallelism (Korthikanti et al. 2022) norms and residuals work on a
device's own share of the tokens, else on all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from simkernel.candidates import RECOMPUTE
from simkernel.columns import Column
from simkernel.exchange import (
    context_traffic,
    expert_traffic,
    head_traffic,
    held_kv_heads,
    scatters_heads,
    tensor_backward,
    tensor_traffic,
)
from simkernel.keeping import WIDE_BYTES
from simkernel.models import Core, LayerKind, Model, Weight, mean_keys
from simkernel.passes import Pass, combine, computed
from simkernel.roofline import (
    CoreShape,
    GemmRates,
    attention_backward_work,
    attention_work,
    causal_keys,
    gemm_work,
    stream_work,
)
from simkernel.share import Share, imbalance, tensor_cut, touched_experts

Parts = dict[str, Pass]
"""Passes of one layer by what they are for."""

UNQUANTISED = ("router", "head", "embedding")
"""Kept in bf16 whatever the GEMM precision (DeepSeek-V3 report, section 3.3.1)."""


def layer_forward(share: Share, model: Model, kind: LayerKind) -> Parts:
    """Forward passes of one layer, by what they are for."""
    parts = {
        "gemm": layer_products(share, kind),
        "elementwise": elementwise(share, model, kind, share_of_forward=1.0),
        "tensor_parallel": tensor_traffic(share, model, kind),
    }
    for core in kind.cores:
        work = _exchanged(share, core, _core_forward(share, core), 1.0)
        parts["attention"] = parts.get("attention", Pass()) + work
    if kind.mlp == "moe":
        parts["expert_parallel"] = expert_traffic(share, model, kind)
    return parts


def layer_backward(share: Share, model: Model, kind: LayerKind, forward: Parts) -> Parts:
    """Backward passes of one layer, recomputation included, by what they are for.

    Twice the forward traffic of element-wise kernels: gradients in and out beside the inputs.
    """
    parts = {
        "gemm": layer_products(share, kind, _backward_products),
        "elementwise": elementwise(share, model, kind, share_of_forward=2.0),
        "tensor_parallel": tensor_backward(share, model, kind),
    }
    for core in kind.cores:
        work = _exchanged(share, core, _core_backward(share, core), 2.0)
        parts["attention"] = parts.get("attention", Pass()) + work
    if kind.mlp == "moe":
        parts["expert_parallel"] = expert_traffic(share, model, kind)
    parts["recompute"] = _recomputed(share, kind, forward)
    return parts


def layer_products(
    share: Share,
    kind: LayerKind,
    product: Callable[[Share, LayerKind, Weight], Pass] | None = None,
) -> Pass:
    """One product after another for every matrix of a layer, forward unless said otherwise."""
    total = Pass()
    for weight in kind.weights:
        total = total + (product or _forward_product)(share, kind, weight)
    return total


def summed(parts: Parts) -> Pass:
    """All passes of a layer one after another."""
    total = Pass()
    for part in parts.values():
        total = total + part
    return total


def head_forward(share: Share, model: Model) -> Pass:
    """Final product with the vocabulary and the loss."""
    return head_product(share, model, share.tokens) + loss_passes(share, model)[0]


def loss_passes(share: Share, model: Model) -> tuple[Pass, Pass]:
    """The loss over the logits of a micro-batch, forward and backward."""
    logits = share.tokens * (model.vocab / share.tensor)
    names = ("loss_forward", "loss_backward")
    each = zip(names, _loss_bytes(share), strict=True)
    forward, backward = (
        computed(stream_work(share.parts.stream(name, share.stream), logits * moved))
        for name, moved in each
    )
    return forward, backward


def head_product(share: Share, model: Model, rows: Column) -> Pass:
    """Logits of some rows: all tokens of a training pass, one per sequence in serving."""
    columns = model.vocab / share.tensor
    value_bytes = (WIDE_BYTES, WIDE_BYTES, WIDE_BYTES)
    return computed(gemm_work(share.wide_gemm, rows, model.hidden, columns, value_bytes))


def head_backward(share: Share, model: Model) -> Pass:
    """Gradients of the vocabulary product: two products of the same size."""
    columns = model.vocab / share.tensor
    weight = Weight("head", model.hidden, model.vocab, "column")
    loss = loss_passes(share, model)[1]
    return loss + _two_products(share, share.tokens, model.hidden, columns, 1.0, weight)


def _loss_bytes(share: Share) -> tuple[Column, Column]:
    """Bytes that the loss moves for one logit, forward and backward.

    Fused, fp32 logits are read or written three times forward and once back. Kernel by kernel they
    are cast (2 + 4), searched for their maximum (4), have it subtracted (8), are raised (8),
    summed (4) and divided (8), and the gradient is scaled (8) and cast back (6). As for other
    kernels of such a stack, `stream_passes` tells how much of that crosses the memory.

    References
    ----------
    NVIDIA/Megatron-LM v2.5, megatron/mpu/cross_entropy.py.
    """
    if share.is_fused:
        return 12.0, 4.0
    return 38.0 * share.stack.stream_passes, 14.0 * share.stack.stream_passes


def embedding_pass(share: Share, model: Model) -> Pass:
    """Rows read and written once; its gradient is scattered the same way."""
    rates = share.parts.stream("embedding", share.stream)
    return computed(stream_work(rates, share.own_tokens * model.hidden * 2 * WIDE_BYTES))


def _sizes(share: Share, kind: LayerKind, weight: Weight) -> tuple[Column, Column, Column, Column]:
    """Rows, inner, columns and groups of a weight's product on one device."""
    inputs, outputs, one = float(weight.inputs), float(weight.outputs), 1.0
    if weight.split == "replicated":
        return share.own_tokens, inputs, outputs, one
    if weight.split.startswith("expert"):
        local = touched_experts(share, kind)
        rows = share.cut_tokens * share.expert_tensor * weight.used / local
        rows = rows * imbalance(share, kind)
        if weight.split == "expert_column":
            return rows, inputs, outputs / share.expert_tensor, local
        return rows, inputs / share.expert_tensor, outputs, local
    cut = tensor_cut(share.tensor, kind, weight)
    if weight.split == "column":
        return share.tokens, inputs, outputs / cut, one
    return share.tokens, inputs / cut, outputs, one


def _rates(share: Share, weight: Weight) -> tuple[GemmRates, Column]:
    if weight.name in UNQUANTISED:
        return share.wide_gemm, WIDE_BYTES
    if weight.split.startswith("expert"):
        return share.grouped_gemm, share.expert_bytes
    return share.gemm, share.input_bytes


def _forward_product(share: Share, kind: LayerKind, weight: Weight) -> Pass:
    return merged_product(share, kind, (weight,))


def merged_product(share: Share, kind: LayerKind, weights: Sequence[Weight]) -> Pass:
    """One product with matrices that meet the same rows, laid side by side."""
    sizes = [_sizes(share, kind, weight) for weight in weights]
    rows, inner, _, groups = sizes[0]
    columns = sum((size[2] for size in sizes[1:]), start=sizes[0][2])
    rates, narrow = _rates(share, weights[0])
    value_bytes = (narrow, narrow, WIDE_BYTES)
    return computed(gemm_work(rates, rows, inner, columns, value_bytes, groups))


def _backward_products(share: Share, kind: LayerKind, weight: Weight) -> Pass:
    rows, inner, columns, groups = _sizes(share, kind, weight)
    return _two_products(share, rows, inner, columns, groups, weight)


def _two_products(
    share: Share, rows: Column, inner: Column, columns: Column, groups: Column, weight: Weight
) -> Pass:
    """Gradient of the input, and of the weight (accumulated in fp32: read and written)."""
    rates, narrow = _rates(share, weight)
    to_input = gemm_work(rates, rows, columns, inner, (narrow, narrow, WIDE_BYTES), groups)
    to_weight = gemm_work(rates, inner, rows, columns, (narrow, narrow, 8.0), groups)
    return computed(to_input) + replace(computed(to_weight), weight_s=to_weight.elapsed_s)


def _core_shape(share: Share, core: Core) -> CoreShape:
    """The attention core on one device; context ranks pass keys round, so all keys are met.

    With scattered heads a device has the queries of all ranks for its part of the heads: as many
    pairs of a query and a head, with fewer heads of keys.
    """
    tokens = float(share.sequence_tokens)
    is_latent = core.kind == "mla"
    kv_heads = core.heads if is_latent else core.kv_heads
    return CoreShape(
        queries=share.tokens,
        mean_keys=mean_keys(core, tokens) if share.is_fused else tokens,
        sequence_tokens=tokens,
        key_tokens=share.sequences * tokens,
        heads=core.heads / share.tensor,
        kv_heads=held_kv_heads(share, kv_heads),
        key_dim=core.key_dim,
        value_dim=core.value_dim,
        bytes_per_value=WIDE_BYTES,
    )


def _core_forward(share: Share, core: Core) -> Pass:
    if core.kind == "state":
        return state_scan(share, core, 1.0)
    rates = share.parts.core("attention_forward", share.attention)
    total = computed(attention_work(rates, _core_shape(share, core)))
    if core.selected_keys:
        total = total + _indexer(share, core)
    return total if share.is_fused else total + _squared(share, core, 1.0)


def _core_backward(share: Share, core: Core) -> Pass:
    if core.kind == "state":
        return state_scan(share, core, 2.0)
    rates = share.parts.core("attention_backward", share.attention)
    total = computed(attention_backward_work(rates, _core_shape(share, core)))
    if core.selected_keys:
        total = total + _indexer(share, core).times(2.0)
    return total if share.is_fused else total + _squared(share, core, 2.0)


def _indexer(share: Share, core: Core) -> Pass:
    """Scores of every earlier key by the light index heads (DeepSeek-V3.2, section 2.1)."""
    tokens = float(share.sequence_tokens)
    shape = CoreShape(
        queries=share.own_tokens,
        mean_keys=causal_keys(tokens),
        sequence_tokens=tokens,
        key_tokens=share.sequences * tokens,
        heads=core.index_heads,
        kv_heads=1.0,
        key_dim=core.index_dim,
        value_dim=0.0,
        bytes_per_value=WIDE_BYTES,
    )
    return computed(attention_work(share.attention, shape))


def state_scan(share: Share, core: Core, factor: float) -> Pass:
    """A scan over the sequence: its arithmetic at the attention rate, its state in registers."""
    flop = core.state_flop_per_token * share.tokens / share.tensor * factor
    compute_s = flop * share.attention.best_s_per_flop
    return Pass(
        compute_s=compute_s,
        floor_s=compute_s + share.attention.floor_s,
        peak_compute_s=flop * share.attention.peak_s_per_flop,
    )


def _squared(share: Share, core: Core, factor: float) -> Pass:
    """Unfused attention: scores are masked, normalised and dropped out through memory.

    Scale, mask and softmax are one kernel of Megatron-LM (megatron/fused_kernels,
    scaled_upper_triang_masked_softmax): 2 bytes in and 2 out, dropout 2 + 2 + 1 for its mask.
    """
    values = share.tokens * share.sequence_tokens * core.heads / share.tensor
    moved = values * 9.0 * factor * share.stack.stream_passes
    moved = moved * (1.0 - share.parts.timed("attention_forward"))  # such times hold it all
    return computed(stream_work(share.stream, moved))


def elementwise(share: Share, model: Model, kind: LayerKind, share_of_forward: float) -> Pass:
    """Norms, residuals, activation, casts and the permutation of expert tokens, as bytes.

    Per sub-block: a norm reads and writes h, a residual reads two and writes one. A gated
    activation reads 2 w and writes w; permuting and its reverse read and write each routed token.
    """
    blocks = (kind.core is not None) + (kind.mlp != "none")
    stack, own = share.stack, share.own_tokens
    values, cast, permuted = _mlp_values(share, model, kind)
    moved = (own * model.hidden * 5 * blocks + values) * WIDE_BYTES
    moved = moved + (cast + own * model.hidden * blocks) * share.cast_bytes
    moved = moved * stack.stream_passes + permuted * WIDE_BYTES * stack.permute_passes
    part = "elementwise_backward" if share_of_forward > 1.0 else "elementwise_forward"
    rates = share.parts.stream(part, share.stream)
    return computed(stream_work(rates, moved * share_of_forward))


def _mlp_values(share: Share, model: Model, kind: LayerKind) -> tuple[Column, Column, Column]:
    """Values that the second sub-block's own kernels move, quantise, and permute to experts."""
    part = share.cut_tokens
    width, each = kind.mlp_width, 3 if kind.gated else 2
    if kind.mlp == "none":
        return 0.0, 0.0, 0.0
    if kind.mlp == "dense":
        return part * width * each, part * width, 0.0
    routed = part * kind.top_k * imbalance(share, kind)
    beside, permuted = part * kind.shared_width, routed * 4 * model.hidden
    own_kernels = np.where(share.is_one_graph, 0.0, 1.0)
    values = routed * width * each * own_kernels + beside * each
    if kind.expert_vector_parameters:
        results = routed * (width * (each - 1) + model.hidden)
        values = values + results * share.stack.bias_passes
    return values, routed * (width * own_kernels + model.hidden) + beside, permuted


def _exchanged(share: Share, core: Core, work: Pass, factor: float) -> Pass:
    """A core and what context ranks exchange: a ring beside it, scattered heads around it.

    The core waits for all of its heads' keys, and its output for the core.
    """
    if not share.has_context_ranks:
        return work
    both = _beside(share, work, context_traffic(share, core, factor))
    return both + head_traffic(share, core) if scatters_heads(share, core) else both


def _beside(share: Share, core: Pass, traffic: Pass) -> Pass:
    """A core in as many blocks as context ranks, and the keys of the next beside each block.

    The first block has no block before it to hide its keys, and needs none: a rank has them. So
    the traffic runs beside all blocks but one; what it does not hide behind lengthens the pass.

    References
    ----------
    Liu, Zaharia, Abbeel, Ring Attention with Blockwise Transformers, arXiv 2310.01889, section 3.
    """
    first = 1.0 / share.placement.context.size
    floor_s = core.floor_s * first + combine(core.times(1.0 - first), traffic)
    return replace(core + traffic, floor_s=floor_s)


def _recomputed(share: Share, kind: LayerKind, forward: Parts) -> Pass:
    """What the backward pass runs again: nothing, what is cheap to run, or the whole layer.

    Selective: the core where scores are stored (Korthikanti et al. 2022, section 5), else the
    element-wise kernels and the products from latents of MLA.
    """
    is_full = (share.recompute_code == RECOMPUTE.index("full")) * 1.0
    is_selective = (share.recompute_code == RECOMPUTE.index("selective")) * 1.0
    cheap = forward["elementwise"].times(0.5)
    if not share.is_fused and "attention" in forward:
        cheap = forward["attention"]
    elif kind.core is not None and kind.core.kind == "mla":
        for weight in kind.weights:
            if weight.name in ("q_b", "kv_b"):
                cheap = cheap + _forward_product(share, kind, weight)
    return summed(forward).times(is_full) + cheap.times(is_selective)
