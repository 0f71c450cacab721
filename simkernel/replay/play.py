"""Collectives played on a network: chains of phases, each phase flows that begin together.

A chain goes on to its next phase when the last flow of this one has ended, as ranks do that wait
for their neighbours. Chains share the links; how long each takes, alone or beside the others,
comes out. Pipelined algorithms are given as wave fronts: what is under way at once is one phase.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from simkernel.columns import Codes, Floats
from simkernel.errors import ReplayStuck
from simkernel.replay.flows import advance, next_s, start
from simkernel.replay.net import Net, opened_net
from simkernel.wiring.links import Routes

Flow = tuple[int, float]
"""A route and the bytes sent over it."""


@dataclass(frozen=True)
class Chain:
    """One collective: its phases in order, each a list of flows and what is waited before it.

    Parameters
    ----------
    phases : flows that begin together, phase by phase
    wait_s : before the bytes of each phase move, beside the latency of the routes, (p,) [s]
    start_s : when the first phase begins [s]
    """

    phases: Sequence[Sequence[Flow]]
    wait_s: Sequence[float]
    start_s: float = 0.0


class Score(NamedTuple):
    """Chains as arrays, and how far each is.

    Parameters
    ----------
    chain_phase, phase_flow : (c + 1,), (p + 1,) where the phases of a chain and the flows of a
        phase begin
    route, payload_bytes : (f,) of every flow
    wait_s : (p,) of every phase
    phase, open_flows, end_s : (c,) the phase under way, its flows under way, when the last ended
    """

    chain_phase: Codes
    phase_flow: Codes
    route: Codes
    payload_bytes: Floats
    wait_s: Floats
    phase: Codes
    open_flows: Codes
    end_s: Floats


def played(
    bytes_per_s: Floats, routes: Routes, chains: Sequence[Chain], *, is_compiled: bool = True
) -> tuple[Floats, Net]:
    """When each chain has ended, and the network with what its links carried.

    Parameters
    ----------
    bytes_per_s : (l,) capacity of every link [bytes/s]
    routes : over these links
    chains : what is played, all on one clock
    is_compiled : as machine code; else as it is written, for tests

    Returns
    -------
    (c,) [s]

    Raises
    ------
    ReplayStuck : a chain that waits for a link without capacity
    """
    score = _score(chains)
    most = sum(max((len(phase) for phase in chain.phases), default=0) for chain in chains)
    net = opened_net(bytes_per_s, routes, most)
    _loop(is_compiled)(net, score)
    left = np.flatnonzero(score.open_flows > 0)
    if len(left):
        failed = np.flatnonzero(net.links.bytes_per_s == 0.0)
        raise ReplayStuck(
            f"{len(left)} of {len(chains)} collectives wait for ever, the first is number "
            f"{left[0]}; links {failed.tolist()} have no capacity: mend or route around them"
        )
    return score.end_s, net


def play(net: Net, score: Score) -> None:
    """All chains to their end, or until nothing will ever move."""
    for chain in range(len(score.phase)):
        begin_phase(net, score, chain, 0.0, score.end_s[chain])
    now_s = next_s(net)
    while now_s < np.inf:
        for i in range(advance(net, now_s)):
            chain = net.ended[i]
            score.open_flows[chain] -= 1
            if score.open_flows[chain] == 0:
                score.end_s[chain] = now_s
                score.phase[chain] += 1
                begin_phase(net, score, chain, now_s, 0.0)
        now_s = next_s(net)


def begin_phase(net: Net, score: Score, chain: int, now_s: float, wait_s: float) -> None:
    """The next phase of a chain that has any flows; its waits without flows are waited too."""
    phase, last = score.phase[chain], score.chain_phase[chain + 1]
    while phase < last:
        wait_s += score.wait_s[phase]
        first, end = score.phase_flow[phase], score.phase_flow[phase + 1]
        for flow in range(first, end):
            start(net, now_s, score.route[flow], score.payload_bytes[flow], wait_s, chain)
        if end > first:
            score.open_flows[chain] = end - first
            break
        phase += 1
    score.phase[chain] = phase
    if phase == last:
        score.end_s[chain] = now_s + wait_s


def _score(chains: Sequence[Chain]) -> Score:
    phases = [phase for chain in chains for phase in chain.phases]
    flows = [flow for phase in phases for flow in phase]
    chain_phase = _starts([len(chain.phases) for chain in chains])
    return Score(
        chain_phase=chain_phase,
        phase_flow=_starts([len(phase) for phase in phases]),
        route=np.array([route for route, _ in flows], dtype=np.int64),
        payload_bytes=np.array([sent for _, sent in flows], dtype=float),
        wait_s=np.array([wait for chain in chains for wait in chain.wait_s], dtype=float),
        phase=chain_phase[:-1].copy(),
        open_flows=np.zeros(len(chains), np.int64),
        end_s=np.array([chain.start_s for chain in chains], dtype=float),
    )


def _starts(counts: Sequence[int]) -> Codes:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def _loop(is_compiled: bool) -> Callable[[Net, Score], None]:
    if not is_compiled:
        return play
    from simkernel.replay import compiled  # numba takes half a second to import

    return compiled.machine_code(compiled.play_lent)
