"""Where more stops paying: the bend of a curve, and the command that looks for it."""

import numpy as np
import pytest
from small import DENSE, planner

from planner.explain.knee import curve_knee


@pytest.mark.parametrize(
    ("cost", "speed", "knee"),
    [
        ([1, 2, 3, 4], [1.0, 1.9, 2.0, 2.05], 1),
        ([4, 3, 2, 1], [2.05, 2.0, 1.9, 1.0], 2),
        ([1, 2, 3], [1.0, 1.5, 1.5], 1),
        ([1, 2, 3], [2.0, 1.5, 1.0], 0),
        ([1, 2, 3], [1.0, 2.0, 3.0], -1),
        ([5], [1.0], 0),
    ],
    ids=["bends", "in any order", "flat behind", "cheapest is fastest", "straight", "alone"],
)
def test_a_knee_is_where_the_curve_bends_most(cost, speed, knee):
    """A purchase would stop before what pays, or pay for what no longer does."""
    assert curve_knee(np.array(cost, float), np.array(speed, float)) == knee


def test_the_command_tells_the_fastest_plan_of_every_value(tmp_path):
    """The document would hold another plan than the fastest, or lose a value of the axis."""
    path = tmp_path / "dense.toml"
    path.write_text(DENSE)
    answer = planner("knee", path, "--by", "tp", "--along", "accelerator", "--json")
    found = answer.document
    assert answer.code == 0
    assert [(r["accelerator"], r["tensor_parallel"]) for r in found["rows"]] == [
        (chip, tensor) for chip in ("H100-SXM", "A100-80G-SXM") for tensor in (1, 2)
    ]
    counts = found["candidates"]
    assert counts["evaluated"] + sum(counts["masked"].values()) == counts["enumerated"]
    for row in found["rows"]:
        fixed = {"accelerator": row["accelerator"], "tensor_parallel": row["tensor_parallel"]}
        varied = {name: row["varied"][name] for name in row["varied"] if name not in fixed}
        words = [w for n, v in {**fixed, **varied}.items() for w in ("--set", f"{n}={v}")]
        one = planner("evaluate", path, *words, "--json").document
        assert one["metrics"]["step_s"] == pytest.approx(row["step_s"], rel=1e-9)
        assert row["inside_bytes_per_step"] > 0


def test_a_knee_along_nothing_known_is_refused(tmp_path):
    """A typing mistake would look for the knee of another axis."""
    path = tmp_path / "dense.toml"
    path.write_text(DENSE)
    misspelt = planner("knee", path, "--by", "tensor_paralel")
    assert misspelt.code == 2
    assert "'tensor_paralel' is not known; did you mean tensor_parallel" in misspelt.err
    assert planner("knee", path, "--by", "tp", "--along", "tp").code == 2


def test_a_single_value_has_no_knee(tmp_path):
    """One point would be told as the place where more stops paying."""
    path = tmp_path / "dense.toml"
    path.write_text(DENSE)
    answer = planner("knee", path, "--by", "tp", "--set", "tp=2", "--json")
    assert len(answer.document["rows"]) == 1
    assert not answer.document["knees"]
