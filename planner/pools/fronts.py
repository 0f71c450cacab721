"""The sweep of two pools: each swept apart, and joined exactly on their physical fronts.

Everything of a pair grows with what its pools are compared in, so a row of one pool that another
row of the same hardware beats in all of it is in no best pair: joining the fronts finds what
joining everything does.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from costdata.hardware_bill import Working, it_w
from planner.evaluated import Evaluated
from planner.pareto import nondominated_by
from planner.pools.counts import counts_of
from planner.pools.engine import PoolsEngine
from planner.pools.join import Pair, evaluated, is_layer_wise, pair_of
from planner.pools.named import named_pairs
from planner.pools.phase import PoolRows, pool_rows, ready
from planner.pools.space import ALIKE, COUNTED, MOST_REPLICAS
from planner.search.sweep import (
    LEAST_KEPT,
    BillResult,
    Named,
    count_rejections,
    criteria,
    merged,
    remember_nearest,
    to_twelve_digits,
)
from planner.serving.engine import ServeEngine
from planner.space.blocks import Bill, Ints, bills, blocks, columns
from planner.study.pools import DECODE, POOLS, PREFILL, TRANSFER
from simkernel.columns import Codes, Floats, Masks

BLOCK_PLANS = 1024
BLOCK_PAIRS = 16384
"""Pairs that are evaluated at a time: hundred columns of a block stay in a cache."""


@dataclass(frozen=True)
class Part:
    """Rows of one pool, and the level codes of each in the pool's own space; (m, axes)."""

    rows: PoolRows
    codes: Ints

    def __len__(self) -> int:
        return len(self.codes)

    def take(self, at: Codes) -> Part:
        """Some rows."""
        return Part(self.rows.take(at), self.codes[at])


@dataclass
class Front:
    """What one pool has of one hardware bill.

    Parameters
    ----------
    parts : rows that keep every limit of the pool alone and that none of their part beats
    nearest : of those that break one, some that break it least
    evaluated, masked, rejected : counts of rows
    alike : plans by their levels of what both pools have to have alike
    """

    parts: list[Part] = field(default_factory=list)
    nearest: list[Part] = field(default_factory=list)
    evaluated: int = 0
    masked: Counter[str] = field(default_factory=Counter)
    rejected: Counter[str] = field(default_factory=Counter)
    alike: Counter[tuple[str, ...]] = field(default_factory=Counter)


def sweep(
    engine: PoolsEngine,
    workers: object,
    is_stopped: Callable[[], bool],
    done: Container[int] = frozenset(),
) -> Iterator[BillResult]:
    """Results of every pair of hardware bills, in their order; arguments as of `search.sweep`."""
    fronts = {pool: _LazyFronts(engine, pool) for pool in POOLS}
    others = len(engine.pools[DECODE].space.bill_codes)
    told: set[tuple[str, int]] = set()
    for index in engine.space.bill_codes:
        if index in done or is_stopped():
            continue
        started = time.thread_time()
        at = dict(zip(POOLS, divmod(index, others), strict=True))
        result = BillResult(index)
        for pool in POOLS:
            front = fronts[pool].of(at[pool])
            if (pool, at[pool]) not in told:
                told.add((pool, at[pool]))
                _count(result, front, pool)
        _join(engine, result, fronts[PREFILL].of(at[PREFILL]), fronts[DECODE].of(at[DECODE]))
        result.seconds = time.thread_time() - started
        yield result


def _count(result: BillResult, front: Front, pool: str) -> None:
    """A pool's own counts, told once with the first pair of its bill."""
    result.evaluated += front.evaluated
    for name, count in front.masked.items():
        result.masked[f"{pool}: {name}"] += count
    for name, count in front.rejected.items():
        result.rejected[f"{pool}: {name}"] += count


class _LazyFronts:
    """The fronts of one pool, each made when it is asked for first."""

    def __init__(self, engine: PoolsEngine, pool: str) -> None:
        self.engine, self.pool = engine.pools[pool], pool
        self.most = max(int(n) for n in engine.space.levels[f"{pool}.{COUNTED}"])
        self.bills = list(bills(self.engine.space))
        self.known: dict[int, Front] = {}

    def of(self, index: int) -> Front:
        """The front of one bill."""
        if index not in self.known:
            self.known[index] = pool_front(
                self.engine, self.pool, self.bills[index], most=self.most
            )
        return self.known[index]


