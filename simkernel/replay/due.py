"""The queue of a network's times: which flow begins or ends next.

A binary heap of slots that know their seats, so a flow whose rate changes moves in it and nothing
stale is left behind. Ties go to the flow that was started first.
"""

from __future__ import annotations

from simkernel.replay.net import NOWHERE, SEATED, Net


def is_before(net: Net, a: int, b: int) -> bool:
    """Slot a is due before slot b."""
    flows = net.flows
    if flows[a].due_s != flows[b].due_s:
        return flows[a].due_s < flows[b].due_s
    return flows[a].serial < flows[b].serial


def seat(net: Net, slot: int) -> None:
    """A slot enters the queue."""
    last = net.counters[SEATED]
    net.counters[SEATED] += 1
    _put(net, slot, last)
    _rise(net, last)


def unseat(net: Net, slot: int) -> None:
    """A slot leaves the queue."""
    place = net.flows[slot].seat
    net.counters[SEATED] -= 1
    last = net.queue[net.counters[SEATED]]
    net.flows[slot].seat = NOWHERE
    if last != slot:
        _put(net, last, place)
        move(net, last)


def move(net: Net, slot: int) -> None:
    """A slot whose due time changed takes its place."""
    _sink(net, _rise(net, net.flows[slot].seat))


def _put(net: Net, slot: int, place: int) -> None:
    net.queue[place] = slot
    net.flows[slot].seat = place


def _rise(net: Net, place: int) -> int:
    """Before all that are due later; where it stands then."""
    slot = net.queue[place]
    while place > 0 and is_before(net, slot, net.queue[(place - 1) // 2]):
        _put(net, net.queue[(place - 1) // 2], place)
        place = (place - 1) // 2
    _put(net, slot, place)
    return place


def _sink(net: Net, place: int) -> None:
    """Behind all that are due earlier."""
    slot, seated = net.queue[place], net.counters[SEATED]
    while 2 * place + 1 < seated:
        child = 2 * place + 1
        if child + 1 < seated and is_before(net, net.queue[child + 1], net.queue[child]):
            child += 1
        if not is_before(net, net.queue[child], slot):
            break
        _put(net, net.queue[child], place)
        place = child
    _put(net, slot, place)
