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
    admit_first,
    blocks_for,
    join,
    refusal_code,
    take_blocks,
    throw_out_last,
    tokens_due,
    tokens_wanted,
)
from simkernel.replay.state import Jobs, Limits, Lists, Seats


def refusal(prompt_tokens: int, output_tokens: int, limits: Limits) -> int:
    """Refuses what the pool above the watermark cannot hold: once thrown out, it never returns.

    A decode asks for one free block beyond its own, so a request alone must leave one.
    """
    room = limits.pool_blocks - max(limits.watermark_blocks, 1)
    most = limits.max_context_tokens
    return refusal_code(prompt_tokens, output_tokens, limits, room, most)


def form(replica: int, jobs: Jobs, lists: Lists, limits: Limits, seats: Seats) -> int:
    """Decodes first, then prompts under way, then new ones, each in order of arrival."""
    count, decoded = _decodes(replica, jobs, lists, limits, seats)
    budget = limits.token_budget - decoded
    count, budget = _prompts(replica, count, budget, jobs, lists, limits, seats)
    return _admissions(replica, count, budget, jobs, lists, limits, seats)


def _decodes(
    replica: int, jobs: Jobs, lists: Lists, limits: Limits, seats: Seats
) -> tuple[int, int]:
    count, place, decoded = 0, 0, 0
    while place < lists[replica].running_count:
        request = seats[replica, place].running
        place += 1
        if _has_prompt_left(request, jobs):
            continue
        if not _has_free_block(replica, request, jobs, lists, seats):
            break
        tokens = tokens_wanted(request, jobs, limits)
        cached = jobs[request].cached_tokens
        if not take_blocks(replica, request, cached + tokens, jobs, lists, limits):
            tokens = 1  # drafts wait where the one free block does not hold them
            take_blocks(replica, request, cached + 1, jobs, lists, limits)
        count = join(replica, count, request, tokens, seats)
        decoded += tokens
    return count, decoded


def _has_prompt_left(request: int, jobs: Jobs) -> bool:
    return jobs[request].made_tokens == 0 or tokens_due(request, jobs) > 1


def _has_free_block(replica: int, request: int, jobs: Jobs, lists: Lists, seats: Seats) -> bool:
    """One block free, the last ones thrown out if need be; False if it was the last itself."""
    while lists[replica].free_blocks < 1:
        if throw_out_last(replica, jobs, lists, seats) == request:
            return False
    return True


def _prompts(
    replica: int, count: int, budget: int, jobs: Jobs, lists: Lists, limits: Limits, seats: Seats
) -> tuple[int, int]:
    place = 0
    while place < lists[replica].running_count and budget > 0:
        request = seats[replica, place].running
        place += 1
        if _has_prompt_left(request, jobs):
            tokens = min(tokens_due(request, jobs), budget)
            count = join(replica, count, request, tokens, seats)
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
) -> int:
    while lists[replica].waiting_count > 0 and budget > 0:
        request = lists[replica].first_waiting
        due = tokens_due(request, jobs)
        left = lists[replica].free_blocks - blocks_for(due, limits)
        if lists[replica].running_count >= limits.max_batch or left < limits.watermark_blocks:
            break
        take_blocks(replica, request, due, jobs, lists, limits)
        admit_first(replica, jobs, lists, seats)
        count = join(replica, count, request, min(due, budget), seats)
        budget -= min(due, budget)
    return count
