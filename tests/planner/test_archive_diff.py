"""Two runs are told apart by what went in and what came out, never by what they call a plan."""

import numpy as np
import pytest

from planner.archive.runs import RunStart, RunSummary
from planner.archive.store import Archive


def start(**resolved):
    return RunStart("small", "train", "", resolved, 1, "f0", {"planner": "0.1.0"})


def summary(front, **rejected):
    return RunSummary(10, {"divides": 4}, 6, rejected, 1.0, 6.0, 3, front, f"hash{front}")


def write(archive, began, plans, devices, usd, **rejected):
    """A small run, finished: plans of so many devices, each at one site."""
    run = archive.begin_run(began)
    archive.append_physical(run, {"plan": plans, "devices": np.array(devices), "step_s": 1.0})
    archive.append_front(run, {"plan": plans, "site": "se", "usd": np.array(usd)})
    archive.finish_run(run, summary(len(plans), **rejected))
    return run


@pytest.fixture
def archive(tmp_path):
    return Archive(tmp_path / "planner.duckdb")


@pytest.mark.long
def test_a_run_does_not_differ_from_its_repetition(archive):
    """Reproducibility could not be shown: noise would read as change."""
    began = start(axes={"devices": [8]})
    one = write(archive, began, ["p0", "p1"], [7, 8], [1.0, 2.0], memory=2)
    two = write(archive, began, ["q5", "q2"], [8, 7], [2.0 * (1 + 1e-13), 1.0], memory=2)
    found = archive.diff(one, two)
    assert found.same == 2
    for part in ("study", "inputs", "facts", "counts", "rejections", "changed"):
        assert not getattr(found, part), part
    assert not found.only_left
    assert not found.only_right


def test_a_difference_names_what_changed_and_what_followed(archive):
    """A person could not tell why yesterday's answer is not today's."""
    one = write(archive, start(axes={"devices": [8]}), ["p0", "p1"], [7, 8], [1.0, 2.0], memory=2)
    began = start(axes={"devices": [8, 16]}, limits={"days": 60})
    two = write(archive, began, ["p0", "p1", "p2"], [7, 9, 10], [1.5, 3.0, 4.0], memory=1, days=3)
    found = archive.diff(one, two)
    assert found.study == {"axes.devices": ([8], [8, 16]), "limits.days": (None, 60)}
    assert found.rejections == {"memory": (2, 1), "days": (None, 3)}
    assert found.counts == {"front": (2, 3), "front_hash": ("hash2", "hash3")}
    assert found.changed == {("p0", "se"): {"usd": (1.0, 1.5)}}
    assert found.only_left == [("p1", "se")]
    assert found.only_right == [("p1", "se"), ("p2", "se")]
    assert found.same == 0


def test_runs_without_a_front_can_be_told_apart(archive):
    """Asking why a run found nothing would end in an error."""
    one, two = archive.begin_run(start(a=1)), archive.begin_run(start(a=2))
    archive.fail_run(one, "fault")
    found = archive.diff(one, two)
    assert found.study == {"a": (1, 2)}
    assert found.same == 0
