"""Power curves from metered runs; the runs here are made up, the real ones have no licence."""

import csv

import numpy as np
import pytest
from power_rows import NODE_COLUMNS, RUN_COLUMNS, nodes, run, runs, written

from planner.calibration.kernels import TABLES
from planner.calibration.measured import Nameplate
from planner.calibration.power_fit import (
    Fitted,
    Runs,
    curve_of,
    fit_power,
    main,
    tables,
)
from planner.calibration.power_transfer import power_rows, read_power_transfers
from simkernel.errors import BadFile
from simkernel.hardware import PowerCurve
from simkernel.power import device_w

PLATE = Nameplate("H100-SXM", {"bf16": 989e12}, 3.35e12, 450e9, 50e9, 700.0, 70.0, 108.0)


SEEN = Runs(
    np.array([0.1, 0.5]), np.array([0.1, 0.2]), np.zeros(2), np.zeros(2), np.array([300, 500])
)
"""Two metered runs of no links."""


def test_a_known_power_curve_is_recovered():
    """The table would hold another curve than the meter shows."""
    memory, compute = np.meshgrid(np.linspace(0.05, 0.8, 6), np.linspace(0.01, 0.3, 6))
    watts = 108 + 200 * memory.ravel() ** 0.7 + 500 * compute.ravel() ** 0.5
    fit = fit_power(
        Runs(memory.ravel(), compute.ravel(), 0.0 * watts, 0.0 * watts, watts), 108.0, 700.0
    )
    assert fit.p90_error_frac < 0.01


@pytest.mark.long
def test_rows_marked_unusable_are_left_out(tmp_path):
    """Host-bound runs would bend the curve."""
    bad = [run(watts=1.0, batch=b, use="no", anomaly="host-bound") for b in (1, 2, 3)]
    made = [
        tables([written(tmp_path / f"{n}.csv", rows, RUN_COLUMNS), node_file(tmp_path)], TABLES)
        for n, rows in (("clean", runs()), ("dirty", runs() + bad))
    ]
    assert made[0] == made[1]


def node_file(tmp_path):
    return written(tmp_path / "nodes.csv", nodes(), NODE_COLUMNS)


@pytest.mark.long
def test_no_fitted_curve_leaves_its_floor_or_its_limit(tmp_path):
    """A device above its cap, or below idle, would be priced and cooled."""
    path = written(tmp_path / "runs.csv", runs(), RUN_COLUMNS)
    made = tables([path, node_file(tmp_path)], TABLES)
    curve = {row["accelerator"]: row for row in made["power_curves.csv"]}["H100-SXM"]
    fields = PowerCurve.__dataclass_fields__
    power = PowerCurve(**{name: np.array([float(curve[name])]) for name in fields})
    assert device_w(power, 0.0, 0.0) == pytest.approx(108.0)
    assert device_w(power, 1.0, 1.0) <= 700.0
    assert curve["compute_exponent"] >= 0.3


@pytest.mark.long
def test_only_curves_and_quantiles_leave_the_metered_rows(tmp_path):
    """Rows without a licence would be shipped."""
    path = written(tmp_path / "runs.csv", runs(), RUN_COLUMNS)
    made = tables([path, node_file(tmp_path)], TABLES)
    assert set(made) == {
        "power_curves.csv", "rules/metered_engine.csv", "rules/node_hosts.csv",
        "rules/power_bands.csv",
    }  # fmt: skip
    text = str(made)
    assert "lm-arena" not in text
    assert "Qwen" not in text


def test_a_file_without_the_columns_is_refused(tmp_path):
    """A wrong path would end in a traceback."""
    path = tmp_path / "other.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(BadFile, match="lacks"):
        tables([path], TABLES)
    with pytest.raises(BadFile, match="0 metered runs and 2 nodes"):
        tables([node_file(tmp_path)], TABLES)


def test_the_command_says_what_is_wrong_with_a_missing_file(tmp_path, capsys):
    """The command would fail without a word."""
    assert main([str(tmp_path / "none.csv")]) == 2
    assert "cannot be read" in capsys.readouterr().err


def test_a_transferred_curve_keeps_its_shape_up_to_its_own_limit(tmp_path):
    """A 350 W card would draw an H100's watts, or never reach its limit."""
    fit = fit_power(
        SEEN,
        108,
        700,
    )
    path = tmp_path / "moved.csv"
    path.write_text(
        "accelerator,donor,assumed_tdp_w,host_idle_w,host_span_w,fans,source,as_of,grade,licence\n"
        "H100-SXM,H100-SXM,,175,25,apart,s,2025,measured,l\n"
        "Card,H100-SXM,,110,35,inside,s,2025,guess,l\n"
        "Open,H100-SXM,,25,25,apart,s,2025,guess,l\n"
    )
    card = Nameplate("Card", {"bf16": 1e14}, 1e12, 3e10, 5e10, 400.0, 50.0, 104.0)
    plates = {"H100-SXM": PLATE, "Card": card, "Open": card}
    moves = read_power_transfers(path)
    own, moved, opened = power_rows(plates, {"H100-SXM": fit}, moves, 90.0)
    assert moved["compute_w"] == pytest.approx(own["compute_w"] * (400 - 104) / (700 - 108))
    assert moved["basis"] == "transferred:H100-SXM"
    assert moved["cap_w"] == 400
    assert own["fan_idle_w"] + own["fan_span_w"] == pytest.approx(90.0)
    assert moved["fan_idle_w"] + moved["fan_span_w"] == 0.0
    assert opened["fan_idle_w"] + opened["fan_span_w"] == pytest.approx(90.0 * 450 / 900)


def test_links_draw_what_their_bits_cost_and_no_fit_moves_them():
    """450 GB/s each way at 5.5 pJ a bit are 19.8 W; free watts would eat those of work."""
    memory, compute = (grid.ravel() for grid in np.meshgrid(*2 * [np.linspace(0.05, 0.5, 5)]))
    link = np.linspace(0.0, 1.0, len(memory))
    watts = 108 + 200 * memory**0.7 + 300 * compute**0.5 + 19.8 * link
    fit = fit_power(Runs(memory, compute, link, 0.0 * link, watts), 108.0, 700.0, 19.8)
    assert fit.p90_error_frac < 0.01
    with (TABLES / "power_curves.csv").open(newline="", encoding="utf-8") as file:
        shipped = {
            row["accelerator"]: float(row["communication_w"]) for row in csv.DictReader(file)
        }
    assert shipped["H100-SXM"] == pytest.approx(8 * 450e9 * 5.5e-12)
    assert shipped["B200-SXM"] == 2 * shipped["H100-SXM"]
    assert min(shipped.values()) > 0


def test_a_chip_that_is_left_out_takes_a_curve_of_another(tmp_path):
    """Leaving out all runs of a chip predicted 0 W for each of them."""
    fitted = Fitted(np.zeros(1), {"H100-SXM": fit_power(SEEN, 108.0, 700.0)}, {})
    power = curve_of("B200-SXM", fitted)
    assert float(power.cap_w[0]) == 1000.0
    assert power.context_w[0] < device_w(power, 0.3, 0.1)[0] <= 1000.0
