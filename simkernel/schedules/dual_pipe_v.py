"""DualPipeV: a DualPipe cut in half, so that no stage is held twice.

The model is cut into twice as many stages as devices; a device serves the i-th from either end,
and micro-batches walk down the devices and back up ("cut in half", Sea AI Lab; in
github.com/deepseek-ai/DualPipe).
"""

from __future__ import annotations

import numpy as np

from simkernel.columns import Codes, Floats, Masks
from simkernel.schedule_traits import Traits
from simkernel.schedules import dual_pipe
from simkernel.stage_times import Item, Span, StageTimes

TRAITS = Traits(stages_held=2, runs_pairs=True, puts_off_weights=True)


def span(times: StageTimes, stages: Codes, chunks: Codes, micro_batches: Codes) -> Span:
    """As a DualPipe over twice as many devices, fed as many micro-batches from either end."""
    return dual_pipe.span(times, 2 * stages, chunks, 2 * micro_batches)


def in_flight(stage: Codes, stages: Codes, chunks: Codes, micro_batches: Codes) -> Floats:
    """Stage i of 2 p keeps 2 p - i, so a device 2 p + 1 of its two half-sized ones."""
    return np.minimum(micro_batches, 2 * stages - stage) * 1.0


def fills(stages: Codes, micro_batches: Codes) -> Masks:
    """At least twice the devices (dualpipev.py refuses fewer)."""
    return np.asarray(micro_batches >= 2 * stages)


def order(stage: int, stages: int, chunks: int, micro_batches: int) -> list[Item]:
    """That of the upper half of a DualPipe; chunk 0 walks down, chunk 1 back up."""
    return dual_pipe.order(stage, 2 * stages, chunks, 2 * micro_batches)
