"""What a replay knows at a moment, as arrays of records: policies read them and write to them.

Requests are rows 0..n-1 in order of arrival; replicas are rows 0..r-1. A field is read and
written as `jobs[request].cached_tokens`. Records, because handing fifty columns from call to call
takes longer than the step itself; whole numbers are int64, times float64.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np

from simkernel.columns import Codes, Floats

NEXT, ROUTED, KNOWN, LOGGED, STUCK_AT, HELD, FIRST_HELD, LAST_HELD, COUNTERS = range(9)
"""Places of the counters: the next request to arrive, requests routed, requests whose arrival is
known, steps logged, the replica that is stuck, requests that wait at the router for a replica to
open, the ends of their queue; and how many counters there are."""

OPEN, SHUT, DEAF = range(3)
"""Doors of a replica: it takes requests; it takes none; it takes them and does nothing, because
nobody knows yet that it failed."""

Records: TypeAlias = Any
"""An array of records; which fields it has, the checker cannot see."""
Jobs: TypeAlias = Records
Lists: TypeAlias = Records
Seats: TypeAlias = Records
Times: TypeAlias = Records
Books: TypeAlias = Records
Log: TypeAlias = Records


def _fields(*names: str) -> np.dtype[Any]:
    """Times, energies and shares are floats, all else is counted."""
    is_float = [name.endswith(("_s", "_j", "_frac")) for name in names]
    types = [np.float64 if is_time else np.int64 for is_time in is_float]
    return np.dtype(list(zip(names, types, strict=True)), align=True)


JOBS = _fields(
    *("prompt_tokens", "output_tokens", "made_tokens", "cached_tokens"),
    *("blocks", "behind", "preemptions", "rank"),
)
"""Every request, (n,): what it asks and how far it is. Eight fields: one line of a processor's
cache.

prompt_tokens, output_tokens : as asked
made_tokens : output tokens so far; they survive a preemption
cached_tokens : whose keys and values are in the cache; none after a preemption
blocks : of the pool that it holds
behind : the request that waits behind it, or -1
preemptions : times it was thrown out
rank : who has less goes first, 0 where all are alike
"""

LISTS = _fields(
    *("running_count", "waiting_count", "first_waiting", "last_waiting"),
    *("free_blocks", "most_blocks", "preemptions", "recomputed_tokens", "due_tokens"),
)
"""What each replica has in the house, (r,).

running_count, waiting_count : requests with a seat, requests in the queue
first_waiting, last_waiting : ends of the queue, linked by `behind`; -1 when empty
free_blocks, most_blocks : of the pool: free now, in use at most so far
preemptions, recomputed_tokens : requests thrown out, tokens lost by it
due_tokens : of prompts that came to it, those in its cache left out and those lost counted again;
    less the `prefill_tokens` of BOOKS it is what is still to compute
"""

SEATS = _fields("running", "request", "tokens")
"""The seats of each replica, (r, max_batch).

running : requests that have one, the first `running_count` of a row
request, tokens : who takes part in the step, and how many tokens of it are computed, at least 1;
    a policy fills the first of a row and says how many
"""

TIMES = _fields(
    *("arrival_s", "start_s", "first_token_s", "finish_s"),
    *("draw_frac", "replica", "refusal_code", "token_start", "session"),
)
"""When what happened to each request, (n,), and where; NaN and -1 until it did.

arrival_s, start_s, first_token_s, finish_s, replica, refusal_code : as in `results.ReplayResult`
draw_frac : a draw from 0 to below 1 for routers that leave it to chance
token_start : where the times of its tokens begin, when they are kept
session : whose it is, -1 of nobody
"""

BOOKS = _fields(
    *("clock_s", "changed_s", "is_flying", "flying_sequences", "flying_steps", "flying_context"),
    *("dry_steps", "flying_tokens", "flying_decodes", "own_s", "own_j", "is_beyond", "ended"),
    *("steps", "busy_s", "prefill_tokens", "decode_tokens", "request_s", "running_s", "step_j"),
    *("extended_steps", "end_s", "door", "pace_frac"),
)
"""The state and the sums of each replica, (r,).

clock_s : when it acts next: its step ends, or it forms one; infinity when it has nothing, and
    for all but the first of copies that step together
is_flying : 1 while a step is under way, of copies that step together at the first of them
changed_s : until when `request_s` is summed
flying_sequences, flying_steps : of the step or the run of like steps under way, 0 if none
flying_context : tokens in the caches of its decodes at its start, summed
dry_steps : since its last output token
flying_tokens, flying_decodes, own_s, own_j, is_beyond, ended : of a copy that steps with others:
    what it brings to the step, what that takes by itself, and the requests that end with it
