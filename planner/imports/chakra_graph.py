"""A Chakra execution trace as a graph: nodes with durations, what they wait for, messages.

The schema is that of mlcommons/chakra, schema/protobuf/et_def.proto: messages with their length
before them, the first of them the metadata; or the JSON that chakra_jsonizer prints of each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from planner.imports.clocks import skew_faults
from planner.imports.json_stream import objects
from planner.imports.protobuf_wire import fields, messages, whole_numbers
from simkernel.errors import BadFile

KINDS = (
    "INVALID_NODE", "METADATA_NODE", "MEM_LOAD_NODE", "MEM_STORE_NODE", "COMP_NODE",
    "COMM_SEND_NODE", "COMM_RECV_NODE", "COMM_COLL_NODE", "STORAGE_NODE", "BATCH_NODE",
    "CHECKPOINT_NODE",
)  # fmt: skip
COLLECTIVES = (
    "ALL_REDUCE", "REDUCE", "ALL_GATHER", "GATHER", "SCATTER", "BROADCAST", "ALL_TO_ALL",
    "REDUCE_SCATTER", "REDUCE_SCATTER_BLOCK", "BARRIER",
)  # fmt: skip
COMMUNICATION = ("COMM_SEND_NODE", "COMM_RECV_NODE", "COMM_COLL_NODE")

WANTED = ("comm_type", "comm_size", "is_cpu_op")
HEADS = tuple(b"\x0a" + bytes([len(name)]) + name.encode() for name in WANTED)
"""How an attribute of such a name begins: its first field, of a string. Most have other names."""

WHOLE_VALUES = (7, 9, 11, 13, 27)
"""Fields of an attribute that hold whole numbers or flags: (u)int32, (u)int64, bool."""

MOST_NODES = 5_000_000
MOST_S = 1e6
"""Of one node: more is a negative number read as an unsigned one, or another unit."""


@dataclass(frozen=True)
class Node:
    """One operator of one rank.

    Parameters
    ----------
    kind : of KINDS
    start_s : by the clock of its recorder, 0 where it was not recorded [s]
    seconds : as recorded, 0 where it was not [s]
    waits_for : nodes that end before it begins
    operation : of COLLECTIVES, "" for others
    payload_bytes : of its message, 0 where it says none [bytes]
    is_host : it runs on the host
    """

    kind: str
    start_s: float
    seconds: float
    waits_for: tuple[int, ...]
    operation: str
    payload_bytes: float
    is_host: bool


@dataclass
class Graph:
    """One rank's trace; `version` of the schema as its metadata says."""

    name: str
    version: str = ""
    nodes: dict[int, Node] = field(default_factory=dict)


def read_graph(path: Path) -> Graph:
    """The graph in a file: JSON where it is called so, else Protocol Buffers.

    Raises
    ------
    BadFile : it is no such trace, truncated, has a node twice or one that waits for another that
        is not there, a duration that cannot be, or clocks that are apart
    """
    is_json = path.name.removesuffix(".gz").endswith((".json", ".jsonl"))
    graph = Graph(path.name)
    for identity, node in _json_nodes(path, graph) if is_json else _nodes(path, graph):
        if identity in graph.nodes:
            raise BadFile(f"{path.name} has node {identity} twice")
        if node.seconds > MOST_S:
            raise BadFile(
                f"{path.name}: node {identity} lasts {node.seconds:g} s; a negative duration, or "
                "another unit"
            )
        graph.nodes[identity] = node
        if len(graph.nodes) > MOST_NODES:
            raise BadFile(f"{path.name} has more than {MOST_NODES:,} nodes; give one step")
    if not graph.version and not graph.nodes:
        raise BadFile(f"{path.name} has no nodes; give an execution trace of Chakra")
    missing = sorted(
        {w for node in graph.nodes.values() for w in node.waits_for if w not in graph.nodes}
    )
    if missing:
        raise BadFile(
            f"{path.name}: nodes wait for {len(missing):,} that are not there, {missing[0]} first;"
            " is the trace whole?"
        )
    _refuse_skew(graph)
    return graph


def _refuse_skew(graph: Graph) -> None:
    """Nodes that end before one that they wait for begins: the clocks are apart.

    What waits may begin before the other ends (a call inside another waits for it in this
    schema), but cannot be over before it has begun.
    """
    early = tied = 0
    for node in graph.nodes.values():
        starts = [graph.nodes[w].start_s for w in node.waits_for] if node.start_s else []
        tied += any(starts)
        early += any(node.start_s + node.seconds < start for start in starts)
    what = "nodes end before one that they wait for"
    if faults := skew_faults(graph.name, early, tied, what):
        raise BadFile(*faults)


