"""The event loop of two pools: prompts in the one, answers in the other, wires between them.

Each pool is a house of its own with its own policies and tables; they meet in `handover`. At one
moment transfers end first, then steps of the decode pool, then those of the prefill pool.
"""

from __future__ import annotations

from typing import NamedTuple

from simkernel.batching._queue import free_blocks
from simkernel.replay.engine import (
    DONE,
    GOING,
    NEVER_S,
    STUCK,
    arrive,
    first_to_act,
    let_leave,
    next_arrival_s,
    settle,
    take_off,
)
from simkernel.replay.handover import (
    ON_WAY,
    Wires,
    arrive_there,
    hand_over,
    let_in,
    next_due_s,
    put_ready_first,
)
from simkernel.replay.state import STUCK_AT, House
from simkernel.replay.steps import end_step


class Pools(NamedTuple):
    """Two houses over the same requests, and what lies between them."""

    prefill: House
    decode: House
    wires: Wires


def advance_pools(events: int, pools: Pools) -> int:
    """So many events further; how it ended, as `engine.advance`."""
    prefill, decode, wires = pools.prefill, pools.decode, pools.wires
    one, other = first_to_act(prefill.books), first_to_act(decode.books)
    for _ in range(events):
        due_s, answers_s = next_due_s(wires, NEVER_S), decode.books[other].clock_s
        prompts_s = min(prefill.books[one].clock_s, next_arrival_s(prefill))
        if due_s < NEVER_S and due_s <= answers_s and due_s <= prompts_s:
            come_to_decode(due_s, pools)
            one, other = first_to_act(prefill.books), first_to_act(decode.books)
        elif answers_s < NEVER_S and answers_s <= prompts_s:
            if not act_in_decode(other, answers_s, pools):
                decode.counters[STUCK_AT] = other
                return STUCK
            other = first_to_act(decode.books)
        elif prompts_s < NEVER_S:
            if not act_in_prefill(one, pools):
                prefill.counters[STUCK_AT] = one
                return STUCK
            one = first_to_act(prefill.books)
        else:
            return DONE if wires.counts[ON_WAY] == 0 else STUCK
    return GOING


def come_to_decode(now_s: float, pools: Pools) -> None:
    """A transfer ends: who was moved may join the next step."""
    decode = pools.decode
    request = pools.wires.due[0]
    chosen, source = pools.wires.moves[request].destination, pools.wires.moves[request].source
    settle(chosen, now_s, decode)
    arrive_there(now_s, pools.prefill, decode, pools.wires)
    prompts = pools.prefill
    if prompts.books[source].clock_s == NEVER_S and prompts.lists[source].waiting_count > 0:
        prompts.books[source].clock_s = now_s
    if decode.books[chosen].clock_s == NEVER_S:
        decode.books[chosen].clock_s = now_s


def act_in_decode(replica: int, now_s: float, pools: Pools) -> bool:
    """A step of the decode pool ends, or the next begins; False when nothing ever will."""
    decode = pools.decode
    if decode.books[replica].is_flying == 0:
        put_ready_first(replica, decode)
        return take_off(replica, now_s, NEVER_S, decode)
    if end_step(replica, now_s, decode) > 0:
        settle(replica, now_s, decode)
        let_leave(replica, decode)
    let_in(replica, now_s, decode, pools.wires)
    return True


def act_in_prefill(replica: int, pools: Pools) -> bool:
    """A request arrives, a step ends, or the next begins; False when nothing ever will."""
    prefill = pools.prefill
    now_s, arrival_s = prefill.books[replica].clock_s, next_arrival_s(prefill)
    if prefill.books[replica].is_flying > 0 and now_s <= arrival_s:
        if end_step(replica, now_s, prefill) > 0:
            settle(replica, now_s, prefill)
            let_move(replica, now_s, pools)
        return True
    if arrival_s < NEVER_S and arrival_s <= now_s:
        arrive(arrival_s, prefill)
        return True
    if take_off(replica, now_s, arrival_s, prefill):
        return True
    lists = prefill.lists
    is_held = lists[replica].free_blocks < prefill.limits.pool_blocks
    if (
        lists[replica].running_count == 0 and is_held
    ):  # by prompts on their way: until one is there
        prefill.books[replica].clock_s = NEVER_S
        return True
    return False


def let_move(replica: int, now_s: float, pools: Pools) -> None:
    """Computed prompts leave their seats and keep their blocks; the others close up in order.

    An answer of one token is done.
    """
    prefill, decode = pools.prefill, pools.decode
    kept = 0
    for place in range(prefill.lists[replica].running_count):
        request = prefill.seats[replica, place].running
        if prefill.jobs[request].made_tokens < prefill.jobs[request].output_tokens:
            prefill.seats[replica, kept].running = request
            kept += 1
        elif decode.jobs[request].output_tokens <= 1:
            decode.times[request].first_token_s = decode.times[request].finish_s = now_s
            free_blocks(replica, request, prefill.jobs, prefill.lists, prefill.cache)
        else:
            decode.times[request].start_s = prefill.times[request].start_s
            hand_over(request, replica, now_s, decode, pools.wires)
    prefill.lists[replica].running_count = kept
