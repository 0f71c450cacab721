"""Fits recover curves that are known, and stay inside what hardware can do."""

import numpy as np
import pytest

from planner.calibration import curves as fits
from simkernel.roofline import GemmRates, gemm_work

PEAK, HBM = 1e15, 3e12


def products(rng=None):
    """Timings of a chip whose curve is known: 80 % of peak, halves 60 / 300 / 100, 5 us."""
    shape = np.array([(m, k, n) for m in (16, 256, 1024, 8192) for k, n in SHAPES], dtype=float)
    rates = GemmRates(1 / PEAK, 1 / (PEAK * 0.8), 1 / HBM, 1 / (HBM * 0.7), 60, 300, 100, 5e-6)
    seconds = gemm_work(rates, *shape.T, (2, 2, 2)).elapsed_s
    noise = np.exp(rng.normal(0, 0.05, len(seconds))) if rng else 1.0
    return fits.Products(*shape.T, seconds * noise)


SHAPES = [(1024, 1024), (1024, 8192), (8192, 1024), (4096, 4096), (8192, 8192)]


def test_a_known_product_curve_is_recovered():
    """The fit would hand the planner another curve than the timings hold."""
    fit = fits.fit_gemm(products(), PEAK, HBM, (2, 2, 2))
    assert fit.values["flop_frac_max"] == pytest.approx(0.8, rel=0.02)
    assert fit.values["hbm_frac"] == pytest.approx(0.7, rel=0.05)
    assert fit.median_error_frac < 0.01


def test_one_wild_timing_does_not_move_the_curve():
    """A host hiccup in one row would change every plan."""
    rows = products(np.random.default_rng(1))
    wild = rows.seconds.copy()
    wild[-1] *= 20
    spoilt = fits.Products(rows.rows, rows.inner, rows.columns, wild)
    clean = fits.fit_gemm(rows, PEAK, HBM, (2, 2, 2)).values["flop_frac_max"]
    got = fits.fit_gemm(spoilt, PEAK, HBM, (2, 2, 2)).values["flop_frac_max"]
    assert got == pytest.approx(clean, rel=0.1)


def test_a_capped_curve_ends_where_timings_end():
    """A product wider than all that were timed would come near the peak, which none reaches."""
    rows = products()
    flop = 2 * rows.rows * rows.inner * rows.columns
    fit = fits.fit_gemm(rows, PEAK, HBM, (2, 2, 2), is_capped=True)
    assert fit.values["most_flop_frac"] == pytest.approx(
        np.max(flop / rows.seconds) / PEAK, rel=1e-3
    )
    assert fit.values["most_flop_frac"] < fit.values["flop_frac_max"]


def test_a_fit_never_exceeds_the_peak():
    """A timing faster than the nameplate would make a share of peak above one."""
    rows = products()
    fast = fits.Products(rows.rows, rows.inner, rows.columns, rows.seconds / 3)
    fit = fits.fit_gemm(fast, PEAK, HBM, (2, 2, 2))
    assert fit.values["flop_frac_max"] <= 1
    assert fit.values["hbm_frac"] <= 1


def test_a_known_link_is_recovered():
    """Bandwidth, latency, chunks or a device's own copy would come out wrong."""
    size = 2.0 ** np.arange(12, 31, 3)
    sent, own, steps = np.array(
        [(s * (n - 1) / n, s / n, n - 1) for s in size for n in (2.0, 4.0, 8.0)]
    ).T
    rows = fits.Messages(sent, own, steps, np.zeros(len(sent)))
    known = {"wire_frac": 0.7, "base_s": 8e-6, "step_s": 1e-6, "chunk_s": 3e-6, "own_frac": 0.4}
    seconds = fits.link_s(np.array(list(known.values())), rows, 450e9)
    fit = fits.fit_link(fits.Messages(sent, own, steps, seconds), 450e9, has_steps=True)
    assert fit.values == pytest.approx(known, rel=0.05)


def test_a_link_without_steps_has_none():
    """All-to-all would pay for a ring it does not run."""
    sent = np.array([1e4, 1e8, 1e9])
    rows = fits.Messages(sent, 0 * sent, np.ones(3), 1e-5 + sent / 4e11)
    values = fits.fit_link(rows, 450e9, has_steps=False).values
    assert values["step_s"] == 0
    assert values["own_frac"] == 0
