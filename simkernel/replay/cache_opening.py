"""The cache of shared beginnings before anything happens: empty, the keys of all prompts known."""

from __future__ import annotations

from typing import Any

import numpy as np

from simkernel.columns import Codes
from simkernel.errors import BadStudy
from simkernel.prefix_chains import chain_codes
from simkernel.replay.fleet import Fleet
from simkernel.replay.requests import Requests
from simkernel.replay.state import (
    BLOCKS,
    OWNERS,
    QUEUES,
    SWAPS,
    TIERS,
    TRAFFIC,
    Cache,
    Records,
    Shelf,
)


def opened_cache(requests: Requests, fleet: Fleet) -> Cache | None:
    """Nobody's blocks in every pool; None where blocks are only counted.

    Raises
    ------
    BadStudy : blocks of the trace are no whole number of blocks of the cache
    """
    if not fleet.has_prefix_cache and not fleet.swap_blocks:
        return None
    replicas = int(fleet.replicas)
    owners, chains, span = _owners(requests, fleet)
    own_key = 1 + span * (int(np.max(chains, initial=0)) + 1)
    table = _places(requests, fleet, owners)
    held = [
        0 if one.is_shared and i else one.blocks for one in fleet.tiers for i in range(replicas)
    ]
    return Cache(
        device=_shelf(np.full(replicas, fleet.pool_blocks)),
        lower=_shelf(np.minimum(np.array(held or [0]), own_key)),  # no more can be in it
        owners=owners,
        tiers=np.array(
            [(one.block_s, one.latency_s, one.is_shared) for one in fleet.tiers], TIERS
        ).view(np.recarray),
        traffic=_records(TRAFFIC, (len(fleet.tiers), replicas)),
        swaps=_swaps(fleet),
        table=table,
        chains=chains,
        span=span,
        own_key=own_key,
        is_shared=int(fleet.has_prefix_cache),
        swap_block_s=float(fleet.swap_block_s),
    )


def _shelf(blocks: Codes) -> Shelf:
    """Rows of so many blocks each, nothing in them."""
    most = int(np.max(blocks))
    queues = _records(QUEUES, len(blocks))
    queues.blocks = blocks
    buckets = 1 << max(most.bit_length(), 1)
    return Shelf(
        blocks=_records(BLOCKS, (len(blocks), most + 1)),
        queues=queues,
        buckets=np.zeros((len(blocks), buckets), dtype=np.int32),
    )


def _records(fields: np.dtype[Any], shape: int | tuple[int, ...]) -> Records:
    return np.zeros(shape, fields).view(np.recarray)


def _swaps(fleet: Fleet) -> Records:
    swaps = _records(SWAPS, int(fleet.replicas))
    swaps.free_blocks = fleet.swap_blocks
    return swaps


def _places(requests: Requests, fleet: Fleet, owners: Records) -> Codes:
    """Room for the blocks of every request; where it begins is noted with the owners."""
    lengths = np.asarray(requests.prompt_tokens) + np.asarray(requests.output_tokens)
    each = -(-lengths.astype(np.int64) // int(fleet.block_tokens))
    owners.place = np.cumsum(each) - each
    return np.zeros(int(each.sum()) + 1, dtype=np.int32)


def _owners(requests: Requests, fleet: Fleet) -> tuple[Records, Codes, int]:
    """What is known of each prompt's beginning, the chains, and cache blocks in one of theirs."""
    owners, block_tokens = _records(OWNERS, len(requests)), int(fleet.block_tokens)
    prefixes = requests.prefixes if fleet.has_prefix_cache else None
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
