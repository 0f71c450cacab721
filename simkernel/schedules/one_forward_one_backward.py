"""One forward, one backward (PipeDream-Flush; Narayanan et al. 2021, section 2.2)."""

from __future__ import annotations

import numpy as np

from simkernel.columns import Codes, Floats, Masks
from simkernel.schedule_traits import Traits
from simkernel.stage_times import Item, Span, StageTimes, once_through

TRAITS = Traits()


def span(times: StageTimes, stages: Codes, chunks: Codes, micro_batches: Codes) -> Span:
    """(m - 1) turns of the slowest stage after one turn of every stage.

    Balanced stages give (m + p - 1)(F + B), Narayanan et al. 2021, section 2.2.1; the form for
    uneven stages is exact when one stage is slowest in both directions.
    """
    first_s, inner_s, last_s = times.first.turn_s, times.inner.turn_s, times.last.turn_s
    slowest_s = np.maximum(np.maximum(first_s, last_s), np.where(stages > 2, inner_s, 0.0))
    fill_s = once_through(first_s, inner_s, last_s, stages)
    return Span((micro_batches - 1) * slowest_s + fill_s, fill_s - slowest_s)


def in_flight(stage: Codes, stages: Codes, chunks: Codes, micro_batches: Codes) -> Floats:
    """Stage i keeps min(m, p - i) micro-batches (Korthikanti et al. 2022, section 4.3)."""
    return np.minimum(micro_batches, stages - stage) * 1.0


def fills(stages: Codes, micro_batches: Codes) -> Masks:
    """Any number of micro-batches."""
    return np.asarray(micro_batches > 0)


def order(stage: int, stages: int, chunks: int, micro_batches: int) -> list[Item]:
    """Warm up with p - i - 1 forwards, alternate, drain."""
    warm = min(stages - stage - 1, micro_batches)
    passes: list[Item] = [(("forward", 0, i),) for i in range(warm)]
    for i in range(micro_batches - warm):
        passes += [(("forward", 0, warm + i),), (("backward", 0, i),)]
    return passes + [(("backward", 0, i),) for i in range(micro_batches - warm, micro_batches)]
