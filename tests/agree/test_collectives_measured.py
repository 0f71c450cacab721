"""Collectives and exchanges between experts against the timings in tests/truth/microbench.csv."""

from pathlib import Path

import numpy as np
import pytest

from costdata.catalog import load
from planner.calibration import measured
from planner.calibration.curves import fit_link
from planner.calibration.wire_errors import left_out_errors, main, wire_errors
from simkernel.hardware import OPERATIONS

TRUTH = Path(__file__).parents[1] / "truth"
TIMINGS = (TRUTH / "microbench.csv", TRUTH / "microbench_shapes.csv")
MOST_FRAC = 0.12
TIMED = {
    "collectives": {"A100-80G-SXM", "B200-SXM", "GB200", "H100-SXM", "H200-SXM"},
    "engine's all-reduce": {"B200-SXM", "H100-SXM", "H200-SXM"},
    "expert exchange": {"GB200", "H100-SXM", "H200-SXM", "H800-SXM"},
}


@pytest.fixture(scope="module")
def errors():
    return wire_errors(TIMINGS[:1], load())


def test_every_chip_with_timings_is_within_twelve_per_cent(errors):
    """A domain's links would be priced by guess where somebody had a stopwatch."""
    for kind, chips in TIMED.items():
        assert {one.chip for one in errors if one.kind == kind} == chips
    assert {(one.chip, one.kind) for one in errors if one.median_frac > MOST_FRAC} == set()


def test_no_collective_is_faster_than_its_wire(errors):
    """Bytes would be gained between one chip and the next."""
    rates = [one.bus_over_wire_frac for one in errors if one.kind == "collectives"]
    assert all(0.5 < rate < 1.0 for rate in rates)


def test_no_curve_of_any_chip_outruns_its_wire_for_any_message():
    """A share of the wire, a floor or a chunk of a chip that nobody timed could be a gain."""
    chips = load().chips(load().accelerators)
    for curve in (chips.scaleup, chips.scaleout):
        assert np.all((curve.wire_frac > 0) & (curve.wire_frac <= 1))
        for cost in (curve.base_s, curve.step_s, curve.chunk_s, curve.own_frac):
            assert np.all(cost >= 0)


def test_the_shipped_curves_are_those_the_timings_give():
    """A curve could have been touched by hand; all of them: planner.calibration.kernels."""
    rows = measured.read_messages(TIMINGS)["A100-80G-SXM", "reduce_scatter"]
    shipped = load().chips(["A100-80G-SXM"])
    fit = fit_link(rows, shipped.scaleup_bytes_per_s[0], True)
    place = OPERATIONS.index("reduce_scatter")
    held = {name: getattr(shipped.scaleup, name)[0, place] for name in fit.values}
    assert fit.values == pytest.approx(held, rel=1e-3)


@pytest.mark.bench
def test_a_message_size_that_was_not_fitted_is_within_twelve_per_cent():
    """Five parameters a curve would have learnt the timings by heart."""
    for one in left_out_errors(TIMINGS[:1]):
        assert one.median_frac <= MOST_FRAC, one


def test_the_command_says_every_chip_on_a_line(capsys):
    """Nobody could see which chip is badly known."""
    assert main([str(TIMINGS[0])]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum("H100-SXM" in line for line in lines) == 3
    assert "bus/wire" in lines[0]
