"""In which form a software stack keeps weights, gradients, optimiser state and logits.

Two stacks that run the same plan on the same chip hold different bytes: one reduces gradients in
16 bits, another keeps no second copy of sharded weights. How fast a stack is, is in `stack`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simkernel.columns import Codes, Column, Floats, Masks
from simkernel.hardware import PRECISION_BYTES, PRECISIONS

WIDE_BYTES = 2.0
"""Bytes of a 16-bit value."""

NARROW_BYTES = 1.0

TENSOR_SCALED = ("fp8", "fp8_block")
"""Precisions with a scale per tensor, row or block of 128 values."""


@dataclass(frozen=True)
class Keeping:
    """Bytes per value, and which copies exist; the defaults are Megatron-LM's with bf16.

    Parameters
    ----------
    gradient_bytes : of one gradient, accumulated and on the wire (16-bit training in fp16 reduces
        in 16 bits whatever this says)
    optimiser_bytes : of one parameter's master copy and moments
    logit_bytes : of one logit at the worst moment of the loss
    has_weight_copy : ZeRO-3 keeps sharded 16-bit weights beside the master copy
    narrow_copies : weights kept quantised for the products, in so many layouts
    is_narrow_alone : weights trained in 8 bits are held in 8 bits only, without a wide copy
    keeps_combined : results of experts wait for the gradient of the router's weights; False where
        these weights scale what goes into the last product
    gate_bytes : of one value that goes into the activation of an MLP and is kept for its backward
        pass, where products take fewer than 16 bits
    """

    gradient_bytes: float = 4.0
    optimiser_bytes: float = 12.0
    logit_bytes: float = 6.0
    has_weight_copy: bool = True
    narrow_copies: float = 1.0
    is_narrow_alone: bool = False
    keeps_combined: bool = True
    gate_bytes: float = WIDE_BYTES

    def weight_bytes(self, precision_code: Codes, is_cut: Masks) -> Floats:
        """Bytes of one weight beside the master copy; (n,).

        Parameters
        ----------
        precision_code : (n,) of the matrix products
        is_cut : (n,) weights are sharded and gathered anew for every pass
        """
        width = np.array(PRECISION_BYTES)[precision_code]
        is_narrow = width < WIDE_BYTES
        is_alone = is_narrow & (width >= NARROW_BYTES) & self.is_narrow_alone
        wide = np.where(is_alone | (is_cut & (not self.has_weight_copy)), 0.0, WIDE_BYTES)
        return wide + np.where(is_narrow, width * self.narrow_copies, 0.0)

    def gathered_bytes(self, precision_code: Codes) -> Floats:
        """Bytes of one weight as it is gathered; (n,).

        Parameters
        ----------
        precision_code : (n,) of the matrix products

        Notes
        -----
        8 bits where weights are held in 8 bits alone, with a scale per tensor or block of 128.
        With a scale per 32 values both layouts are quantised after the gather, which is in 16 bits
        (NVIDIA/Megatron-LM, fp8_param_gather and reuse_grad_buf_for_mxfp8_param_ag).
        """
        is_scaled = np.isin(precision_code, [PRECISIONS.index(name) for name in TENSOR_SCALED])
        return np.where(is_scaled & self.is_narrow_alone, NARROW_BYTES, WIDE_BYTES)

    def kept_gate_bytes(self, input_bytes: Column) -> Column:
        """Bytes of one kept value that goes into the activation of an MLP.

        Parameters
        ----------
        input_bytes : number or (n,), of one input of a product
        """
        if self.gate_bytes == WIDE_BYTES:
            return WIDE_BYTES
        return np.where(input_bytes < WIDE_BYTES, self.gate_bytes, WIDE_BYTES)

    def update_bytes(self, gradient_bytes: Column) -> Column:
        """Bytes that an optimiser reads and writes for one parameter.

        Parameters
        ----------
        gradient_bytes : number or (n,), of the gradient as it was reduced

        Notes
        -----
        Gradient and state are read, state and the 16-bit weight written: 30 with fp32 gradients.
        """
        return gradient_bytes + 2.0 * self.optimiser_bytes + WIDE_BYTES


PLAIN = Keeping()
"""18 bytes a parameter: 2 of weight, 4 of gradient, 12 of optimiser (ZeRO, K = 12)."""
