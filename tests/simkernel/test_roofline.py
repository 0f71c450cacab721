"""Seconds of matrix products, attention cores and streams."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkernel import roofline

EXTENT = st.floats(1, 1e6)
SHARE = st.floats(0.05, 1.0)
HALVES = (99.0, 9.0, 999.0)


def gemm_rates(peak=1e15, hbm=3e12, frac=0.8, hbm_frac=0.9, halves=(0.0, 0.0, 0.0), floor=0.0):
    """One chip's rates from plain numbers."""
    rows_half, columns_half, inner_half = halves
    return roofline.GemmRates(
        peak_s_per_flop=1 / peak,
        best_s_per_flop=1 / (peak * frac),
        peak_s_per_byte=1 / hbm,
        best_s_per_byte=1 / (hbm * hbm_frac),
        rows_half=rows_half,
        columns_half=columns_half,
        inner_half=inner_half,
        floor_s=floor,
    )


def attention_rates(peak=1e15, hbm=3e12, tokens_half=0.0, backward_frac=1.0, floor=0.0):
    """One chip's attention rates from plain numbers."""
    return roofline.AttentionRates(
        peak_s_per_flop=1 / peak,
        best_s_per_flop=1 / (peak * 0.5),
        peak_s_per_byte=1 / hbm,
        best_s_per_byte=1 / (hbm * 0.8),
        tokens_half=tokens_half,
        backward_frac=backward_frac,
        floor_s=floor,
    )


def core(tokens=4096.0, window=0.0):
    """One sequence of a layer with 64 query heads, 8 key heads, 128 wide."""
    keys = roofline.causal_keys(tokens, window)
    return roofline.CoreShape(tokens, keys, tokens, tokens, 64.0, 8.0, 128.0, 128.0, 2.0)


def test_a_large_product_takes_its_flop_over_the_reached_rate():
    """A compute-bound product would not follow 2 m n k."""
    work = roofline.gemm_work(gemm_rates(), 8192.0, 8192.0, 8192.0, (2, 2, 2))
    assert work.elapsed_s == pytest.approx(2 * 8192**3 / 0.8e15, rel=1e-12)
    assert work.peak_compute_s == pytest.approx(2 * 8192**3 / 1e15, rel=1e-12)


def test_a_thin_product_takes_its_bytes_over_the_reached_bandwidth():
    """A decode-size product would not be bound by reading its weights."""
    work = roofline.gemm_work(gemm_rates(floor=1e-6), 1.0, 4096.0, 8192.0, (2, 1, 2))
    moved = 4096 * 2 + 4096 * 8192 * 1 + 8192 * 2
    assert work.elapsed_s == pytest.approx(moved / 2.7e12 + 1e-6, rel=1e-12)


def test_halves_cost_as_much_as_padding():
    """The share of peak would not be the product of the three saturations."""
    rates = gemm_rates(halves=(100.0, 200.0, 300.0))
    work = roofline.gemm_work(rates, 500.0, 4000.0, 6000.0, (2, 2, 2))
    frac = 0.8 * 500 / 600 * 6000 / 6200 * 4000 / 4300
    assert work.compute_s == pytest.approx(2 * 500 * 4000 * 6000 / (1e15 * frac), rel=1e-12)


def test_a_grouped_product_is_the_same_work_as_its_groups():
    """Experts in one kernel would read fewer weights or do less arithmetic than apart."""
    one = roofline.gemm_work(gemm_rates(), 64.0, 7168.0, 2048.0, (1, 1, 2))
    many = roofline.gemm_work(gemm_rates(), 64.0, 7168.0, 2048.0, (1, 1, 2), groups=32.0)
    assert many.compute_s == pytest.approx(32 * one.compute_s, rel=1e-12)
    assert many.hbm_s == pytest.approx(32 * one.hbm_s, rel=1e-12)


