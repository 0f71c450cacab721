"""The arrays of a replay as they are before anything happens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from simkernel import plugins
from simkernel.columns import Codes, Floats
from simkernel.drafting import token_shares
from simkernel.replay.cache_opening import opened_cache
from simkernel.replay.engine import NEVER_S
from simkernel.replay.fleet import Fleet
from simkernel.replay.pricing import step_price
from simkernel.replay.requests import Requests
from simkernel.replay.state import (
    BOOKS,
    COUNTERS,
    JOBS,
    KNOWN,
    LISTS,
    LOG,
    LUCK,
    SEATS,
    TIMES,
    Books,
    Grid,
    House,
    Jobs,
    Limits,
    Lists,
    Prices,
    Records,
    Rules,
    Seen,
    Terms,
    Times,
)
from simkernel.replay.tables import GRIDS, StepTables


@dataclass(frozen=True)
class Run:
    """How a stream is run, and what is kept of it.

    Parameters
    ----------
    seed : of routers that leave it to chance
    concurrency : of a closed loop: so many requests are in the house, the next comes the moment
        one leaves, and the arrivals of the stream are not read; 0 serves them as they come
    has_token_times : keep the time of every output token (8 bytes each)
    logged_steps : how many of the first steps to keep
    can_skip : decodes that repeat are run as one flight; the result is the same, only later
    is_compiled : False interprets the same loop, hundreds of times slower
    """

    seed: int = 0
    concurrency: int = 0
    has_token_times: bool = False
    logged_steps: int = 0
    can_skip: bool = True
    is_compiled: bool = True


def opened(requests: Requests, fleet: Fleet, tables: StepTables, run: Run) -> House:
    """Everybody still to come, every replica idle, every pool free."""
    count = len(requests)
    counters = np.zeros(COUNTERS, dtype=np.int64)
    counters[KNOWN] = min(run.concurrency, count) if run.concurrency else count
    kept = int(np.sum(requests.output_tokens)) if run.has_token_times else 0
    prices = prices_of(tables)
    return House(
        counters=counters,
        jobs=_jobs(requests),
        lists=_lists(fleet),
        seats=_records(SEATS, (int(fleet.replicas), int(fleet.max_batch))),
        times=_times(requests, run),
        token_s=np.full(kept, np.nan),
        luck=_luck(fleet, run),
        books=_books(int(fleet.replicas)),
        log=_records(LOG, run.logged_steps),
        limits=_limits(fleet),
        prices=prices,
        rules=_rules(requests, fleet, prices, run),
        seen=_seen(int(fleet.replicas)),
        cache=opened_cache(requests, fleet),
    )


def _records(fields: np.dtype[Any], shape: int | tuple[int, ...]) -> Records:
    return np.zeros(shape, fields).view(np.recarray)


def _luck(fleet: Fleet, run: Run) -> Codes:
    """Tokens that steps make of a sequence, drawn in the shares that the drafts' chances give."""
    if fleet.drafted_tokens == 0:
        return np.ones(1, dtype=np.int64)
    chances = (fleet.first_accept_frac, fleet.later_accept_frac)
    shares = token_shares(float(fleet.drafted_tokens), *chances)[:, 0]
    draws = np.random.default_rng((run.seed, OF_DRAFTS)).random(LUCK)
    return (1 + np.searchsorted(np.cumsum(shares), draws, side="right")).astype(np.int64)


OF_DRAFTS = 1
"""Beside the seed: draws of drafts are not those of routers."""


def _limits(fleet: Fleet) -> Limits:
    return Limits(
        max_batch=int(fleet.max_batch),
        token_budget=int(fleet.token_budget),
        block_tokens=int(fleet.block_tokens),
        pool_blocks=int(fleet.pool_blocks),
        watermark_blocks=int(fleet.watermark_frac * fleet.pool_blocks),
        max_context_tokens=int(fleet.max_context_tokens),
        drafted_tokens=int(fleet.drafted_tokens),
    )


def _jobs(requests: Requests) -> Jobs:
    jobs = _records(JOBS, len(requests))
    jobs.prompt_tokens = requests.prompt_tokens
    jobs.output_tokens = requests.output_tokens
    jobs.rank = 0 if requests.ranks is None else requests.ranks
    return jobs


def _lists(fleet: Fleet) -> Lists:
    lists = _records(LISTS, int(fleet.replicas))
    lists.first_waiting = lists.last_waiting = -1
    lists.free_blocks = fleet.pool_blocks
    return lists


