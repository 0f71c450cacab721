"""What a step of a lane is made of, by what each part depends on: tokens, rows, sequences.

Closed form and replay read the same parts on grids of their own. Drafting ahead, and two
micro-batches that hide each other's exchange, change parts here and nowhere else.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from simkernel.columns import Floats, Masks
from simkernel.models import Model, layer_counts
from simkernel.ops import Parts
from simkernel.passes import Pass
from simkernel.serving_passes import decode_attention, decode_parts, head_of
from simkernel.serving_rig import Rig

EXPERTS, EXCHANGE, HEAD, ATTENTION, WIRES = (
    "experts", "expert_parallel", "head", "attention", "tensor_parallel",
)  # fmt: skip
"""Parts by name; whatever else there is, own layers of the tokens of a step take."""

DRAFT = "draft"
"""Layers of the drafter over all tokens of a step, prompts too."""

NOT_LAYERS = (ATTENTION, HEAD)
LEAST_TO_SPLIT = 2.0
"""Sequences or tokens of a lane from which it makes two micro-batches."""


def step_parts(rig: Rig, counts: Floats, context_tokens: Floats) -> Parts:
    """Parts of steps with so many tokens, rows, or decoding sequences.

    Parameters
    ----------
    rig : n candidates
    counts : (n,) tokens for the layers, rows for the head, sequences for attention
    context_tokens : (n,) keys that a decoding sequence meets

    Notes
    -----
    With drafts, attention stands for all that a decoding sequence takes beyond the layers of its
    tokens and one row of the head: its further rows, and the passes of the drafter.
    """
    parts = _in_micro_batches(rig, counts, context_tokens)
    if not np.any(rig.plans.drafted_tokens > 0):
        return parts
    queries = 1.0 + rig.plans.drafted_tokens
    attention = decode_attention(rig, counts, context_tokens, queries)
    attention = attention + head_of(rig, counts * queries).without(parts[HEAD])
    by_tokens, by_sequences = _drafting(rig, counts, context_tokens)
    return {**parts, DRAFT: by_tokens, ATTENTION: attention + by_sequences}


def _in_micro_batches(rig: Rig, counts: Floats, context_tokens: Floats) -> Parts:
    """A pass over all, or two over half of them each, with the head over all.

    Half the tokens read the same weights, launch the same kernels: what overlap has to win back.
    """
    is_split = splits(rig, counts)
    if not np.any(is_split):
        return decode_parts(rig, counts, context_tokens)
    passes = np.where(is_split, 2.0, 1.0)
    halves = decode_parts(rig, counts / passes, context_tokens)
    parts = {name: part.times(passes) for name, part in halves.items()}
    return {**parts, HEAD: head_of(rig, counts)}


def splits(rig: Rig, counts: Floats) -> Masks:
    """Steps that are run as two micro-batches; (n,)."""
    is_asked = (rig.plans.micro_batches > 1) & (rig.plans.attention_data_parallel > 1)
    return np.asarray(is_asked & (counts >= LEAST_TO_SPLIT))


def overlap_fracs(rig: Rig) -> tuple[float, Floats]:
    """Share of the layers that have experts; share of their exchange that may run beside others.

    All but the first such layer's: nothing runs before it that could hide it. None of a plan
    whose steps are one batch; (n,).
    """
    layers = sum(
        count
        for kind, count in zip(rig.model.kinds, layer_counts(rig.model), strict=True)
        if kind.mlp == "moe"
    )
    is_asked = (rig.plans.micro_batches > 1) & (rig.plans.attention_data_parallel > 1)
    return layers / rig.model.layers, is_asked * (1.0 - 1.0 / max(layers, 1))


def _drafting(rig: Rig, counts: Floats, context_tokens: Floats) -> tuple[Pass, Pass]:
    """What drafters take by the tokens of a step, and by its decoding sequences.

    The first pass of a drafter reads all tokens that were verified, and prompts, beside the
    target; each further one has a token of every sequence. Every pass ends in a row per sequence.

    References
    ----------
    vllm-project/vllm, vllm/v1/spec_decode/eagle.py, `propose`: one pass over the target's tokens,
    then as many over one token each as are left to draft.
    """
    plans = rig.plans
    by_tokens, by_sequences = Pass(), Pass()
    for place, drafter in enumerate(rig.model.drafters):
        own = _drafter_rig(rig, drafter)
        is_own = (plans.draft_code == place + 1) * (plans.drafted_tokens > 0) * 1.0
        of_a_pass = is_own / (len(drafter.layer_codes) if drafter.shares_tables else 1.0)
        again = np.maximum(plans.drafted_tokens - 1.0, 0.0)
        one = decode_parts(own, counts, context_tokens)
        layers = sum((p for name, p in one.items() if name not in NOT_LAYERS), start=Pass())
        queries = 1.0 + plans.drafted_tokens
        first = decode_attention(own, counts, context_tokens, queries)
        further = (layers + one.get(ATTENTION, Pass())).times(again)
        by_tokens = by_tokens + layers.times(of_a_pass)
        by_sequences = by_sequences + (first + further).times(of_a_pass)
        by_sequences = by_sequences + one[HEAD].times(is_own * plans.drafted_tokens)
    return by_tokens, by_sequences


def _drafter_rig(rig: Rig, drafter: Model) -> Rig:
    """A drafter on the devices of one stage, cut as its target is."""
    stages = np.ones_like(rig.plans.pipeline_parallel)
    return replace(rig, model=drafter, plans=replace(rig.plans, pipeline_parallel=stages))
