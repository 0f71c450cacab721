"""Continuous batching as vLLM V1 does it by default: prompts are split to fill the budget."""

from __future__ import annotations

from simkernel.batching._house import refusal_code
from simkernel.batching._one_budget import form_one_budget
from simkernel.replay.state import Cache, Jobs, Limits, Lists, Seats


def refusal(prompt_tokens: int, output_tokens: int, limits: Limits) -> int:
    """Refuses what the whole pool cannot hold."""
    most = limits.max_context_tokens
    return refusal_code(prompt_tokens, output_tokens, limits, limits.pool_blocks, most)


def form(
    replica: int, jobs: Jobs, lists: Lists, limits: Limits, seats: Seats, cache: Cache | None
) -> int:
    """Running first, then prompts or what the budget leaves of them."""
    return form_one_budget(replica, True, jobs, lists, limits, seats, cache)
