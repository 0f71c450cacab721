"""Bytes on the heaviest device: weights, gradients, optimiser, activations, reserve, as a ledger.

Stages are looked at one by one and the fullest decides. What the framework, its communication
buffers and fragmentation take is a term of its own, never hidden in another.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simkernel import plugins
from simkernel.candidates import RECOMPUTE, TrainingPlans
from simkernel.columns import Codes, Column, Floats, Masks
from simkernel.exchange import held_kv_heads
from simkernel.keeping import PLAIN, WIDE_BYTES, Keeping
from simkernel.ledger import Ledger
from simkernel.models import LayerKind, Model
from simkernel.offload import host_bytes, on_device, staying
from simkernel.share import Share, imbalance, tensor_cut
from simkernel.stages import STAGES, by_device, with_drafts


@dataclass(frozen=True)
class Reserve:
    """Memory that no tensor of the plan owns.

    Parameters
    ----------
    framework_bytes : number or (n,), context, communication buffers, workspaces [bytes]
    fragmentation_frac : number or (n,), of activations and gathered weights
    """

    framework_bytes: Column
    fragmentation_frac: Column


@dataclass(frozen=True)
class Resident:
    """Bytes on the fullest device, the stage it serves, and its share of host memory; (n,)."""

    ledger: Ledger
    fullest: Codes
    host_bytes: Floats


@dataclass(frozen=True)
class StageParameters:
    """Parameters on one device of each stage; (n, 3), dense and expert ones apart."""

    dense: Floats
    expert: Floats


@dataclass(frozen=True)
class StageMemory:
    """What one micro-batch keeps: (n, 3) activations of a stage, logits of a device; (n,) again.

    `again` is the layer that is run again.
    """

    per_micro_batch: Floats
    logits: Floats
    again: Floats


def stage_parameters(
    share: Share, is_single: Codes, model: Model, layers: Floats, *, has_drafts: bool
) -> StageParameters:
    """Parameters of one device on the first, the heaviest inner and the last stage.

    Parameters
    ----------
    is_single : (n,) the pipeline has one stage, which is first and last
    layers : (n, 3, kinds) layers of each kind on each stage

    Notes
    -----
    Norms and other vectors are whole on every tensor rank. Tied embeddings are held twice when
    the first and the last stage are different devices.
    """
    kinds = model.kinds
    dense_each = np.stack([dense_parameters(share, k) for k in kinds], axis=-1)
    expert_each = np.stack([expert_parameters(share, k) for k in kinds], axis=-1)
    dense = (layers * dense_each[:, None, :]).sum(-1)
    expert = (layers * expert_each[:, None, :]).sum(-1)
    table = model.vocab * model.hidden / share.tensor
    is_own_head = np.where(is_single & model.tied_embeddings, 0.0, 1.0)
    ends = table * is_own_head + model.other_parameters
    dense[:, 0] += model.lookup_parameters
    for code in model.draft_codes if has_drafts else ():
        ends = ends + dense_each[:, code] + model.draft_extra_parameters
        expert[:, 2] += expert_each[:, code]
        expert[:, 0] += np.where(is_single, expert_each[:, code], 0.0)
    dense[:, 0] += table + np.where(is_single, ends, 0.0)
    dense[:, 2] += ends + np.where(is_single, table, 0.0)
    return StageParameters(dense, expert)


def device_parameters(
    share: Share, held: Codes, model: Model, parameters: StageParameters
) -> StageParameters:
    """Parameters of the devices that serve the first, an inner and the last stage.

    A device that serves a stage and its mirror holds a tied embedding once: the first stage looks
    up in the table that the last one multiplies with.

    Parameters
    ----------
    held : (n,) stages of one device
    parameters : of the stages
    """
    dense, expert = by_device(parameters.dense, held), by_device(parameters.expert, held)
    if model.tied_embeddings and np.any(held > 1):
        twice = np.where(held > 1, model.vocab * model.hidden / share.tensor, 0.0)
        dense = dense - twice[:, None] * np.array([1.0, 0.0, 1.0])
    return StageParameters(dense, expert)


def dense_parameters(share: Share, kind: LayerKind) -> Floats:
    """Parameters of a layer outside its experts on one device; (n,)."""
    total = np.full(share.tensor.shape, float(kind.vector_parameters))
    for weight in kind.weights:
        if weight.split == "replicated":
            total = total + weight.parameters
        elif not weight.split.startswith("expert"):
            total = total + weight.parameters / tensor_cut(share.tensor, kind, weight)
    return total


def expert_parameters(share: Share, kind: LayerKind) -> Floats:
    """Parameters of a layer's experts on one device; (n,)."""
    experts = sum(w.parameters for w in kind.weights if w.split.startswith("expert"))
    experts += kind.expert_vector_parameters
    return experts / (share.expert * share.expert_tensor)


