"""Chakra execution traces: played as recorded, and with their messages on another fabric."""

import gzip
import json

import numpy as np
import pytest
from chakra_files import ALL_REDUCE, BROADCAST, COLLECTIVE, COMPUTE, SEND, node, trace, varint

from costdata.catalog import load
from planner.imports.chakra_graph import read_graph
from planner.imports.found import Given
from planner.imports.kinds import chakra
from simkernel.errors import PlanError
from simkernel.exchange import fastest
from simkernel.placement import Group
from simkernel.traffic import network

SIZE = 64_000_000
SETTINGS = {"accelerator": "H100-SXM", "group": "8"}


def told(tmp_path, data, name="a.et", **settings):
    path = tmp_path / name
    path.write_bytes(data)
    found = chakra.read([path], Given(load(), {**SETTINGS, **settings}))
    return found.told["ranks"][0]


def price_s(operation, size, ranks=8, inside=8):
    group = Group(np.array([ranks]), np.array([inside]))
    wires = network(load().chips(["H100-SXM"]), group.inside, np.ones(1)).wires(operation, group)
    return float(fastest(operation, wires, group, np.array([float(size)])).elapsed_s[0])


REDUCE = {"comm_type": ALL_REDUCE, "comm_size": SIZE, "is_cpu_op": False}
CHAIN = trace(
    node(1, COMPUTE, 1000),
    node(2, COLLECTIVE, 900, (1,), **REDUCE),
    node(3, COMPUTE, 500, (2,)),
)


def test_a_chain_takes_what_its_nodes_take(tmp_path):
    """A trace of another fabric could not be carried to ours."""
    found = told(tmp_path, CHAIN)
    assert found["recorded_s"] == pytest.approx(2.4e-3)
    assert found["again_s"] == pytest.approx(1.5e-3 + price_s("all_reduce", SIZE))
    assert found["message_bytes"] == {"all_reduce": SIZE}


def test_a_message_hides_behind_what_does_not_wait_for_it(tmp_path):
    """Overlap that the trace has would be lost, or invented."""
    data = trace(
        node(1, COMPUTE, 1000),
        node(2, COLLECTIVE, 900, (1,), **REDUCE),
        node(3, COMPUTE, 700, (1,)),
        node(4, COMPUTE, 100, (2, 3)),
        node(5, COMPUTE, 50, (), is_cpu_op=True),
    )
    assert told(tmp_path, data)["recorded_s"] == pytest.approx(2.0e-3)


def test_kernels_of_one_device_do_not_run_at_once(tmp_path):
    """Nodes without an edge between them would cost nothing."""
    data = trace(*(node(i, COMPUTE, 100) for i in range(1, 11)))
    assert told(tmp_path, data)["recorded_s"] == pytest.approx(1e-3)


def test_more_domains_take_longer(tmp_path):
    """A fabric would not matter."""
    one, two = (told(tmp_path, CHAIN, domain_devices=n) for n in ("8", "4"))
    assert two["again_s"] == pytest.approx(1.5e-3 + price_s("all_reduce", SIZE, 8, 4))
    assert two["again_s"] > one["again_s"]


def test_what_has_no_price_lasts_as_recorded_and_is_counted(tmp_path):
    """A broadcast would be free."""
    data = trace(
        node(1, COLLECTIVE, 300, comm_type=BROADCAST, comm_size=SIZE),
        node(2, SEND, 200, (1,), comm_size=SIZE),
    )
    found = told(tmp_path, data)
    assert found["unpriced_messages"] == 1
    assert found["again_s"] == pytest.approx(3e-4 + price_s("send", SIZE))


def test_json_and_packed_traces_say_the_same(tmp_path):
    """What other tools print would be refused."""
    lines = [
        {"version": "0.0.4"},
        {"id": "1", "type": "COMP_NODE", "durationMicros": "1000"},
        {
            "id": "2", "type": "COMM_COLL_NODE", "durationMicros": "900", "dataDeps": ["1"],
            "attr": [
                {"name": "comm_type", "int64Val": "0"}, {"name": "comm_size", "int64Val": SIZE},
                {"name": "other", "stringVal": "x"},
            ],
        },
        {"id": "3", "type": "COMP_NODE", "durationMicros": "500", "ctrlDeps": ["2"]},
    ]  # fmt: skip
    text = "\n".join(json.dumps(line, indent=1) for line in lines)
    wanted = told(tmp_path, CHAIN)
    for name, data in (("a.json", text.encode()), ("b.et", gzip.compress(CHAIN))):
        found = told(tmp_path, data, name)
        assert {**found, "file": ""} == {**wanted, "file": ""}


