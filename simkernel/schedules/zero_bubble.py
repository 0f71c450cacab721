"""Zero bubble with the memory of one-forward-one-backward (ZB-H1; Qi et al. 2024).

Gradients of weights, for which no other pass waits, are put off until a device would idle:
arXiv 2401.10241, section 2.2. Those of its schedules that need an optimiser step without global
synchronisation are `zero_bubble_h2` and `zero_bubble_v`.
"""

from __future__ import annotations

import numpy as np

from simkernel.columns import Codes, Floats, Masks
from simkernel.schedule_traits import Traits
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

TRAITS = Traits(puts_off_weights=True)


def span(times: StageTimes, stages: Codes, chunks: Codes, micro_batches: Codes) -> Span:
    """All turns of the slowest stage, and what the weights put off leave of its waiting.

    Notes
    -----
    Balanced: a bubble of (p - 1)(F + B - W), B without W, as in table 1 of the paper, where W is
    the shortest of the three; a longer W fills no more than the shorter of F and B. With fewer
    micro-batches than stages only m - 1 gaps are filled. Exact for balanced stages; within 13%
    where one stage is up to 1.6 times as slow.

    References
    ----------
    Qi et al. 2024, table 1 (T_F, T_B, T_W are F, B, W here).
    """
    devices = stages_there(times, stages)
    first_s, inner_s, last_s = (_chain_s(passes) for passes, _ in devices)
    fill_s = once_through(first_s, inner_s, last_s, stages)

    def span_s(pace: PassTimes) -> Floats:
        gap_s = np.minimum(np.minimum(pace.forward_s, pace.input_s), pace.weight_s)
        filled_s = np.minimum(stages - 1, micro_batches - 1) * gap_s
        waited_s = np.maximum(fill_s - _chain_s(pace) - filled_s, 0.0)
        return np.asarray(micro_batches * pace.turn_s + waited_s)

    longest = longest_s(devices, span_s)
    return Span(longest, longest - micro_batches * slowest_of(devices).turn_s)


def in_flight(stage: Codes, stages: Codes, chunks: Codes, micro_batches: Codes) -> Floats:
    """Every stage keeps min(m, p): what it put off it still needs (table 1: p M_B)."""
    return np.minimum(micro_batches, stages) + 0.0 * stage


def fills(stages: Codes, micro_batches: Codes) -> Masks:
    """Any number of micro-batches."""
    return np.asarray(micro_batches > 0)


def order(stage: int, stages: int, chunks: int, micro_batches: int) -> list[Item]:
    """As one-forward-one-backward, with the weights of a stage as many turns late as its place."""
    warm = min(stages - stage - 1, micro_batches)
    passes: list[Item] = [(("forward", 0, i),) for i in range(warm)]
    for i in range(micro_batches):
        if warm + i < micro_batches:
            passes.append((("forward", 0, warm + i),))
        passes.append((("input", 0, i),))
        if i >= stage:
            passes.append((("weight", 0, i - stage),))
    late = range(max(micro_batches - stage, 0), micro_batches)
    return passes + [(("weight", 0, i),) for i in late]


def _chain_s(times: PassTimes) -> Floats:
    """What a micro-batch takes on a stage while others wait for it."""
    return times.forward_s + times.input_s
