"""Keys and values between two pools, request by request: plain Python in the subset of numba.

A computed prompt keeps its blocks where it was computed, reserves as many where it is to be
answered, crosses the wires of both ends when those before it have, and only then gives the first
blocks back. Who finds no room waits in order at the destination.
"""

from __future__ import annotations

from typing import NamedTuple

from simkernel.batching._house import blocks_for, take_blocks
from simkernel.batching._queue import free_blocks, line_up
from simkernel.columns import Codes, Floats
from simkernel.replay.dispatch import pick_replica
from simkernel.replay.engine import asked_of, look_around
from simkernel.replay.state import ROUTED, House, Records, _fields

MOVES = _fields(
    *("computed_s", "reserved_s", "done_s", "source", "destination", "behind", "bytes"),
)
"""Every request on its way, (n,).

computed_s, reserved_s, done_s : its prompt is computed, its room found, its keys and values there
source, destination : replicas of the two pools, -1 until known
behind : the request that waits for room behind it, or -1
bytes : that move
"""

DUE, ON_WAY, COUNTS = range(3)
"""Places of the counts: transfers under way, requests on their way."""

NOBODY = -1


class Wires(NamedTuple):
    """What lies between the pools.

    Parameters
    ----------
    moves : as MOVES
    counts : as DUE, ON_WAY
    due : (n,) requests whose transfer is under way, a binary heap by `done_s`
    source_free_s, destination_free_s : when the wires of each copy of attention are free
    first_waiting, last_waiting : (r,) ends of the queue for room at each destination
    inbound : (r,) requests that come to each destination and are not there yet
    source_bytes_per_s, destination_bytes_per_s, base_s : of the wires of one copy
    layers : of the model where each is sent as it is done, 0 where all go after the prompt
    source_stages, destination_stages : replicas that share the wires of one copy
    """

    moves: Records
    counts: Codes
    due: Codes
    source_free_s: Floats
    destination_free_s: Floats
    first_waiting: Codes
    last_waiting: Codes
    inbound: Codes
    source_bytes_per_s: float
    destination_bytes_per_s: float
    base_s: float
    layers: int
    source_stages: int
    destination_stages: int


def next_due_s(wires: Wires, never_s: float) -> float:
    """When the next transfer ends."""
    if wires.counts[DUE] == 0:
        return never_s
    return wires.moves[wires.due[0]].done_s


def hand_over(request: int, source: int, now_s: float, decode: House, wires: Wires) -> bool:
    """A prompt is computed: finds a destination, and room there or a place in its queue.

    True where the transfer has begun.
    """
    seen = look_around(request, decode)
    for place in range(len(seen.replicas)):
        seen.waiting[place] += wires.inbound[seen.replicas[place]]
    asked = asked_of(request, decode)
    chosen = seen.replicas[pick_replica(decode.rules.routing_code, asked, seen)]
    decode.counters[ROUTED] += 1
    wires.counts[ON_WAY] += 1
    wires.inbound[chosen] += 1
    wires.moves[request].computed_s = now_s
    wires.moves[request].source = source
    wires.moves[request].destination = chosen
    wires.moves[request].behind = NOBODY
    if wires.first_waiting[chosen] == NOBODY and reserve(request, now_s, decode, wires):
        return True
    if wires.first_waiting[chosen] == NOBODY:
        wires.first_waiting[chosen] = request
    else:
        wires.moves[wires.last_waiting[chosen]].behind = request
    wires.last_waiting[chosen] = request
    return False


def reserve(request: int, now_s: float, decode: House, wires: Wires) -> bool:
    """Blocks of the prompt at the destination, and the time when all is there; False if full.

    A decoding sequence keeps a free block to grow into, so that nobody is thrown out for who
    only comes; who was thrown out all the same comes in before.
    """
    chosen, prompt = wires.moves[request].destination, decode.jobs[request].prompt_tokens
    if thrown_out(chosen, decode) > 0:
        return False
    running = decode.lists[chosen].running_count
    needed = blocks_for(prompt, decode.limits)
    if decode.lists[chosen].free_blocks - needed < running and running > 0:
        return False
    if not take_blocks(
        chosen, request, prompt, decode.jobs, decode.lists, decode.limits, decode.cache
    ):
        return False
    wires.moves[request].reserved_s = now_s
    wires.moves[request].done_s = done_s(request, now_s, decode, wires)
    seat(request, wires)
    return True


