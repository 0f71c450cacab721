"""Moves every policy is made of: take blocks, admit the first who waits, throw the last out."""

from __future__ import annotations

from simkernel.replay.blocks import (
    free_among_found,
    hold_found,
    hold_new,
    let_go,
    look_below,
    look_up,
    publish,
    publish_own,
)
from simkernel.replay.results import (
    BEYOND_BUDGET,
    BEYOND_CONTEXT,
    BEYOND_POOL,
    NO_OUTPUT,
    NO_PROMPT,
    SERVED,
)
from simkernel.replay.state import Cache, Jobs, Limits, Lists, Seats
from simkernel.replay.tiers import swap_in, swap_out


def refusal_code(
    prompt_tokens: int, output_tokens: int, limits: Limits, room_blocks: int, most_tokens: int
) -> int:
    """Why a request could never finish, even alone in the house.

    Parameters
    ----------
    room_blocks : that one request can get
    most_tokens : that one step can compute of one request

    Notes
    -----
    The last output token is never fed back, so the cache holds one token less than the request.
    """
    if prompt_tokens < 1:
        return NO_PROMPT
    if output_tokens < 1:
        return NO_OUTPUT
    if prompt_tokens + output_tokens > limits.max_context_tokens:
        return BEYOND_CONTEXT
    if blocks_for(prompt_tokens + output_tokens - 1, limits) > room_blocks:
        return BEYOND_POOL
    if prompt_tokens + output_tokens - 1 > most_tokens:
        return BEYOND_BUDGET
    return SERVED


def blocks_for(tokens: int, limits: Limits) -> int:
    """Blocks that hold so many tokens."""
    return (tokens + limits.block_tokens - 1) // limits.block_tokens


def tokens_due(request: int, jobs: Jobs) -> int:
    """Tokens still to compute before the next output token: 1 when decoding."""
    known = jobs[request].prompt_tokens + jobs[request].made_tokens
    return known - jobs[request].cached_tokens


def tokens_wanted(request: int, jobs: Jobs, limits: Limits) -> int:
    """Tokens due, and of a decoding request its drafts, as far as its answer goes."""
    due = tokens_due(request, jobs)
    if limits.drafted_tokens == 0 or due != 1 or jobs[request].made_tokens == 0:
        return due
    left = jobs[request].output_tokens - jobs[request].made_tokens
    return min(1 + limits.drafted_tokens, left)


def first_due(replica: int, jobs: Jobs, lists: Lists, limits: Limits, cache: Cache | None) -> int:
    """Tokens due of the first who waits, less those that the cache has of its beginning.

    What is found is noted and not held: `reserve_first` does, in the same step.
    """
    request = lists[replica].first_waiting
    due = tokens_due(request, jobs)
    if cache is None:
        return due
    found, below, swapped = 0, 0, cache.owners[request].swapped
    if jobs[request].cached_tokens == 0 and swapped == 0:
        found = look_up(replica, request, due, limits, cache)
        below = look_below(replica, request, found, due, limits, cache)
    cache.owners[request].found, cache.owners[request].below = found, below
    return due - swapped - (found + below) * limits.block_tokens


def first_needs(
    replica: int, tokens: int, lists: Lists, limits: Limits, cache: Cache | None
) -> int:
    """Free blocks that the first who waits takes with so many tokens beside those found."""
    if cache is None:
        return blocks_for(tokens, limits)
    request = lists[replica].first_waiting
    needed = blocks_for(cache.owners[request].swapped + tokens, limits)
    return needed + cache.owners[request].below + free_among_found(replica, request, cache)


def reserve_first(
    replica: int, tokens: int, jobs: Jobs, lists: Lists, limits: Limits, cache: Cache | None
) -> bool:
    """Blocks of the first who waits: those found of its beginning, and for so many tokens beside.

    False, and nothing held or taken, if the pool has none.
    """
    request = lists[replica].first_waiting
    held = 0
    if cache is not None:
        if first_needs(replica, tokens, lists, limits, cache) > lists[replica].free_blocks:
            return False
        held = cache.owners[request].swapped
        if held > 0:
            swap_in(replica, request, blocks_for(held, limits), cache)
            jobs[request].cached_tokens = held
        elif jobs[request].cached_tokens == 0:
            held = hold_found(replica, request, lists, limits, cache)
            jobs[request].cached_tokens = held
            jobs[request].blocks = cache.owners[request].found
            if jobs[request].preemptions == 0:
                cache.owners[request].hit_tokens = held
    return take_blocks(replica, request, held + tokens, jobs, lists, limits, cache)


