"""Shipped calibration tables: reproducible from the timings, whole, and physical."""

import csv
from pathlib import Path

import numpy as np
import pytest

from planner.calibration import measured
from planner.calibration.kernels import TABLES, differences, main, read_transfers, tables
from simkernel.errors import BadFile
from simkernel.hardware import OPERATIONS

TRUTH = Path(__file__).parents[1] / "truth"
TIMINGS = [TRUTH / "microbench.csv", TRUTH / "microbench_shapes.csv"]


def rows(name):
    """A shipped table."""
    with (TABLES / name).open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def made():
    """All tables, fitted anew."""
    return tables(TIMINGS)


def test_shipped_tables_are_what_the_timings_give(made):
    """A table would have been edited by hand, or a fit changed without its table."""
    assert differences(made, TABLES) == []


def test_a_changed_table_is_told_by_file_line_and_column(made, tmp_path):
    """--check would pass over a wrong figure."""
    for name in made:
        (tmp_path / name).write_text((TABLES / name).read_text())
    text = (TABLES / "efficiency_stream.csv").read_text()
    (tmp_path / "efficiency_stream.csv").write_text(text.replace(",0.8,", ",0.9,", 1))
    faults = differences(made, tmp_path)
    assert len(faults) == 1
    assert faults[0].startswith("efficiency_stream.csv line 2 hbm_frac: has 0.9")


def test_every_accelerator_has_every_curve():
    """A plan on some chip would end in a missing fact."""
    plates = measured.read_nameplates(TABLES / "accelerators.csv")
    pairs = {(r["accelerator"], r["precision"]) for r in rows("efficiency_gemm.csv")}
    assert pairs == {(n, p) for n, plate in plates.items() for p in plate.peak_flop_per_s}
    for name in ("efficiency_attention.csv", "efficiency_stream.csv", "power_curves.csv"):
        assert {r["accelerator"] for r in rows(name)} == set(plates)
    links = [(r["accelerator"], r["tier"], r["operation"]) for r in rows("links.csv")]
    assert len(set(links)) == len(plates) * 2 * len(OPERATIONS)


@pytest.mark.parametrize(
    "name",
    ["efficiency_gemm.csv", "efficiency_attention.csv", "efficiency_stream.csv", "links.csv"],
)
def test_no_curve_beats_its_nameplate(name):
    """FLOP/s above peak, bytes/s above memory or wire, or time before zero."""
    for row in rows(name):
        for column, value in row.items():
            if column.endswith("_frac") and "error" not in column or column == "flop_frac_max":
                least = 0.0 if column == "own_frac" else 1e-9
                assert least <= float(value) <= 1, row
            if column.endswith(("_s", "_half")):
                assert float(value) >= 0, row


def test_every_row_says_where_it_comes_from():
    """A figure would have no source, date, grade or licence."""
    for name in ("efficiency_gemm.csv", "links.csv", "power_curves.csv", "bands.csv"):
        for row in rows(name):
            assert all(row[c] for c in ("source", "as_of", "grade", "licence", "basis")), row


def test_curves_of_other_chips_are_marked_and_less_certain():
    """A transferred curve would look measured."""
    for row in rows("efficiency_gemm.csv"):
        if row["basis"] != "measured":
            assert row["basis"].startswith("transferred:"), row
            assert row["grade"] in ("estimate", "guess"), row


@pytest.mark.parametrize("chip", ["A100-80G-SXM", "H100-SXM", "H200-SXM", "B200-SXM", "GB200"])
def test_large_products_are_predicted_within_a_tenth(chip):
    """Training time would start from a wrong matrix product."""
    for row in rows("efficiency_gemm.csv"):
        if row["accelerator"] == chip and row["basis"] == "measured":
            assert float(row["median_error_frac"]) < 0.1, row


def test_h100_all_reduce_of_eight_is_near_the_published_bus_rate(made):
    """512 MiB over eight H100 run at 445 GB/s in ring terms (NVLS), 335 as all-gather."""
    link = {(r["accelerator"], r["tier"], r["operation"]): r for r in made["links.csv"]}
    gather = link["H100-SXM", "scaleup", "all_gather"]
    own_part = 1 + gather["own_frac"] / 7
    assert 450e9 * gather["wire_frac"] / own_part == pytest.approx(335e9, rel=0.15)


def test_bands_hold_one():
    """A 90 % band that leaves out the prediction itself."""
    for row in rows("bands.csv"):
        assert 0 < float(row["low_frac"]) < 1 < float(row["high_frac"]), row


def test_all_engines_of_a_shape_give_its_fastest_time(tmp_path):
    """A slow engine would hold back a chip that a faster one uses well."""
    path = tmp_path / "t.csv"
    head = "kind,accelerator,params,metric,value,unit,source,use\n"
    row = "gemm,h100_sxm,bfloat16 m=8 n=4 k=2 [{}],latency_ms,{},ms,s,{}\n"
    path.write_text(head + row.format("a", 2, "yes") + row.format("b", 1, "yes"))
    got = measured.read_products([path])["H100-SXM", "bf16"]
    assert np.array_equal(got.seconds, [1e-3])
    assert (got.rows[0], got.inner[0], got.columns[0]) == (8, 2, 4)


def test_unusable_rows_are_left_out(tmp_path):
    """Host-bound timings would enter a curve."""
    path = tmp_path / "t.csv"
    path.write_text(
        "kind,accelerator,params,metric,value,unit,source,use\n"
        "gemm,h100_sxm,bfloat16 m=8 n=4 k=2 [a],latency_ms,2,ms,s,no\n"
    )
    assert measured.read_products([path]) == {}


def test_the_command_reports_a_missing_file(tmp_path, capsys):
    """A wrong path would end in a traceback."""
    assert main([str(tmp_path / "none.csv"), "--check"]) == 2
    assert "none.csv" in capsys.readouterr().err


def test_a_donor_row_with_a_loose_comma_is_refused(tmp_path):
    """A comma in a reason would shift source and grade by a cell, or end in a traceback."""
    path = tmp_path / "transfers.csv"
    path.write_text(
        "accelerator,donor,flop_scale,reason,source,as_of,grade,licence\n"
        "Card,H100-SXM,0.5,slow, old,s,2025,guess,l\n"
    )
    with pytest.raises(BadFile, match="line 2 has too many"):
        read_transfers(path)
