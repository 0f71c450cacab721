"""The check on the back of an envelope: total work, total time, no detail.

Beside every explained plan; never inside one.
"""

from __future__ import annotations

from simkernel.columns import Column


def training_flop(active_parameters: Column, tokens: Column) -> Column:
    """Work of training: six operations per active parameter and token.

    Notes
    -----
    Without the attention core, which grows with the sequence.

    References
    ----------
    Kaplan et al., arXiv 2001.08361, section 2.1: C = 6 N D.
    """
    return 6.0 * active_parameters * tokens


def run_s(flop: Column, devices: Column, peak_flop_per_s: Column, mfu_frac: Column) -> Column:
    """Time of some work at a share of the peak of many devices (LLMCarbon, arXiv 2309.14393)."""
    return flop / (devices * peak_flop_per_s * mfu_frac)
