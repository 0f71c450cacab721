"""The step of vLLM's V1 scheduler: one token budget for whoever has tokens to compute.

Those who run go first, in order; who finds no free block throws the last one out, and then nobody
is admitted in that step. Otherwise the queue is admitted in order until the budget, the places or
the blocks end, and the first who does not fit holds up the rest.

References
----------
vllm-project/vllm, vllm/v1/core/sched/scheduler.py, `schedule`, commit 00024d31.
"""

from __future__ import annotations

from simkernel.batching._house import (
    first_due,
    join,
    take_blocks,
    take_in_first,
    tokens_wanted,
)
from simkernel.batching._queue import throw_out_last
from simkernel.replay.state import Cache, Jobs, Limits, Lists, Seats


def form_one_budget(
    replica: int,
    is_split: bool,
    jobs: Jobs,
    lists: Lists,
    limits: Limits,
    seats: Seats,
    cache: Cache | None,
) -> int:
    """The batch of the next step; prompts are split to the budget where `is_split`."""
    thrown_before = lists[replica].preemptions
    count, budget = go_on(replica, jobs, lists, limits, seats, cache)
    if lists[replica].preemptions > thrown_before:
        return count
    return _admit(replica, is_split, count, budget, jobs, lists, limits, seats, cache)


def go_on(
    replica: int, jobs: Jobs, lists: Lists, limits: Limits, seats: Seats, cache: Cache | None
) -> tuple[int, int]:
    """Those who run, in order; the sequences in the step and the budget that is left."""
    count, budget = 0, limits.token_budget
    while count < lists[replica].running_count and budget > 0:
        request = seats[replica, count].running
        tokens = min(tokens_wanted(request, jobs, limits), budget)
        if not _make_room(replica, request, tokens, jobs, lists, limits, seats, cache):
            break
        count = join(replica, count, request, tokens, jobs, limits, seats, cache)
        budget -= tokens
    return count, budget


def _make_room(
    replica: int,
    request: int,
    tokens: int,
    jobs: Jobs,
    lists: Lists,
    limits: Limits,
    seats: Seats,
    cache: Cache | None,
) -> bool:
    """Blocks for one who runs, from the last ones if need be; False if it was the last itself."""
    cached = jobs[request].cached_tokens + tokens
    while not take_blocks(replica, request, cached, jobs, lists, limits, cache):
        if throw_out_last(replica, jobs, lists, limits, seats, cache) == request:
            return False
    return True


def _admit(
    replica: int,
    is_split: bool,
    count: int,
    budget: int,
    jobs: Jobs,
    lists: Lists,
    limits: Limits,
    seats: Seats,
    cache: Cache | None,
) -> int:
    """The queue in order, as far as budget, places and blocks go."""
    while budget > 0 and lists[replica].waiting_count > 0:
        if lists[replica].running_count >= limits.max_batch:
            break
        due = first_due(replica, jobs, lists, limits, cache)
        if due > budget and not is_split:
            break
        tokens = min(due, budget)
        taken = take_in_first(replica, count, tokens, jobs, lists, limits, seats, cache)
        if taken == count:
            break
        count = taken
        budget -= tokens
    return count
