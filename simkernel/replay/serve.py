"""A stream served by a fleet, request by request: the door to the event tier."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np

from simkernel.columns import Codes, Floats
from simkernel.errors import ReplayStuck
from simkernel.operations.control import Control
from simkernel.operations.outages import QUIET, Operations
from simkernel.replay import engine
from simkernel.replay.fleet import Fleet
from simkernel.replay.opening import Run, opened
from simkernel.replay.requests import Requests
from simkernel.replay.results import ReplayResult, ReplicaTotals, StepLog
from simkernel.replay.state import KNOWN, LOGGED, NEXT, STUCK_AT, House
from simkernel.replay.tables import StepTables

EVENTS_AT_ONCE = 1_000_000
"""Between two reports of progress: about a second."""

Progress = Callable[[int, int], None]
"""Told how many requests have come, and of how many."""

PLAIN = Run()


def replay(
    requests: Requests,
    fleet: Fleet,
    tables: StepTables,
    run: Run = PLAIN,
    progress: Progress | None = None,
    operations: Operations = QUIET,
) -> ReplayResult:
    """The times of every request of a stream.

    Parameters
    ----------
    requests : the stream
    fleet : replicas, policies, limits
    tables : step times of each replica
    run : seed, closed loop, what is kept
    progress : called about every second
    operations : what happens to the fleet meanwhile

    Raises
    ------
    UnknownName : a policy that is in no file
    ReplayStuck : a policy that serves nobody: the requests named wait for ever
    """
    house = opened(requests, fleet, tables, run)
    advance, control = _loop(run, in_groups=fleet.copies > 1), Control(house, operations)
    while True:
        outcome = advance(EVENTS_AT_ONCE, control.next_s, house)
        if progress is not None:
            progress(int(house.counters[NEXT]), len(requests))
        if outcome == engine.STUCK:
            raise _stuck(house, fleet)
        if outcome == engine.DONE and control.is_over:
            return result_of(house, control.powered_s())
        if outcome != engine.GOING:
            control.act()


def _loop(run: Run, *, in_groups: bool) -> Callable[[int, float, House], int]:
    if not run.is_compiled:
        return engine.advance_together if in_groups else engine.advance
    from simkernel.replay import compiled  # numba takes half a second to import

    return compiled.advance_together() if in_groups else compiled.advance()


def _stuck(house: House, fleet: Fleet) -> ReplayStuck:
    at = int(house.counters[STUCK_AT])
    running, waiting = house.lists.running_count[at], house.lists.waiting_count[at]
    return ReplayStuck(
        f"replica {at} has {running} requests running and {waiting} waiting, "
        f"{house.lists.free_blocks[at]} of {fleet.pool_blocks} blocks free, and has made no token "
        f"in {house.books.dry_steps[at]} steps; batching policy {fleet.batching!r} must serve one"
    )


def result_of(house: House, powered_s: Floats | None = None) -> ReplayResult:
    """The columns of a house as a caller reads them.

    Parameters
    ----------
    powered_s : (r,) that each replica was on; None for all the time
    """
    times, jobs, rows = house.times, house.jobs, int(house.counters[LOGGED])
    has_come = np.arange(len(jobs)) < house.counters[KNOWN]
    return ReplayResult(
        arrival_s=np.where(has_come, times.arrival_s, np.nan),
        start_s=_column(times.start_s),
        first_token_s=_column(times.first_token_s),
        finish_s=_column(times.finish_s),
        prompt_tokens=_column(jobs.prompt_tokens),
        output_tokens=_column(jobs.output_tokens),
        replica=_column(times.replica),
        preemptions=_column(jobs.preemptions),
        hit_tokens=_hits(house, len(jobs)),
        refusal_code=_column(times.refusal_code),
        totals=_totals(house, powered_s),
        token_start=_column(times.token_start),
        token_s=house.token_s,
        log=StepLog(**{f.name: _column(house.log[f.name][:rows]) for f in fields(StepLog)}),
    )


def _column(column: Any) -> Any:
    """A column of its own, out of the records."""
    return np.array(column)


def _hits(house: House, count: int) -> Codes:
    """Tokens of each prompt that were found in the cache."""
    if house.cache is None:
        return np.zeros(count, dtype=np.int64)
    return np.array(house.cache.owners.hit_tokens)


def _of_cache(house: House) -> dict[str, Any]:
    """What is told of shared blocks and of tiers; nothing where blocks are only counted."""
    cache, none = house.cache, np.zeros(len(house.books), dtype=np.int64)
    if cache is None:
        names = ("hit_tokens", "loaded_tokens", "holders_left", "swapped_blocks")
        nothing = dict.fromkeys(("read_blocks", "written_blocks"), none[None, :][:0])
        return {**dict.fromkeys(names, none), **nothing, "loading_s": none * 0.0}
    return {
        "hit_tokens": _column(cache.device.queues.hit_tokens),
        "loaded_tokens": _column(cache.device.queues.loaded_tokens),
        "loading_s": _column(cache.device.queues.loading_s),
        "holders_left": cache.device.blocks.holders.sum(axis=1),
        "read_blocks": _column(cache.traffic.read_blocks),
        "written_blocks": _column(cache.traffic.written_blocks),
        "swapped_blocks": _column(cache.swaps.moved_blocks),
    }


def _totals(house: House, powered_s: Floats | None) -> ReplicaTotals:
    books, lists = house.books, house.lists
    routed = house.times.replica[house.times.replica >= 0]
    requests = np.bincount(routed, minlength=len(books))
    on_s = np.full(len(books), np.max(books.end_s)) if powered_s is None else powered_s
    return ReplicaTotals(
        steps=_column(books.steps),
        busy_s=_column(books.busy_s),
        prefill_tokens=_column(books.prefill_tokens),
        decode_tokens=_column(books.decode_tokens),
        recomputed_tokens=_column(lists.recomputed_tokens),
        **_of_cache(house),
        preemptions=_column(lists.preemptions),
        request_s=books.request_s + requests * house.rules.request_overhead_s,
        running_s=_column(books.running_s),
        most_blocks=_column(lists.most_blocks),
        blocks_left=house.limits.pool_blocks - lists.free_blocks,
        step_j=_column(books.step_j),
        idle_j=house.prices.idle_w * np.maximum(on_s - books.busy_s, 0.0),
        extended_steps=_column(books.extended_steps),
        end_s=_column(books.end_s),
        powered_s=on_s,
    )