def take_blocks(
    replica: int,
    request: int,
    tokens: int,
    jobs: Jobs,
    lists: Lists,
    limits: Limits,
    cache: Cache | None,
) -> bool:
    """Blocks for so many tokens of one request; False, and nothing taken, if the pool has none."""
    more = blocks_for(tokens, limits) - jobs[request].blocks
    if more <= 0:
        return True
    if more > lists[replica].free_blocks:
        return False
    if cache is not None:
        hold_new(replica, request, jobs[request].blocks, more, cache)
    jobs[request].blocks += more
    lists[replica].free_blocks -= more
    in_use = limits.pool_blocks - lists[replica].free_blocks
    if in_use > lists[replica].most_blocks:
        lists[replica].most_blocks = in_use
    return True


def free_blocks(replica: int, request: int, jobs: Jobs, lists: Lists, cache: Cache | None) -> None:
    """Gives all blocks of a request back; those that others hold too stay in use."""
    freed = jobs[request].blocks
    if cache is not None:
        freed = let_go(replica, request, freed, cache)
    lists[replica].free_blocks += freed
    jobs[request].blocks = 0


def line_up(replica: int, request: int, jobs: Jobs, lists: Lists) -> None:
    """Puts a request at the end of the queue."""
    jobs[request].behind = -1
    if lists[replica].waiting_count == 0:
        lists[replica].first_waiting = request
    else:
        jobs[lists[replica].last_waiting].behind = request
    lists[replica].last_waiting = request
    lists[replica].waiting_count += 1


def admit_first(replica: int, jobs: Jobs, lists: Lists, seats: Seats) -> int:
    """Takes the first of the queue into the running, behind all others."""
    request = lists[replica].first_waiting
    lists[replica].first_waiting = jobs[request].behind
    lists[replica].waiting_count -= 1
    seats[replica, lists[replica].running_count].running = request
    lists[replica].running_count += 1
    return request


def take_in_first(
    replica: int,
    count: int,
    tokens: int,
    jobs: Jobs,
    lists: Lists,
    limits: Limits,
    seats: Seats,
    cache: Cache | None,
) -> int:
    """The first who waits, with so many tokens of its prompt, into the step.

    Gives the number of sequences in the step: as before where the pool has no room for it.
    """
    request = lists[replica].first_waiting
    if not reserve_first(replica, tokens, jobs, lists, limits, cache):
        return count
    admit_first(replica, jobs, lists, seats)
    return join(replica, count, request, tokens, jobs, limits, seats, cache)


def throw_out_last(
    replica: int, jobs: Jobs, lists: Lists, limits: Limits, seats: Seats, cache: Cache | None
) -> int:
    """Puts the last of the running at the head of the queue, its cache lost, or swapped out."""
    lists[replica].running_count -= 1
    request = seats[replica, lists[replica].running_count].running
    lost = jobs[request].cached_tokens
    if cache is not None:
        publish_own(replica, request, lost, limits, cache)
        swap_out(replica, request, blocks_for(lost, limits), lost, cache)
        lost -= cache.owners[request].swapped
    lists[replica].recomputed_tokens += lost
    lists[replica].preemptions += 1
    jobs[request].preemptions += 1
    jobs[request].cached_tokens = 0
    free_blocks(replica, request, jobs, lists, cache)
    jobs[request].behind = lists[replica].first_waiting
    if lists[replica].waiting_count == 0:
        jobs[request].behind = -1
        lists[replica].last_waiting = request
    lists[replica].first_waiting = request
    lists[replica].waiting_count += 1
    return request


def join(
    replica: int,
    count: int,
    request: int,
    tokens: int,
    jobs: Jobs,
    limits: Limits,
    seats: Seats,
    cache: Cache | None,
) -> int:
    """Writes one sequence into the step; gives the number of sequences in it now.

    What it computes others can find from now on: they read it later in the same pass.
    """
    if cache is not None:
        publish(replica, request, jobs[request].cached_tokens + tokens, limits, cache)
    seats[replica, count].request = request
    seats[replica, count].tokens = tokens
    return count + 1