def stage_memory(
    share: Share, is_single: Codes, model: Model, layers: Floats, drafts: Floats
) -> StageMemory:
    """What one micro-batch keeps on each stage; (n, 3) each.

    Parameters
    ----------
    is_single, layers : as in `stage_parameters`
    drafts : (kinds,) draft layers of the last stage, each with logits of its own
    """
    each = np.stack([layer_activation_bytes(share, model, k) for k in model.kinds], axis=-1)
    size = share.tokens * model.vocab / share.tensor * share.keeping.logit_bytes
    size = size * (1.0 + drafts.sum())
    layers = with_drafts(layers, is_single, drafts)
    logits = np.stack([np.where(is_single, size, 0.0), size * 0.0, size], axis=-1)
    return StageMemory((layers * each[:, None, :]).sum(-1), logits, _one_layer_again(share, model))


def resident_ledger(
    plans: TrainingPlans,
    parameters: StageParameters,
    memory: StageMemory,
    layer_counts: Floats,
    ranks: tuple[Codes, Codes],
    reserve: Reserve,
    keeping: Keeping = PLAIN,
) -> Resident:
    """Bytes on the fullest device, by what they are, and beside it in its host; (n,).

    Parameters
    ----------
    layer_counts : (n, 3) layers on the device of each stage
    ranks : (n,) ranks that share out the state of dense and of expert parameters
    reserve : memory no tensor owns
    keeping : in which form the stack keeps what is trained

    References
    ----------
    ZeRO stages: Rajbhandari et al. 2020, section 5. Activations in flight: the schedule's file.
    """
    each = by_device(memory.per_micro_batch, plans.stages_held)
    kept = _kept(plans, memory) + _layer_of_a_pair(plans, each, layer_counts)
    activations = staying(plans, kept, each, layer_counts)
    optimiser = _state(parameters, ranks, keeping.optimiser_bytes, plans.zero_stage >= 1)
    weight_bytes = keeping.weight_bytes(plans.precision_code, plans.is_weight_cut)
    terms = {
        "weights": _state(parameters, ranks, weight_bytes, plans.is_weight_cut),
        "gradients": _state(parameters, ranks, keeping.gradient_bytes, plans.is_gradient_cut),
        "optimiser": on_device(plans, optimiser),
        "gathered_weights": _gathered(parameters, plans, layer_counts),
        "activations": activations + memory.again[:, None],
        "logits": memory.logits,
    }
    moving = terms["activations"] + terms["gathered_weights"] + terms["logits"]
    terms["fragmentation"] = moving * np.reshape(reserve.fragmentation_frac, (-1, 1))
    terms["framework"] = np.zeros(moving.shape) + np.reshape(reserve.framework_bytes, (-1, 1))
    total = np.sum(list(terms.values()), axis=0)
    fullest = np.argmax(total, axis=1)
    rows = np.arange(len(fullest))
    picked: dict[str, Column] = {name: value[rows, fullest] for name, value in terms.items()}
    ledger = Ledger("resident_bytes", "B", picked)
    sent = _state(parameters, ranks, keeping.gradient_bytes, plans.zero_stage >= 1)
    return Resident(ledger, fullest, host_bytes(plans, kept, optimiser + sent))


