"""Interleaved, with each backward pass beside the next forward pass of the same device.

What experts exchange runs beside the work of the other pass ("combined 1F1B" of Megatron-Core,
its guide on expert-parallel all-to-all overlap; `--overlap-moe-expert-parallel-comm`). With one
stage and one chunk it is a forward pass beside the backward pass of the micro-batch before.
"""

from __future__ import annotations

import numpy as np

from simkernel.columns import Codes, Floats, Masks
from simkernel.schedule_traits import Traits
from simkernel.schedules import interleaved
from simkernel.stage_times import (
    Item,
    PassTimes,
    Span,
    StageTimes,
    longest_s,
    once_through,
    slowest_of,
    stages_there,
)

TRAITS = Traits(
    is_chunked=True,
    runs_pairs=True,
    frees_in_pairs=True,
    needs_expert_parallel=True,
    needs_pipeline=False,
    runs_full_recompute=False,
)


def span(times: StageTimes, stages: Codes, chunks: Codes, micro_batches: Codes) -> Span:
    """As interleaved, less what pairs save: all passes but those that fill the last device.

    Balanced: p (F + B) + (m v - p (v - 1) - 1) P / v, P a pair on a whole stage.
    """
    devices = stages_there(times, stages)
    first_s, inner_s, last_s = (passes.turn_s for passes, _ in devices)
    fill_s = once_through(first_s, inner_s, last_s, stages)
    pairs = np.maximum(micro_batches * chunks - stages * (chunks - 1) - 1, 0)

    def span_s(pace: PassTimes) -> Floats:
        waited_s = (fill_s - pace.turn_s) / chunks
        saved_s = pairs * (pace.turn_s - pace.pair_s) / chunks
        return np.asarray(micro_batches * pace.turn_s + waited_s - saved_s)

    longest, slowest = longest_s(devices, span_s), slowest_of(devices)
    hidden_s = pairs * (slowest.turn_s - slowest.pair_s) / chunks
    return Span(longest, longest - micro_batches * slowest.turn_s + hidden_s, hidden_s)


def in_flight(stage: Codes, stages: Codes, chunks: Codes, micro_batches: Codes) -> Floats:
    """As interleaved: the warm-up is one chunk longer, but a pair frees what it fills.

    References
    ----------
    NVIDIA/Megatron-LM, core/models/common/model_chunk_schedule_plan.py (run, release_state).
    """
    return interleaved.in_flight(stage, stages, chunks, micro_batches)


def fills(stages: Codes, micro_batches: Codes) -> Masks:
    """Whole groups of as many micro-batches as there are stages."""
    return interleaved.fills(stages, micro_batches)


def order(stage: int, stages: int, chunks: int, micro_batches: int) -> list[Item]:
    """Passes as interleaved, one forward earlier, then pairs (Megatron-Core, schedules.py)."""
    passes = interleaved.order(stage, stages, chunks, micro_batches)
    forward = [item for item in passes if item[0][0] == "forward"]
    backward = [item for item in passes if item[0][0] == "backward"]
    warm = min(2 * (stages - stage - 1) + (chunks - 1) * stages + 1, len(forward))
    pairs = zip(forward[warm:], backward, strict=False)
    return [*forward[:warm], *((*f, *b) for f, b in pairs), *backward[len(forward) - warm :]]
