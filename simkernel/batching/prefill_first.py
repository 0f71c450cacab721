"""Prompts before everything: while any can be taken in, a step holds prompts alone.

As SGLang does without mixed chunks: decoding stops while prompts run, and goes on when none is
left or none fits. A prompt longer than the budget is cut and goes on before new ones come in.

References
----------
sgl-project/sglang, python/sglang/srt/managers/scheduler.py, `get_next_batch_to_run` and
`get_new_batch_prefill`; server argument enable_mixed_chunk, off by default.
"""

from __future__ import annotations

from simkernel.batching._house import (
    first_due,
    first_needs,
    join,
    refusal_code,
    take_blocks,
    take_in_first,
    tokens_due,
)
from simkernel.batching._one_budget import go_on
from simkernel.replay.state import Cache, Jobs, Limits, Lists, Seats


def refusal(prompt_tokens: int, output_tokens: int, limits: Limits) -> int:
    """Refuses what the whole pool cannot hold."""
    most = limits.max_context_tokens
    return refusal_code(prompt_tokens, output_tokens, limits, limits.pool_blocks, most)


def form(
    replica: int, jobs: Jobs, lists: Lists, limits: Limits, seats: Seats, cache: Cache | None
) -> int:
    """Prompts under way, then new ones, as far as budget, places and blocks go; else decodes."""
    count, budget = _under_way(replica, jobs, lists, limits, seats, cache)
    count = _admit(replica, count, budget, jobs, lists, limits, seats, cache)
    if count > 0:
        return count
    return go_on(replica, jobs, lists, limits, seats, cache)[0]


def _under_way(
    replica: int, jobs: Jobs, lists: Lists, limits: Limits, seats: Seats, cache: Cache | None
) -> tuple[int, int]:
    """Cut prompts go on, if they find blocks; the sequences in the step, the budget left."""
    count, budget = 0, limits.token_budget
    for place in range(lists[replica].running_count):
        request = seats[replica, place].running
        due = tokens_due(request, jobs)
        is_prompt = jobs[request].made_tokens == 0 or due > 1
        if not is_prompt or budget <= 0:
            continue
        tokens = min(due, budget)
        cached = jobs[request].cached_tokens + tokens
        if take_blocks(replica, request, cached, jobs, lists, limits, cache):
            count = join(replica, count, request, tokens, jobs, limits, seats, cache)
            budget -= tokens
    return count, budget


def _admit(
    replica: int,
    count: int,
    budget: int,
    jobs: Jobs,
    lists: Lists,
    limits: Limits,
    seats: Seats,
    cache: Cache | None,
) -> int:
    """New prompts in order, if they fit whole; each who runs keeps a free block to grow into."""
    while budget > 0 and lists[replica].waiting_count > 0:
        running = lists[replica].running_count
        due = first_due(replica, jobs, lists, limits, cache)
        left = lists[replica].free_blocks - first_needs(replica, due, lists, limits, cache)
        if running >= limits.max_batch or (running > 0 and left < running):
            break
        tokens = min(due, budget)
        taken = take_in_first(replica, count, tokens, jobs, lists, limits, seats, cache)
        if taken == count:
            break
        count = taken
        budget -= tokens
    return count
