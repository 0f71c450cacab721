"""Sums made by the switches between domains: each shard goes up once and comes back once.

Inside a domain bytes are those of a ring: the measured curves hold a reduction in the switch
already where it was on. Between domains it is SHARP of InfiniBand switches or its like; a study
that names it must buy switches that can.

References
----------
Graham et al., Scalable Hierarchical Aggregation Protocol (SHARP), COM-HPC 2016, streaming
aggregation of SHARPv2 (2020): a device sends and receives the message once.
"""

from __future__ import annotations

from simkernel.collectives import _flows
from simkernel.collectives._flows import PLAIN, Phase, Way, within
from simkernel.columns import Column
from simkernel.placement import Group
from simkernel.traffic import Traffic, Wires, two_tiers

OPERATIONS = ("all_reduce",)
IN_BEST = False


def traffic(
    operation: str, wires: Wires, group: Group, payload_bytes: Column, remote_frac: Column = 1.0
) -> Traffic:
    """Closed form: S/q outside instead of 2 (k-1)/k S/q, in two steps however many domains."""
    inside, domains = group.inside, group.domains
    return two_tiers(
        wires,
        group,
        2 * payload_bytes * (inside - 1) / inside,
        payload_bytes / inside * (domains > 1),
        2 * (inside - 1),
        2,
        together=False,
    )


def phases(
    operation: str, members: int, domain_size: int, payload_bytes: float, way: Way = PLAIN
) -> list[Phase]:
    """Scatter inside; every device streams its shard to the switches and back; gather inside."""
    domains = members // domain_size
    shard = payload_bytes / domain_size
    once = within(domains, domain_size, shard)
    up = [(device, _flows.SWITCH, shard) for device in range(members)]
    down = [(_flows.SWITCH, device, shard) for device in range(members)]
    return once + ([up + down] if domains > 1 else []) + once
