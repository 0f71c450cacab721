"""A stream served by two pools, request by request: the door to their event loop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from simkernel.columns import Floats, Masks
from simkernel.errors import ReplayStuck
from simkernel.replay import engine
from simkernel.replay.fleet import Fleet
from simkernel.replay.handover import COUNTS, MOVES, Wires
from simkernel.replay.opening import Run, opened
from simkernel.replay.requests import Requests
from simkernel.replay.results import ReplayResult
from simkernel.replay.serve import EVENTS_AT_ONCE, PLAIN, result_of
from simkernel.replay.tables import StepTables
from simkernel.replay.two_pools import Pools, advance_pools


@dataclass(frozen=True)
class Between:
    """The wires between two pools.

    Parameters
    ----------
    moved_bytes : (n,) keys and values of each request
    source_bytes_per_s, destination_bytes_per_s : of one copy of attention of each pool
    base_s : latency of a transfer
    layers : of the model where each is sent as it is done, 0 where all go after the prompt
    source_stages, destination_stages : replicas that share the wires of a copy
    """

    moved_bytes: Floats
    source_bytes_per_s: float
    destination_bytes_per_s: float
    base_s: float
    layers: int = 0
    source_stages: int = 1
    destination_stages: int = 1


@dataclass(frozen=True)
class PoolsReplay:
    """What a replay of two pools found.

    Parameters
    ----------
    prefill : of the prompts: ends with the computed prompt, which is the first token there
    decode : of the whole request: arrives at the first pool, has its first token when keys and
        values are at the second; its totals are of the second pool
    computed_s, reserved_s, done_s : (n,) prompt computed, room found, keys and values there;
        NaN of answers of one token
    """

    prefill: ReplayResult
    decode: ReplayResult
    computed_s: Floats
    reserved_s: Floats
    done_s: Floats

    @property
    def moving_s(self) -> Floats:
        """From the computed prompt until its keys and values are there, room found included."""
        return self.done_s - self.computed_s

    @property
    def is_moved(self) -> Masks:
        """Requests with a transfer."""
        return np.isfinite(self.done_s)


def replay_pools(
    requests: Requests,
    fleets: tuple[Fleet, Fleet],
    tables: tuple[StepTables, StepTables],
    between: Between,
    run: Run = PLAIN,
) -> PoolsReplay:
    """The times of every request of a stream through prefill, transfer and decode.

    Parameters
    ----------
    requests : the stream; each has to fit both pools
    fleets, tables : of the prefill and of the decode pool
    between : wires
    run : seed, what is kept; a closed loop and skipped steps are not of two pools

    Raises
    ------
    ReplayStuck : a policy that serves nobody, or room that never comes free
    """
    prompts = replace(requests, output_tokens=np.minimum(requests.output_tokens, 1))
    own = replace(run, can_skip=False, concurrency=0)
    pools = Pools(
        prefill=opened(prompts, fleets[0], tables[0], own),
        decode=opened(requests, fleets[1], tables[1], own),
        wires=_wires(len(requests), fleets, between),
    )
    advance: Callable[[int, Pools], int] = advance_pools
    if run.is_compiled:
        from simkernel.replay import compiled  # numba takes half a second to import

        advance = compiled.advance_pools()
    outcome = engine.GOING
    while outcome == engine.GOING:
        outcome = advance(EVENTS_AT_ONCE, pools)
    if outcome == engine.STUCK:
        raise ReplayStuck(
            "a pool has requests and never moves again: policies "
            f"{fleets[0].batching!r} and {fleets[1].batching!r}; give the decode pool more room"
        )
    moves, done = pools.wires.moves, result_of(pools.decode)
    found = result_of(pools.prefill)
    refusals = np.array(found.refusal_code)
    return PoolsReplay(
        prefill=found,
        decode=replace(done, arrival_s=found.arrival_s, refusal_code=refusals),
        computed_s=np.array(moves.computed_s),
        reserved_s=np.array(moves.reserved_s),
        done_s=np.array(moves.done_s),
    )


def _wires(count: int, fleets: tuple[Fleet, Fleet], between: Between) -> Wires:
    """Nobody on the way, every wire free."""
    moves = np.zeros(count, MOVES).view(np.recarray)
    moves.computed_s = moves.reserved_s = moves.done_s = np.nan
    moves.source = moves.destination = moves.behind = -1
    moves.bytes = np.rint(between.moved_bytes).astype(np.int64)
    sources = int(fleets[0].replicas) // between.source_stages + 1
    replicas = int(fleets[1].replicas)
    return Wires(
        moves=moves,
        counts=np.zeros(COUNTS, dtype=np.int64),
        due=np.zeros(count, dtype=np.int64),
        source_free_s=np.zeros(sources),
        destination_free_s=np.zeros(replicas // between.destination_stages + 1),
        first_waiting=np.full(replicas, -1, dtype=np.int64),
        last_waiting=np.full(replicas, -1, dtype=np.int64),
        inbound=np.zeros(replicas, dtype=np.int64),
        source_bytes_per_s=float(between.source_bytes_per_s),
        destination_bytes_per_s=float(between.destination_bytes_per_s),
        base_s=float(between.base_s),
        layers=int(between.layers),
        source_stages=int(between.source_stages),
        destination_stages=int(between.destination_stages),
    )