@given(EXTENT, EXTENT, EXTENT, SHARE, SHARE, st.floats(1.0, 10.0))
def test_a_faster_chip_is_never_slower(rows, inner, columns, frac, hbm_frac, gain):
    """More peak or more bandwidth would lengthen a product."""
    shape = (rows, inner, columns, (2, 2, 2))
    slow = gemm_rates(1e14, 1e12, frac, hbm_frac, HALVES, 1e-6)
    more_peak = gemm_rates(1e14 * gain, 1e12, frac, hbm_frac, HALVES, 1e-6)
    more_bytes = gemm_rates(1e14, 1e12 * gain, frac, hbm_frac, HALVES, 1e-6)
    before = roofline.gemm_work(slow, *shape).elapsed_s * (1 + 1e-12)
    assert roofline.gemm_work(more_peak, *shape).elapsed_s <= before
    assert roofline.gemm_work(more_bytes, *shape).elapsed_s <= before


@given(EXTENT, EXTENT, EXTENT, SHARE, SHARE)
def test_no_product_beats_the_peak_or_the_memory(rows, inner, columns, frac, hbm_frac):
    """A prediction would exceed what the chip can do."""
    rates = gemm_rates(1e14, 1e12, frac, hbm_frac, HALVES, 0.0)
    work = roofline.gemm_work(rates, rows, inner, columns, (1, 1, 2))
    assert work.peak_compute_s <= work.elapsed_s * (1 + 1e-12)
    assert work.peak_hbm_s <= work.elapsed_s * (1 + 1e-12)


@given(st.floats(1, 1e6), st.floats(0, 1e6), st.floats(1.0, 10.0))
def test_an_attention_core_obeys_the_same_laws(tokens, window, gain):
    """A core would beat its chip, or slow down on a better one."""
    slow, fast = attention_rates(), attention_rates(1e15 * gain, 3e12 * gain)
    for of_core in (roofline.attention_work, roofline.attention_backward_work):
        work = of_core(slow, core(tokens, window))
        assert max(work.peak_compute_s, work.peak_hbm_s) <= work.elapsed_s * (1 + 1e-12)
        assert of_core(fast, core(tokens, window)).elapsed_s <= work.elapsed_s * (1 + 1e-12)


def test_causal_attention_counts_half_the_square():
    """Flop would be the full square, twice what a causal kernel does."""
    work = roofline.attention_work(attention_rates(), core(4096.0))
    assert work.peak_compute_s == pytest.approx(4 * 4096**2 * 64 * 128 / 2 / 1e15, rel=1e-12)


def test_a_window_limits_the_keys_and_a_wide_one_changes_nothing():
    """A sliding window would be priced as full attention, or a wide one as more than full."""
    assert roofline.causal_keys(4096.0, 1024.0) == 1024 - 1024**2 / (2 * 4096)
    assert roofline.causal_keys(4096.0, 1e9) == roofline.causal_keys(4096.0) == 2048


def test_the_backward_core_does_five_products_against_two():
    """Recomputing the scores would be free."""
    rates = attention_rates(backward_frac=0.7)
    forward = roofline.attention_work(rates, core())
    backward = roofline.attention_backward_work(rates, core())
    assert backward.peak_compute_s == pytest.approx(2.5 * forward.peak_compute_s, rel=1e-12)
    assert backward.compute_s == pytest.approx(2.5 / 0.7 * forward.compute_s, rel=1e-12)


def test_a_stream_takes_its_bytes_and_its_floor():
    """An element-wise kernel would do arithmetic or be free when small."""
    rates = roofline.StreamRates(1 / 3e12, 1 / 2.4e12, 2e-6)
    work = roofline.stream_work(rates, np.array([0.0, 2.4e9]))
    assert work.elapsed_s == pytest.approx([2e-6, 1e-3 + 2e-6])
    assert not work.compute_s.any()


def test_a_column_is_priced_as_its_numbers():
    """A batch would differ from its candidates one at a time."""
    rows = np.array([1.0, 17.0, 4096.0])
    together = roofline.gemm_work(gemm_rates(), rows, 4096.0, 8192.0, (2, 2, 2)).elapsed_s
    alone = [
        roofline.gemm_work(gemm_rates(), m, 4096.0, 8192.0, (2, 2, 2)).elapsed_s for m in rows
    ]
    assert together == pytest.approx(alone, rel=1e-14)
