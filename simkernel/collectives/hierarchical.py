"""Two levels: inside the domain first, then one shard per device across domains.

all_to_all sends a token once to each remote domain that holds one of its experts and forwards it
there (DeepSeek-V3 report, section 3.2.2, node-limited dispatch).
"""

from __future__ import annotations

from simkernel.collectives._flows import PLAIN, Phase, Way, across, in_order, within
from simkernel.columns import Column
from simkernel.placement import Group
from simkernel.traffic import Traffic, Wires, two_levels, two_tiers

OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
IN_BEST = True


def traffic(
    operation: str, wires: Wires, group: Group, payload_bytes: Column, remote_frac: Column = 1.0
) -> Traffic:
    """Closed form.

    Reductions: `traffic.two_levels` in ring steps. all_to_all: remote_frac of the bytes for other
    domains go outside once, and every byte may need a last hop inside.
    """
    inside, domains = group.inside, group.domains
    if operation == "all_to_all":
        outside_bytes = payload_bytes * (1 - 1 / domains) * remote_frac
        inside_bytes = payload_bytes * (inside - 1) / inside
        return two_tiers(
            wires, group, inside_bytes, outside_bytes, inside - 1, domains - 1, together=True
        )
    return two_levels(operation, wires, group, payload_bytes, inside - 1, domains - 1)


def phases(
    operation: str, members: int, domain_size: int, payload_bytes: float, way: Way = PLAIN
) -> list[Phase]:
    """Flows step by step; all_to_all: with equals and within the domain at once."""
    domains = members // domain_size
    if operation == "all_to_all":
        return [_exchange(domains, domain_size, payload_bytes / members, way.remote_frac)]
    shard = payload_bytes / domain_size
    once, over = within(domains, domain_size, shard), across(domains, domain_size, shard / domains)
    return in_order(operation, once + over, over + once)


def _exchange(domains: int, q: int, part: float, remote_frac: float) -> Phase:
    """Between equal members of all domains, distinct bytes once; between members of each, all."""
    between = [
        (d * q + i, e * q + i, part * q * remote_frac)
        for d in range(domains)
        for e in range(domains)
        for i in range(q)
        if d != e
    ]
    inside = [
        (d * q + i, d * q + j, part * domains)
        for d in range(domains)
        for i in range(q)
        for j in range(q)
        if i != j
    ]
    return between + inside
