"""Power curves from metered runs; the runs here are made up, the real ones have no licence."""

import csv

import numpy as np
import pytest

from planner.measured import Nameplate
from planner.power_fit import Runs, fit_power, main, power_rows, read_power_transfers, read_runs
from simkernel.errors import BadFile

COLUMNS = [
    "gpu",
    "use",
    "weight_precision",
    "total_params_b",
    "active_params_b",
    "n_gpu",
    "dp",
    "avg_batch",
    "tok_s",
    "power_w_per_gpu",
]
PLATE = Nameplate("H100-SXM", {"bf16": 989e12}, 3.35e12, 450e9, 50e9, 700.0, 70.0, 108.0)


def write_runs(path, *rows):
    """A file of runs."""
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([COLUMNS, *rows])
    return path


def test_a_known_power_curve_is_recovered():
    """The table would hold another curve than the meter shows."""
    memory, compute = np.meshgrid(np.linspace(0.05, 0.8, 6), np.linspace(0.01, 0.3, 6))
    watts = 108 + 200 * memory.ravel() ** 0.7 + 500 * compute.ravel() ** 0.5
    fit = fit_power(Runs(memory.ravel(), compute.ravel(), watts), 108.0, 700.0)
    assert fit.p90_error_frac < 0.01


def test_a_dense_run_reads_its_weights_every_step(tmp_path):
    """Memory utilisation of a run would not be weights x steps/s over the memory rate."""
    path = write_runs(
        tmp_path / "runs.csv", ["H100", "yes", "bfloat16", 8, 8, 1, 1, 10, 1000, 500]
    )
    runs = read_runs(path, {"H100-SXM": PLATE, "B200-SXM": PLATE})["H100-SXM"]
    assert runs.memory_frac[0] == pytest.approx(16e9 * 100 / 3.35e12)
    assert runs.compute_frac[0] == pytest.approx(2 * 8e9 * 1000 / 989e12)


def test_experts_are_read_as_often_as_a_batch_meets_them(tmp_path):
    """A sparse model at batch one would read all its weights."""
    row = ["H100", "yes", "bfloat16", 100, 10, 1, 1, 1, 1, 500]
    path = write_runs(tmp_path / "runs.csv", row)
    runs = read_runs(path, {"H100-SXM": PLATE, "B200-SXM": PLATE})["H100-SXM"]
    assert runs.memory_frac[0] == pytest.approx(20e9 / 3.35e12)


def test_rows_marked_unusable_are_left_out(tmp_path):
    """Host-bound runs would bend the curve."""
    path = write_runs(tmp_path / "runs.csv", ["H100", "no", "bfloat16", 8, 8, 1, 1, 1, 1, 9])
    assert read_runs(path, {"H100-SXM": PLATE, "B200-SXM": PLATE}) == {}


def test_a_file_without_the_columns_is_refused(tmp_path):
    """A wrong path would end in a traceback."""
    path = tmp_path / "other.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(BadFile, match="wanted a file like"):
        read_runs(path, {"H100-SXM": PLATE, "B200-SXM": PLATE})


def test_the_command_says_what_is_wrong_with_a_missing_file(tmp_path, capsys):
    """The command would fail without a word."""
    assert main([str(tmp_path / "none.csv")]) == 2
    assert "No such file" in capsys.readouterr().err


def test_a_transferred_curve_keeps_its_shape_up_to_its_own_limit(tmp_path):
    """A 350 W card would draw an H100's watts, or never reach its limit."""
    fit = fit_power(
        Runs(np.array([0.1, 0.5]), np.array([0.1, 0.2]), np.array([300, 500])), 108, 700
    )
    path = tmp_path / "moved.csv"
    path.write_text(
        "accelerator,donor,assumed_tdp_w,host_idle_w,host_span_w,source,as_of,grade,licence\n"
        "H100-SXM,H100-SXM,,235,45,s,2025,measured,l\n"
        "Card,H100-SXM,,110,35,s,2025,guess,l\n"
    )
    card = Nameplate("Card", {"bf16": 1e14}, 1e12, 3e10, 5e10, 400.0, 50.0, 104.0)
    plates = {"H100-SXM": PLATE, "Card": card}
    own, moved = power_rows(plates, {"H100-SXM": fit}, read_power_transfers(path))
    assert moved["compute_w"] == pytest.approx(own["compute_w"] * (400 - 104) / (700 - 108))
    assert moved["basis"] == "transferred:H100-SXM"
    assert moved["cap_w"] == 400
