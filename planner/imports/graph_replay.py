"""A recorded graph played again: a node begins when what it waits for is done, its place free.

A rank has three places, its host, its kernels and its messages, and each does one thing at a time
(as astra-sim/astra-sim, workload/HardwareResource.cc); of those who wait the first in the trace
goes first.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping

from planner.imports.chakra_graph import COMMUNICATION, Node
from simkernel.errors import BadFile

HOST, KERNELS, MESSAGES = range(3)


def replayed_s(nodes: Mapping[int, Node], seconds_of: Callable[[Node], float], name: str) -> float:
    """Seconds from the first node to the last.

    Parameters
    ----------
    seconds_of : how long a node takes [s]
    name : of the trace, for the fault

    Raises
    ------
    BadFile : nodes wait for each other in a circle
    """
    after: dict[int, list[int]] = {}
    left = {identity: len(node.waits_for) for identity, node in nodes.items()}
    for identity, node in nodes.items():
        for earlier in node.waits_for:
            after.setdefault(earlier, []).append(identity)
    ready: list[list[int]] = [[], [], []]
    for identity, count in left.items():
        if not count:
            ready[_place(nodes[identity])].append(identity)
    for waiting in ready:
        heapq.heapify(waiting)
    ends: list[tuple[float, int, int]] = []
    is_free, now, done = [True, True, True], 0.0, 0
    while True:
        for place, waiting in enumerate(ready):
            if is_free[place] and waiting:
                identity = heapq.heappop(waiting)
                is_free[place] = False
                heapq.heappush(ends, (now + seconds_of(nodes[identity]), identity, place))
        if not ends:
            break
        now, identity, place = heapq.heappop(ends)
        is_free[place] = True
        done += 1
        for later in after.get(identity, ()):
            left[later] -= 1
            if not left[later]:
                heapq.heappush(ready[_place(nodes[later])], later)
    if done < len(nodes):
        raise BadFile(f"{name}: {len(nodes) - done:,} nodes wait for each other in a circle")
    return now


def _place(node: Node) -> int:
    if node.kind in COMMUNICATION:
        return MESSAGES
    return HOST if node.is_host else KERNELS
