"""How many tokens of keys and values a device has room for beside weights and reserve."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from simkernel.columns import Column, Floats
from simkernel.hardware import PRECISIONS
from simkernel.keeping import WIDE_BYTES
from simkernel.ledger import Ledger
from simkernel.models import (
    WEIGHT_BITS,
    LayerKind,
    Model,
    kind_kv_bytes,
    layer_counts,
    state_bytes,
)
from simkernel.ops import UNQUANTISED
from simkernel.serving_engine import Engine
from simkernel.serving_plans import ServingPlans
from simkernel.share import tensor_cut


def weight_bytes(model: Model, plans: ServingPlans) -> Ledger:
    """Weights on one device of a replica, dense and expert ones apart; (n,) [bytes].

    Notes
    -----
    Stages share the layers evenly; the first holds the embedding, the last the head, and the
    fuller of them decides. Router, head and embedding stay in 16 bits. A drafter lies whole on
    the last stage; copies of experts are shared out with them.
    """
    widths = np.array([WEIGHT_BITS[name] / 8.0 for name in PRECISIONS])
    dense_width, expert_width = widths[plans.precision_code], widths[plans.expert_precision_code]
    dense = np.zeros(len(plans))
    expert = np.zeros(len(plans))
    ranks = plans.expert_parallel * plans.expert_tensor_parallel
    for kind, count in zip(model.kinds, layer_counts(model), strict=True):
        dense = dense + count * _dense_bytes(plans, kind, dense_width)
        held = sum(w.parameters for w in kind.weights if w.split.startswith("expert"))
        more = 1.0 + plans.copied_experts / max(kind.experts, 1)
        expert = expert + count * held * expert_width / ranks * more
        expert = expert + count * kind.expert_vector_parameters * WIDE_BYTES / ranks * more
    table = float(model.vocab * model.hidden) * WIDE_BYTES / plans.tensor_parallel
    both = 2.0 - model.tied_embeddings
    ends = table * np.where(plans.pipeline_parallel > 1, 1.0, both)
    ends = (
        ends * (not model.shares_tables)
        + (model.lookup_parameters + model.other_parameters) * WIDE_BYTES
    )
    stages = plans.pipeline_parallel
    terms: dict[str, Column] = {
        "dense_weights": dense / stages,
        "expert_weights": expert / stages,
        "tables": ends,
    }
    if model.drafters:
        terms["drafter"] = _of_drafter(model, plans, lambda d, p: weight_bytes(d, p).total)
    return Ledger("weight_bytes", "B", terms)


def _of_drafter(
    model: Model, plans: ServingPlans, held: Callable[[Model, ServingPlans], Column]
) -> Floats:
    """What every plan's drafter holds of something on one device, whole on one stage; (n,)."""
    alone = replace(plans, pipeline_parallel=np.ones_like(plans.pipeline_parallel))
    total = np.zeros(len(plans))
    for place, drafter in enumerate(model.drafters):
        total = total + np.where(plans.draft_code == place + 1, held(drafter, alone), 0.0)
    return total


def free_bytes(model: Model, engine: Engine, plans: ServingPlans, memory_bytes: Column) -> Floats:
    """Room for keys and values on one device; negative where not even the weights fit; (n,)."""
    weights, memory = np.asarray(weight_bytes(model, plans).total), np.asarray(memory_bytes)
    taken = _usable_bytes(engine, weights, memory)
    return np.asarray((taken - weights) * engine.free_frac)


def reserve_bytes(
    model: Model, engine: Engine, plans: ServingPlans, memory_bytes: Column
) -> Floats:
    """What the engine takes for itself on one device; (n,)."""
    weights, memory = np.asarray(weight_bytes(model, plans).total), np.asarray(memory_bytes)
    most = memory * np.maximum(engine.memory_frac, engine.full_memory_frac)
    spared = np.maximum(most - _usable_bytes(engine, weights, memory), 0.0)
    return np.asarray(np.minimum(engine.reserve_bytes, spared))


def _usable_bytes(engine: Engine, weights: Floats, memory: Floats) -> Floats:
    """What weights, keys and values may take of a device: its share less the reserve; (n,).

    Where weights would leave hardly any of it, an engine is given nearly all of the device
    whatever its default: published runs at that edge do so. A larger device never has less: the
    room that the edge leaves stays until the default leaves as much.
    """
    usual = memory * engine.memory_frac - engine.reserve_bytes
    edge = np.minimum(memory, weights / engine.full_weights_frac)
    return np.asarray(
        np.maximum(usual, edge * engine.full_memory_frac - engine.full_reserve_bytes)
    )


def resident_sequence_bytes(model: Model, plans: ServingPlans, tokens: Column) -> Floats:
    """Keys, values and states of one sequence on one device of its replica; (n,) [bytes].

    Key and value heads are cut by tensor parallelism down to one a device; a latent lies whole
    on every tensor rank. A drafter keeps its own keys and values of the same tokens.

    References
    ----------
    DeepSeek-V2, arXiv 2405.04434, 2.1: one latent for all heads.
    """
    total = np.zeros(len(plans))
    for kind, count in zip(model.kinds, layer_counts(model), strict=True):
        whole = kind_kv_bytes(kind, tokens, plans.cache_bytes_per_value)
        heads = max((c.kv_heads for c in kind.cores if c.kind == "softmax"), default=1)
        total = total + count * whole / np.minimum(plans.tensor_parallel, heads)
    states = state_bytes(model) / plans.tensor_parallel
    found = (total + states) / plans.pipeline_parallel
    if not model.drafters:
        return found
    return found + _of_drafter(model, plans, lambda d, p: resident_sequence_bytes(d, p, tokens))


def _dense_bytes(plans: ServingPlans, kind: LayerKind, width: Floats) -> Floats:
    """Everything of a layer but its experts, on one device."""
    total = np.full(len(plans), kind.vector_parameters * WIDE_BYTES)
    for weight in kind.weights:
        if weight.split.startswith("expert"):
            continue
        each = WIDE_BYTES if weight.name in UNQUANTISED else width
        cut = plans.tensor_parallel if weight.split != "replicated" else 1.0
        cut = tensor_cut(plans.tensor_parallel, kind, weight) if weight.split == "column" else cut
        total = total + weight.parameters * each / cut
    return total
