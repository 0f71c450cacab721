"""Moves every policy is made of: see what the first who waits needs, take blocks, make way."""

from __future__ import annotations

from simkernel.batching._queue import admit_first, throw_out_last
from simkernel.replay.blocks import (
    free_among_found,
    hold_found,
    hold_new,
    look_below,
    look_up,
    publish,
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
from simkernel.replay.tiers import swap_in


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
        lists[replica].due_tokens -= held
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


def make_way(
    replica: int, jobs: Jobs, lists: Lists, limits: Limits, seats: Seats, cache: Cache | None
) -> None:
    """Who is less urgent than the first who waits leaves, until that one has a seat and blocks."""
    for _ in range(lists[replica].running_count):
        first = lists[replica].first_waiting
        last = seats[replica, lists[replica].running_count - 1].running
        if jobs[last].rank <= jobs[first].rank:
            return
        due = min(first_due(replica, jobs, lists, limits, cache), limits.token_budget)
        needed = first_needs(replica, due, lists, limits, cache)
        has_seat = lists[replica].running_count < limits.max_batch
        if has_seat and needed <= lists[replica].free_blocks:
            return
        throw_out_last(replica, jobs, lists, limits, seats, cache)
