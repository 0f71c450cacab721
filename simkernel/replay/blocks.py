"""The paged cache block by block: whose beginnings are in it, who holds them, what goes first.

As vLLM V1 keeps it. Only full blocks are hashed, each with all before it; prompts that begin alike
hold the same blocks, counted by their holders. A block that nobody holds waits in one queue, keeps
what it has until it is taken for something else, and the one that waits longest is taken first;
of a request that leaves, the last block goes into the queue first. Plain Python in the subset of
numba. What a block costs to compute is not known here.

References
----------
vllm-project/vllm, vllm/v1/core/block_pool.py and kv_cache_manager.py; docs/design/prefix_caching.
"""

from __future__ import annotations

from simkernel.replay.shelf import join_queue, leave_queue, seek, take_first, write_down
from simkernel.replay.state import Cache, Limits, Lists
from simkernel.replay.tiers import read_back, tier_with, write_back


def look_up(replica: int, request: int, known_tokens: int, limits: Limits, cache: Cache) -> int:
    """Blocks of a request's beginning that the device has.

    Parameters
    ----------
    known_tokens : of prompt and answer so far; the last is always computed, to go on from it
    """
    most, found = (known_tokens - 1) // limits.block_tokens, 0
    if cache.is_shared == 0:
        return 0
    while found < most and seek(replica, key_of(request, found, cache), cache.device) > 0:
        found += 1
    return found


def look_below(
    replica: int, request: int, found: int, known_tokens: int, limits: Limits, cache: Cache
) -> int:
    """Blocks that follow those found on the device, in the tiers below."""
    if len(cache.tiers) == 0:
        return 0
    most, place = (known_tokens - 1) // limits.block_tokens, found
    while place < most and tier_with(replica, key_of(request, place, cache), cache) >= 0:
        place += 1
    return place - found


def free_among_found(replica: int, request: int, cache: Cache) -> int:
    """Of the blocks found, those that nobody holds: taking them makes the pool smaller."""
    free = 0
    for place in range(cache.owners[request].found):
        block = seek(replica, key_of(request, place, cache), cache.device)
        free += cache.device.blocks[replica, block].holders == 0
    return free


def hold_found(replica: int, request: int, lists: Lists, limits: Limits, cache: Cache) -> int:
    """A request holds the blocks found of its beginning, those below come up; tokens in them."""
    owner = cache.owners[request]
    for place in range(owner.found):
        block = seek(replica, key_of(request, place, cache), cache.device)
        if cache.device.blocks[replica, block].holders == 0:
            leave_queue(replica, block, cache.device)
            lists[replica].free_blocks -= 1
        cache.device.blocks[replica, block].holders += 1
        cache.table[owner.place + place] = block
    for place in range(owner.found, owner.found + owner.below):
        read_back(replica, key_of(request, place, cache), cache)
    cache.owners[request].published = owner.found
    tokens = (owner.found + owner.below) * limits.block_tokens
    cache.device.queues[replica].hit_tokens += tokens
    cache.device.queues[replica].loaded_tokens += owner.below * limits.block_tokens
    return tokens


def hold_new(replica: int, request: int, held: int, more: int, cache: Cache) -> None:
    """A request that holds some blocks takes more from the queue; what was in them goes below."""
    place = cache.owners[request].place + held
    for i in range(more):
        block, key = take_first(replica, cache.device)
        write_back(replica, key, cache)
        cache.device.blocks[replica, block].holders = 1
        cache.table[place + i] = block


def let_go(replica: int, request: int, held: int, cache: Cache) -> int:
    """A request gives all its blocks back, the last first; how many now nobody holds."""
    place, freed = cache.owners[request].place, 0
    for i in range(held):
        block = cache.table[place + held - 1 - i]
        cache.device.blocks[replica, block].holders -= 1
        if cache.device.blocks[replica, block].holders == 0:
            join_queue(replica, block, cache.device)
            freed += 1
    cache.owners[request].published = 0
    return freed


def publish(replica: int, request: int, tokens: int, limits: Limits, cache: Cache) -> None:
    """Full blocks of a prompt can be found, as far as tokens are computed or under way."""
    full = min(tokens // limits.block_tokens, cache.owners[request].hashed)
    _publish_until(replica, request, full, cache)


def publish_own(replica: int, request: int, tokens: int, limits: Limits, cache: Cache) -> None:
    """The same of all its full blocks: who is thrown out finds what is left of his own.

    Nobody else can, so nothing of this is written before.
    """
    if cache.is_shared > 0:
        _publish_until(replica, request, tokens // limits.block_tokens, cache)


def _publish_until(replica: int, request: int, full: int, cache: Cache) -> None:
    owner = cache.owners[request]
    for place in range(owner.published, full):
        block = cache.table[owner.place + place]
        if cache.device.blocks[replica, block].key == 0:
            write_down(replica, block, key_of(request, place, cache), cache.device)
    if full > owner.published:
        cache.owners[request].published = full


def key_of(request: int, place: int, cache: Cache) -> int:
    """What is known of a block: its chain where the trace has it, else that it is his."""
    owner = cache.owners[request]
    if place < owner.hashed:
        code = cache.chains[owner.hash + place // cache.span]
        return 1 + code * cache.span + place % cache.span
    return cache.own_key + owner.place + place
