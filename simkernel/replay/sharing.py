"""How flows share links: max-min fairly, anew for those that a change can reach.

Rates rise together until a link is full; the flows on it stay, the others rise on. A change of one
flow reaches only flows joined to it by shared links: their component is found and solved, the rest
is left alone, to the last bit.

References
----------
Bertsekas and Gallager, Data Networks, 2nd ed., section 6.5.2 (max-min fair flow control).
"""

from __future__ import annotations

import numpy as np

from simkernel.replay.due import move
from simkernel.replay.net import (
    DIRTY,
    HELD,
    MOVING,
    NOWHERE,
    SOLVED,
    STAMP,
    TOUCHED,
    Net,
)

FULL_FRAC = 1.0 + 1e-12
"""Links that fill within this of the first fill together: rounding does not part them."""


def join(net: Net, slot: int) -> None:
    """A flow enters the lists of its links, whose flows will share anew."""
    begin, end = _span(net, slot)
    for hop in range(begin, end):
        link, place = net.route_links[hop], slot * net.longest + hop - begin
        first = net.links[link].first
        net.places[place].before = NOWHERE
        net.places[place].behind = first
        if first != NOWHERE:
            net.places[first].before = place
        net.links[link].first = place
        soil(net, link)
    net.flows[slot].is_moving = 1
    net.counters[MOVING] += 1


def leave(net: Net, slot: int, sent_bytes: float) -> None:
    """A flow leaves its links, which have carried so many of its bytes."""
    begin, end = _span(net, slot)
    for hop in range(begin, end):
        link, place = net.route_links[hop], slot * net.longest + hop - begin
        before, behind = net.places[place].before, net.places[place].behind
        if before == NOWHERE:
            net.links[link].first = behind
        else:
            net.places[before].behind = behind
        if behind != NOWHERE:
            net.places[behind].before = before
        net.links[link].carried_bytes += sent_bytes * net.route_weights[hop]
        soil(net, link)
    net.flows[slot].is_moving = 0
    net.counters[MOVING] -= 1


def soil(net: Net, link: int) -> None:
    """The flows of a link will share anew."""
    if net.links[link].is_dirty == 0:
        net.links[link].is_dirty = 1
        net.dirty[net.counters[DIRTY]] = link
        net.counters[DIRTY] += 1


def settle(net: Net, now_s: float) -> None:
    """New rates for every component that a change has reached."""
    counters = net.counters
    began = counters[STAMP]
    for i in range(counters[DIRTY]):
        link = net.dirty[i]
        net.links[link].is_dirty = 0
        if net.links[link].stamp <= began and net.links[link].first != NOWHERE:
            _gather(net, link)
            _fill(net)
            _set_rates(net, now_s)
            counters[SOLVED] += 1
    counters[DIRTY] = 0


def _span(net: Net, slot: int) -> tuple[int, int]:
    """The places of a flow's links in the one list of all routes."""
    route = net.flows[slot].route
    return net.route_start[route], net.route_start[route + 1]


def _gather(net: Net, link: int) -> None:
    """The component of a link: its flows in `held`, its links in `touched`, all unsettled."""
    counters = net.counters
    counters[STAMP] += 1
    counters[HELD] = 0
    counters[TOUCHED] = 0
    _touch(net, link)
    reached = 0
    while reached < counters[TOUCHED]:
        place = net.links[net.touched[reached]].first
        while place != NOWHERE:
            slot = place // net.longest
            if net.flows[slot].stamp != counters[STAMP]:
                _hold(net, slot)
            place = net.places[place].behind
        reached += 1


def _touch(net: Net, link: int) -> None:
    one = net.links[link]
    one.stamp = net.counters[STAMP]
    one.left_bytes_per_s = one.bytes_per_s
    one.weight = 0.0
    one.waiting = 0
    net.touched[net.counters[TOUCHED]] = link
    net.counters[TOUCHED] += 1


def _hold(net: Net, slot: int) -> None:
    """A flow joins the component, and its links."""
    net.flows[slot].stamp = net.counters[STAMP]
    net.flows[slot].new_bytes_per_s = -1.0
    net.held[net.counters[HELD]] = slot
    net.counters[HELD] += 1
    begin, end = _span(net, slot)
    for hop in range(begin, end):
        link = net.route_links[hop]
        if net.links[link].stamp != net.counters[STAMP]:
            _touch(net, link)
        net.links[link].weight += net.route_weights[hop]
        net.links[link].waiting += 1


def _fill(net: Net) -> None:
    """Rates of the component at hand: the fullest links first, until no flow waits."""
    waiting, open_links = net.counters[HELD], net.counters[TOUCHED]
    while waiting > 0:
        level, kept = np.inf, 0
        for i in range(open_links):
            link = net.touched[i]
            if net.links[link].waiting > 0:
                net.touched[kept] = link
                kept += 1
                level = min(level, net.links[link].left_bytes_per_s / net.links[link].weight)
        open_links = kept
        for i in range(open_links):
            one = net.links[net.touched[i]]
            if one.waiting > 0 and one.left_bytes_per_s <= one.weight * level * FULL_FRAC:
                waiting -= _stop_at(net, net.touched[i], level)


def _stop_at(net: Net, link: int, level: float) -> int:
    """Every flow still rising on a full link stays at this rate; how many."""
    stopped, place = 0, net.links[link].first
    while place != NOWHERE:
        slot = place // net.longest
        if net.flows[slot].new_bytes_per_s < 0.0:
            _stop(net, slot, level)
            stopped += 1
        place = net.places[place].behind
    return stopped


def _stop(net: Net, slot: int, level: float) -> None:
    net.flows[slot].new_bytes_per_s = level
    begin, end = _span(net, slot)
    for hop in range(begin, end):
        one, weight = net.links[net.route_links[hop]], net.route_weights[hop]
        one.left_bytes_per_s = max(one.left_bytes_per_s - weight * level, 0.0)
        one.weight -= weight
        one.waiting -= 1


def _set_rates(net: Net, now_s: float) -> None:
    """Flows whose rate changed are paid up to now and due anew; the others keep their times."""
    for i in range(net.counters[HELD]):
        slot = net.held[i]
        one = net.flows[slot]
        if one.new_bytes_per_s != one.rate_bytes_per_s:
            one.left_bytes = left_bytes(one.left_bytes, one.rate_bytes_per_s, now_s - one.since_s)
            one.since_s = now_s
            one.rate_bytes_per_s = one.new_bytes_per_s
            one.due_s = np.inf
            if one.rate_bytes_per_s > 0.0:
                one.due_s = now_s + one.left_bytes / one.rate_bytes_per_s
            move(net, slot)


def left_bytes(had_bytes: float, rate_bytes_per_s: float, passed_s: float) -> float:
    """What is left of a flow after some time at one rate, never less than nothing."""
    return max(had_bytes - rate_bytes_per_s * passed_s, 0.0)
