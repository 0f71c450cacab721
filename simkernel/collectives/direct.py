"""Everyone to everyone at once, and one message to one peer; no copy is shared on the way."""

from __future__ import annotations

import numpy as np

from simkernel.collectives._flows import PLAIN, Phase, Way
from simkernel.columns import Column
from simkernel.placement import Group
from simkernel.traffic import Traffic, Wires, two_tiers

OPERATIONS = ("all_to_all", "send")
IN_BEST = True


def traffic(
    operation: str, wires: Wires, group: Group, payload_bytes: Column, remote_frac: Column = 1.0
) -> Traffic:
    """Closed form: each member's bytes split over the members inside and outside its domain.

    A send goes outside if its group (a pipeline) has any step between domains: that step is on
    the critical path.
    """
    if operation == "send":
        leaves = group.domains > 1
        stays = ~leaves & (group.size > 1)
        return two_tiers(
            wires,
            group,
            payload_bytes * stays,
            payload_bytes * leaves,
            stays,
            leaves,
            together=True,
        )
    inside = payload_bytes * (group.inside - 1) / group.size
    outside = payload_bytes * (group.size - group.inside) / group.size
    one = np.ones_like(group.size)
    return two_tiers(wires, group, inside, outside, one, one, together=True)


def phases(
    operation: str, members: int, domain_size: int, payload_bytes: float, way: Way = PLAIN
) -> list[Phase]:
    """All pairs in one step; a send is the step from the last of a domain to the next member."""
    if operation == "send":
        source = domain_size - 1
        return (
            [[(source, source + 1, payload_bytes)]]
            if members > domain_size
            else [[(0, 1, payload_bytes)]]
        )
    part = payload_bytes / members
    return [[(a, b, part) for a in range(members) for b in range(members) if a != b]]
