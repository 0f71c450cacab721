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

from simkernel.replay.state import Cache, Limits, Lists


def look_up(replica: int, request: int, known_tokens: int, limits: Limits, cache: Cache) -> int:
    """Blocks of a request's beginning that a replica has.

    Parameters
    ----------
    known_tokens : of prompt and answer so far; the last is always computed, to go on from it
    """
    most, found = (known_tokens - 1) // limits.block_tokens, 0
    while found < most and seek(replica, key_of(request, found, cache), cache) > 0:
        found += 1
    return found


def free_among_found(replica: int, request: int, cache: Cache) -> int:
    """Of the blocks found, those that nobody holds: taking them makes the pool smaller."""
    free = 0
    for place in range(cache.owners[request].found):
        block = seek(replica, key_of(request, place, cache), cache)
        free += cache.blocks[replica, block].holders == 0
    return free


def hold_found(replica: int, request: int, lists: Lists, limits: Limits, cache: Cache) -> int:
    """A request holds the blocks found of its beginning; the tokens in them."""
    owner = cache.owners[request]
    for place in range(owner.found):
        block = seek(replica, key_of(request, place, cache), cache)
        if cache.blocks[replica, block].holders == 0:
            leave_queue(replica, block, cache)
            lists[replica].free_blocks -= 1
        cache.blocks[replica, block].holders += 1
        cache.table[owner.place + place] = block
    tokens = owner.found * limits.block_tokens
    cache.owners[request].published = owner.found
    cache.queues[replica].hit_tokens += tokens
    return tokens


def hold_new(replica: int, request: int, held: int, more: int, cache: Cache) -> None:
    """A request that holds some blocks takes more from the queue; what was in them is lost."""
    place = cache.owners[request].place + held
    for i in range(more):
        block = take_first(replica, cache)
        cache.blocks[replica, block].holders = 1
        cache.table[place + i] = block


def let_go(replica: int, request: int, held: int, cache: Cache) -> int:
    """A request gives all its blocks back, the last first; how many now nobody holds."""
    place, freed = cache.owners[request].place, 0
    for i in range(held):
        block = cache.table[place + held - 1 - i]
        cache.blocks[replica, block].holders -= 1
        if cache.blocks[replica, block].holders == 0:
            join_queue(replica, block, cache)
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
    _publish_until(replica, request, tokens // limits.block_tokens, cache)


def _publish_until(replica: int, request: int, full: int, cache: Cache) -> None:
    owner = cache.owners[request]
    for place in range(owner.published, full):
        block = cache.table[owner.place + place]
        if cache.blocks[replica, block].key == 0:
            write_down(replica, block, key_of(request, place, cache), cache)
    if full > owner.published:
        cache.owners[request].published = full


def key_of(request: int, place: int, cache: Cache) -> int:
    """What is known of a block: its chain where the trace has it, else that it is his."""
    owner = cache.owners[request]
    if place < owner.hashed:
        code = cache.chains[owner.hash + place // cache.span]
        return 1 + code * cache.span + place % cache.span
    return cache.own_key + owner.place + place


def seek(replica: int, key: int, cache: Cache) -> int:
    """The oldest block with a key, 0 where there is none."""
    block = cache.buckets[replica, key & (cache.buckets.shape[1] - 1)]
    while block > 0 and cache.blocks[replica, block].key != key:
        block = cache.blocks[replica, block].next
    return block


def write_down(replica: int, block: int, key: int, cache: Cache) -> None:
    """A block can be found by its key; behind those that have the same."""
    blocks = cache.blocks
    oldest = seek(replica, key, cache)
    blocks[replica, block].key = key
    if oldest == 0:
        bucket = key & (cache.buckets.shape[1] - 1)
        blocks[replica, block].next = cache.buckets[replica, bucket]
        blocks[replica, block].younger = blocks[replica, block].older = block
        cache.buckets[replica, bucket] = block
        return
    youngest = blocks[replica, oldest].older
    blocks[replica, block].older, blocks[replica, block].younger = youngest, oldest
    blocks[replica, youngest].younger = blocks[replica, oldest].older = block


def forget(replica: int, block: int, cache: Cache) -> None:
    """A block cannot be found any more; the next oldest of its key stands in its place."""
    blocks, key = cache.blocks, cache.blocks[replica, block].key
    bucket = key & (cache.buckets.shape[1] - 1)
    heir = blocks[replica, block].younger
    is_oldest = seek(replica, key, cache) == block
    blocks[replica, block].key = 0
    older = blocks[replica, block].older
    blocks[replica, older].younger, blocks[replica, heir].older = heir, older
    if not is_oldest:
        return
    following = blocks[replica, block].next
    if heir != block:
        blocks[replica, heir].next = following
        following = heir
    before = cache.buckets[replica, bucket]
    if before == block:
        cache.buckets[replica, bucket] = following
        return
    while blocks[replica, before].next != block:
        before = blocks[replica, before].next
    blocks[replica, before].next = following


def take_first(replica: int, cache: Cache) -> int:
    """The first block of the queue, emptied; the caller has seen that there is one."""
    queue = cache.queues[replica]
    if queue.used + 1 < cache.blocks.shape[1]:
        cache.queues[replica].used += 1
        return cache.queues[replica].used
    block = queue.first
    leave_queue(replica, block, cache)
    if cache.blocks[replica, block].key > 0:
        forget(replica, block, cache)
    return block


def join_queue(replica: int, block: int, cache: Cache) -> None:
    """To the end of the queue."""
    last = cache.queues[replica].last
    cache.blocks[replica, block].before, cache.blocks[replica, block].after = last, 0
    if last > 0:
        cache.blocks[replica, last].after = block
    else:
        cache.queues[replica].first = block
    cache.queues[replica].last = block


def leave_queue(replica: int, block: int, cache: Cache) -> None:
    """Out of the queue, wherever it stands."""
    before, after = cache.blocks[replica, block].before, cache.blocks[replica, block].after
    if before > 0:
        cache.blocks[replica, before].after = after
    else:
        cache.queues[replica].first = after
    if after > 0:
        cache.blocks[replica, after].before = before
    else:
        cache.queues[replica].last = before
