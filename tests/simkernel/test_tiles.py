"""Products tile by tile: waves, splits, and nothing above the roofline."""

from dataclasses import replace

import numpy as np
import pytest
from conftest import chip
from hypothesis import given, settings
from hypothesis import strategies as st

from simkernel.hardware import PRECISIONS
from simkernel.roofline import gemm_rates, gemm_work
from simkernel.tiles import TileCurve, TileRates, tiled_s

CORE_S_PER_FLOP = 1e-13
RATES = TileRates(100.0, CORE_S_PER_FLOP, 0.0, 0.0)
VALUES = (2.0, 2.0, 2.0)


def seconds(rows, inner, columns, rates=RATES, groups=1.0):
    return float(tiled_s(rates, (rows, inner, columns), VALUES, groups))


def test_a_wave_of_whole_tiles_is_as_fast_as_the_cores():
    """A product that fills every core would be charged for padding it does not have."""
    rows, inner, columns = 128 * 10, 4096, 128 * 10
    flop = 2.0 * rows * inner * columns
    assert seconds(rows, inner, columns) == pytest.approx(flop * CORE_S_PER_FLOP / 100.0)


def test_one_tile_more_than_a_wave_costs_another_wave():
    """The step in time that every library shows when a wave is full would be smoothed away."""
    dear = TileRates(100.0, CORE_S_PER_FLOP, 0.0, 1.0)  # filling costs more than all else
    full, more = (seconds(256 * 100, 64, columns, dear) for columns in (128, 129))
    assert more == pytest.approx(2.0 * full, rel=1e-3)


def test_a_long_inner_extent_is_split_where_cores_stand_idle():
    """A product of one tile would run on one core of a hundred."""
    alone = 2.0 * 64 * 65536 * 64 * CORE_S_PER_FLOP
    assert seconds(64, 65536, 64) <= alone / 16.0


def tiled_chip():
    """The round-number chip with 132 cores."""
    one = np.ones((1, len(PRECISIONS)))
    curve = TileCurve(one * 132, one * 0.85, one * 3.0, one * 1e-6, one * 0.8, one * 4e-6)
    return replace(chip(), tiles=curve)


EXTENT = st.integers(1, 40000)


@settings(max_examples=40, deadline=None)
@given(EXTENT, EXTENT, EXTENT, st.sampled_from([1.0, 8.0]))
def test_no_product_is_faster_than_the_peaks(rows, inner, columns, groups):
    """A plan would rest on products that the chip cannot run."""
    rates = gemm_rates(tiled_chip(), 0, 1.0)
    work = gemm_work(rates, rows, inner, columns, VALUES, groups)
    assert work.elapsed_s[0] >= max(work.peak_compute_s[0], work.peak_hbm_s[0])


@settings(max_examples=40, deadline=None)
@given(EXTENT, EXTENT, EXTENT)
def test_twice_an_extent_is_never_faster(rows, inner, columns):
    """A wider model would be cheaper than a narrow one."""
    base = seconds(rows, inner, columns)
    for longer in (
        (2 * rows, inner, columns),
        (rows, 2 * inner, columns),
        (rows, inner, 2 * columns),
    ):
        assert seconds(*longer) >= base * (1 - 1e-12)


def test_a_batch_is_its_items():
    """A sweep would price a plan otherwise than an evaluation of it."""
    shapes = np.array([[512, 4096, 1024], [8192, 64, 96], [1, 8192, 8192]], dtype=float)
    together = tiled_s(RATES, tuple(shapes.T), VALUES, 1.0)
    assert together == pytest.approx([seconds(*shape) for shape in shapes], rel=1e-12)
