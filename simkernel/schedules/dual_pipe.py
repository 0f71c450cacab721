"""DualPipe: micro-batches enter at both ends, and a forward runs beside a backward of the other.

DeepSeek-V3 report, section 3.2.1; order and table of github.com/deepseek-ai/DualPipe. A device
serves the i-th stage from either end, so every stage is held twice.
"""

from __future__ import annotations

import numpy as np

from simkernel.columns import Codes, Floats, Masks
from simkernel.schedule_traits import Traits
from simkernel.stage_times import Item, PassTimes, Span, StageTimes, longest_s, slowest_of

TRAITS = Traits(
    stage_multiple=2, stages_held=2, stage_copies=2, runs_pairs=True, puts_off_weights=True
)


def span(times: StageTimes, stages: Codes, chunks: Codes, micro_batches: Codes) -> Span:
    """All turns of the slowest device, less what its pairs hide, and what it waits.

    Notes
    -----
    With h = p/2 devices to the middle, I and W the halves of B, and P a pair, balanced:
    (m - h - 2) P + 2 h F + (h + 2) I + 3 W + (h - 1) max(I, W) + max(h F, (h - 1) I).
    The bubble of the published table, (p/2 - 1)(P + B - 3 W), is that of F = I = W without
    overlap. Exact for balanced stages; the waiting of uneven ones is that of stages all as slow
    as the slowest device's, up to 16% too much where one stage is up to 1.6 times as slow.

    References
    ----------
    github.com/deepseek-ai/DualPipe, README and dualpipe.py (the eight steps of a rank).
    """
    half = np.maximum(stages // 2, 1)
    ends, inner = _device(times.first, times.last), _device(times.inner, times.inner)
    devices = ((ends, half > 0), (inner, half > 1))
    longest = longest_s(devices, lambda pace: _elapsed_s(pace, half, micro_batches))
    slowest = slowest_of(devices)
    pairs = micro_batches - 3 * half + 1 - (half == 1)
    hidden_s = pairs * (slowest.turn_s - slowest.pair_s)
    return Span(longest, longest - micro_batches * slowest.turn_s + hidden_s, hidden_s)


def in_flight(stage: Codes, stages: Codes, chunks: Codes, micro_batches: Codes) -> Floats:
    """Stage i keeps p - i, so a device p + 1 for its two (README of DualPipe)."""
    return np.minimum(micro_batches, stages - stage) * 1.0


def fills(stages: Codes, micro_batches: Codes) -> Masks:
    """An even number, at least twice the stages (dualpipe.py refuses any other)."""
    return np.asarray((micro_batches % 2 == 0) & (micro_batches >= 2 * stages))


def order(stage: int, stages: int, chunks: int, micro_batches: int) -> list[Item]:
    """The eight steps of a rank; chunk 0 is fed from the first stage, chunk 1 from the last."""
    near = int(stage >= stages // 2)
    rank, half = min(stage, stages - 1 - stage), stages // 2
    away, count = half - rank - 1, micro_batches // 2
    line = _Line(near, [])
    line.run("F0" * (2 * away) + "F0F1" * (rank + 1) + "I1WF1" * away)
    main = count - stages + rank + 1
    first = "F0B1" if away == 0 else "P0"
    line.run(first + "P1" + "P0P1" * (main - 1))
    line.run("B1P1" * away + _last_backwards(rank) + "WI0" * away + "W" * (rank + 1))
    return line.items


def _last_backwards(rank: int) -> str:
    """Step 6: backward passes of both chunks, the later half of them without their weights."""
    passes = 2 * (rank + 1)
    whole = rank + 1
    return "".join(f"{'B' if i < whole else 'I'}{1 - i % 2}" for i in range(passes))


class _Line:
    """Items of a rank as they are appended; step letters are those of `order`."""

    def __init__(self, near: int, items: list[Item]) -> None:
        self.near, self.items = near, items
        self.late: list[tuple[int, int]] = []
        self.next = {"F": [0, 0], "B": [0, 0]}

    def run(self, steps: str) -> None:
        """F: forward, B: backward, I: its input half, W: the oldest late weights, P: a pair.

        A digit is the phase: 0 for micro-batches from the nearer end. P0 is a forward pass of
        phase 0 beside a backward pass of phase 1.
        """
        at = 0
        while at < len(steps):
            letter = steps[at]
            phase = int(steps[at + 1]) if letter != "W" else 0
            at += 1 if letter == "W" else 2
            self.items.append(self._item(letter, phase))

    def _item(self, letter: str, phase: int) -> Item:
        if letter == "W":
            return (("weight", *self.late.pop(0)),)
        if letter == "P":
            return (*self._item("F", phase), *self._item("B", 1 - phase))
        kind = {"F": "forward", "B": "backward", "I": "input"}[letter]
        counts = self.next["F" if letter == "F" else "B"]
        chunk, batch = phase ^ self.near, counts[phase]
        counts[phase] += 1
        if letter == "I":
            self.late.append((chunk, batch))
        return ((kind, chunk, batch),)


def _device(stage: PassTimes, mirror: PassTimes) -> PassTimes:
    """Passes of a device per micro-batch: half of them come from either end."""
    names = ("forward_s", "backward_s", "weight_s", "pair_s")
    pairs = ((getattr(stage, name), getattr(mirror, name)) for name in names)
    return PassTimes(*((a + b) / 2.0 for a, b in pairs))


def _elapsed_s(device: PassTimes, half: Codes, micro_batches: Codes) -> Floats:
    """The whole step where all devices are alike; formula as in `span`."""
    forward_s, input_s, weight_s = device.forward_s, device.input_s, device.weight_s
    steady_s = (micro_batches - half - 2) * device.pair_s + 2 * half * forward_s
    steady_s = steady_s + (half + 2) * input_s + 3 * weight_s
    drained_s = (half - 1) * np.maximum(input_s, weight_s)
    return steady_s + drained_s + np.maximum(half * forward_s, (half - 1) * input_s)