def _times(requests: Requests, run: Run) -> Times:
    times = _records(TIMES, len(requests))
    times.arrival_s = 0.0 if run.concurrency else requests.arrival_s
    times.start_s = times.first_token_s = times.finish_s = np.nan
    times.replica = -1
    times.session = -1 if requests.sessions is None else requests.sessions
    times.draw_frac = np.random.default_rng(run.seed).random(len(requests))
    times.token_start = np.cumsum(requests.output_tokens) - requests.output_tokens
    return times


def _books(replicas: int) -> Books:
    books = _records(BOOKS, replicas)
    books.clock_s = NEVER_S
    books.pace_frac = 1.0
    return books


def _rules(requests: Requests, fleet: Fleet, prices: Prices, run: Run) -> Rules:
    lengths = np.asarray(requests.prompt_tokens) + np.asarray(requests.output_tokens)
    return Rules(
        batching_code=plugins.code("batching", fleet.batching),
        routing_code=plugins.code("routing", fleet.routing),
        can_skip=bool(run.can_skip and not run.has_token_times and not fleet.drafted_tokens),
        request_overhead_s=float(fleet.request_overhead_s),
        concurrency=int(run.concurrency),
        most_dry_steps=int(np.max(lengths, initial=1)),
        copies=int(fleet.copies),
        reads_cache=bool(plugins.find("routing", fleet.routing).READS_CACHE),
        evicts=bool(fleet.evicts),
        admission_code=plugins.code("admission", fleet.admission),
        admission=Terms(
            most_waiting=int(fleet.most_waiting),
            most_wait_s=float(fleet.most_wait_s),
            from_rank=int(fleet.shed_from_rank),
        ),
        prompt_token_s=_prompt_token_s(fleet, prices),
    )


def _prompt_token_s(fleet: Fleet, prices: Prices) -> float:
    """A step full of one prompt, over its tokens."""
    tokens = int(fleet.token_budget)
    step_s, _, _ = step_price(tokens, 1, 0, 0, 1, 0, float(tokens) ** 2, prices)
    return float(step_s) / tokens


def _seen(replicas: int) -> Seen:
    counts = np.zeros((6, replicas), dtype=np.int64)
    return Seen(
        replicas=counts[0],
        waiting=counts[1],
        running=counts[2],
        free_blocks=counts[3],
        missing_tokens=counts[4],
        due_tokens=counts[5],
        prompt_token_s=np.zeros(replicas),
    )


def prices_of(tables: StepTables) -> Prices:
    """Step tables as the loop reads them; without joules the seconds stand in their place."""
    grids = {name: np.asarray(getattr(tables, name)) for name in GRIDS}
    ends = np.cumsum([len(points) for points in grids.values()])
    found: dict[str, Any] = {
        name: Grid(int(end) - len(points), int(end) - 1, _spacing(points))
        for (name, points), end in zip(grids.items(), ends, strict=True)
    }
    found |= {part: _seconds_and_joules(part, tables) for part in tables.shapes()}
    return Prices(
        points=np.concatenate(list(grids.values())).astype(np.float64),
        **found,
        several_prefills_frac=float(tables.several_prefills_frac),
        context_rounding_tokens=int(tables.context_rounding_tokens),
        is_interpolated=bool(tables.is_interpolated),
        least_step_s=float(tables.least_step_s),
        least_prefill_s=float(tables.least_prefill_s),
        has_joules=tables.joules is not None,
        idle_w=0.0 if tables.joules is None else float(tables.joules.idle_w),
        **_together(tables),
    )


def _together(tables: StepTables) -> dict[str, Any]:
    """Tables of what copies share; one 0 where each replica steps for itself."""
    given = tables.together
    if given is None:
        none = np.zeros(1)
        return {
            "experts": (none, none),
            "exchange": (none, none),
            "covers": none,
            "layers_frac": 0.0,
            "hides_frac": 0.0,
        }
    return {
        "experts": (_floats(given.experts_s), _floats(given.experts_j)),
        "exchange": (_floats(given.exchange_s), _floats(given.exchange_j)),
        "covers": _floats(given.covers_s),
        "layers_frac": float(given.layers_frac),
        "hides_frac": float(given.hides_frac),
    }


def _spacing(points: Codes) -> float:
    steps = np.diff(points)
    is_even = len(steps) > 0 and bool(np.all(steps == steps[0]))
    return float(steps[0]) if is_even else 0.0


def _seconds_and_joules(part: str, tables: StepTables) -> tuple[Floats, Floats]:
    seconds = _floats(getattr(tables, f"{part}_s"))
    if tables.joules is None:
        return seconds, seconds
    return seconds, _floats(getattr(tables.joules, f"{part}_j"))


def _floats(table: Floats) -> Floats:
    """A copy, whatever was given: the loop is compiled for one kind of array only."""
    return np.array(table, dtype=np.float64, order="C")
