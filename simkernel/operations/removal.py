"""Requests out of a replica that stops: what it computed is lost, nobody is forgotten."""

from __future__ import annotations

import numpy as np

from simkernel.batching._house import blocks_for
from simkernel.batching._queue import throw_out_last
from simkernel.operations.outages import RESTART
from simkernel.replay.engine import NEVER_S, settle
from simkernel.replay.state import Cache, House


def stop(replica: int, now_s: float, house: House) -> None:
    """The step under way ends unfinished, and the running stand at the head of the queue.

    Of a flight of like steps all but the last have ended. Their tokens are made: whoever is served
    has them already. Energy of the step that is lost was drawn.
    """
    books, lists = house.books, house.lists
    first = replica - replica % house.rules.copies
    settle(replica, now_s, house)
    if books[first].is_flying > 0 and books[replica].flying_sequences > 0:
        for place in range(books[replica].flying_sequences):
            request = house.seats[replica, place].request
            house.jobs[request].made_tokens += books[replica].flying_steps - 1
            house.jobs[request].cached_tokens += books[replica].flying_steps - 1
        unspent_s = max(books[replica].end_s - now_s, 0.0)
        books[replica].busy_s -= unspent_s
        books[replica].running_s -= books[replica].flying_sequences * unspent_s
        books[replica].end_s -= unspent_s
        books[replica].flying_sequences = 0
    while lists[replica].running_count > 0:
        throw_out_last(replica, house.jobs, lists, house.limits, house.seats, house.cache)
    if replica - first == house.rules.copies - 1:
        books[first].is_flying = 0
        books[first].clock_s = NEVER_S
    if house.cache is not None:
        _forget(replica, house, house.cache)


def taken_out(replica: int, now_s: float, house: House) -> list[int]:
    """Everybody in the queue of a replica, in order; the queue is empty then."""
    lists, found = house.lists, []
    settle(replica, now_s, house)
    request = lists[replica].first_waiting
    for _ in range(lists[replica].waiting_count):
        found.append(int(request))
        request = house.jobs[request].behind
    lists[replica].waiting_count = 0
    lists[replica].first_waiting = lists[replica].last_waiting = -1
    lists[replica].due_tokens = house.books[replica].prefill_tokens
    return found


def made_ready(request: int, house: House, of_lost: str) -> None:
    """A request as another replica takes it up."""
    if of_lost == RESTART:
        house.jobs[request].made_tokens = 0
        house.times[request].first_token_s = np.nan


def _forget(replica: int, house: House, cache: Cache) -> None:
    """What was in the memory of a replica and of its host is gone; shared tiers keep theirs."""
    request = house.lists[replica].first_waiting
    for _ in range(house.lists[replica].waiting_count):
        swapped = cache.owners[request].swapped
        cache.swaps[replica].free_blocks += blocks_for(swapped, house.limits)
        house.lists[replica].recomputed_tokens += swapped
        cache.owners[request].swapped = 0
        request = house.jobs[request].behind
    rows = [(cache.device, replica)]
    own = [tier for tier in range(len(cache.tiers)) if cache.tiers[tier].is_shared == 0]
    rows += [(cache.lower, tier * len(house.books) + replica) for tier in own]
    for shelf, row in rows:
        shelf.blocks[row] = 0
        shelf.buckets[row] = 0
        shelf.queues[row].used = shelf.queues[row].first = shelf.queues[row].last = 0
