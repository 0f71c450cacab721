"""Tokens of prompts that caches of a size have, request by request: the least recently used go.

What a sweep knows of a prefix cache. Requests follow each other in the order they come, each is
whole in the cache when the next one looks: what is computed at the same time is not told apart.
"""

from __future__ import annotations

from collections import OrderedDict

import numpy as np

from simkernel.columns import Codes
from simkernel.prefix_chains import chain_codes
from simkernel.workload import RequestStream


def hit_tokens(
    stream: RequestStream, capacity_tokens: float, cache_codes: Codes, block_tokens: int
) -> Codes:
    """Tokens of every prompt that its cache has; (n,).

    Parameters
    ----------
    stream : its prompts share what their hashed blocks share; without hashes nothing
    capacity_tokens : of each cache; answers take their room too
    cache_codes : (n,) the cache that each request comes to
    block_tokens : of a block of the engine: only full ones are found, and never the last token

    Notes
    -----
    Never more than an endless cache has, so that what is left to compute is never less than the
    tokens that no prompt before had.

    References
    ----------
    vLLM, docs/design/prefix_caching.
    """
    found = np.zeros(len(stream), dtype=np.int64)
    prefixes = stream.prefixes
    if prefixes is None:
        return found
    chains, starts = chain_codes(prefixes).tolist(), prefixes.starts.tolist()
    prompts, outputs = stream.prompt_tokens.tolist(), stream.output_tokens.tolist()
    shelves: dict[int, _Shelf] = {}
    for row, code in enumerate(cache_codes.tolist()):
        shelf = shelves.setdefault(code, _Shelf(capacity_tokens))
        whole = min(prompts[row] // prefixes.block_tokens, starts[row + 1] - starts[row])
        blocks = chains[starts[row] : starts[row] + whole]
        most = (prompts[row] - 1) // block_tokens * block_tokens
        found[row] = min(shelf.known(blocks) * prefixes.block_tokens, most)
        rest = prompts[row] + outputs[row] - whole * prefixes.block_tokens
        shelf.put(blocks, prefixes.block_tokens, -1 - row, rest)
    return found


class _Shelf:
    """One cache: blocks by chain, the one used longest ago first."""

    def __init__(self, capacity_tokens: float) -> None:
        self.room = capacity_tokens
        self.tokens: OrderedDict[int, int] = OrderedDict()

    def known(self, blocks: list[int]) -> int:
        """Blocks of a beginning that are here."""
        for place, block in enumerate(blocks):
            if block not in self.tokens:
                return place
        return len(blocks)

    def put(self, blocks: list[int], block_tokens: int, rest: int, rest_tokens: int) -> None:
        """A request is served: the rest of it and its blocks, the first the latest used."""
        for key, tokens in [(rest, rest_tokens), *((b, block_tokens) for b in reversed(blocks))]:
            self.room += self.tokens.pop(key, 0) - tokens
            self.tokens[key] = tokens
        while self.room < 0:
            self.room += self.tokens.popitem(last=False)[1]
