"""What a schedule is told of a pipeline, and what it answers: passes of three stages, and a span.

Backward passes come whole and by halves: the gradient of the inputs, for which the stage before
waits, and that of the weights, for which nobody does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import numpy as np

from simkernel.columns import Codes, Column, Floats, Masks

Item = tuple[tuple[str, int, int], ...]
"""Passes that a device runs beside each other: mostly one (kind, chunk, micro_batch)."""


@dataclass(frozen=True)
class PassTimes:
    """Seconds of one micro-batch on one whole stage; (n,) each.

    Parameters
    ----------
    forward_s, backward_s : passes alone, recomputation and the send to the next stage included
    weight_s : of `backward_s`, gradients of weights
    pair_s : forward beside the backward pass of another micro-batch, of the mirrored stage where
        a device serves both; 0 where no schedule at hand runs pairs
    """

    forward_s: Floats
    backward_s: Floats
    weight_s: Floats
    pair_s: Column = 0.0

    @property
    def input_s(self) -> Floats:
        """Of the backward pass, what the stage before waits for."""
        return self.backward_s - self.weight_s

    @property
    def turn_s(self) -> Floats:
        """Forward and backward, one after the other."""
        return self.forward_s + self.backward_s


@dataclass(frozen=True)
class StageTimes:
    """Passes on the first, an inner and the last stage; with one stage all three are the same."""

    first: PassTimes
    inner: PassTimes
    last: PassTimes


@dataclass(frozen=True)
class Span:
    """One step of a pipeline, from the first forward pass to the last backward; (n,) each.

    span_s = micro-batches x turn of the slowest device + bubble_s - hidden_s.

    Parameters
    ----------
    span_s : all of it
    bubble_s : what the slowest device waits in it
    hidden_s : what that device saves by running passes beside each other
    """

    span_s: Floats
    bubble_s: Floats
    hidden_s: Column = 0.0


def once_through(first_s: Floats, inner_s: Floats, last_s: Floats, stages: Codes) -> Floats:
    """One micro-batch through all stages; a single stage is its own first and last.

    Parameters
    ----------
    first_s, inner_s, last_s : (n,) on each stage
    stages : (n,)
    """
    several = first_s + last_s + np.maximum(stages - 2, 0) * inner_s
    return np.where(stages > 1, several, first_s)


def stages_there(times: StageTimes, stages: Codes) -> tuple[tuple[PassTimes, Masks], ...]:
    """The passes of each stage, and where a pipeline has it.

    Parameters
    ----------
    times : of the first, an inner and the last stage
    stages : (n,)
    """
    return (times.first, stages > 0), (times.inner, stages > 2), (times.last, stages > 1)


def slowest_of(devices: Sequence[tuple[PassTimes, Masks]]) -> PassTimes:
    """The passes of the device with the longest turn; the first of equals.

    Parameters
    ----------
    devices : passes of some devices, and where they are there; the first always is
    """
    names, found = [f.name for f in fields(PassTimes)], devices[0][0]
    for other, is_there in devices[1:]:
        is_slower = is_there & (other.turn_s > found.turn_s)
        pairs = ((getattr(other, name), getattr(found, name)) for name in names)
        found = PassTimes(*(np.where(is_slower, a, b) for a, b in pairs))
    return found


def longest_s(
    devices: Sequence[tuple[PassTimes, Masks]], span_s: Callable[[PassTimes], Floats]
) -> Floats:
    """A step at the pace of whichever device makes it longest; never shorter for faster stages.

    Parameters
    ----------
    devices : as in `slowest_of`
    span_s : the step if that device sets the pace [s]
    """
    spans = [np.where(is_there, span_s(device), 0.0) for device, is_there in devices]
    found: Floats = np.maximum.reduce(spans)
    return found