def _nodes(path: Path, graph: Graph) -> Iterator[tuple[int, Node]]:
    for number, data in enumerate(messages(path)):
        try:
            if number == 0:
                graph.version = _version(data)
            else:
                yield _node(data)
        except (ValueError, UnicodeDecodeError) as error:
            raise BadFile(
                f"{path.name}: message {number} is no node of Chakra ({error}); give .et files as "
                "written"
            ) from error


def _version(data: bytes) -> str:
    """The version in the metadata.

    Raises
    ------
    ValueError : the first message is none
    """
    for number, value in fields(data):
        if number == 1 and isinstance(value, bytes):
            return value.decode("utf-8")
    raise ValueError("the first message is no metadata")


def _node(data: bytes) -> tuple[int, Node]:
    identity = kind = begin = micros = 0
    waits: list[int] = []
    told: dict[str, int] = {}
    for number, value in fields(data):
        if number in (4, 5):
            waits += whole_numbers(value)
        elif number == 10:
            if isinstance(value, bytes) and value.startswith(HEADS):
                told |= _attribute(value)
        elif isinstance(value, int):
            identity = value if number == 1 else identity
            kind = value if number == 3 else kind
            begin = value if number == 6 else begin
            micros = value if number == 7 else micros
    if kind >= len(KINDS):
        raise ValueError(f"kind {kind}")
    return identity, _made(KINDS[kind], (begin * 1e-6, micros * 1e-6), waits, told)


def _attribute(data: bytes) -> dict[str, int]:
    """An attribute that is wanted, by its name; {} for the others."""
    name = ""
    for number, value in fields(data):
        if number == 1 and isinstance(value, bytes):
            name = value.decode("utf-8")
            if name not in WANTED:
                return {}
        elif number in WHOLE_VALUES and isinstance(value, int):
            return {name: value} if name else {}
    return {}


def _made(
    kind: str, times_s: tuple[float, float], waits: list[int], told: Mapping[str, int]
) -> Node:
    """A node; its times are start and duration."""
    which = told.get("comm_type", 0)
    is_collective = kind == "COMM_COLL_NODE"
    if is_collective and not 0 <= which < len(COLLECTIVES):
        raise ValueError(f"collective {which}")
    return Node(
        kind=kind,
        start_s=times_s[0],
        seconds=times_s[1],
        waits_for=tuple(dict.fromkeys(waits)),
        operation=COLLECTIVES[which] if is_collective else "",
        payload_bytes=float(told.get("comm_size", 0)),
        is_host=bool(told.get("is_cpu_op", 0)) and kind not in COMMUNICATION,
    )


def _json_nodes(path: Path, graph: Graph) -> Iterator[tuple[int, Node]]:
    for number, found in enumerate(objects(path)):
        if not isinstance(found, dict):
            raise BadFile(
                f"{path.name}: message {number} is no object; give what chakra_jsonizer printed"
            )
        if "version" in found and "id" not in found:
            graph.version = str(found["version"])
            continue
        try:
            yield _json_node(found)
        except (ValueError, TypeError, OverflowError) as error:
            raise BadFile(
                f"{path.name}: message {number} is no node of Chakra ({error}); give what "
                "chakra_jsonizer printed"
            ) from error


def _json_node(found: Mapping[str, Any]) -> tuple[int, Node]:
    kind = str(found.get("type", KINDS[0]))
    if kind not in KINDS:
        raise ValueError(f"kind {kind!r}")
    told: dict[str, int] = {}
    for attribute in found.get("attr", []):
        if not isinstance(attribute, dict):
            raise ValueError("an attribute that is no object")
        if attribute.get("name") in WANTED:
            values = [v for k, v in attribute.items() if k.lower().endswith("val")]
            told[str(attribute["name"])] = int(values[0]) if values else 0
    waits = [int(n) for key in ("ctrlDeps", "dataDeps") for n in found.get(key, [])]
    micros = int(found.get("durationMicros", 0))
    if micros < 0:
        raise ValueError(f"a duration of {micros} us")
    begin = int(found.get("startTimeMicros", 0))
    if begin < 0:
        raise ValueError(f"a start at {begin} us")
    return int(found.get("id", 0)), _made(kind, (begin * 1e-6, micros * 1e-6), waits, told)
