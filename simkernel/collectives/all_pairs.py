"""Everyone sends each other its part at once, inside the domain and then between domains.

One step instead of a ring's n - 1: for messages whose latency counts, and on a mesh, where it
uses every direct link. On a switch the bytes are those of a ring.
"""

from __future__ import annotations

from simkernel.collectives._flows import PLAIN, Phase, Way, by_digits
from simkernel.columns import Column
from simkernel.placement import Group
from simkernel.traffic import Traffic, Wires, two_levels

OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter")
IN_BEST = False


def traffic(
    operation: str, wires: Wires, group: Group, payload_bytes: Column, remote_frac: Column = 1.0
) -> Traffic:
    """Closed form: bytes of two levels, one step each."""
    return two_levels(operation, wires, group, payload_bytes, 1, 1)


def phases(
    operation: str, members: int, domain_size: int, payload_bytes: float, way: Way = PLAIN
) -> list[Phase]:
    """One phase inside, one between domains; an all-reduce both and back."""
    return by_digits(operation, members, (domain_size, members // domain_size), payload_bytes)