def layer_activation_bytes(share: Share, model: Model, kind: LayerKind) -> Floats:
    """Bytes one layer keeps for its backward pass, per micro-batch, by recompute mode; (n,).

    Notes
    -----
    With stored scores, dropout and a 4 h ungated MLP: s b h (34 + 5 a s / h) / t without
    recompute, 34 s b h / t selective, 2 s b h / t full. Without sequence parallelism
    s b h (10 + 24 / t + 5 a s / (h t)), s b h (10 + 24 / t) and 2 s b h. Experts with tensor
    parallelism always have it.

    References
    ----------
    Korthikanti et al. 2022 (arXiv 2205.05198), table 2. Fused attention keeps q, k, v and its
    output instead of scores (FlashAttention-2, section 3.1).
    """
    cheap, kept = _attention_kept(share, model, kind)
    cheap_mlp, kept_mlp = _mlp_kept(share, model, kind)
    inputs = 2.0 * model.hidden * share.own_tokens
    everything = cheap + kept + cheap_mlp + kept_mlp
    selective = kept + kept_mlp if share.is_fused else everything - _scores(share, kind)
    modes = np.stack([everything, selective, inputs])
    code = np.asarray(share.recompute_code)
    return modes[code, np.arange(modes.shape[1])]


def _attention_kept(share: Share, model: Model, kind: LayerKind) -> tuple[Floats, Floats]:
    """What the first sub-block keeps: cheap to run again, and not; (n,) each."""
    core, own, narrow = kind.core, share.own_tokens, share.input_bytes
    if core is None:
        return own * 0.0, own * 0.0
    mask = 0.0 if share.is_fused else 1.0 * model.hidden
    part = share.cut_tokens
    if core.kind == "state":
        wide = sum(w.outputs for w in kind.weights if w.name.startswith(("in", "mixer")))
        kept_wide = part * WIDE_BYTES * wide
        return own * model.hidden * narrow, own * 2.0 * model.hidden + kept_wide
    kv = core.kv_heads or core.heads
    keys = held_kv_heads(share, kv) * share.head_ranks * share.tensor
    keys = keys * (core.key_dim + core.value_dim)
    if core.kind == "mla":
        keys = core.heads * (core.key_dim + core.value_dim) + 0.0 * own
    queries = core.heads * core.key_dim
    output = core.heads * core.value_dim * WIDE_BYTES * (1.0 + (share.head_ranks > 1))
    cheap, whole = own * model.hidden * narrow, own * (2.0 * model.hidden + mask)
    cheap = cheap + (0.0 if share.is_fused else _scores(share, kind))
    projected = part * (queries + keys) * WIDE_BYTES
    if core.kind == "mla":
        latents = sum(w.outputs for w in kind.weights if w.name in ("q_a", "kv_a"))
        return cheap + projected, whole + part * output + own * latents * WIDE_BYTES
    return cheap, whole + part * output + projected


def _scores(share: Share, kind: LayerKind) -> Floats:
    """Softmax output, dropout mask and dropout output of stored scores: 5 a s bytes a token."""
    if kind.core is None or kind.core.kind == "state":
        return share.own_tokens * 0.0
    return share.cut_tokens * 5.0 * kind.core.heads * share.sequence_tokens


