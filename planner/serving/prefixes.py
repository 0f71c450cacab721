"""Plans with a prefix cache in closed form: a load without the tokens that the caches have.

How much they have is measured on the stream by a cache of the plan's own size that drops what was
used longest ago, for as many caches as the fleet has without sharing, rounded to the safe side.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from planner.axes import NO_PREFIX_CACHE
from planner.serving.engine import ServeEngine
from planner.serving.load import Load, ServeLoad
from simkernel import plugins
from simkernel.columns import Codes, Floats, Masks
from simkernel.kv_cache import free_bytes, resident_sequence_bytes
from simkernel.prefix_hits import hit_tokens
from simkernel.serving_mix import mix_of
from simkernel.serving_rig import Rig
from simkernel.serving_tables import BLOCK_TOKENS

STEP_FRAC = 1.25
"""Between sizes of caches that are measured: a plan has the next smaller."""

MOST_CACHES = 4096
TOGETHER_FRAC = 0.5
MEASURED = 64
"""Caches whose hits are held: of a sweep, sizes times counts."""


@dataclass(frozen=True)
class Caches:
    """The caches of some plans; (n,) each.

    Parameters
    ----------
    is_there : rows with a prefix cache
    capacity_tokens : of one of them, rounded down
    count : among which a router deals requests out, rounded up; 1 where it looks at them
    """

    is_there: Masks
    capacity_tokens: Floats
    count: Codes

    def groups(self) -> list[tuple[float, int, Codes]]:
        """Size, count, and the rows of every kind of cache."""
        rows = np.flatnonzero(self.is_there)
        keys = np.stack([self.capacity_tokens[rows], self.count[rows]], axis=1)
        kinds, of_row = np.unique(keys, axis=0, return_inverse=True)
        of_row = of_row.reshape(-1)
        return [(float(k[0]), int(k[1]), rows[of_row == i]) for i, k in enumerate(kinds)]


def has_prefix_cache(engine: ServeEngine, columns: Mapping[str, Any]) -> Masks:
    """Rows whose plans share the beginnings of prompts; (n,)."""
    levels = engine.space.levels["prefix_cache"]
    is_on = np.array([level != NO_PREFIX_CACHE for level in levels])
    return np.asarray(is_on[np.asarray(columns["prefix_cache"])])


def caches_of(
    engine: ServeEngine, columns: Mapping[str, Any], rig: Rig, replicas: Floats
) -> Caches:
    """Sizes and numbers of the caches of plans with so many replicas; (n,).

    Notes
    -----
    A fleet without sharing is larger, and each of its caches sees less of what belongs together.
    Where the router looks at caches, the whole stream is taken to come to one that holds half of
    what all hold together (our choice): beginnings that many prompts have are in several of them.
    """
    capacity = np.maximum(lane_tokens(rig, engine.load.peak.mix.context_tokens), BLOCK_TOKENS)
    lanes = rig.plans.attention_data_parallel * rig.plans.pipeline_parallel
    count = np.clip(np.nan_to_num(replicas * lanes, posinf=MOST_CACHES), 1.0, MOST_CACHES)
    rounded = 2.0 ** np.ceil(np.log2(count))
    names = engine.space.levels["routing"]
    reads = np.array([plugins.find("routing", str(name)).READS_CACHE for name in names])
    is_read = reads[np.asarray(columns["routing"])]
    together = capacity * np.maximum(count * TOGETHER_FRAC, 1.0)
    steps = np.floor(np.log(np.where(is_read, together, capacity)) / np.log(STEP_FRAC))
    count = np.where(is_read, 1.0, rounded)
    return Caches(has_prefix_cache(engine, columns), STEP_FRAC**steps, count.astype(np.int64))


def lane_tokens(rig: Rig, context_tokens: float) -> Floats:
    """Tokens that the cache of one lane holds; (n,)."""
    room = free_bytes(rig.model, rig.engine, rig.plans, rig.chips.memory_bytes)
    each = resident_sequence_bytes(rig.model, rig.plans, context_tokens) / context_tokens
    return np.asarray(np.maximum(room / each / rig.plans.pipeline_parallel, 0.0))


def with_hits(engine: ServeEngine, capacity_tokens: float, count: int) -> ServeEngine:
    """The engine with a load that lacks the tokens which so many caches of this size have."""
    return replace(engine, load=_less(engine.load, capacity_tokens, count, engine.study.seed))


@lru_cache(maxsize=MEASURED)
def _measured(held: _Held, capacity_tokens: float, count: int, seed: int) -> Codes:
    stream = held.load.demand.requests
    codes = np.random.default_rng(seed).integers(0, count, len(stream))
    return hit_tokens(stream, capacity_tokens, codes, BLOCK_TOKENS)


class _Held:
    """A load as a key: the same stream is the same key."""

    def __init__(self, load: ServeLoad) -> None:
        self.load = load

    def __hash__(self) -> int:
        return id(self.load.demand.requests)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Held) and (
            other.load.demand.requests is self.load.demand.requests
        )


def _less(load: ServeLoad, capacity_tokens: float, count: int, seed: int) -> ServeLoad:
    stream = load.demand.requests
    hits = _measured(_Held(load), capacity_tokens, count, seed)
    window = slice(load.window.start_row, load.window.end_row)

    def left(own: Load, rows: slice) -> Load:
        prompt, output = stream.prompt_tokens[rows], stream.output_tokens[rows]
        return replace(own, mix=mix_of(prompt, output, hits[rows]))

    return replace(load, peak=left(load.peak, window), mean=left(load.mean, slice(None)))
