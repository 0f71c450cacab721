"""What one device holds of a micro-batch under every kind of parallelism, and its rates."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, cached_property
from statistics import NormalDist

import numpy as np

from simkernel.candidates import TrainingPlans
from simkernel.columns import Codes, Column, Floats, Masks
from simkernel.hardware import PRECISION_BYTES, PRECISIONS, Chips
from simkernel.keeping import TENSOR_SCALED, WIDE_BYTES, Keeping
from simkernel.models import LayerKind, Weight
from simkernel.placement import Placement
from simkernel.roofline import (
    AttentionRates,
    GemmRates,
    StreamRates,
    attention_rates,
    gemm_rates,
    stream_rates,
)
from simkernel.stack import Stack
from simkernel.timed_parts import UNTIMED, PartFracs, fracs_at
from simkernel.traffic import Network
from simkernel.workload import TrainingJob

MICROSCALED = ("mxfp8", "nvfp4", "mxfp4")
"""Precisions with a scale per 16 or 32 values."""


@dataclass(frozen=True)
class Share:
    """What one device holds of a micro-batch, and the rates it works at; (n,) each.

    `tokens` enter a product cut by tensor parallelism, of whose width a device has as much as
    `cut_tokens` = tokens / tensor have of the whole; norms and replicated matrices work on
    `own_tokens`, the cut ones under sequence parallelism, else all (as in serving). `input_bytes`,
    `expert_bytes` are the widths of a quantised GEMM input. `is_one_graph`: without a pipeline, or
    between its chunks (Megatron-Bridge asks for virtual stages, training/comm_overlap.py).
    `expert_imbalance`, `expert_skew`: as of the job. `head_ranks`: as of the plan.
    `copied_experts` hold the busiest experts once more. `parts` says what was timed of the rest of
    a step than products and collectives.
    """

    tokens: Floats
    own_tokens: Floats
    cut_tokens: Floats
    is_sequence_cut: Masks
    sequences: Column
    sequence_tokens: Column
    tensor: Codes
    head_ranks: Codes
    expert: Codes
    expert_tensor: Codes
    input_bytes: Floats
    expert_bytes: Floats
    gemm: GemmRates
    grouped_gemm: GemmRates
    wide_gemm: GemmRates
    attention: AttentionRates
    stream: StreamRates
    placement: Placement
    network: Network
    collective_code: Codes
    recompute_code: Codes
    is_half: Masks
    is_one_graph: Masks
    expert_imbalance: float
    expert_skew: float
    stack: Stack
    keeping: Keeping
    copied_experts: Column = 0.0
    parts: PartFracs = UNTIMED

    @cached_property
    def collective_codes(self) -> frozenset[int]:
        """Those that some candidate names."""
        return frozenset(np.flatnonzero(np.bincount(self.collective_code)).tolist())

    @cached_property
    def has_context_ranks(self) -> bool:
        """Some candidate splits its sequences."""
        return bool(np.any(self.placement.context.size > 1))

    @cached_property
    def has_scattered_heads(self) -> bool:
        """Some candidate scatters heads around the attention core."""
        return bool(np.any(self.head_ranks > 1))

    @property
    def reduced_bytes(self) -> Floats:
        """Bytes of one gradient on the wire: as kept, but 16 bits where training is in fp16.

        Megatron-LM accumulates and reduces in fp32 for bf16 alone, unless told otherwise
        (megatron/training/arguments.py, accumulate_allreduce_grads_in_fp32, grad_reduce_in_bf16).
        """
        return np.where(self.is_half, WIDE_BYTES, self.keeping.gradient_bytes)

    @property
    def is_block_scaled(self) -> Masks:
        """Inputs of products carry a scale per 16 or 32 values, not one per tensor or 128."""
        return np.isin(
            self.input_bytes, [PRECISION_BYTES[PRECISIONS.index(n)] for n in MICROSCALED]
        )

    @property
    def cast_bytes(self) -> Floats:
        """Bytes to quantise one value: read wide, written narrow twice (as it is, transposed)."""
        narrow = self.input_bytes
        return np.where(narrow < WIDE_BYTES, WIDE_BYTES + 2.0 * narrow, 0.0)

    @property
    def is_fused(self) -> bool:
        """Attention keeps nothing squared in memory."""
        return self.stack.is_attention_fused


def share_of(
    job: TrainingJob,
    chips: Chips,
    plans: TrainingPlans,
    placement: Placement,
    network: Network,
    *,
    has_experts: bool = False,
) -> Share:
    """The share of every candidate; `chips` has one row or one per candidate."""
    tokens = plans.micro_batch_sequences * job.tokens_per_sequence / plans.context_parallel
    cut, is_cut = tokens / plans.tensor_parallel, plans.sequence_parallel == 1
    wide_code = np.where(plans.precision_code == PRECISIONS.index("fp16"), 1, 0)
    is_scaled = np.isin(plans.precision_code, [PRECISIONS.index(name) for name in TENSOR_SCALED])
    is_narrow = np.array(PRECISION_BYTES)[plans.precision_code] < WIDE_BYTES
    reached = np.where(is_narrow, job.stack.narrow_gemm_frac, job.stack.gemm_frac)
    may_overlap = (plans.pipeline_parallel == 1) | (plans.virtual_stages > 1)
    is_one_graph = may_overlap & (has_experts and job.stack.is_one_graph)
    narrow_core = np.where(is_one_graph & is_narrow, job.stack.narrow_attention_frac, 1.0)
    grouped = np.where(is_scaled, job.stack.grouped_frac, 1.0)
    grouped = np.where(is_narrow, grouped, job.stack.wide_grouped_frac)
    parts = _parts_timed(chips, job)
    core_frac = parts.or_one("attention_forward", job.stack.attention_frac * narrow_core)
    return Share(
        tokens=tokens,
        own_tokens=np.where(is_cut, cut, tokens),
        cut_tokens=cut,
        is_sequence_cut=is_cut,
        sequences=plans.micro_batch_sequences,
        sequence_tokens=job.tokens_per_sequence,
        tensor=plans.tensor_parallel,
        head_ranks=plans.head_ranks,
        expert=plans.expert_parallel,
        expert_tensor=plans.expert_tensor_parallel,
        input_bytes=np.array(PRECISION_BYTES)[plans.precision_code],
        expert_bytes=np.array(PRECISION_BYTES)[plans.precision_code],
        gemm=gemm_rates(chips, plans.precision_code, reached),
        grouped_gemm=gemm_rates(chips, plans.precision_code, reached * grouped),
        wide_gemm=gemm_rates(chips, wide_code, job.stack.gemm_frac),
        attention=attention_rates(chips, core_frac),
        stream=stream_rates(chips),
        placement=placement,
        network=network,
        collective_code=plans.collective_code,
        recompute_code=plans.recompute_code,
        is_half=plans.precision_code == PRECISIONS.index("fp16"),
        is_one_graph=is_one_graph,
        expert_imbalance=job.expert_imbalance,
        expert_skew=job.expert_skew,
        stack=_stack_as_timed(job.stack, parts),
        keeping=job.keeping,
        parts=parts,
    )


def _parts_timed(chips: Chips, job: TrainingJob) -> PartFracs:
    """What was timed of parts of a step on the chips."""
    if chips.timed is None or not chips.timed.parts:
        return UNTIMED
    return fracs_at(chips.timed.parts, chips.timed.codes, job.tokens_per_sequence)


def _stack_as_timed(stack: Stack, parts: PartFracs) -> Stack:
    """The stack without what timed element-wise kernels hold already."""
    if not parts.fracs:
        return stack
    return replace(
        stack,
        stream_passes=parts.or_one("elementwise_forward", stack.stream_passes),
        permute_passes=parts.or_one("elementwise_forward", stack.permute_passes),
        bias_passes=stack.bias_passes * (1.0 - parts.timed("elementwise_forward")),
    )


def imbalance(share: Share, kind: LayerKind) -> Floats:
    """Tokens of the busiest expert rank over the mean.

    The extreme value of E ranks whose loads spread for two reasons: few draws (multinomial), and
    experts that are not equally liked (their spread s, averaged over the N / E experts of a rank):
    1 + sqrt(2 ln(E) ((E - 1) / draws + s^2 (E - 1) / N)). With s = 0 routing is evenly random and
    this a lower bound, real routers are skewed beyond it. By how much is the stack's to say (s) or
    the job's: a factor, a power law of the experts' loads, or both. A job whose experts all sit
    on one rank has no imbalance, and no rank gets a token more than once for each of its experts.
    Copies of the busiest experts share their tokens, so that loads spread less.
    """
    ranks = share.expert
    draws = share.cut_tokens * ranks * share.expert_tensor * kind.top_k
    spread = spread_with_copies(share.stack.router_spread_frac, kind.experts, share.copied_experts)
    liked = spread**2 / (kind.experts + share.copied_experts)
    random = 1.0 + np.sqrt(2.0 * np.log(ranks) * (ranks - 1) * (1.0 / draws + liked))
    skewed = power_law_imbalance(kind.experts, ranks, share.expert_skew)
    most = ranks * np.minimum(1.0, kind.experts / ranks / max(kind.top_k, 1))
    busiest = np.minimum(random * skewed * share.expert_imbalance, np.maximum(most, 1.0))
    return np.where(ranks > 1, busiest, 1.0)


def spread_with_copies(spread_frac: Column, experts: int, copies: Column) -> Column:
    """Deviation over mean of the tokens of a slot, where the busiest experts have several.

    Parameters
    ----------
    spread_frac : of the experts' own loads, taken as lognormal
    experts : that there are
    copies : (n,) slots beyond one for each; every next one goes to who has most tokens per slot

    Notes
    -----
    The loads that copies were placed for are taken as those that come: a balancer that lags
    behind its traffic gains less.

    References
    ----------
    deepseek-ai/EPLB (2025), replicate_experts: the redundant experts heuristic.
    """
    if not np.any(copies):
        return spread_frac
    sigma = float(np.sqrt(np.log1p(np.max(spread_frac) ** 2)))
    counts, codes = np.unique(np.asarray(copies).astype(int), return_inverse=True)
    left = np.array([_slot_spread(experts, sigma, int(count)) for count in counts])
    return np.asarray(spread_frac * left[codes] / max(_slot_spread(experts, sigma, 0), 1e-12))


@cache
def _slot_spread(experts: int, sigma: float, copies: int) -> float:
    """Deviation over mean of the loads of all slots, `copies` more than there are experts."""
    normal = NormalDist()
    parts = [normal.inv_cdf((place + 0.5) / experts) for place in range(experts)]
    loads = np.exp(sigma * np.array(parts))
    slots = np.ones(len(loads))
    for _ in range(copies):
        slots[np.argmax(loads / slots)] += 1.0
    each = np.repeat(loads / slots, slots.astype(int))
    return float(each.std() / each.mean())


def power_law_imbalance(experts: int, ranks: Codes, skew: float) -> Floats:
    """Load of the rank that holds the busiest expert over the mean, the rest placed evenly.

    Parameters
    ----------
    experts : whose loads fall as 1, 2^-skew, 3^-skew and so on
    ranks : (n,) among which they are divided
    skew : exponent, 0 for equal loads

    Returns
    -------
    (n,)

    References
    ----------
    ai-dynamo/aiconfigurator docs/POWER_LAW_DISTRIBUTION.md, which samples such loads and takes the
    rank with most; here their expected shape.
    """
    if skew == 0.0:
        return np.ones(len(ranks))
    loads = np.arange(1, experts + 1) ** -skew
    top, rest = loads[0] / loads.mean(), loads[1:].mean() / loads.mean()
    held = experts / ranks
    return np.asarray((top + (held - 1.0) * rest) / held)


def touched_experts(share: Share, kind: LayerKind) -> Floats:
    """Experts of a device that any token of the pass is routed to.

    N_local (1 - (1 - k/N)^T) for evenly random routing, T the tokens of all ranks that share the
    experts: a small batch reads only the experts it meets. Where some experts are liked better
    (spread s, a gamma distribution), tokens meet the same ones again and the share that is missed
    is (1 + s^2 T k/N)^(-1/s^2). One token meets k. Copies are read as often as their experts.
    """
    met = share.cut_tokens * share.expert * share.expert_tensor
    used_frac, spread = kind.top_k / kind.experts, share.stack.router_spread_frac
    variance = np.maximum(spread**2, LEAST_VARIANCE)
    evenly = (1.0 - used_frac) ** met
    missed = np.where(spread > 0, (1.0 + variance * met * used_frac) ** (-1 / variance), evenly)
    touched_frac = np.maximum(1.0 - missed, used_frac * np.minimum(met, 1.0))
    return np.asarray((kind.experts + share.copied_experts) / share.expert * touched_frac)


LEAST_VARIANCE = 1e-9
"""Below it the gamma distribution is one value to all digits."""


def tensor_cut(tensor: Codes, kind: LayerKind, weight: Weight) -> Codes:
    """Into how many parts tensor parallelism cuts a matrix; key and value heads are never cut."""
    if weight.name in ("k", "v", "kv") and kind.core is not None and kind.core.kv_heads:
        return np.minimum(tensor, kind.core.kv_heads)
    return tensor
