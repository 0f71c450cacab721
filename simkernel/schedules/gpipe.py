"""All forwards, then all backwards (Huang et al. 2019): simple, and keeps every micro-batch."""

from __future__ import annotations

import numpy as np

from simkernel.columns import Codes, Floats, Masks
from simkernel.schedule_traits import Traits
from simkernel.schedules import one_forward_one_backward
from simkernel.stage_times import Item, Span, StageTimes

TRAITS = Traits()


def span(times: StageTimes, stages: Codes, chunks: Codes, micro_batches: Codes) -> Span:
    """As one-forward-one-backward: the order differs in memory, not in time."""
    return one_forward_one_backward.span(times, stages, chunks, micro_batches)


def in_flight(stage: Codes, stages: Codes, chunks: Codes, micro_batches: Codes) -> Floats:
    """Every micro-batch of the step."""
    return micro_batches * 1.0


def fills(stages: Codes, micro_batches: Codes) -> Masks:
    """Any number of micro-batches."""
    return np.asarray(micro_batches > 0)


def order(stage: int, stages: int, chunks: int, micro_batches: int) -> list[Item]:
    """Forwards in order, backwards in order."""
    forward: list[Item] = [(("forward", 0, i),) for i in range(micro_batches)]
    return forward + [(("backward", 0, i),) for i in range(micro_batches)]
