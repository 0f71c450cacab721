"""Tiers below the device for keys and values: host, SSD, a pool of memory.

A block that the device gives up for another is written to the first tier, what that gives up to
the next, and so on. What is found in a tier is read back before the prompt is computed, and the
step waits for it; writes go the other way beside. Requests that are thrown out may be swapped to
the host instead of computed again. Plain Python in the subset of numba.

References
----------
Kwon et al., PagedAttention (SOSP 2023), 4.5: swapping against recomputation; Qin et al., Mooncake
(FAST 2025): tiers of a cache of prompts.
"""

from __future__ import annotations

from simkernel.replay.shelf import join_queue, leave_queue, seek, take_first, write_down
from simkernel.replay.state import Cache


def row_of(tier: int, replica: int, cache: Cache) -> int:
    """The row of a tier that a replica reads: its own, or the one that all share."""
    replicas = len(cache.device.queues)
    return tier * replicas + (0 if cache.tiers[tier].is_shared > 0 else replica)


def tier_with(replica: int, key: int, cache: Cache) -> int:
    """The first tier that has a block, -1 where none does."""
    for tier in range(len(cache.tiers)):
        if seek(row_of(tier, replica, cache), key, cache.lower) > 0:
            return tier
    return -1


def read_back(replica: int, key: int, cache: Cache) -> None:
    """A block comes from the first tier that has it, where it is the latest used now."""
    tier = tier_with(replica, key, cache)
    row = row_of(tier, replica, cache)
    block = seek(row, key, cache.lower)
    leave_queue(row, block, cache.lower)
    join_queue(row, block, cache.lower)
    cache.traffic[tier, replica].read_blocks += 1
    cache.traffic[tier, replica].due_blocks += 1


def write_back(replica: int, key: int, cache: Cache) -> None:
    """A block that the device gives up goes to the first tier; what falls out, to the next."""
    for tier in range(len(cache.tiers)):
        if key == 0 or key >= cache.own_key:
            return
        row = row_of(tier, replica, cache)
        block = seek(row, key, cache.lower)
        if block > 0:
            leave_queue(row, block, cache.lower)
            join_queue(row, block, cache.lower)
            return
        if cache.lower.queues[row].blocks == 0:
            return
        block, fallen = take_first(row, cache.lower)
        write_down(row, block, key, cache.lower)
        join_queue(row, block, cache.lower)
        cache.traffic[tier, replica].written_blocks += 1
        key = fallen


def swap_out(replica: int, request: int, blocks: int, tokens: int, cache: Cache) -> None:
    """Who is thrown out keeps its cache in the host, if there is room for it."""
    if blocks > cache.swaps[replica].free_blocks:
        return
    cache.swaps[replica].free_blocks -= blocks
    cache.swaps[replica].moved_blocks += blocks
    cache.swaps[replica].due_blocks += blocks
    cache.owners[request].swapped = tokens


def swap_in(replica: int, request: int, blocks: int, cache: Cache) -> None:
    """It comes back; its room in the host is free."""
    cache.swaps[replica].free_blocks += blocks
    cache.swaps[replica].moved_blocks += blocks
    cache.swaps[replica].due_blocks += blocks
    cache.owners[request].swapped = 0


def loading_s(replica: int, cache: Cache) -> float:
    """What the step that is formed waits for blocks from below and to the host and back [s]."""
    waits_s = cache.swaps[replica].due_blocks * cache.swap_block_s
    cache.swaps[replica].due_blocks = 0
    for tier in range(len(cache.tiers)):
        due = cache.traffic[tier, replica].due_blocks
        if due > 0:
            waits_s += cache.tiers[tier].latency_s + due * cache.tiers[tier].block_s
            cache.traffic[tier, replica].due_blocks = 0
    cache.device.queues[replica].loading_s += waits_s
    return waits_s
