"""What one device holds of a micro-batch under every kind of parallelism, and its rates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simkernel.candidates import TrainingPlans
from simkernel.columns import Codes, Column, Floats, Masks
from simkernel.hardware import PRECISION_BYTES, PRECISIONS, Chips
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
from simkernel.traffic import Network
from simkernel.workload import TrainingJob

WIDE_BYTES = 2.0
"""Bytes of a bf16 value."""

FULL_BYTES = 4.0
"""Bytes of a fp32 value."""

TENSOR_SCALED = ("fp8", "fp8_block")
"""Precisions with a scale per tensor, row or block of 128 values."""

MICROSCALED = ("mxfp8", "nvfp4", "mxfp4")
"""Precisions with a scale per 16 or 32 values."""


@dataclass(frozen=True)
class Share:
    """What one device holds of a micro-batch, and the rates it works at; (n,) each.

    `tokens` enter a product cut by tensor parallelism; `own_tokens` = tokens / tensor are the
    device's under sequence parallelism; without it (serving) every tensor rank norms all of them.
    `input_bytes`, `expert_bytes` are the widths of a quantised GEMM input.
    """

    tokens: Floats
    own_tokens: Floats
    sequences: Column
    sequence_tokens: Column
    tensor: Codes
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
    stack: Stack
    is_sequence_cut: bool = True

    @property
    def whole_tokens(self) -> Floats:
        """Tokens that meet what tensor parallelism does not cut: norms and replicated matrices."""
        return self.own_tokens if self.is_sequence_cut else self.tokens

    @property
    def reduced_bytes(self) -> Floats:
        """Bytes of one gradient on the wire: fp32, but 16 bits where training is in fp16.

        Megatron-LM accumulates and reduces in fp32 for bf16 alone (megatron/arguments.py,
        accumulate_allreduce_grads_in_fp32).
        """
        return np.where(self.is_half, WIDE_BYTES, FULL_BYTES)

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
    job: TrainingJob, chips: Chips, plans: TrainingPlans, placement: Placement, network: Network
) -> Share:
    """The share of every candidate; `chips` has one row or one per candidate."""
    tokens = plans.micro_batch_sequences * job.tokens_per_sequence / plans.context_parallel
    wide_code = np.where(plans.precision_code == PRECISIONS.index("fp16"), 1, 0)
    is_scaled = np.isin(plans.precision_code, [PRECISIONS.index(name) for name in TENSOR_SCALED])
    is_narrow = np.array(PRECISION_BYTES)[plans.precision_code] < WIDE_BYTES
    reached = np.where(is_narrow, job.stack.narrow_gemm_frac, job.stack.gemm_frac)
    grouped = np.where(is_scaled, job.stack.grouped_frac, 1.0)
    return Share(
        tokens=tokens,
        own_tokens=tokens / plans.tensor_parallel,
        sequences=plans.micro_batch_sequences,
        sequence_tokens=job.tokens_per_sequence,
        tensor=plans.tensor_parallel,
        expert=plans.expert_parallel,
        expert_tensor=plans.expert_tensor_parallel,
        input_bytes=np.array(PRECISION_BYTES)[plans.precision_code],
        expert_bytes=np.array(PRECISION_BYTES)[plans.precision_code],
        gemm=gemm_rates(chips, plans.precision_code, reached),
        grouped_gemm=gemm_rates(chips, plans.precision_code, reached * grouped),
        wide_gemm=gemm_rates(chips, wide_code, job.stack.gemm_frac),
        attention=attention_rates(chips, job.stack.attention_frac),
        stream=stream_rates(chips),
        placement=placement,
        network=network,
        collective_code=plans.collective_code,
        recompute_code=plans.recompute_code,
        is_half=plans.precision_code == PRECISIONS.index("fp16"),
        stack=job.stack,
    )


def imbalance(share: Share, kind: LayerKind) -> Floats:
    """Tokens of the busiest expert rank over the mean, for evenly random routing.

    Extreme value of a multinomial: 1 + sqrt(2 ln(E) (E - 1) / (tokens x top_k)), E expert ranks.
    A lower bound: real routers are skewed beyond it.
    """
    ranks = share.expert
    draws = share.own_tokens * ranks * share.expert_tensor * kind.top_k
    return 1.0 + np.sqrt(2.0 * np.log(ranks) * (ranks - 1) / draws)


def touched_experts(share: Share, kind: LayerKind) -> Floats:
    """Experts of a device that any token of the pass is routed to, for evenly random routing.

    N_local (1 - (1 - k/N)^T), T the tokens of all ranks that share the experts: a small batch
    reads only the experts it meets.
    """
    met = share.own_tokens * share.expert * share.expert_tensor
    missed = (1.0 - kind.top_k / kind.experts) ** met
    return kind.experts / share.expert * (1.0 - missed)


def tensor_cut(tensor: Codes, kind: LayerKind, weight: Weight) -> Codes:
    """Into how many parts tensor parallelism cuts a matrix; key and value heads are never cut."""
    if weight.name in ("k", "v", "kv") and kind.core is not None and kind.core.kv_heads:
        return np.minimum(tensor, kind.core.kv_heads)
    return tensor
