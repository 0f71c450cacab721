"""Everyone sends each other its part at once, inside the domain and then between domains.

One step instead of a ring's n - 1: for messages whose latency counts, and on a mesh, where it
uses every direct link. On a switch the bytes are those of a ring.
"""

from __future__ import annotations

from simkernel.collectives._flows import PLAIN, Phase, Way, in_order, passes
from simkernel.columns import Column
from simkernel.placement import Group
from simkernel.traffic import Traffic, Wires, two_tiers

OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter")
IN_BEST = False


def traffic(
    operation: str, wires: Wires, group: Group, payload_bytes: Column, remote_frac: Column = 1.0
) -> Traffic:
    """Closed form: bytes of two levels, one step each."""
    rounds, inside, domains = passes(operation), group.inside, group.domains
    return two_tiers(
        wires,
        group,
        rounds * payload_bytes * (inside - 1) / inside,
        rounds * payload_bytes / inside * (1 - 1 / domains),
        rounds,
        rounds,
        together=False,
    )


def phases(
    operation: str, members: int, domain_size: int, payload_bytes: float, way: Way = PLAIN
) -> list[Phase]:
    """One phase inside, one between domains; an all-reduce both and back."""
    q, domains = domain_size, members // domain_size
    shard = payload_bytes / q
    inside = [
        (d * q + i, d * q + j, shard)
        for d in range(domains)
        for i in range(q)
        for j in range(q)
        if i != j
    ]
    between = [
        (d * q + i, e * q + i, shard / domains)
        for d in range(domains)
        for e in range(domains)
        for i in range(q)
        if d != e
    ]
    return [phase for phase in in_order(operation, [inside, between], [between, inside]) if phase]