def pool_front(
    engine: ServeEngine,
    pool: str,
    bill: Bill,
    *,
    is_whole: bool = False,
    most: int = MOST_REPLICAS,
) -> Front:
    """The plans of one pool on one hardware bill that no other beats.

    Parameters
    ----------
    is_whole : keep every feasible row, beaten or not
    most : replicas that keys of pairs have room for
    """
    front, accelerator = Front(), str(bill.values["accelerator"])
    for block in blocks(engine.space, bill, BLOCK_PLANS):
        front.masked.update(block.masked)
        if not len(block):
            continue
        front.alike.update(_alike_words(engine, block.codes))
        plans = ready(engine, pool, columns(engine.space, block), accelerator)
        at, counts = counts_of(engine, plans)
        within = counts <= most
        if not within.all():
            front.masked["more_replicas_than_are_counted"] += int((~within).sum())
        if not within.any():
            continue
        rows = pool_rows(engine, plans.take(at[within]), counts[within])
        front.evaluated += len(rows)
        count_rejections(front.rejected, rows.limits)
        part = Part(rows, block.codes[at[within]])
        feasible = np.flatnonzero(rows.is_feasible)
        if len(feasible):
            part = part.take(feasible)
            front.parts.append(part if is_whole else part.take(_unbeaten(engine, part.rows)))
        else:
            worst = np.max([limit.excess for limit in rows.limits.values()], axis=0)
            front.nearest.append(part.take(np.argsort(worst, kind="stable")[:LEAST_KEPT]))
    return front


def pool_criteria(rows: PoolRows) -> Floats:
    """What everything of a pair grows with, all to be minimised; (n, k).

    Notes
    -----
    Hardware and watts; the time to first token less the pass that computes the prompt, and that
    pass, which hides a transfer but never more than itself; both deviations; time between tokens;
    how slow and how busy the wires are, and how soon the room is full of what waits to be moved.
    """
    times, metrics = rows.times, rows.metrics
    drawn_w = [_without_fabric_w(rows, one.working) for one in (rows.usual_w, rows.busiest_w)]
    parts = [
        metrics["devices"],
        metrics["purchase_units"],
        metrics["nodes"],
        *drawn_w,
        *_latency_criteria(times),
        1.0 / rows.end.bytes_per_s,
        rows.end.base_s,
        rows.steps_frac,
        rows.transfers_per_s,
        -rows.room_sequences,
        times.decoding_sequences,
        metrics["utilisation_frac"],
    ]
    if np.any(rows.ready.lost > 0):
        parts += [*_latency_criteria(rows.short), rows.short_transfers_per_s]
    return to_twelve_digits(np.stack([np.broadcast_to(p, len(rows)) for p in parts], axis=1))


def _without_fabric_w(rows: PoolRows, working: Working) -> Floats:
    """What one pool draws beside the fabric, whose size the other pool decides too; (n,)."""
    drawn = it_w(rows.bought.bill, rows.bought.watts, working)
    return np.asarray(sum(w for name, w in drawn.terms.items() if name not in FABRIC))


FABRIC = ("switches", "links")


def _latency_criteria(times: Any) -> list[Floats]:
    spread = times.spread
    return [
        spread.mean_s - times.own_s,
        times.own_s,
        spread.sd_s,
        times.own_sd_s,
        spread.constant_s + 0.0 * spread.mean_s,
        times.busy_frac,
    ]


def _unbeaten(engine: ServeEngine, rows: PoolRows) -> Codes:
    """Rows that no other of the same precision of the cache and drafter beats."""
    alike = np.zeros(len(rows), dtype=np.int64)
    for axis in ALIKE:
        alike = alike * len(engine.space.levels[axis]) + np.asarray(rows.ready.columns[axis])
    return np.flatnonzero(nondominated_by(alike, pool_criteria(rows)))


def _alike_words(engine: ServeEngine, codes: Ints) -> Iterator[tuple[str, ...]]:
    """Levels of each plan of what both pools have to have alike."""
    space = engine.space
    at = [space.axes.index(axis) for axis in ALIKE]
    for row in codes[:, at]:
        yield tuple(str(space.levels[n][code]) for n, code in zip(ALIKE, row, strict=True))


def _count_unlike(engine: PoolsEngine, result: BillResult, prefill: Front, decode: Front) -> None:
    """Pairs of plans that differ in what they have to have alike, by the first such axis."""
    ways = len(engine.space.levels[TRANSFER])
    for (own, count), (other, more) in product(prefill.alike.items(), decode.alike.items()):
        unlike = [axis for axis, a, b in zip(ALIKE, own, other, strict=True) if a != b]
        if unlike:
            result.masked[f"pools_differ_in_{unlike[0]}"] += ways * count * more


