"""Every collective file: its closed form against its own flows, byte by byte."""

import csv
from pathlib import Path

import numpy as np
import pytest

from costdata.catalog import load
from simkernel import plugins
from simkernel.placement import Group
from simkernel.traffic import Wires, network

IN_RATE, OUT_RATE = 400e9, 50e9
SHAPES = [(2, 2), (8, 8), (8, 4), (16, 4), (4, 1), (16, 8)]


def wires():
    """Wires without latency, so that bytes are all that counts."""
    return Wires(IN_RATE, 1.0, 0.0, 0.0, OUT_RATE, 1.0, 0.0, 0.0)


def played(phases, members, domain):
    """Busiest device's bytes per tier, and seconds when each device has one port per tier."""
    inside, outside = np.zeros(members), np.zeros(members)
    seconds = 0.0
    for step in phases:
        step_in, step_out = np.zeros(members), np.zeros(members)
        for source, target, sent in step:
            (step_in if source // domain == target // domain else step_out)[source] += sent
        seconds += max((step_in / IN_RATE).max(), (step_out / OUT_RATE).max())
        inside += step_in
        outside += step_out
    return inside.max(), outside.max(), seconds


CASES = [
    (name, operation, shape)
    for name in plugins.names("collectives")
    for operation in plugins.find("collectives", name).OPERATIONS
    for shape in SHAPES
]


@pytest.mark.parametrize(("name", "operation", "shape"), CASES)
def test_closed_bytes_and_seconds_equal_the_flows(name, operation, shape):
    """SimAI 292: closed form and events must move the same bytes, on the same links."""
    module, payload = plugins.find("collectives", name), 64e6
    members, domain = shape
    group = Group(np.array([members]), np.array([domain]))
    closed = module.traffic(operation, wires(), group, payload)
    phases = module.phases(operation, members, domain, payload)
    inside, outside, seconds = played(phases, members, domain)
    assert closed.inside_bytes[0] == pytest.approx(inside, rel=1e-12)
    assert closed.outside_bytes[0] == pytest.approx(outside, rel=1e-12)
    assert closed.elapsed_s[0] == pytest.approx(seconds, rel=1e-12)


def test_astra_sim_296_ring_and_two_level_agree_on_a_switch():
    """8 devices, 100 MB, 50 GB/s: 2 (n-1)/n S/B whatever the algorithm; only steps differ."""
    group = Group(np.array([8]), np.array([8]))
    slow = Wires(50e9, 1.0, 0.0, 1e-6, 50e9, 1.0, 0.0, 1e-6)
    for name in ("ring", "hierarchical"):
        traffic = plugins.find("collectives", name).traffic("all_reduce", slow, group, 100e6)
        assert traffic.inside_s[0] == pytest.approx(2 * 7 / 8 * 100e6 / 50e9)
        assert traffic.elapsed_s[0] == pytest.approx(2 * 7 / 8 * 100e6 / 50e9 + 14e-6)


def test_llm_analysis_27_seconds_of_a_gradient_on_each_tier():
    """2 GB all-reduced over 8 ranks: 70 ms at 50 GB/s between nodes, 7.8 ms at 450 inside."""
    link = Wires(450e9, 1.0, 0.0, 0.0, 50e9, 1.0, 0.0, 0.0)
    ring = plugins.find("collectives", "ring")
    apart = ring.traffic("all_reduce", link, Group(np.array([8]), np.array([1])), 2e9)
    inside = ring.traffic("all_reduce", link, Group(np.array([8]), np.array([8])), 2e9)
    assert apart.elapsed_s[0] == pytest.approx(70e-3, rel=0.01)
    assert inside.elapsed_s[0] == pytest.approx(7.8e-3, rel=0.01)


@pytest.mark.parametrize("name", plugins.names("collectives"))
def test_doubling_the_ring_never_halves_the_time(name):
    """Bandwidth term tends to a constant, so a ring cannot scale away its message."""
    module = plugins.find("collectives", name)
    for operation in module.OPERATIONS:
        if operation != "send":
            sizes = np.array([8, 16, 32, 64])
            group = Group(sizes, np.ones(4, dtype=np.int64))
            elapsed = module.traffic(operation, wires(), group, 64e6).elapsed_s
            assert np.all(elapsed[1:] >= elapsed[:-1])


def switch_reduced():
    """All-reduces of 512 MiB on eight devices that the switch reduced: chip and seconds."""
    truth = Path(__file__).parents[1] / "truth" / "microbench.csv"
    with truth.open() as file:
        rows = [row for row in csv.DictReader(file) if row["kind"] == "collective"]
    found = {
        row["accelerator"]: float(row["value"]) / 1e3
        for row in rows
        if row["params"].startswith("all_reduce n=8 268435456 elements")
    }
    names = (("h100_sxm", "H100-SXM"), ("h200_sxm", "H200-SXM"), ("b200_sxm", "B200-SXM"))
    return [(ours, found[theirs]) for theirs, ours in names]


@pytest.mark.parametrize(("name", "measured_s"), switch_reduced())
def test_reduction_in_the_switch_is_not_counted_beyond_what_was_measured(name, measured_s):
    """Curves come from NCCL with NVLS on: a faster collective beside them would count it twice."""
    chips = load().chips([name])
    group, payload = Group(np.array([8]), np.array([8])), 268435456 * 2.0
    wires = network(chips, np.array([8]), np.ones(1)).wires("all_reduce", group)
    for option in plugins.names("collectives"):
        module = plugins.find("collectives", option)
        if "all_reduce" in module.OPERATIONS:
            closed_s = module.traffic("all_reduce", wires, group, payload).elapsed_s[0]
            assert 0.97 * measured_s < closed_s < 1.45 * measured_s, option
