"""Interleaved one-forward-one-backward: each device holds several chunks of the pipeline.

Narayanan et al. 2021, section 2.2.2: the bubble shrinks by the number of chunks, activation
memory grows by 1 + (p-1)/(p v) (Korthikanti et al. 2022, section 4.3).
"""

from __future__ import annotations

import numpy as np

from simkernel.columns import Codes, Floats, Masks
from simkernel.schedule_traits import Traits
from simkernel.schedules import one_forward_one_backward
from simkernel.stage_times import Item, Span, StageTimes

TRAITS = Traits(is_chunked=True)


def span(times: StageTimes, stages: Codes, chunks: Codes, micro_batches: Codes) -> Span:
    """All turns of the slowest stage, and the waiting of one-forward-one-backward over chunks.

    Balanced: m (F + B) + (p - 1)(F + B) / v. Needs micro-batches in multiples of the stages.
    """
    whole = one_forward_one_backward.span(times, stages, chunks, micro_batches)
    bubble_s = whole.bubble_s / chunks
    return Span(whole.span_s - whole.bubble_s + bubble_s, bubble_s)


def in_flight(stage: Codes, stages: Codes, chunks: Codes, micro_batches: Codes) -> Floats:
    """Warm-up chunks 2 (p - i - 1) + (v - 1) p, plus the one in work, over v chunks a stage."""
    warm = 2 * (stages - stage - 1) + (chunks - 1) * stages + 1
    return np.minimum(warm, micro_batches * chunks) / chunks


def fills(stages: Codes, micro_batches: Codes) -> Masks:
    """Whole groups of as many micro-batches as there are stages."""
    return np.asarray(micro_batches % stages == 0)


def order(stage: int, stages: int, chunks: int, micro_batches: int) -> list[Item]:
    """Groups of p micro-batches walk through the chunks; backward walks them in reverse."""
    group = [
        (c, g * stages + i)
        for g in range(micro_batches // stages)
        for c in range(chunks)
        for i in range(stages)
    ]
    forward: list[Item] = [(("forward", c, i),) for c, i in group]
    backward: list[Item] = [(("backward", chunks - 1 - c, i),) for c, i in group]
    total = len(forward)
    warm = min(2 * (stages - stage - 1) + (chunks - 1) * stages, total)
    passes = forward[:warm]
    for i in range(total - warm):
        passes += [forward[warm + i], backward[i]]
    return passes + backward[total - warm :]
