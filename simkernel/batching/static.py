"""Static batching: a batch is filled, runs until its last sequence ends, then the next is filled.

Each request takes the blocks of its whole length at admission, so nobody is ever thrown out.
Those who end early leave the batch and free their blocks, but their places stay empty.

References
----------
Yu et al., Orca (OSDI 2022), section 3, the request-level scheduling it improves on.
"""

from __future__ import annotations

from simkernel.batching._house import (
    first_due,
    join,
    refusal_code,
    reserve_first,
    tokens_wanted,
)
from simkernel.batching._queue import admit_first
from simkernel.replay.state import Cache, Jobs, Limits, Lists, Seats


def refusal(prompt_tokens: int, output_tokens: int, limits: Limits) -> int:
    """Refuses a prompt that one step cannot compute whole, and what the pool cannot hold."""
    whole = limits.max_context_tokens if prompt_tokens <= limits.token_budget else 0
    return refusal_code(prompt_tokens, output_tokens, limits, limits.pool_blocks, whole)


def form(
    replica: int, jobs: Jobs, lists: Lists, limits: Limits, seats: Seats, cache: Cache | None
) -> int:
    """All who run; a new batch, of prompts within the budget, only when nobody does."""
    count = 0
    if lists[replica].running_count > 0:
        while count < lists[replica].running_count:
            request = seats[replica, count].running
            tokens = tokens_wanted(request, jobs, limits)
            count = join(replica, count, request, tokens, jobs, limits, seats, cache)
        return count
    budget = limits.token_budget
    while count < limits.max_batch and lists[replica].waiting_count > 0:
        request = lists[replica].first_waiting
        tokens = first_due(replica, jobs, lists, limits, cache)
        later = jobs[request].output_tokens - jobs[request].made_tokens - 1
        if tokens > budget and count > 0:
            break  # alone one may pass it: tokens it had made elsewhere are computed again
        if not reserve_first(replica, tokens + later, jobs, lists, limits, cache):
            break
        admit_first(replica, jobs, lists, seats)
        count = join(replica, count, request, tokens, jobs, limits, seats, cache)
        budget -= tokens
    return count
