"""Prefix caching and the scheduler of vLLM V1 in plain Python: dicts, deques, objects.

Written apart from the replay and from the published description alone; it shares no code with it
and looks at tokens instead of numbers of chains: a block is known by all tokens up to its end.
"""

from collections import OrderedDict, deque
from dataclasses import dataclass, field

BEGINNINGS = {}
"""A number for every beginning as the trace hashes it, so that each is hashed once."""


@dataclass(eq=False)
class Block:
    """One block: who holds it, and the tokens it ends with all those before."""

    holders: int = 0
    name: object = None


class BlockPool:
    """Blocks in one queue, the free that were used longest ago first."""

    def __init__(self, count):
        self.free = OrderedDict((block, None) for block in (Block() for _ in range(count)))
        self.known = {}

    def get(self, count):
        """So many blocks from the head of the queue, what they held forgotten."""
        taken = []
        for _ in range(count):
            block, _ = self.free.popitem(last=False)
            if block.name is not None:
                same = self.known[block.name]
                same.remove(block)
                if not same:
                    del self.known[block.name]
                block.name = None
            block.holders = 1
            taken.append(block)
        return taken

    def touch(self, block):
        """One more holds it."""
        if block.holders == 0:
            del self.free[block]
        block.holders += 1

    def put_back(self, blocks):
        """In this order to the tail, those that nobody holds any more."""
        for block in blocks:
            block.holders -= 1
            if block.holders == 0:
                self.free[block] = None


@dataclass
class Asked:
    """One request and how far it is."""

    number: int
    arrival_s: float
    prompt: int
    output: int
    hashes: tuple
    computed: int = 0
    made: int = 0
    hits: int = -1
    preemptions: int = 0
    first_token_s: float = 0.0
    finish_s: float = 0.0
    blocks: list = field(default_factory=list)
    named: int = 0
    beginnings: list = field(default_factory=list)

    def block_name(self, place, size, hash_tokens):
        """All before the end of a block: hashes of the trace, or that it is his alone."""
        last = (place * size) // hash_tokens
        if (place + 1) * size <= self.prompt and last < len(self.hashes):
            while len(self.beginnings) <= last:
                beginning = self.hashes[: len(self.beginnings) + 1]
                self.beginnings.append(BEGINNINGS.setdefault(beginning, len(BEGINNINGS)))
            return (self.beginnings[last], place)
        return ("own", self.number, place)


def serve(requests, pool_blocks, size, hash_tokens, budget, places, step_s):
    """Serves all of them on one replica; every pass takes `step_s` of what is in it.

    Parameters
    ----------
    requests : in order of arrival
    step_s : from (tokens, sampled, decodes, their context, prompts, their caches before, squares)
    """
    pool = BlockPool(pool_blocks)
    coming, waiting, running = deque(requests), deque(), []
    now_s, hits = 0.0, 0

    def need(one, tokens):
        return -(-(one.computed + tokens) // size) - len(one.blocks)

    def name_blocks(one, tokens):
        known = min(one.computed + tokens, one.prompt + one.made)
        for place in range(one.named, known // size):
            block = one.blocks[place]
            if block.name is None:
                block.name = one.block_name(place, size, hash_tokens)
                pool.known.setdefault(block.name, []).append(block)
        one.named = max(one.named, known // size)

    while coming or waiting or running:
        if not waiting and not running:
            now_s = max(now_s, coming[0].arrival_s)
        while coming and coming[0].arrival_s <= now_s:
            waiting.append(coming.popleft())
        left, batch, was_thrown = budget, [], False
        place = 0
        while place < len(running) and left > 0:
            one = running[place]
            tokens = min(one.prompt + one.made - one.computed, left)
            while need(one, tokens) > len(pool.free):
                was_thrown = True
                last = running.pop()
                pool.put_back(reversed(last.blocks))
                last.blocks, last.computed, last.named = [], 0, 0
                last.preemptions += 1
                waiting.appendleft(last)
                if last is one:
                    break
            if one.computed == 0:
                break
            one.blocks += pool.get(max(need(one, tokens), 0))
            name_blocks(one, tokens)
            batch.append((one, tokens))
            left -= tokens
            place += 1
        while waiting and left > 0 and len(running) < places and not was_thrown:
            one = waiting[0]
            found = []
            while len(found) < (one.prompt + one.made - 1) // size:
                same = pool.known.get(one.block_name(len(found), size, hash_tokens))
                if not same:
                    break
                found.append(same[0])
            cached = len(found) * size
            tokens = min(one.prompt + one.made - cached, left)
            new = -(-(cached + tokens) // size) - len(found)
            if new > len(pool.free) - sum(block.holders == 0 for block in found):
                break
            waiting.popleft()
            for block in found:
                pool.touch(block)
            one.blocks = found + pool.get(new)
            one.computed, one.named = cached, len(found)
            hits += cached
            if one.hits < 0:
                one.hits = cached
            name_blocks(one, tokens)
            running.append(one)
            batch.append((one, tokens))
            left -= tokens
        now_s += step_s(*_load(batch))
        for one, tokens in batch:
            one.computed += tokens
            if one.computed == one.prompt + one.made:
                one.made += 1
                one.first_token_s = one.first_token_s or now_s
                if one.made == one.output:
                    one.finish_s = now_s
                    pool.put_back(reversed(one.blocks))
        running = [one for one in running if one.made < one.output]
    assert len(pool.free) == pool_blocks
    return hits


def _load(batch):
    """What a step's time is made of."""
    due = [one.prompt + one.made - one.computed for one, _ in batch]
    is_decode = [d == 1 and one.made > 0 for d, (one, _) in zip(due, batch, strict=True)]
    prompts = [pair for pair, is_one in zip(batch, is_decode, strict=True) if not is_one]
    return (
        sum(tokens for _, tokens in batch),
        sum(tokens >= d for d, (_, tokens) in zip(due, batch, strict=True)),
        sum(is_decode),
        sum(one.computed + 1 for (one, _), d in zip(batch, is_decode, strict=True) if d),
        len(prompts),
        sum(one.computed for one, _ in prompts),
        sum(tokens**2 for _, tokens in prompts),
    )
