"""Parts of steps that somebody timed, over the curves of their chip."""

from dataclasses import replace

import numpy as np
import pytest
from conftest import chip

from simkernel.roofline import attention_rates, stream_rates
from simkernel.timed_parts import (
    CORES,
    PARTS,
    PartTimes,
    curve_fracs,
    fracs_at,
    least_part_s,
    part_lines,
)


def times(*rows):
    """Rows of (part, tokens, passes, flop, bytes, seconds) on one chip."""
    names, *columns = zip(*rows, strict=True)
    codes = np.array([PARTS.index(name) for name in names])
    return PartTimes(codes * 0, codes, *(np.array(one, dtype=float) for one in columns))


CORE = ("attention_forward", 4096, 32, 4e15, 1e11, 12.0)
STREAM = ("elementwise_forward", 4096, 32, 0.0, 1e12, 0.9)


@pytest.mark.parametrize("row", [CORE, STREAM, ("attention_backward", *CORE[1:])])
def test_a_timed_part_comes_back_as_it_was_timed(row):
    """A step would not cost what it was measured to cost."""
    part, tokens, passes, flop, moved, seconds = row
    lines = part_lines(chip(), times(row))
    found = fracs_at(lines, np.zeros(1, dtype=int), tokens)
    if part in CORES:
        rates = found.core(part, attention_rates(chip()))
        reached = rates.backward_frac if part == "attention_backward" else 1.0
        padding = 1.0 + rates.tokens_half / tokens
        took_s = np.maximum(
            flop * padding * rates.best_s_per_flop / reached, moved * rates.best_s_per_byte
        )
    else:
        rates = found.stream(part, stream_rates(chip()))
        took_s = moved * rates.best_s_per_byte
    assert float((took_s + passes * rates.floor_s)[0]) == pytest.approx(seconds, rel=1e-9)


@pytest.mark.parametrize("part", PARTS)
def test_no_timed_part_is_faster_than_the_chip(part):
    """A slip in a trace would make plans that no chip can run."""
    row = (part, 4096, 1, 1e12, 1e12, 1e-6)
    found = fracs_at(part_lines(chip(), times(row)), np.zeros(1, dtype=int), 4096)
    cores, streams = attention_rates(chip()), stream_rates(chip())
    if part in CORES:
        rates = found.core(part, cores)
        reached = cores.backward_frac if part == "attention_backward" else 1.0
        assert rates.best_s_per_flop / reached >= cores.peak_s_per_flop
    else:
        rates = found.stream(part, streams)
    assert rates.best_s_per_byte >= cores.peak_s_per_byte


def test_what_was_not_timed_keeps_its_curve():
    """One timed part would move all others."""
    found = fracs_at(part_lines(chip(), times(STREAM)), np.zeros(1, dtype=int), 4096)
    assert found.stream("loss_forward", stream_rates(chip())) == stream_rates(chip())
    assert found.or_one("attention_forward", 0.7) == 0.7
    assert found.or_one("elementwise_forward", 3.0) == 1.0
    assert (found.timed("embedding"), found.timed("elementwise_forward")) == (0.0, 1.0)


def test_rows_of_another_chip_are_not_moved():
    """The times of one chip would price all."""
    two = chip().take(np.array([0, 0]))
    found = fracs_at(part_lines(two, times(STREAM)), np.array([0, 1]), 4096)
    assert found.fracs["elementwise_forward"][1] == 1.0
    assert found.fracs["elementwise_forward"][0] != 1.0


def test_between_lengths_the_ratio_goes_straight_and_is_held_beyond():
    """A long sequence would be charged by the ratio of a short one, or by none."""
    longer = replace(times(CORE), sequence_tokens=np.array([16384.0]), seconds=np.array([24.0]))
    both = PartTimes(*(np.concatenate([getattr(t, n) for t in (times(CORE), longer)])
                       for n in PartTimes.__dataclass_fields__))  # fmt: skip
    lines, codes = part_lines(chip(), both), np.zeros(1, dtype=int)

    def at(tokens):
        return float(fracs_at(lines, codes, tokens).fracs["attention_forward"][0])

    ends = curve_fracs(chip(), both)
    assert at(8192) == pytest.approx(np.sqrt(ends[0] * ends[1]))
    assert (at(1024), at(65536)) == pytest.approx(tuple(ends))


def test_the_dense_peak_is_a_floor_for_a_time():
    """A time of another precision or model would be taken."""
    assert least_part_s(chip(), times(CORE))[0] == pytest.approx(4e15 / 989e12)
