"""Engine curves: a known curve is found again, and a badly timed kernel gives way to its twin."""

import duckdb
import numpy as np
import pytest

from planner.calibration import engine_timings
from planner.calibration.curves import Products
from planner.calibration.engine_fits import curves, fit_grouped, fit_reduces
from planner.calibration.engine_timings import Found, Grouped, Reduced, read_engines
from planner.calibration.measured import Nameplate
from simkernel.errors import BadFile

PEAK, HBM, WIRE = 2e15, 4e12, 450e9
PLATE = Nameplate("H100-SXM", {"bf16": PEAK, "fp8": PEAK}, HBM, WIRE, 50e9, None, None, None)


def shapes(count, seed=0):
    rng = np.random.default_rng(seed)
    return [2.0 ** rng.integers(low, high, count) for low, high in ((0, 13), (9, 15), (9, 15))]


def products(floor_s, hbm_frac, seed=0):
    """Products that cost their weights, padded arithmetic and a floor."""
    rows, inner, columns = shapes(300, seed)
    padded = (rows + 60) * (columns + 200) * (inner + 100)
    moved = inner * (rows + columns) + 2 * rows * columns
    seconds = floor_s + np.maximum(2 * padded / (PEAK * 0.7), moved / (HBM * hbm_frac))
    return Products(rows, inner, columns, seconds)


def test_grouped_products_give_their_memory_rate_and_floor_back():
    """A fit that trades floor for rate would price every batch of experts wrong."""
    tokens, hidden, width = shapes(400, seed=3)
    used, experts = np.full(400, 8.0), np.full(400, 128.0)
    touched = np.minimum(experts, tokens * used)
    rows = tokens * used / touched
    seconds = np.zeros(400)
    for inner, columns in ((hidden, 2 * width), (width, hidden)):
        padded = (rows + 30) * (columns + 100) * (inner + 100) * 2 * touched
        moved = touched * (inner * (rows + columns) + 2 * rows * columns)
        seconds += 1.2e-5 + np.maximum(padded / (PEAK * 0.6), moved / (HBM * 0.75))
    found = fit_grouped(
        Grouped(tokens, hidden, width, used, experts, np.ones(400), seconds), PEAK, HBM, 1.0
    )
    assert found.values["hbm_frac"] == pytest.approx(0.75, rel=0.03)
    assert found.values["floor_s"] == pytest.approx(1.2e-5, rel=0.05)
    assert found.median_error_frac < 0.01


def test_small_and_large_all_reduces_keep_their_own_way():
    """One rate for both halves the time of messages in the middle."""
    devices, message = (x.ravel() for x in np.meshgrid([2.0, 4.0, 8.0], 2.0 ** np.arange(10, 27)))
    once = 3e-6 + (devices - 1) * message / (WIRE * 0.6)
    ring = 2e-5 + 2 * (devices - 1) / devices * message / (WIRE * 0.75)
    found = fit_reduces(Reduced(devices, message, np.minimum(once, ring)), WIRE, is_summing=False)
    assert "all_reduce_switched" not in found
    assert found["all_reduce_once"].values["floor_s"] == pytest.approx(3e-6, rel=0.02)
    assert found["all_reduce_once"].values["wire_frac"] == pytest.approx(0.6, rel=0.02)
    assert found["all_reduce"].values["wire_frac"] == pytest.approx(0.75, rel=0.03)


def test_a_switch_that_adds_up_is_told_from_a_ring():
    """Eight devices would pay for a ring's bytes: 128 MB took 0.75 ms where 0.57 were timed."""
    devices, message = (x.ravel() for x in np.meshgrid([2.0, 4.0, 8.0], 2.0 ** np.arange(10, 28)))
    once = 3e-6 + (devices - 1) * message / (WIRE * 0.6)
    ring = 1e-5 + 2 * (devices - 1) / devices * message / (WIRE * 0.7)
    up = np.where(devices >= 4, 2e-5 + message / (WIRE * 0.55), np.inf)
    seconds = np.minimum(np.minimum(once, ring), up)
    found = fit_reduces(Reduced(devices, message, seconds), WIRE, is_summing=True)
    assert found["all_reduce_switched"].values["wire_frac"] == pytest.approx(0.55, rel=0.02)
    assert found["all_reduce"].values["wire_frac"] == pytest.approx(0.7, rel=0.03)


def test_a_curve_sees_every_width_that_was_timed(tmp_path, monkeypatch):
    """Every so many rows of a sorted grid are always the same widths: the widest were never seen,
    and products wider than those came out at 98% of the peak."""
    path = tmp_path / "gemm_perf.parquet"
    duckdb.sql(
        "select 'fp8' as gemm_dtype, m.m, k.k, n.n, 0.1 as latency from "
        "(select unnest([1, 16, 256, 4096]) as m) m, (select unnest([512, 2048, 8192]) as k) k, "
        "(select unnest([512, 1024, 4096, 16384]) as n) n"
    ).write_parquet(str(path))
    monkeypatch.setattr(engine_timings, "MOST_SHAPES", 24)
    ((_, rows),) = engine_timings._rows(path, engine_timings._KERNELS[0], 12)
    assert len(rows) == 24
    assert set(rows.columns) == {512.0, 1024.0, 4096.0, 16384.0}


def test_timings_with_a_launch_in_them_give_way_to_a_twin():
    """A floor of the timing would be taken for one of the chip, and slow every decode step."""
    slow, quick = products(2e-5, 0.7), products(4e-6, 0.8)
    listed = [
        Found(engine, version, "H100-SXM", "gemm", "fp8", rows)
        for engine, version, rows in (("trtllm", "1.3", slow), ("vllm", "0.24", quick))
    ]
    made = curves(listed, {"H100-SXM": PLATE})
    fit, version = made["trtllm", "H100-SXM", "gemm", "fp8"]
    assert version == "0.24 of vllm"
    assert fit == made["vllm", "H100-SXM", "gemm", "fp8"][0]


def test_a_folder_without_timings_is_refused_in_words(tmp_path):
    """An empty table would silently take all engines away."""
    with pytest.raises(BadFile, match="systems/data"):
        read_engines(tmp_path)
