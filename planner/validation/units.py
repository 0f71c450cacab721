"""What a published number means: any speed as tokens per second, any memory figure as terms.

A rate in FLOP depends on what its source counted: `flop_convention` says whether attention is
counted whole or causal (half). Where it is unknown it is taken as whole, the convention of
Narayanan et al. 2021 that most sources follow. MFU is of the dense peak of the row's precision.
"""

from __future__ import annotations

from planner.validation.rows import TruthRow
from simkernel.models import Model, training_flop_per_token

SECONDS_PER_HOUR = 3600.0

SPEEDS = (
    "step_time_s", "tokens_per_s_per_gpu", "tokens_per_s_total", "model_tflops_per_gpu",
    "hw_tflops_per_gpu", "mfu_percent", "gpu_hours_per_Ttok",
)  # fmt: skip

MEMORY = {
    "activation_mem_gib_per_gpu": ("activations",),
    "param_opt_mem_gib_per_gpu": ("weights", "gradients", "optimiser"),
    "peak_mem_gib_per_gpu": (
        "weights", "gradients", "optimiser", "gathered_weights", "activations", "logits",
        "fragmentation", "framework",
    ),
}  # fmt: skip
"""Terms of the memory ledger that a published figure holds."""

PARTS = ("activation_mem_gib_per_gpu", "param_opt_mem_gib_per_gpu")
"""Figures of one part of the memory."""


def is_speed(row: TruthRow) -> bool:
    """Whether the row is a speed we can turn into tokens per second."""
    return row.text("metric") in SPEEDS


def is_run(row: TruthRow) -> bool:
    """Whether the row was measured on a run; a part of the memory is a sum on paper.

    The parts in Korthikanti et al. 2022, figure 1, are computed, and most lie above the line of
    what the chip has: that is the figure's point.
    """
    return row.text("metric") not in PARTS


def memory_terms(row: TruthRow) -> tuple[str, ...]:
    """Terms of the memory ledger the row measures; () where it is no memory."""
    return MEMORY.get(row.text("metric"), ())


def implied_tokens_per_s(row: TruthRow, model: Model, peak_flop_per_s: float) -> float:
    """Tokens per second of all devices that a speed row implies.

    Parameters
    ----------
    peak_flop_per_s : dense peak of one device in the row's precision

    References
    ----------
    Recompute counted ("4-pass"): Narayanan et al. 2021 (arXiv 2104.04473), section 3.2; the
    head is not run again.
    """
    metric, value, devices = row.text("metric"), row.value, float(row.count("n_accel") or 1)
    if metric == "step_time_s":
        return (row.count("global_batch_seqs") or 1) * (row.count("seq_len") or 1) / value
    if metric == "tokens_per_s_total":
        return value
    if metric == "tokens_per_s_per_gpu":
        return value * devices
    if metric == "gpu_hours_per_Ttok":
        return 1e12 * devices / (value * SECONDS_PER_HOUR)
    flop, head = counted_flop_per_token(row, model)
    if metric == "hw_tflops_per_gpu":
        flop = (flop - head) * 4.0 / 3.0 + head
    flop_per_s = value / 100.0 * peak_flop_per_s if metric == "mfu_percent" else value * 1e12
    return flop_per_s * devices / flop


def counted_flop_per_token(row: TruthRow, model: Model) -> tuple[float, float]:
    """FLOP of a trained token as the row's source counts them, and the head's part of it."""
    ledger = training_flop_per_token(model, float(row.count("seq_len") or 1))
    whole = 0.0 if row.text("flop_convention") == "causal" else float(ledger.terms["core"])
    return float(ledger.total) + whole, float(ledger.terms["head"])
