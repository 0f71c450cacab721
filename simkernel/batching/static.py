"""Static batching: a batch is filled, runs until its last sequence ends, then the next is filled.

Each request takes the blocks of its whole length at admission, so nobody is ever thrown out.
Those who end early leave the batch and free their blocks, but their places stay empty.

References
----------
Yu et al., Orca (OSDI 2022), section 3, the request-level scheduling it improves on.
"""

from __future__ import annotations

from simkernel.batching._house import (
    admit_first,
    join,
    refusal_code,
    take_blocks,
    tokens_due,
    tokens_wanted,
)
from simkernel.replay.state import Jobs, Limits, Lists, Seats


def refusal(prompt_tokens: int, output_tokens: int, limits: Limits) -> int:
    """Refuses a prompt that one step cannot compute whole, and what the pool cannot hold."""
    whole = limits.max_context_tokens if prompt_tokens <= limits.token_budget else 0
    return refusal_code(prompt_tokens, output_tokens, limits, limits.pool_blocks, whole)


def form(replica: int, jobs: Jobs, lists: Lists, limits: Limits, seats: Seats) -> int:
    """All who run; a new batch, of prompts within the budget, only when nobody does."""
    count = 0
    if lists[replica].running_count > 0:
        while count < lists[replica].running_count:
            request = seats[replica, count].running
            count = join(replica, count, request, tokens_wanted(request, jobs, limits), seats)
        return count
    budget = limits.token_budget
    while count < limits.max_batch and lists[replica].waiting_count > 0:
        request = lists[replica].first_waiting
        tokens = tokens_due(request, jobs)
        whole = jobs[request].prompt_tokens + jobs[request].output_tokens - 1
        if tokens > budget or not take_blocks(replica, request, whole, jobs, lists, limits):
            break
        admit_first(replica, jobs, lists, seats)
        count = join(replica, count, request, tokens, seats)
        budget -= tokens
    return count