def _join(engine: PoolsEngine, result: BillResult, prefill: Front, decode: Front) -> None:
    """Every row of the one front with every row of the other: the physical front of the pair."""
    points: Floats = np.empty((0, 0))
    _count_unlike(engine, result, prefill, decode)
    for parts in product(prefill.parts, decode.parts):
        for block in blocks_of_pairs(engine, parts):
            points = _merge(engine, result, points, block)
    if not (prefill.parts and decode.parts):
        _remember_nearest(engine, result, prefill, decode)


def blocks_of_pairs(engine: PoolsEngine, parts: tuple[Part, Part]) -> Iterator[Block]:
    """All pairs of two parts that can stand together, each way of sending, evaluated."""
    first, second = pairs_alike(engine, *parts)
    for start in range(0, len(first), BLOCK_PAIRS):
        at = slice(start, start + BLOCK_PAIRS)
        for way in range(len(engine.space.levels[TRANSFER])):
            yield block_of(engine, (parts[0].take(first[at]), parts[1].take(second[at])), way)


@dataclass(frozen=True)
class Block:
    """Some pairs, evaluated."""

    pair: Pair
    codes: Ints
    found: Evaluated

    def named(self, engine: PoolsEngine) -> Named:
        """What picked pairs are to a person."""
        return partial(named_pairs, engine, self.pair, self.codes, self.found)


def block_of(engine: PoolsEngine, sides: tuple[Part, Part], way: int) -> Block:
    """Rows of both pools side by side, sent one way."""
    prefill, decode = sides
    transfer = np.full(len(prefill), way, dtype=np.int64)
    pair = pair_of(engine, prefill.rows, decode.rows, is_layer_wise(engine, transfer))
    codes = engine.space.codes_of_pair(
        {PREFILL: prefill.codes, DECODE: decode.codes},
        {PREFILL: prefill.rows.replicas, DECODE: decode.rows.replicas},
        transfer,
    )
    return Block(pair, codes, evaluated(engine, pair))


def pairs_alike(engine: PoolsEngine, prefill: Part, decode: Part) -> tuple[Codes, Codes]:
    """Places of all rows of both parts that can stand together; (p,) each."""
    spaces = [engine.pools[pool].space for pool in POOLS]
    is_alike: Masks = np.ones((len(prefill.codes), len(decode.codes)), dtype=bool)
    shared = [n for n in ("scaleout_fabric", "oversubscription") if n in spaces[0].axes]
    for axis in (*ALIKE, *shared):
        words = [
            np.array([str(level) for level in space.levels[axis]])[
                part.codes[:, space.axes.index(axis)]
            ]
            for space, part in zip(spaces, (prefill, decode), strict=True)
        ]
        is_alike &= words[0][:, None] == words[1][None, :]
    first, second = np.nonzero(is_alike)
    return first, second


def _merge(engine: PoolsEngine, result: BillResult, points: Floats, block: Block) -> Floats:
    """What stays of the front when more pairs come; counts, and the nearest until one is there."""
    found = block.found
    result.evaluated += len(block.codes)
    count_rejections(result.rejected, found.limits)
    if not result.front:
        remember_nearest(result, found, block.named(engine))
    compared = partial(pair_criteria, engine, found)
    result.front, points = merged(result.front, points, found, compared, block.named(engine))
    if result.front:
        result.nearest = {}
    return points


def pair_criteria(engine: PoolsEngine, found: Evaluated) -> Floats:
    """What the physical front of a pair of bills compares; (n, k).

    As of one pool, with the units of each: of two chips they have two prices.
    """
    base = criteria(engine.study, found.metrics)
    units = [found.metrics[f"{pool}.purchase_units"] for pool in POOLS]
    return np.concatenate([base, np.stack(units, axis=1)], axis=1)


def _remember_nearest(
    engine: PoolsEngine, result: BillResult, prefill: Front, decode: Front
) -> None:
    """The least of what breaks a limit of a pool alone, with some of the other."""
    found = [(front.parts or front.nearest)[:1] for front in (prefill, decode)]
    if not all(found):
        return
    few = [part.take(np.arange(min(len(part), LEAST_KEPT))) for (part,) in found]
    first, second = pairs_alike(engine, few[0], few[1])
    if len(first):
        sides = few[0].take(first), few[1].take(second)
        block = block_of(engine, sides, 0)
        remember_nearest(result, block.found, block.named(engine))