door : OPEN, SHUT or DEAF
pace_frac : how long its steps take, of what the tables say
steps and the rest : as in `results.ReplicaTotals`
"""

LOG = _fields(
    *("replica", "start_s", "step_s", "decodes", "prefills", "tokens", "running", "waiting"),
    *("blocks",),
)
"""The first steps, as in `results.StepLog`; as many as there are rows."""


def _counts(*names: str) -> np.dtype[Any]:
    """Whole numbers."""
    return np.dtype([(name, np.int64) for name in names])


BLOCKS = np.dtype(
    [("key", np.int64)]
    + [(name, np.int32) for name in ("holders", "after", "before", "next", "younger", "older")],
    align=True,
)
"""Every block of each row, (rows, blocks + 1); the first is nobody.

key : of what is in it and may be found, 0 where nothing may
holders : requests that have it in their caches
after, before : in the queue of blocks that nobody holds, 0 at its ends
next : block of another key in the same bucket, 0 at the end
younger, older : of several blocks with one key a ring in the order they came; the oldest is found
"""

QUEUES = _fields(
    *("blocks", "used", "first", "last", "hit_tokens", "loaded_tokens", "loading_s"),
)
"""The queue of blocks that nobody holds, of each replica or tier; (rows,).

blocks : that it has in all
used : that were ever taken; those beyond come before all in the queue, in order
first, last : ends of the queue, 0 when empty
hit_tokens, loaded_tokens : of a replica: not computed because they were in the cache; of them,
    read from the tiers below
loading_s : steps waited for blocks from below, or to the host and back
"""

OWNERS = _counts("place", "hash", "hashed", "published", "found", "below", "hit_tokens", "swapped")
"""Every request's cache, (n,).

place : of its first block in the table of blocks
hash : of its first hashed block among the chains
hashed : full blocks of its prompt whose hash is known
published : of its blocks, those that others can find
found, below : blocks of its beginning found on the device at the last look; after them, in a tier
hit_tokens : found when it was first taken in
swapped : tokens that wait in the host since it was thrown out
"""

TIERS = np.dtype([("block_s", np.float64), ("latency_s", np.float64), ("is_shared", np.int64)])
"""Tiers below the device, the nearest first, (t,).

block_s, latency_s : to read a block, and beside it once for all blocks of a step
is_shared : 1 where all replicas have one, 0 where each has its own
"""

TRAFFIC = _counts("read_blocks", "written_blocks", "due_blocks")
"""Blocks between each replica and each tier, (t, r); due: read for the step that is formed."""

SWAPS = _counts("free_blocks", "moved_blocks", "due_blocks")
"""Room of each replica in the host for requests that are thrown out, (r,).

