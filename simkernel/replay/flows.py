"""Flows on a network, moved from event to event: plain Python in the subset that numba compiles.

The caller keeps the clock::

    net = opened_net(bytes_per_s, routes, most_flows)          # net.py
    start(net, now_s, route, payload_bytes, wait_s, owner)     # as many as begin now
    now_s = next_s(net)                                        # inf: nothing will ever move
    for i in range(advance(net, now_s)):                       # how many ended
        owner = net.ended[i]                                   # in the order of their ends

A flow waits (`wait_s` and the latencies of its route), then its bytes share links max-min fairly
with all others, then it has ended. `next_s` may be the time at which one begins to move; `advance`
then ends none. Flows may be started at any time between two events, never after the next. Rates
are made anew once per moment, when the caller asks for the next one, so flows that begin together
cost one solution. Each flow is two events, so a replay ends: nothing is polled.

A failed link is one of no capacity: its flows wait until it is mended.
"""

from __future__ import annotations

import numpy as np

from simkernel.replay.due import move, seat, unseat
from simkernel.replay.net import ENDED, FREE, NOWHERE, SEATED, SERIAL, Net
from simkernel.replay.sharing import join, leave, settle, soil

SAME_MOMENT_FRAC = 2e-15
"""Times within eight units of the last place are one: which sum they came from does not matter."""


def start(
    net: Net, now_s: float, route: int, payload_bytes: float, wait_s: float, owner: int
) -> int:
    """A flow begins its wait; its slot, or NOWHERE when all are taken.

    Parameters
    ----------
    route : of the network's
    payload_bytes : that cross each link of weight 1 [bytes]
    wait_s : before the first byte moves, beside the route's own latency [s]
    owner : handed back when it ends
    """
    slot = net.counters[FREE]
    if slot == NOWHERE:
        return NOWHERE
    net.counters[FREE] = net.flows[slot].free
    one = net.flows[slot]
    one.route = route
    one.owner = owner
    one.left_bytes = payload_bytes
    one.rate_bytes_per_s = 0.0
    one.serial = net.counters[SERIAL]
    net.counters[SERIAL] += 1
    one.due_s = now_s + wait_s + net.route_latency_s[route]
    one.since_s = one.due_s
    seat(net, slot)
    return slot


def next_s(net: Net) -> float:
    """When a flow begins to move or ends next, as links are shared now; infinity: never."""
    settle(net, net.clock_s[0])
    return net.flows[net.queue[0]].due_s if net.counters[SEATED] > 0 else np.inf


def advance(net: Net, now_s: float) -> int:
    """What is due at this moment happens; how many flows ended, their owners first in `ended`."""
    _come_to(net, now_s)
    counters = net.counters
    counters[ENDED] = 0
    until_s = now_s + SAME_MOMENT_FRAC * abs(now_s)
    while counters[SEATED] > 0 and net.flows[net.queue[0]].due_s <= until_s:
        slot = net.queue[0]
        if net.flows[slot].is_moving or _needs_no_link(net, slot):
            _end(net, slot)
        else:
            _begin(net, slot, now_s)
    return counters[ENDED]


def set_capacity(net: Net, now_s: float, link: int, bytes_per_s: float) -> None:
    """A link is degraded, fails (0) or is mended; flows on it share anew from now on."""
    _come_to(net, now_s)
    net.links[link].bytes_per_s = bytes_per_s
    soil(net, link)


def _come_to(net: Net, now_s: float) -> None:
    """What changed before this moment is settled as of then."""
    if now_s > net.clock_s[0]:
        settle(net, net.clock_s[0])
        net.clock_s[0] = now_s


def _needs_no_link(net: Net, slot: int) -> bool:
    """Nothing is left to send, or it stays where it is."""
    route = net.flows[slot].route
    stays = net.route_start[route] == net.route_start[route + 1]
    return stays or net.flows[slot].left_bytes <= 0.0


def _begin(net: Net, slot: int, now_s: float) -> None:
    """Bytes begin to move: at which rate and until when is settled when all of now have come."""
    one = net.flows[slot]
    one.since_s = now_s
    one.rate_bytes_per_s = 0.0
    one.joined_bytes = one.left_bytes
    one.due_s = np.inf
    move(net, slot)
    join(net, slot)


def _end(net: Net, slot: int) -> None:
    """A flow has ended: its slot is free, its owner is told."""
    counters, one = net.counters, net.flows[slot]
    if one.is_moving:
        leave(net, slot, one.joined_bytes)
    unseat(net, slot)
    one.free = counters[FREE]
    counters[FREE] = slot
    net.ended[counters[ENDED]] = one.owner
    counters[ENDED] += 1
