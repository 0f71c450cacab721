"""Continuous batching as vLLM V1 does it with chunked prefill off: a prompt is computed whole."""

from __future__ import annotations

from simkernel.batching._house import refusal_code
from simkernel.batching._one_budget import form_one_budget
from simkernel.replay.state import Cache, Jobs, Limits, Lists, Seats


def refusal(prompt_tokens: int, output_tokens: int, limits: Limits) -> int:
    """Refuses what one step cannot compute whole: a request thrown out late would never return.

    vLLM asks for the same: without chunked prefill, a budget of at least the longest context.
    """
    room, budget = limits.pool_blocks, limits.token_budget
    return refusal_code(prompt_tokens, output_tokens, limits, room, budget)


def form(
    replica: int, jobs: Jobs, lists: Lists, limits: Limits, seats: Seats, cache: Cache | None
) -> int:
    """Running first, then whole prompts while the budget lasts."""
    return form_one_budget(replica, False, jobs, lists, limits, seats, cache)