def done_s(request: int, now_s: float, decode: House, wires: Wires) -> float:
    """When keys and values are there: after the prompt, and after those before it on the wires.

    Notes
    -----
    Each end is busy for its own bytes over its own rate, so a slow end does not hold a fast one.
    Sent layer by layer, the first layers went while the prompt was computed, as far as wires were
    free: the rest is as `kv_transfer.exposed_s` has it.
    """
    move = wires.moves[request]
    source = move.source // wires.source_stages
    destination = move.destination // wires.destination_stages
    source_s = move.bytes / wires.source_bytes_per_s
    destination_s = move.bytes / wires.destination_bytes_per_s
    alone_s = wires.base_s + max(source_s, destination_s)
    started_s = decode.times[request].start_s
    ready_s = now_s
    if wires.layers > 0 and now_s == move.computed_s:
        ready_s = started_s + (now_s - started_s) / wires.layers
    free_s = max(wires.source_free_s[source], wires.destination_free_s[destination])
    begin_s = max(ready_s, wires.source_free_s[source])
    meet_s = max(begin_s, wires.destination_free_s[destination])
    wires.source_free_s[source] = begin_s + source_s
    wires.destination_free_s[destination] = meet_s + destination_s
    end_s = wires.base_s + max(begin_s + source_s, meet_s + destination_s)
    if ready_s == now_s:
        return end_s
    left_s = max(end_s - now_s, 0.0) + alone_s / wires.layers
    return now_s + min(left_s, max(free_s - now_s, 0.0) + alone_s)


def arrive_there(now_s: float, prefill: House, decode: House, wires: Wires) -> int:
    """The transfer that is due ends: its first blocks are free, it stands in the queue there.

    Gives the destination.
    """
    request = unseat(wires)
    move = wires.moves[request]
    chosen = move.destination
    free_blocks(move.source, request, prefill.jobs, prefill.lists, prefill.cache)
    wires.inbound[chosen] -= 1
    wires.counts[ON_WAY] -= 1
    decode.jobs[request].cached_tokens = decode.jobs[request].prompt_tokens
    decode.jobs[request].made_tokens = 1
    decode.times[request].first_token_s = now_s
    decode.times[request].replica = chosen
    line_up(chosen, request, decode.jobs, decode.lists)
    return chosen


def let_in(chosen: int, now_s: float, decode: House, wires: Wires) -> None:
    """Room has come free at a destination: those who wait for it get theirs in order."""
    while wires.first_waiting[chosen] != NOBODY:
        request = wires.first_waiting[chosen]
        if not reserve(request, now_s, decode, wires):
            return
        wires.first_waiting[chosen] = wires.moves[request].behind


def thrown_out(replica: int, decode: House) -> int:
    """Requests in the queue of a replica that have lost their blocks."""
    count, request = 0, decode.lists[replica].first_waiting
    for _ in range(decode.lists[replica].waiting_count):
        count += decode.jobs[request].blocks == 0
        request = decode.jobs[request].behind
    return count


def put_ready_first(replica: int, decode: House) -> None:
    """Who was thrown out and finds no room goes behind those who have theirs.

    Else he would wait for blocks that only those behind him can give back.
    """
    lists, jobs = decode.lists, decode.jobs
    if thrown_out(replica, decode) == lists[replica].waiting_count:
        return
    for _ in range(lists[replica].waiting_count):
        first = lists[replica].first_waiting
        needed = blocks_for(jobs[first].prompt_tokens + jobs[first].made_tokens, decode.limits)
        if jobs[first].blocks > 0 or needed <= lists[replica].free_blocks:
            return
        lists[replica].first_waiting = jobs[first].behind
        lists[replica].waiting_count -= 1
        line_up(replica, first, jobs, lists)


def seat(request: int, wires: Wires) -> None:
    """A transfer enters the queue of times."""
    place = wires.counts[DUE]
    wires.counts[DUE] += 1
    while place > 0:
        above = (place - 1) // 2
        if wires.moves[wires.due[above]].done_s <= wires.moves[request].done_s:
            break
        wires.due[place] = wires.due[above]
        place = above
    wires.due[place] = request


def unseat(wires: Wires) -> int:
    """The transfer that ends first leaves the queue."""
    first = wires.due[0]
    wires.counts[DUE] -= 1
    left = wires.counts[DUE]
    last, place = wires.due[left], 0
    while 2 * place + 1 < left:
        child = 2 * place + 1
        is_later = child + 1 < left and (
            wires.moves[wires.due[child + 1]].done_s < wires.moves[wires.due[child]].done_s
        )
        child += is_later
        if wires.moves[last].done_s <= wires.moves[wires.due[child]].done_s:
            break
        wires.due[place] = wires.due[child]
        place = child
    wires.due[place] = last
    return first
