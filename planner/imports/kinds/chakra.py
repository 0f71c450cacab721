"""Chakra execution traces (.et or JSON): played again, with messages on another fabric.

Compute lasts as recorded; collectives and sends take what the fastest algorithm takes on the
links of a chip of the catalogue. Nothing is kept: both times are told. Not known here: what other
ranks do meanwhile, so a message never waits for them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from planner.imports.chakra_graph import COMMUNICATION, Graph, Node, read_graph
from planner.imports.chip_named import chip_named, count_given
from planner.imports.found import Found, Given, told_later
from planner.imports.graph_replay import replayed_s
from simkernel.errors import BadFile
from simkernel.exchange import fastest
from simkernel.hardware import Chips
from simkernel.placement import Group
from simkernel.traffic import network

SETTINGS = {
    "accelerator": "chip on whose links messages are priced",
    "group": "ranks that take part in every collective",
    "domain_devices": "of them, those that share a scale-up domain; all unless given",
}

OPERATION_OF = {
    "ALL_REDUCE": "all_reduce",
    "ALL_GATHER": "all_gather",
    "REDUCE_SCATTER": "reduce_scatter",
    "REDUCE_SCATTER_BLOCK": "reduce_scatter",
    "ALL_TO_ALL": "all_to_all",
    "": "send",
}
"""Collectives that have a price; the others last as recorded."""


def read(paths: Sequence[Path], given: Given) -> Found:
    """Both times of some ranks.

    Raises
    ------
    BadFile : every fault of all files, or traces of several versions
    """
    chip = chip_named(given, (), ", ".join(path.name for path in paths))
    ranks = count_given(given, "group")
    if ranks is None or ranks < 2:
        raise BadFile("a trace does not say who takes part; give --set group=N, two at least")
    inside = min(count_given(given, "domain_devices") or ranks, ranks)
    if ranks % inside:
        raise BadFile(
            f"group {ranks} does not fill domains of {inside} alike; give a --set domain_devices "
            "that divides it"
        )
    graphs: list[Graph] = []
    faults: list[str] = []
    for path in paths:
        with told_later(faults):
            graphs.append(read_graph(path))
    versions = sorted({graph.version for graph in graphs})
    if len(versions) > 1:
        faults.append(
            f"traces of different versions: {', '.join(map(repr, versions))}; import those of one "
            "version at a time"
        )
    told = []
    prices = _Prices(given.catalog.chips([chip]), ranks, inside)
    for graph in graphs if not faults else ():
        with told_later(faults):
            told.append(_told(graph, prices))
    if faults:
        raise BadFile(*faults)
    summary = f"{len(graphs)} ranks on the links of {chip}, {ranks} in a group"
    return Found({}, summary, {"ranks": told}, NOTES)


NOTES = ("comm_size is taken as the whole message of a collective; a rank waits for no other",)


class _Prices:
    """Seconds of messages of one group, each size priced once."""

    def __init__(self, chips: Chips, ranks: int, inside: int) -> None:
        self.chips, self.group = chips, Group(np.array([ranks]), np.array([inside]))
        self.known: dict[tuple[str, float], float] = {}

    def seconds(self, node: Node) -> float:
        """Of a message; as recorded where it has no size or no price."""
        operation = OPERATION_OF.get(node.operation)
        if operation is None or node.payload_bytes <= 0:
            return node.seconds
        key = (operation, node.payload_bytes)
        if key not in self.known:
            wires = network(self.chips, self.group.inside, np.ones(1)).wires(operation, self.group)
            found = fastest(operation, wires, self.group, np.array([node.payload_bytes]))
            self.known[key] = float(np.asarray(found.elapsed_s).reshape(-1)[0])
        return self.known[key]


def _told(graph: Graph, prices: _Prices) -> dict[str, Any]:
    def again_s(node: Node) -> float:
        return prices.seconds(node) if node.kind in COMMUNICATION else node.seconds

    bytes_of: dict[str, float] = defaultdict(float)
    for node in graph.nodes.values():
        if node.kind in COMMUNICATION:
            bytes_of[OPERATION_OF.get(node.operation, node.operation.lower())] += (
                node.payload_bytes
            )
    messages = [n for n in graph.nodes.values() if n.kind in COMMUNICATION]
    return {
        "file": graph.name,
        "nodes": len(graph.nodes),
        "messages": len(messages),
        "unpriced_messages": sum(
            n.operation not in OPERATION_OF or n.payload_bytes <= 0 for n in messages
        ),
        "recorded_s": replayed_s(graph.nodes, lambda n: n.seconds, graph.name),
        "again_s": replayed_s(graph.nodes, again_s, graph.name),
        "message_recorded_s": sum(n.seconds for n in messages),
        "message_again_s": sum(again_s(n) for n in messages),
        "message_bytes": dict(sorted(bytes_of.items())),
    }
