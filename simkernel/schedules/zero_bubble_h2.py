"""Zero bubble with the memory of two pipelines (ZB-H2; Qi et al. 2024).

A device begins with forward passes for as long as its first backward pass is on its way, puts off
two weights for every stage before it, and goes on to its next step without waiting for the others:
arXiv 2401.10241, sections 2.2 and 4. The optimiser then has to be one that checks afterwards what
it reduced over all stages (norm of the gradients, overflow), as its authors' does.
"""

from __future__ import annotations

import numpy as np

from simkernel.columns import Codes, Column, Floats, Masks
from simkernel.schedule_traits import Traits
from simkernel.stage_times import (
    Item,
    PassTimes,
    Span,
    StageTimes,
    slowest_of,
    stages_there,
)

TRAITS = Traits(puts_off_weights=True, steps_run_on=True)


def span(times: StageTimes, stages: Codes, chunks: Codes, micro_batches: Codes) -> Span:
    """The longest step of any stage: its own turns, and what it waits for others on either side.

    Notes
    -----
    Balanced: a bubble of (p - 1) max(F + B - 2 W, B - F, 0), B without W: the first as in table 1
    of the paper, where passes are about as long; the second where the way back is longer than the
    way there. Exact for balanced stages, within 2% where one is up to 1.6 times as slow.

    References
    ----------
    Qi et al. 2024, table 1 (T_F, T_B, T_W are F, B, W here).
    """
    devices, away = stages_there(times, stages), stages - 1.0
    first_s, inner_s, last_s = (_chain_s(passes) for passes, _ in devices)
    others_s = np.maximum(stages - 3, 0) * inner_s
    waits_s = (
        _waited_s(times.first, 0.0, 0.0, away, np.maximum(stages - 2, 0) * inner_s + last_s),
        np.maximum(
            _waited_s(times.inner, 1.0, first_s, away - 1.0, others_s + last_s),
            _waited_s(times.inner, away - 1.0, first_s + others_s, 1.0, last_s),
        ),
        _waited_s(times.last, away, first_s + np.maximum(stages - 2, 0) * inner_s, 0.0, 0.0),
    )
    waits_s = (np.where(away > 0, waits_s[0], 0.0), *waits_s[1:])
    spans_s = [
        np.where(is_there, micro_batches * passes.turn_s + waited_s, 0.0)
        for (passes, is_there), waited_s in zip(devices, waits_s, strict=True)
    ]
    longest: Floats = np.maximum.reduce(spans_s)
    return Span(longest, longest - micro_batches * slowest_of(devices).turn_s)


def in_flight(stage: Codes, stages: Codes, chunks: Codes, micro_batches: Codes) -> Floats:
    """Every stage keeps 2 p - 1 (table 1: (2 p - 1) M_B)."""
    return np.minimum(micro_batches, 2 * stages - 1) + 0.0 * stage


def fills(stages: Codes, micro_batches: Codes) -> Masks:
    """At least as many as a device begins with."""
    return np.asarray(micro_batches >= 2 * stages - 1)


def order(stage: int, stages: int, chunks: int, micro_batches: int) -> list[Item]:
    """Warm up with 2 (p - i) - 1 forwards; weights come two turns late for every stage before."""
    warm, late = 2 * (stages - stage) - 1, 2 * stage
    passes: list[Item] = [(("forward", 0, i),) for i in range(warm)]
    for i in range(micro_batches):
        passes.append((("input", 0, i),))
        if i >= late:
            passes.append((("weight", 0, i - late),))
        if warm + i < micro_batches:
            passes.append((("forward", 0, warm + i),))
    return passes + [(("weight", 0, i),) for i in range(micro_batches - late, micro_batches)]


def _waited_s(
    device: PassTimes, before: Column, before_s: Column, after: Column, after_s: Column
) -> Floats:
    """What a device waits for those after it while it warms up, and for those before it at last.

    Parameters
    ----------
    before, after : devices on either side of it
    before_s, after_s : what a micro-batch takes on them all, forward and back
    """
    warming_s = after_s - 2.0 * after * device.forward_s
    ending_s = before_s - 2.0 * before * device.weight_s
    return np.asarray(np.maximum(warming_s, 0.0) + np.maximum(ending_s, 0.0))


def _chain_s(times: PassTimes) -> Floats:
    """What a micro-batch takes on a stage while others wait for it."""
    return times.forward_s + times.input_s
