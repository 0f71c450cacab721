"""The cache of shared beginnings before anything happens: empty, the keys of all prompts known."""

from __future__ import annotations

from typing import Any

import numpy as np

from simkernel.errors import BadStudy
from simkernel.prefix_chains import chain_codes
from simkernel.replay.fleet import Fleet
from simkernel.replay.requests import Requests
from simkernel.replay.state import BLOCKS, OWNERS, QUEUES, Cache, Records


def opened_cache(requests: Requests, fleet: Fleet) -> Cache | None:
    """Nobody's blocks in every pool; None where the fleet shares no beginnings.

    Raises
    ------
    BadStudy : blocks of the trace are no whole number of blocks of the cache
    """
    if not fleet.has_prefix_cache:
        return None
    replicas, blocks = int(fleet.replicas), int(fleet.pool_blocks)
    owners, chains, span = _owners(requests, int(fleet.block_tokens))
    buckets = 1 << max(blocks.bit_length(), 1)
    lengths = np.asarray(requests.prompt_tokens) + np.asarray(requests.output_tokens)
    each = -(-lengths.astype(np.int64) // int(fleet.block_tokens))
    owners.place = np.cumsum(each) - each
    return Cache(
        blocks=np.zeros((replicas, blocks + 1), BLOCKS).view(np.recarray),
        queues=np.zeros(replicas, QUEUES).view(np.recarray),
        owners=owners,
        buckets=np.zeros((replicas, buckets), dtype=np.int32),
        table=np.zeros(int(each.sum()) + 1, dtype=np.int32),
        chains=chains,
        span=span,
        own_key=1 + span * (int(np.max(chains, initial=0)) + 1),
    )


def _owners(requests: Requests, block_tokens: int) -> tuple[Records, Any, int]:
    """What is known of each prompt's beginning, the chains, and cache blocks in one of theirs."""
    owners: Records = np.zeros(len(requests), OWNERS).view(np.recarray)
    prefixes = requests.prefixes
    if prefixes is None:
        return owners, np.zeros(1, dtype=np.int64), 1
    if prefixes.block_tokens % block_tokens:
        raise BadStudy(
            f"prompts are hashed in blocks of {prefixes.block_tokens} tokens, which blocks of "
            f"{block_tokens} in the cache do not divide; give block_tokens that do"
        )
    span = prefixes.block_tokens // block_tokens
    known = np.diff(prefixes.starts) * span
    owners.hash = prefixes.starts[:-1]
    owners.hashed = np.minimum(known, np.asarray(requests.prompt_tokens) // block_tokens)
    chains = chain_codes(prefixes)
    return owners, chains if len(chains) else np.zeros(1, dtype=np.int64), span
