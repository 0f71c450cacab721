"""Who waits, and who goes first: by rank, within a rank in order; called, not inlined.

Where all have one rank the queue is first come first served, and whoever is thrown out goes back
to its head. The running stand by rank too, so the last of them is who can wait longest.
"""

from __future__ import annotations

from simkernel.replay.blocks import let_go, publish_own
from simkernel.replay.state import Cache, Jobs, Limits, Lists, Seats
from simkernel.replay.tiers import swap_out

NOBODY = -1


def line_up(replica: int, request: int, jobs: Jobs, lists: Lists) -> None:
    """Puts a request into the queue, behind all who are as urgent."""
    ahead = lists[replica].last_waiting
    if lists[replica].waiting_count == 0:
        ahead = NOBODY
    elif jobs[ahead].rank > jobs[request].rank:
        ahead = _last_until(replica, jobs[request].rank, jobs, lists)
    _stand_behind(ahead, replica, request, jobs, lists)


def admit_first(replica: int, jobs: Jobs, lists: Lists, seats: Seats) -> int:
    """Takes the first of the queue into the running, behind all who are as urgent."""
    request, place = lists[replica].first_waiting, lists[replica].running_count
    lists[replica].first_waiting = jobs[request].behind
    lists[replica].waiting_count -= 1
    lists[replica].running_count += 1
    while place > 0 and jobs[seats[replica, place - 1].running].rank > jobs[request].rank:
        seats[replica, place].running = seats[replica, place - 1].running
        place -= 1
    seats[replica, place].running = request
    return request


def throw_out_last(
    replica: int, jobs: Jobs, lists: Lists, limits: Limits, seats: Seats, cache: Cache | None
) -> int:
    """Puts the last of the running before its like in the queue, its cache lost or swapped out."""
    lists[replica].running_count -= 1
    request = seats[replica, lists[replica].running_count].running
    lost, known = jobs[request].cached_tokens, jobs[request].prompt_tokens
    known += jobs[request].made_tokens
    is_decoding = jobs[request].made_tokens > 0 and known - lost == 1
    lists[replica].due_tokens += lost + is_decoding
    if cache is not None:
        publish_own(replica, request, lost, limits, cache)
        blocks = (lost + limits.block_tokens - 1) // limits.block_tokens
        swap_out(replica, request, blocks, lost, cache)
        lost -= cache.owners[request].swapped
    lists[replica].recomputed_tokens += lost
    lists[replica].preemptions += 1
    jobs[request].preemptions += 1
    jobs[request].cached_tokens = 0
    free_blocks(replica, request, jobs, lists, cache)
    ahead = NOBODY
    first = lists[replica].first_waiting
    if lists[replica].waiting_count > 0 and jobs[first].rank < jobs[request].rank:
        ahead = _last_until(replica, jobs[request].rank - 1, jobs, lists)
    _stand_behind(ahead, replica, request, jobs, lists)
    return request


def free_blocks(replica: int, request: int, jobs: Jobs, lists: Lists, cache: Cache | None) -> None:
    """Gives all blocks of a request back; those that others hold too stay in use."""
    freed = jobs[request].blocks
    if cache is not None:
        freed = let_go(replica, request, freed, cache)
    lists[replica].free_blocks += freed
    jobs[request].blocks = 0


def _last_until(replica: int, rank: int, jobs: Jobs, lists: Lists) -> int:
    """The last in the queue of this rank or a lower one."""
    found, request = NOBODY, lists[replica].first_waiting
    for _ in range(lists[replica].waiting_count):
        if jobs[request].rank > rank:
            break
        found, request = request, jobs[request].behind
    return found


def _stand_behind(ahead: int, replica: int, request: int, jobs: Jobs, lists: Lists) -> None:
    """Into the queue behind somebody, or at its head behind nobody."""
    behind = NOBODY
    if ahead != NOBODY:
        behind = jobs[ahead].behind
        jobs[ahead].behind = request
    elif lists[replica].waiting_count > 0:
        behind = lists[replica].first_waiting
    jobs[request].behind = behind
    if ahead == NOBODY:
        lists[replica].first_waiting = request
    if behind == NOBODY:
        lists[replica].last_waiting = request
    lists[replica].waiting_count += 1
