"""Zero bubble at the memory of one-forward-one-backward (ZB-V; Qi et al. 2024).

The model is cut into twice as many stages as devices, and a device serves the i-th from either
end: micro-batches walk down the devices and back up, so that a device's second stage is done soon
after its first: arXiv 2401.10241, section 6; arXiv 2405.15362. As with ZB-H2 a device goes on to
its next step without waiting for the others.
"""

from __future__ import annotations

import numpy as np

from simkernel.columns import Codes, Floats, Masks
from simkernel.schedule_traits import Traits
from simkernel.stage_times import Item, PassTimes, Span, StageTimes, longest_s, slowest_of

TRAITS = Traits(stages_held=2, puts_off_weights=True, steps_run_on=True)


def span(times: StageTimes, stages: Codes, chunks: Codes, micro_batches: Codes) -> Span:
    """All turns of the slowest device's two stages, and what its order leaves of its waiting.

    Notes
    -----
    Nothing is waited where F, B (without W) and W are as long as each other, as in the paper.
    Where they are not, the longest of eight ways through the order is, d = p - 1 devices long:
    it was read off the played order, and is exact for balanced stages.

    References
    ----------
    Qi et al. 2024, section 6; the order is that of pytorch/pytorch, ScheduleZBVZeroBubble.
    """
    ends, inner = _both(times.first, times.last), _both(times.inner, times.inner)
    devices = ((ends, stages > 0), (inner, stages > 2))

    def span_s(pace: PassTimes) -> Floats:
        return np.asarray(micro_batches * pace.turn_s + _waited_s(pace, stages - 1.0))

    longest = longest_s(devices, span_s)
    return Span(longest, longest - micro_batches * slowest_of(devices).turn_s)


def in_flight(stage: Codes, stages: Codes, chunks: Codes, micro_batches: Codes) -> Floats:
    """Stage i of 2 p keeps 2 p - i, the lower half one less: a device 2 p half-sized ones."""
    return np.minimum(micro_batches, 2 * stages - stage - (stage < stages)) * 1.0


def fills(stages: Codes, micro_batches: Codes) -> Masks:
    """At least as many as the first device begins with."""
    return np.asarray(micro_batches >= 2 * stages - 1)


def order(stage: int, stages: int, chunks: int, micro_batches: int) -> list[Item]:
    """Warm up, a forward and a whole backward of either chunk in turn, weights last."""
    line = _Line([])
    line.run("F0" * (2 * (stages - stage) - 1))
    line.run("F1F0" * stage)
    line.run("F1I1W1" * (stages - stage))
    begun = 2 * stages - 1 - stage
    line.run("F0I0W0F1I1W1" * (micro_batches - begun))
    line.run("I0W0F1I1W1" * (stages - 1 - stage))
    line.run("I0I1" * stage)
    line.run("I0W0" * (stages - stage))
    line.run("W1" * stage + "W0" * stage)
    return line.items


class _Line:
    """Passes of a device as they are appended: F, I or W, and the chunk that it serves."""

    def __init__(self, items: list[Item]) -> None:
        self.items = items
        self.done: dict[str, int] = {}

    def run(self, steps: str) -> None:
        """Each two letters are one pass of the next micro-batch."""
        kinds = {"F": "forward", "I": "input", "W": "weight"}
        for at in range(0, len(steps), 2):
            step = steps[at : at + 2]
            batch = self.done.get(step, 0)
            self.done[step] = batch + 1
            self.items.append(((kinds[step[0]], int(step[1]), batch),))


def _both(stage: PassTimes, mirror: PassTimes) -> PassTimes:
    """Passes of one micro-batch on the two stages of a device."""
    names = ("forward_s", "backward_s", "weight_s")
    return PassTimes(*(getattr(stage, name) + getattr(mirror, name) for name in names))


def _waited_s(device: PassTimes, away: Floats) -> Floats:
    """The longest way; passes of one stage are half of the device's, `away` is d of `span`."""
    forward, input_, weight = (
        x / 2.0 for x in (device.forward_s, device.input_s, device.weight_s)
    )
    ways = (
        away * (input_ - forward),
        2.0 * away * (input_ - weight),
        away * (2.0 * forward - input_ - weight),
        2.0 * away * (forward - weight) - weight,
        (2.0 * away - 1.0) * forward + input_ - 2.0 * away * weight,
        (away - 1.0) * weight + input_ - away * forward,
        (away - 1.0) * (weight - forward),
        (away - 1.0) * (forward - input_),
    )
    longest: Floats = np.maximum.reduce([np.maximum(way, 0.0) for way in ways])
    return np.where(away > 0, longest, 0.0)