free_blocks : of it
moved_blocks, due_blocks : out and back so far; in the step that is formed
"""


class Shelf(NamedTuple):
    """Blocks in rows, found by their key.

    Parameters
    ----------
    blocks, queues : as BLOCKS, QUEUES
    buckets : (rows, power of two) the first block of each bucket of keys, 0 where empty
    """

    blocks: Records
    queues: Records
    buckets: Codes


class Cache(NamedTuple):
    """Blocks of all replicas, the tiers below, and what is known of requests' beginnings.

    Parameters
    ----------
    device : a row for each replica
    lower : a row for each tier and replica; of a tier that all share, the first replica's is used
    owners, tiers, traffic, swaps : as OWNERS, TIERS, TRAFFIC, SWAPS
    table : blocks of every request, one behind the other
    chains : numbers of hashed blocks as the trace has them, with all before
    span : blocks of the cache in one block of the trace
    own_key : from here on keys are of what only the request itself has
    is_shared : 1 where prompts share their beginnings, 0 where blocks are only swapped
    swap_block_s : to move one block to the host or back
    """

    device: Shelf
    lower: Shelf
    owners: Records
    tiers: Records
    traffic: Records
    swaps: Records
    table: Codes
    chains: Codes
    span: int
    own_key: int
    is_shared: int
    swap_block_s: float


class Limits(NamedTuple):
    """What each replica can hold and do in a step; the fields are those of `fleet.Fleet`.

    `drafted_tokens` come beside the one token that a decoding sequence has to compute.
    """

    max_batch: int
    token_budget: int
    block_tokens: int
    pool_blocks: int
    watermark_blocks: int
    max_context_tokens: int
    drafted_tokens: int


class Grid(NamedTuple):
    """The points a table was made for, in the one array of all points.

    Parameters
    ----------
    start, last : its first and its last place there
    spacing_tokens : between all its points, or 0 where they are uneven
    """

    start: int
    last: int
    spacing_tokens: float


class Prices(NamedTuple):
    """`tables.StepTables` as the loop reads it: grids, seconds, joules.

    Parameters
    ----------
    points : all grids, one behind the other
    token, sequence, decode, prefill : the tables of `StepTables`, in seconds and in joules
    experts, exchange, covers, layers_frac, hides_frac : as in `tables.TogetherTables`
    """

    points: Floats
    tokens: Grid
    sequences: Grid
    decode_contexts: Grid
    prefill_contexts: Grid
    prefill_chunks: Grid
    token: tuple[Floats, Floats]
    sequence: tuple[Floats, Floats]
    decode: tuple[Floats, Floats]
    prefill: tuple[Floats, Floats]
    several_prefills_frac: float
    context_rounding_tokens: int
    is_interpolated: bool
    least_step_s: float
    least_prefill_s: float
    has_joules: bool
    idle_w: float
    experts: tuple[Floats, Floats]
    exchange: tuple[Floats, Floats]
    covers: Floats
    layers_frac: float
    hides_frac: float


class Terms(NamedTuple):
    """What an admission policy goes by.

    Parameters
    ----------
    most_waiting : requests in the queue of the replica that was picked
    most_wait_s : until the first token, as it can be foreseen [s]
    from_rank : whoever has less is always let in
    """

    most_waiting: int
    most_wait_s: float
    from_rank: int


class Rules(NamedTuple):
    """How the replay goes on.

    Parameters
    ----------
    batching_code, routing_code : which policy, by its place in the folder
    can_skip : like decode steps may be run as one
    request_overhead_s : from arrival to the scheduler [s]
    concurrency : requests in the house of a closed loop, 0 where arrivals are given
    most_dry_steps : steps without an output token before the replay counts as stuck
    copies : replicas that step together
    reads_cache : the router asks what each replica has of a prompt
    evicts : who is less urgent leaves for the first who waits
    admission_code : which policy, by its place in the folder
    admission : what it goes by
    prompt_token_s : a step full of prompts, over its tokens [s]
    """

    batching_code: int
    routing_code: int
    can_skip: bool
    request_overhead_s: float
    concurrency: int
    most_dry_steps: int
    copies: int
    reads_cache: bool
    evicts: bool
    admission_code: int
    admission: Terms
    prompt_token_s: float


class Asked(NamedTuple):
    """What a router and an admission policy know of a request.

    Parameters
    ----------
    serial : that many were routed before it
    draw_frac : a draw from 0 to below 1, made beforehand from the seed
    session : whose it is, -1 of nobody
    rank : who has less goes first
    prompt_tokens : of it
    """

    serial: int
    draw_frac: float
    session: int
    rank: int
    prompt_tokens: int


class Seen(NamedTuple):
    """What they see of the replicas that take requests, in order; (c,) each.

    Parameters
    ----------
    replicas : which they are
    waiting, running : requests in the queue, in the batch
    free_blocks : of the pool
    missing_tokens : of the request, that each would have to compute; of the whole prompt unless
        the policy says READS_CACHE
    due_tokens : of the prompts that are there before it, still to compute
    prompt_token_s : a step full of prompts takes, over its tokens [s]
    """

    replicas: Codes
    waiting: Codes
    running: Codes
    free_blocks: Codes
    missing_tokens: Codes
    due_tokens: Codes
    prompt_token_s: Floats


LUCK = 1 << 16
"""Draws of a run, used again and again: each request reads on from a place of its own."""

STRIDE = 40_503
"""Between those places: odd, near LUCK over the golden ratio, so that neighbours lie far apart."""


class House(NamedTuple):
    """All of it: what a call of the loop is given.

    `luck` are tokens that steps make of a decoding sequence, drawn once; one 1 without drafts.
    `seen` is room to tell a router what the replicas have.
    `cache` is None where blocks are only counted: nothing of it is compiled then.
    """

    counters: Codes
    jobs: Jobs
    lists: Lists
    seats: Seats
    times: Times
    token_s: Floats
    luck: Codes
    books: Books
    log: Log
    limits: Limits
    prices: Prices
    rules: Rules
    seen: Seen
    cache: Cache | None
