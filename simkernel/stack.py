"""What a software stack makes of a chip: what it fuses, what it overlaps, what it adds.

Kernel and link curves are measured alone. A whole step reaches less of them: the chip is warm,
casts and permutations stand between products, collectives take processors from them. How much
less is known per stack and chip from outside; this room only says where it acts.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from simkernel.columns import Column


@dataclass(frozen=True)
class Stack:
    """One software stack on one chip, or one per candidate: numbers, or (n,) each.

    The defaults are isolated kernels that nothing disturbs.

    Parameters
    ----------
    is_attention_fused : flash-type attention; False stores the squared scores, softmax, dropout
    overlaps_data : gathers of weights and reductions of gradients run beside the passes
    overlaps_tensor : tensor-parallel collectives run in pieces beside their products
    is_one_graph : a step with experts is one graph that the host launches once, with activations
        inside the grouped products; what its exchange runs beside is for the schedule to say
    sends_once : a token goes once to each device, however many of its experts are there
    cuts_evenly : every stage gets as many layers, that of the head as well
    contention_frac : share of the communication beside a pass that still lengthens it
    gemm_frac, narrow_gemm_frac : of the rate of the isolated product in 16 bits, and in fewer
    grouped_frac : of a product's rate that the grouped products of experts reach in fp8 with a
        scale per tensor or per block of 128
    wide_grouped_frac : the same for 16 bits
    attention_frac : of the rate of the isolated attention core
    narrow_attention_frac : times that, where the step is one graph and products take 8 or 4 bits:
        attention takes them as well then
    stream_passes : memory traffic of element-wise kernels, times what `ops` counts
    permute_passes : the same for permuting tokens to experts and back
    exchange_frac : time of the exchange between experts over what the wires say
    bias_passes : times that the results of experts with biases cross the memory on top, because
        bias, clamp and activation are not fused for them
    router_spread_frac : of how well experts are liked, deviation over mean; 0 is evenly random
    straggler_frac : mean delay of a scale-up domain over its step time; a step ends with the
        slowest domain
    dense_host_s, moe_host_s : the host needs so long to launch the kernels of one layer of one
        micro-batch, forward and backward together; devices cannot be faster [s]
    tensor_host_frac : of these times more for every pair of tensor ranks, where hosts launch
        collectives one by one and any may keep any other waiting
    expert_host_s : the same for each expert on the device whose inputs are quantised in blocks,
        expert by expert [s]
    """

    is_attention_fused: bool = True
    overlaps_data: bool = True
    overlaps_tensor: bool = False
    is_one_graph: bool = False
    sends_once: bool = False
    cuts_evenly: bool = False
    contention_frac: Column = 0.0
    gemm_frac: Column = 1.0
    narrow_gemm_frac: Column = 1.0
    grouped_frac: Column = 1.0
    wide_grouped_frac: Column = 1.0
    attention_frac: Column = 1.0
    narrow_attention_frac: Column = 1.0
    stream_passes: Column = 1.0
    permute_passes: Column = 1.0
    exchange_frac: Column = 1.0
    bias_passes: Column = 0.0
    router_spread_frac: Column = 0.0
    straggler_frac: Column = 0.0
    dense_host_s: Column = 0.0
    moe_host_s: Column = 0.0
    tensor_host_frac: Column = 0.0
    expert_host_s: Column = 0.0

    @property
    def is_by_row(self) -> bool:
        """One number or more is given per candidate."""
        return any(isinstance(getattr(self, f.name), np.ndarray) for f in fields(self))


ISOLATED = Stack()
"""Kernels as measured alone, perfectly overlapped: no published run is as fast."""
