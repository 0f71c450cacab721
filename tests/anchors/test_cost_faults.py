"""Every fault of the list is held by tests that are there, and the two that had none."""

import pytest
from faults import faults_of, missing_tests

from planner.documents.answers import evaluate

FAULTS = faults_of("cost_faults.toml")

SERVERS = """
[study]
name = "servers"
kind = "hardware"
[axes]
accelerator = "H100-SXM"
nodes = {nodes}
power_cap_frac = {cap}
[costing]
site = "us-tx"
"""


def test_every_fault_is_held_by_tests_that_are_there():
    """A test could be renamed away, and its fault come back unseen."""
    assert len(FAULTS) == 19
    assert len({fault["thread"] for fault in FAULTS}) == len(FAULTS)
    assert missing_tests(FAULTS) == {}
    assert all(fault["tests"] and fault["kind"] for fault in FAULTS)


@pytest.mark.parametrize("nodes", [1, 16])
def test_the_power_of_a_server_holds_its_cards(tmp_path, nodes):
    """Boavizta/boaviztapi#527: a server would draw what it draws without its eight GPUs."""
    drawn = {}
    for cap in (1.0, 0.5):
        study = tmp_path / f"{cap}.toml"
        study.write_text(SERVERS.format(nodes=nodes, cap=cap))
        drawn[cap] = evaluate(str(study), ())
    watts = drawn[1.0]["ledgers"]["it_w"]["terms"]
    assert watts["devices"] == pytest.approx(8 * nodes * 700, rel=1e-12)
    assert watts["hosts"] > 0
    saved = drawn[1.0]["metrics"]["it_peak_w"] - drawn[0.5]["metrics"]["it_peak_w"]
    assert saved == pytest.approx(8 * nodes * 350, rel=1e-12)
