"""What a network knows at a moment: links, routes over them, and the flows on their way.

A link has one direction, a capacity and a latency. A route is a list of links, each with a
weight: how many bytes cross it for a byte of the flow. One is the plain case; a flow that stands
for k like it has k on what they share, one that is sprayed over k paths 1/k on each. A flow takes
a slot from its start to its end, and slots are used again: memory does not grow with a replay.

How flows move is in `flows`, how they share links in `sharing`. Which links a fabric has, and
which route a pair of devices, is in `simkernel.wiring`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from simkernel.columns import Codes, Floats
from simkernel.errors import BadStudy
from simkernel.replay.state import Records
from simkernel.wiring.links import Routes

(SEATED, FREE, SERIAL, STAMP, DIRTY, HELD, TOUCHED, SOLVED, ENDED, MOVING, COUNTERS) = range(11)
"""Places of the counters: flows in the queue of times; the first free slot; flows started; the
stamp of the last component; links whose flows share anew; flows and links of the component at
hand; components solved; flows that ended last; flows that hold links; how many counters."""

NOWHERE = -1
"""A link without flows, the end of a list, a slot without a place in the queue."""

LINKS = np.dtype(
    [
        ("bytes_per_s", np.float64),
        ("left_bytes_per_s", np.float64),
        ("weight", np.float64),
        ("carried_bytes", np.float64),
        ("waiting", np.int64),
        ("first", np.int64),
        ("stamp", np.int64),
        ("is_dirty", np.int64),
    ],
    align=True,
)
"""Every link, (l,).

bytes_per_s : capacity; 0 of a failed link
carried_bytes : so far, of flows that ended or left
first : the first flow's place on it, or NOWHERE
left_bytes_per_s, weight, waiting, stamp, is_dirty : of the sharing at hand
"""

FLOWS = np.dtype(
    [
        ("due_s", np.float64),
        ("since_s", np.float64),
        ("left_bytes", np.float64),
        ("joined_bytes", np.float64),
        ("rate_bytes_per_s", np.float64),
        ("new_bytes_per_s", np.float64),
        ("route", np.int64),
        ("owner", np.int64),
        ("serial", np.int64),
        ("seat", np.int64),
        ("stamp", np.int64),
        ("is_moving", np.int64),
        ("free", np.int64),
    ],
    align=True,
)
"""Every slot, (f,).

due_s : when its bytes begin to move, or when the last has left at today's rate
since_s, left_bytes : what was left then
joined_bytes : what was left when it came to its links
rate_bytes_per_s : for each unit of weight; 0 while it waits for its latency or a failed link
owner : what the caller gave, handed back at the end
serial : its number among all flows: of two that are due at once the earlier goes first
seat : its place in the queue of times
free : the next free slot, in a free one
"""

PLACES = np.dtype([("before", np.int64), ("behind", np.int64)], align=True)
"""Where each flow stands in the list of each of its links, (f x longest route,)."""


class Net(NamedTuple):
    """A network and its flows; made by `opened_net`, changed in place by `flows`.

    Parameters
    ----------
    clock_s : (1,) the last moment at which anything changed
    counters : (COUNTERS,)
    links, flows, places : records
    route_start, route_links, route_weights, route_latency_s : as `wiring.links.Routes`
    queue : (f,) slots by due time, a binary heap of SEATED
    dirty, touched : (l,) links; held, ended : (f,) slots and owners, as many as counted
    longest : links of the longest route
    """

    clock_s: Floats
    counters: Codes
    links: Records
    flows: Records
    places: Records
    route_start: Codes
    route_links: Codes
    route_weights: Floats
    route_latency_s: Floats
    queue: Codes
    dirty: Codes
    touched: Codes
    held: Codes
    ended: Codes
    longest: int


def opened_net(bytes_per_s: Floats, routes: Routes, most_flows: int) -> Net:
    """A network without flows.

    Parameters
    ----------
    bytes_per_s : (l,) capacity of each link [bytes/s]
    routes : over these links
    most_flows : that can be under way at once

    Raises
    ------
    BadStudy : a route over a link that is not there, or a negative capacity
    """
    capacity = np.asarray(bytes_per_s, float)
    _check(capacity, routes)
    links, flows = np.zeros(len(capacity), LINKS), np.zeros(most_flows, FLOWS)
    links["bytes_per_s"], links["first"] = capacity, NOWHERE
    flows["seat"], flows["free"] = NOWHERE, np.arange(1, most_flows + 1)
    flows["free"][-1:] = NOWHERE
    longest = int(np.max(np.diff(routes.start), initial=1))
    counters = np.zeros(COUNTERS, np.int64)
    counters[FREE] = 0 if most_flows else NOWHERE
    most_links = len(links)
    return Net(
        clock_s=np.zeros(1),
        counters=counters,
        links=links.view(np.recarray),
        flows=flows.view(np.recarray),
        places=np.full(most_flows * longest, NOWHERE, PLACES).view(np.recarray),
        route_start=routes.start,
        route_links=routes.links,
        route_weights=routes.weights,
        route_latency_s=routes.latency_s,
        queue=np.zeros(most_flows, np.int64),
        dirty=np.zeros(most_links, np.int64),
        touched=np.zeros(most_links, np.int64),
        held=np.zeros(most_flows, np.int64),
        ended=np.zeros(most_flows, np.int64),
        longest=longest,
    )


def _check(capacity: Floats, routes: Routes) -> None:
    if len(routes.links) and not 0 <= routes.links.min() <= routes.links.max() < len(capacity):
        raise BadStudy(
            f"routes use links {routes.links.min()} to {routes.links.max()}, and there are "
            f"{len(capacity)}; give the capacity of every link"
        )
    if np.any(~np.isfinite(capacity) | (capacity < 0)) or np.any(~(routes.weights > 0)):
        raise BadStudy(
            "a link has a negative capacity or a route a weight that is not above 0; "
            "give 0 for a failed link, and leave a link out of a route that does not cross it"
        )