def _mlp_kept(share: Share, model: Model, kind: LayerKind) -> tuple[Floats, Floats]:
    """What the second sub-block keeps: cheap to run again, and not; (n,) each."""
    own, narrow = share.own_tokens, share.input_bytes
    hidden, width, part = model.hidden, kind.mlp_width, share.cut_tokens
    ups = 2.0 if kind.gated else 1.0
    mask = 0.0 if share.is_fused else 1.0 * hidden
    gate_bytes = share.keeping.kept_gate_bytes(narrow)
    if kind.mlp == "none":
        return own * 0.0, own * 0.0
    if kind.mlp == "dense":
        kept = own * (2.0 * hidden + mask) + part * (ups * width * gate_bytes)
        return (own * hidden + part * width) * narrow, kept
    routed = kind.top_k * imbalance(share, kind)
    cheap = (hidden + routed * width + kind.shared_width) * narrow
    kept = 2.0 * hidden + ups * (routed * width + kind.shared_width) * gate_bytes
    dispatched = routed * share.expert_tensor * hidden * narrow  # every expert tensor rank gathers
    combined = routed * hidden * WIDE_BYTES if share.keeping.keeps_combined else 0.0
    return own * cheap, own * (kept + dispatched + combined)


def _one_layer_again(share: Share, model: Model) -> Floats:
    """The layer a full recompute is working on, at its whole size; (n,)."""
    is_full = share.recompute_code == RECOMPUTE.index("full")
    if not np.any(is_full):
        return share.own_tokens * 0.0
    whole = [_attention_kept(share, model, k) + _mlp_kept(share, model, k) for k in model.kinds]
    largest = np.max(np.stack([np.sum(parts, axis=0) for parts in whole]), axis=0)
    return np.where(is_full, largest, 0.0)


def _kept(plans: TrainingPlans, memory: StageMemory) -> Floats:
    """(n, 3) activations of the first, an inner and the last device at their peaks.

    The second stage stands for the inner ones: of all it keeps the most. A device that serves
    its mirror too keeps what that one does.
    """
    last = plans.model_stages - 1
    at = (last * 0, np.minimum(1, last), last)
    kept = memory.per_micro_batch * _in_flight(plans, at)
    if not plans.has_folds:
        return kept
    mirror = memory.per_micro_batch[:, ::-1] * _in_flight(plans, tuple(last - i for i in at))
    return kept + np.where(plans.stages_held[:, None] > 1, mirror, 0.0)


def _layer_of_a_pair(plans: TrainingPlans, each: Floats, layer_counts: Floats) -> Floats:
    """(n, 3) the layer that a pair keeps before it frees another; 0 where it frees none."""
    if not plans.has_pairs:
        return np.zeros(1)
    is_there = plans.frees_in_pairs & (plans.micro_batches > 1)
    return is_there[:, None] * each / np.maximum(layer_counts, 1.0)


def _in_flight(plans: TrainingPlans, at: tuple[Codes, ...]) -> Floats:
    """(n, 3) micro-batches that three stages keep, from the file of the candidate's schedule."""
    stages, chunks, count = plans.pipeline_parallel, plans.virtual_stages, plans.micro_batches
    out = np.zeros((len(stages), len(STAGES)))
    for schedule, is_this in plugins.present("schedules", plans.schedule_code):
        kept = [schedule.in_flight(i, stages, chunks, count) for i in at]
        out = np.where(is_this[:, None], np.stack(kept, axis=-1), out)
    return out


def _state(
    parameters: StageParameters, ranks: tuple[Codes, Codes], each: Column, is_cut: Masks
) -> Floats:
    """(n, 3) bytes of one kind of state; sharded where `is_cut`."""
    dense_cut = np.where(is_cut, ranks[0], 1)
    expert_cut = np.where(is_cut, ranks[1], 1)
    held = parameters.dense / dense_cut[:, None] + parameters.expert / expert_cut[:, None]
    return held * np.broadcast_to(np.asarray(each), dense_cut.shape)[:, None]


def _gathered(parameters: StageParameters, plans: TrainingPlans, layer_counts: Floats) -> Floats:
    """(n, 3) whole weights of the layer in work and of the next one, where ZeRO-3 gathers them.

    Passes beside each other work on different layers.
    """
    count = np.maximum(layer_counts, 1.0)
    two = 2.0 * (parameters.dense + parameters.expert) / count * WIDE_BYTES
    passes = np.where(plans.is_weight_cut, 1.0 + plans.runs_pairs, 0.0)
    return two * passes[:, None]
