"""Curves fitted to own times: nearer to what was held out, or not kept; and profiles compared."""

from itertools import product

import numpy as np
import pytest
from small import planner

from costdata.catalog import load
from costdata.own_tables import table_text
from planner.imports.found import Given
from planner.imports.kinds import calibration
from planner.imports.timed_rows import collective_row, product_row
from simkernel.errors import PlanError
from simkernel.timed_over_curves import ProductTimes, product_curve_s

BOOKS = {"source": "own", "as_of": "2026-11", "grade": "measured", "licence": "own data"}
EXTENTS = ((64, 512, 4096, 8192), (1024, 4096, 8192), (768, 4096, 28672))
SHAPES = list(product(*EXTENTS))


def curve_s(shapes):
    """Seconds of the H100's own curve in bf16."""
    zero = np.zeros(len(shapes), dtype=int)
    times = ProductTimes(zero, zero, *np.array(shapes, dtype=float).T, 0.0 * zero, 0.0 * zero)
    return product_curve_s(load().chips(["H100-SXM"]), times)[0]


def product_table(path, slower, shapes=SHAPES, timed="alone"):
    """A table of products that take so many times as long as our curve says."""
    seconds = curve_s(shapes) * slower
    rows = [
        {**product_row("H100-SXM", "bf16", shape, timed, [float(s)]), **BOOKS}
        for shape, s in zip(shapes, seconds, strict=True)
    ]
    path.write_text(table_text(list(rows[0]), rows))
    return path


def fitted(*paths):
    return calibration.read(paths, Given(load(), {}))


def test_a_slower_chip_gets_its_own_curve(tmp_path):
    """A team's chip under another cap would be planned as the one in the catalogue."""
    found = fitted(product_table(tmp_path / "t.csv", 1.4))
    (told,) = found.told["curves"]
    (row,) = found.tables["efficiency_gemm"]
    assert told["before_median_frac"] == pytest.approx(1 - 1 / 1.4, abs=0.01)
    assert told["after_median_frac"] < 0.05
    ours = load().tables["efficiency_gemm"][("H100-SXM", "bf16")]
    assert float(row["flop_frac_max"]) < ours.need("flop_frac_max")
    assert row["basis"] == "measured"


def test_a_curve_that_is_no_nearer_is_not_kept(tmp_path):
    """A fit to a few times would replace one to thousands."""
    found = fitted(product_table(tmp_path / "t.csv", 1.0))
    assert [one["is_kept"] for one in found.told["curves"]] == [False]
    assert not found.tables


def test_links_are_fitted_within_the_wire(tmp_path):
    """A network would be faster than its cables."""
    rows = []
    for ranks, power in product((2, 4, 8), range(16, 34, 2)):
        seconds = 1e-5 + 1.5 * 2.0**power * (ranks - 1) / ranks / 450e9
        row = collective_row("H100-SXM", "all_gather", (ranks, 1), 1 << power, [seconds])
        rows.append({**row, **BOOKS})
    path = tmp_path / "c.csv"
    path.write_text(table_text(list(rows[0]), rows))
    (row,) = fitted(path).tables["links"]
    assert 0.5 < float(row["wire_frac"]) <= 1.0
    assert row["tier"] == "scaleup"


def test_few_times_and_times_inside_steps_fit_nothing(tmp_path):
    """Priors would be sold as measurements, or a step charged twice."""
    with pytest.raises(PlanError, match="25 times or more"):
        fitted(product_table(tmp_path / "few.csv", 1.4, SHAPES[:10]))
    with pytest.raises(PlanError, match="25 times or more"):
        fitted(product_table(tmp_path / "in_step.csv", 1.4, timed="in_step"))
    other = tmp_path / "other.csv"
    other.write_text("a,b\n1,2\n")
    with pytest.raises(PlanError, match="neither product_times.csv nor"):
        fitted(other)


def test_profiles_are_compared_by_operator_and_taken_out(tmp_path):
    """Nobody could say which operator moved the answer."""
    own, other = tmp_path / "own", tmp_path / "other"
    for folder, name, slower in ((own, "first", 1.4), (other, "second", 1.7)):
        path = product_table(tmp_path / f"{name}.csv", slower)
        assert planner("calibrate", "--with", path, "--name", name, "--to", folder).code == 0
    assert load(own).tables["efficiency_gemm"][("H100-SXM", "bf16")].is_user
    path = product_table(tmp_path / "third.csv", 1.5)
    assert planner("calibrate", "--with", path, "--name", "third", "--to", own).code == 2
    words = ("profiles", "diff", "first", other / "imports" / "second", "--to", own)
    moved = {m["column"]: m["ratio_median"] for m in planner(*words, "--json").document["moved"]}
    assert moved["flop_frac_max"] == pytest.approx(1.4 / 1.7, rel=0.05)
    assert "efficiency_gemm H100-SXM bf16" in planner(*words).out
    assert planner("profiles", "remove", "first", "--to", own).code == 0
    assert planner(*words).code == 2