def test_a_call_inside_another_and_stamps_that_are_not_there_are_no_skew(tmp_path):
    """Good traces would be refused."""
    data = trace(
        node(1, COMPUTE, 900, begin=1000, is_cpu_op=True),
        node(2, COMPUTE, 100, (1,), begin=1200),
        node(3, COMPUTE, 100, (1, 2)),
    )
    assert told(tmp_path, data)["nodes"] == 3


REFUSED = {
    "skewed": (
        trace(node(1, COMPUTE, 50, begin=9000), node(2, COMPUTE, 100, (1,), begin=100)),
        "1 of 1 nodes end before .* the clocks of host and device are apart",
    ),
    "cut message": (CHAIN[:-3], "truncated"),
    "cut length": (CHAIN + b"\xff", "truncated"),
    "endless length": (CHAIN + b"\xff" * 12, "length without an end"),
    "bomb": (varint(1 << 40) + b"x", "is it an execution trace"),
    "text": (b'{"a": 1}\n', "truncated|is no node|is it an"),
    "empty": (b"", "no nodes"),
    "twice": (trace(node(1, COMPUTE, 1), node(1, COMPUTE, 1)), "node 1 twice"),
    "waits for nobody": (trace(node(1, COMPUTE, 1, (7,))), "not there, 7 first"),
    "circle": (trace(node(1, COMPUTE, 1, (2,)), node(2, COMPUTE, 1, (1,))), "in a circle"),
    "negative": (trace(node(1, COMPUTE, (1 << 64) - 5)), "a negative duration"),
    "kind that is none": (trace(node(1, 77, 1)), "kind 77"),
    "collective that is none": (trace(node(1, COLLECTIVE, 1, comm_type=77)), "collective 77"),
    "no metadata": (trace(version=b"")[:0] + varint(2) + b"\x08\x01", "no metadata"),
}


JSON_NODES = {
    "attribute that is none": ({"attr": [1]}, "attribute that is no object"),
    "attributes that are none": ({"attr": 1}, "no node of Chakra"),
    "endless duration": ({"durationMicros": 10**400}, "no node of Chakra"),
    "endless size": ({"attr": [{"name": "comm_size", "val": 1e999}]}, "no node of Chakra"),
    "negative": ({"durationMicros": -1}, "a duration of -1 us"),
}


@pytest.mark.parametrize("kind", JSON_NODES)
def test_a_node_in_json_that_cannot_be_right_is_refused_by_name(tmp_path, kind):
    """A number too long for a float would raise an error that is not ours."""
    changes, words = JSON_NODES[kind]
    text = json.dumps({"id": 1, "type": "COMP_NODE", **changes}).replace("Infinity", "1e999")
    with pytest.raises(PlanError, match=words):
        told(tmp_path, text.encode(), "a.json")


@pytest.mark.parametrize("kind", REFUSED)
def test_a_trace_that_cannot_be_right_is_refused_by_name(tmp_path, kind):
    """A graph with a hole in it would be played as if it were whole."""
    data, words = REFUSED[kind]
    with pytest.raises(PlanError, match=words) as refused:
        told(tmp_path, data)
    assert all("a.et" in fault for fault in refused.value.faults)


def test_traces_of_two_versions_are_not_mixed(tmp_path):
    """Ranks of different recorders would be compared."""
    for name, version in (("a.et", "0.0.3"), ("b.et", "0.0.4")):
        (tmp_path / name).write_bytes(trace(node(1, COMPUTE, 1), version=version))
    with pytest.raises(PlanError, match="different versions"):
        chakra.read([tmp_path / "a.et", tmp_path / "b.et"], Given(load(), SETTINGS))


def test_the_group_has_to_be_given(tmp_path):
    """A collective would be priced for a number of ranks that nobody said."""
    (tmp_path / "a.et").write_bytes(CHAIN)
    with pytest.raises(PlanError, match="--set group"):
        chakra.read([tmp_path / "a.et"], Given(load(), {"accelerator": "H100-SXM"}))
    for group in ("0", "-8", "eight", "9" * 5000):
        with pytest.raises(PlanError, match="write --set group=8"):
            told(tmp_path, CHAIN, group=group)
    assert len(read_graph(tmp_path / "a.et").nodes) == 3
