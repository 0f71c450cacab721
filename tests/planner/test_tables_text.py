"""What a person reads of a run."""

from planner.axes import AXES, COUNTS
from planner.documents.front_text import run_text
from planner.documents.text import DECISIONS


def test_plans_that_differ_never_look_alike():
    """Two lines of a front would read the same, and the one with 11 GB less room be chosen."""
    assert set(AXES) - set(COUNTS) < set(DECISIONS)
    front = [
        {"plan": name, "days": 1.0, "devices": 64, "offload": offload}
        for name, offload in (("p1", "none"), ("p2", "activations"))
    ]
    document = {
        "run": "r", "study": "s", "kind": "train", "state": "finished", "front": front,
        "candidates": {"enumerated": 2, "masked": {}, "evaluated": 2}, "rejected": {},
        "nearest": {}, "notes": {}, "objectives": {"minimise": ["days"]}, "physical_front": 2,
        "seconds": 1.0, "evaluated_per_s_per_core": 2.0,
    }  # fmt: skip
    lines = [line for line in run_text(document).splitlines() if line.startswith(("p1", "p2"))]
    assert ["none" in lines[0], "activations" in lines[1]] == [True, True]
