"""Parts of a training step that somebody timed, held against the curves of their chip.

Products and collectives have times of their own (see `timed`). Of what else a device does in a
step, a trace says how long all of a kind took: attention, element-wise kernels, the loss, the
optimiser. Kept is what that is over the curve for the same flop, bytes and kernels, so that
another model, batch or cut scales with its own. Not known here: how a trace is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from simkernel.columns import Codes, Column, Floats, Masks
from simkernel.hardware import Chips, Columns
from simkernel.roofline import AttentionRates, StreamRates, attention_rates, stream_rates
from simkernel.timed import PartLine

CORES = ("attention_forward", "attention_backward")
STREAMS = (
    "elementwise_forward", "elementwise_backward", "embedding", "loss_forward", "loss_backward",
    "optimiser",
)  # fmt: skip
PARTS = (*CORES, *STREAMS)
"""Parts of a step; a table of times stores the index."""


@dataclass(frozen=True)
class PartTimes(Columns):
    """Timed parts of steps; (p,) each.

    Parameters
    ----------
    sequence_tokens : length of a sequence
    passes : kernels that the work is counted in, each with a floor
    flop, moved_bytes, seconds : of all passes of a step together
    """

    chip_code: Codes
    part_code: Codes
    sequence_tokens: Floats
    passes: Floats
    flop: Floats
    moved_bytes: Floats
    seconds: Floats


def part_lines(chips: Chips, times: PartTimes) -> dict[tuple[int, str], PartLine]:
    """Lines of all timed parts; those of one length of sequence by their mean logarithm."""
    log_frac = np.log(curve_fracs(chips, times))
    found = {}
    for chip, part in np.unique(np.stack([times.chip_code, times.part_code], axis=1), axis=0):
        here = np.flatnonzero((times.chip_code == chip) & (times.part_code == part))
        tokens, back = np.unique(times.sequence_tokens[here], return_inverse=True)
        mean = np.bincount(back, weights=log_frac[here]) / np.bincount(back)
        found[int(chip), PARTS[part]] = PartLine(np.log2(tokens), mean)
    return found


def curve_fracs(chips: Chips, times: PartTimes) -> Floats:
    """Timed seconds over those of the curve, the floors of its passes with them; (p,)."""
    mine = chips.take(times.chip_code)
    cores, streams = attention_rates(mine), stream_rates(mine)
    names = np.array(PARTS)[times.part_code]
    is_core = np.isin(names, CORES)
    padding = 1.0 + cores.tokens_half / times.sequence_tokens
    reached = np.where(names == "attention_backward", cores.backward_frac, 1.0)
    core_s = np.maximum(
        times.flop * padding * cores.best_s_per_flop / reached,
        times.moved_bytes * cores.best_s_per_byte,
    )
    curve_s = np.where(is_core, core_s, times.moved_bytes * streams.best_s_per_byte)
    floor_s = np.where(is_core, cores.floor_s, streams.floor_s)
    floor_s = np.where(names == "optimiser", 0.0, floor_s) * times.passes
    return np.asarray(times.seconds / (curve_s + floor_s))


def least_part_s(chips: Chips, times: PartTimes) -> Floats:
    """Seconds of the arithmetic of timed parts at the dense peak; (p,).

    The memory's rate bounds nothing here: how many bytes kernels fuse away is not known.
    """
    return np.asarray(times.flop * attention_rates(chips.take(times.chip_code)).peak_s_per_flop)


@dataclass(frozen=True)
class PartFracs:
    """What curves of parts are multiplied with, of each row of a table; {} where nothing is timed.

    Parameters
    ----------
    fracs : part to timed over curve, 1 where it was not timed; (n,)
    is_timed : part to where it was; (n,)
    """

    fracs: Mapping[str, Floats]
    is_timed: Mapping[str, Masks]

    def or_one(self, part: str, stack_frac: Column) -> Column:
        """1 where a part was timed, so that nothing is charged twice; else what the stack says."""
        if part not in self.is_timed:
            return stack_frac
        return np.where(self.is_timed[part], 1.0, stack_frac)

    def timed(self, part: str) -> Column:
        """1 where a part was timed, else 0."""
        return self.is_timed[part] * 1.0 if part in self.is_timed else 0.0

    def stream(self, part: str, rates: StreamRates) -> StreamRates:
        """The rates of a part, never above the memory's."""
        if part not in self.fracs:
            return rates
        frac = self.fracs[part]
        best = np.maximum(rates.best_s_per_byte * frac, rates.peak_s_per_byte)
        return replace(rates, best_s_per_byte=best, floor_s=rates.floor_s * frac)

    def core(self, part: str, rates: AttentionRates) -> AttentionRates:
        """The same of an attention core, never above the peak or the memory's rate."""
        if part not in self.fracs:
            return rates
        reached = rates.backward_frac if part == "attention_backward" else 1.0
        frac = self.fracs[part]
        return replace(
            rates,
            best_s_per_flop=np.maximum(
                rates.best_s_per_flop * frac, rates.peak_s_per_flop * reached
            ),
            best_s_per_byte=np.maximum(rates.best_s_per_byte * frac, rates.peak_s_per_byte),
            floor_s=rates.floor_s * frac,
        )


UNTIMED = PartFracs({}, {})
"""Curves are all there is."""


def fracs_at(
    lines: Mapping[tuple[int, str], PartLine], codes: Codes, sequence_tokens: Column
) -> PartFracs:
    """What was timed of the parts of some rows.

    Parameters
    ----------
    codes : (n,) chip of every row
    sequence_tokens : (n,) or number; straight between timed lengths, held beyond them
    """
    fracs: dict[str, Floats] = {}
    is_timed: dict[str, Masks] = {}
    tokens = np.log2(np.asarray(sequence_tokens, dtype=float) + np.zeros(len(codes)))
    for (chip, part), line in lines.items():
        here = codes == chip
        frac = np.exp(np.interp(tokens, line.log_tokens, line.log_frac))
        fracs[part] = np.where(here, frac, fracs.get(part, 1.0))
        is_timed[part] = here | is_timed.get(part, np.zeros(len(codes), dtype=bool))
    return PartFracs(fracs, is_timed)
