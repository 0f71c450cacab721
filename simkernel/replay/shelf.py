"""Blocks that can be found by what is in them, and a queue in which the oldest is taken first.

One row is the memory of a device's copy, or a tier below it. Plain Python in the subset of numba.
"""

from __future__ import annotations

from simkernel.replay.state import Shelf


def seek(row: int, key: int, shelf: Shelf) -> int:
    """The oldest block with a key, 0 where there is none."""
    block = shelf.buckets[row, key & (shelf.buckets.shape[1] - 1)]
    while block > 0 and shelf.blocks[row, block].key != key:
        block = shelf.blocks[row, block].next
    return block


def write_down(row: int, block: int, key: int, shelf: Shelf) -> None:
    """A block can be found by its key; behind those that have the same."""
    blocks = shelf.blocks
    oldest = seek(row, key, shelf)
    blocks[row, block].key = key
    if oldest == 0:
        bucket = key & (shelf.buckets.shape[1] - 1)
        blocks[row, block].next = shelf.buckets[row, bucket]
        blocks[row, block].younger = blocks[row, block].older = block
        shelf.buckets[row, bucket] = block
        return
    youngest = blocks[row, oldest].older
    blocks[row, block].older, blocks[row, block].younger = youngest, oldest
    blocks[row, youngest].younger = blocks[row, oldest].older = block


def forget(row: int, block: int, shelf: Shelf) -> None:
    """A block cannot be found any more; the next oldest of its key stands in its place."""
    blocks, key = shelf.blocks, shelf.blocks[row, block].key
    bucket = key & (shelf.buckets.shape[1] - 1)
    heir, older = blocks[row, block].younger, blocks[row, block].older
    is_oldest = seek(row, key, shelf) == block
    blocks[row, block].key = 0
    blocks[row, older].younger, blocks[row, heir].older = heir, older
    if not is_oldest:
        return
    following = blocks[row, block].next
    if heir != block:
        blocks[row, heir].next = following
        following = heir
    before = shelf.buckets[row, bucket]
    if before == block:
        shelf.buckets[row, bucket] = following
        return
    while blocks[row, before].next != block:
        before = blocks[row, before].next
    blocks[row, before].next = following


def take_first(row: int, shelf: Shelf) -> tuple[int, int]:
    """The first block of the queue, emptied, and the key of what was in it, 0 if nothing was.

    The caller has seen that there is one.
    """
    queue = shelf.queues[row]
    if queue.used < queue.blocks:
        shelf.queues[row].used += 1
        return shelf.queues[row].used, 0
    block = queue.first
    leave_queue(row, block, shelf)
    key = shelf.blocks[row, block].key
    if key > 0:
        forget(row, block, shelf)
    return block, key


def join_queue(row: int, block: int, shelf: Shelf) -> None:
    """To the end of the queue."""
    last = shelf.queues[row].last
    shelf.blocks[row, block].before, shelf.blocks[row, block].after = last, 0
    if last > 0:
        shelf.blocks[row, last].after = block
    else:
        shelf.queues[row].first = block
    shelf.queues[row].last = block


def leave_queue(row: int, block: int, shelf: Shelf) -> None:
    """Out of the queue, wherever it stands."""
    before, after = shelf.blocks[row, block].before, shelf.blocks[row, block].after
    if before > 0:
        shelf.blocks[row, before].after = after
    else:
        shelf.queues[row].first = after
    if after > 0:
        shelf.blocks[row, after].before = before
    else:
        shelf.queues[row].last = before
