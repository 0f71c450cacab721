"""Sarathi's stall-free batching as Vidur simulates it: decodes, prompts under way, new prompts.

A prompt takes the blocks of its whole length at admission, which must leave a watermark of the
pool free; a decode goes on only while a block is free, needed or not. Prompts are split to what
the decodes leave of the token budget.

References
----------
Agrawal et al., Sarathi-Serve (OSDI 2024), algorithm 3; microsoft/vidur commit 01f216f,
vidur/scheduler/replica_scheduler/sarathi_replica_scheduler.py (one pipeline stage).
"""

from __future__ import annotations

from simkernel.batching._house import (
    first_due,
    first_needs,
    join,
    refusal_code,
    reserve_first,
    take_blocks,
    tokens_due,
    tokens_wanted,
)
from simkernel.batching._queue import admit_first, throw_out_last
from simkernel.replay.state import Cache, Jobs, Limits, Lists, Seats


def refusal(prompt_tokens: int, output_tokens: int, limits: Limits) -> int:
    """Refuses what the pool above the watermark cannot hold: once thrown out, it never returns.

    A decode asks for one free block beyond its own, so a request alone must leave one.
    """
    room = limits.pool_blocks - max(limits.watermark_blocks, 1)
    most = limits.max_context_tokens
    return refusal_code(prompt_tokens, output_tokens, limits, room, most)


def form(
    replica: int, jobs: Jobs, lists: Lists, limits: Limits, seats: Seats, cache: Cache | None
) -> int:
    """Decodes first, then prompts under way, then new ones, each in order of arrival."""
    count, decoded = _decodes(replica, jobs, lists, limits, seats, cache)
    budget = limits.token_budget - decoded
    count, budget = _prompts(replica, count, budget, jobs, lists, limits, seats, cache)
    return _admissions(replica, count, budget, jobs, lists, limits, seats, cache)


def _decodes(
    replica: int, jobs: Jobs, lists: Lists, limits: Limits, seats: Seats, cache: Cache | None
) -> tuple[int, int]:
    count, place, decoded = 0, 0, 0
    while place < lists[replica].running_count:
        request = seats[replica, place].running
        place += 1
        if _has_prompt_left(request, jobs):
            continue
        if not _has_free_block(replica, request, jobs, lists, limits, seats, cache):
            break
        tokens = tokens_wanted(request, jobs, limits)
        cached = jobs[request].cached_tokens
        if not take_blocks(replica, request, cached + tokens, jobs, lists, limits, cache):
            tokens = 1  # drafts wait where the one free block does not hold them
            take_blocks(replica, request, cached + 1, jobs, lists, limits, cache)
        count = join(replica, count, request, tokens, jobs, limits, seats, cache)
        decoded += tokens
    return count, decoded


def _has_prompt_left(request: int, jobs: Jobs) -> bool:
    return jobs[request].made_tokens == 0 or tokens_due(request, jobs) > 1


def _has_free_block(
    replica: int,
    request: int,
    jobs: Jobs,
    lists: Lists,
    limits: Limits,
    seats: Seats,
    cache: Cache | None,
) -> bool:
    """One block free, the last ones thrown out if need be; False if it was the last itself."""
    while lists[replica].free_blocks < 1:
        if throw_out_last(replica, jobs, lists, limits, seats, cache) == request:
            return False
    return True


def _prompts(
    replica: int,
    count: int,
    budget: int,
    jobs: Jobs,
    lists: Lists,
    limits: Limits,
    seats: Seats,
    cache: Cache | None,
) -> tuple[int, int]:
    place = 0
    while place < lists[replica].running_count and budget > 0:
        request = seats[replica, place].running
        place += 1
        if _has_prompt_left(request, jobs):
            tokens = min(tokens_due(request, jobs), budget)
            count = join(replica, count, request, tokens, jobs, limits, seats, cache)
            budget -= tokens
    return count, budget


def _admissions(
    replica: int,
    count: int,
    budget: int,
    jobs: Jobs,
    lists: Lists,
    limits: Limits,
    seats: Seats,
    cache: Cache | None,
) -> int:
    while lists[replica].waiting_count > 0 and budget > 0:
        request = lists[replica].first_waiting
        due = first_due(replica, jobs, lists, limits, cache)
        left = lists[replica].free_blocks - first_needs(replica, due, lists, limits, cache)
        if lists[replica].running_count >= limits.max_batch or left < limits.watermark_blocks:
            break
        reserve_first(replica, due, jobs, lists, limits, cache)
        admit_first(replica, jobs, lists, seats)
        tokens = min(due, budget)
        count = join(replica, count, request, tokens, jobs, limits, seats, cache)
        budget -= tokens
    return count
