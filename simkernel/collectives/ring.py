"""One ring through all members, as many parallel channels as a domain has members.

Each channel crosses a domain edge at another device, so all network cards of a domain carry the
ring; bandwidth term of Thakur, Rabenseifner and Gropp (2005), section 4, channels as NCCL's rings.
"""

from __future__ import annotations

from simkernel.columns import Column
from simkernel.placement import Group
from simkernel.traffic import Traffic, Wires, two_tiers

OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter")


def traffic(
    operation: str, wires: Wires, group: Group, payload_bytes: Column, remote_frac: Column = 1.0
) -> Traffic:
    """Closed form: (n-1)/n of the payload per pass round the ring, two passes for all_reduce.

    A device is the edge of one of `inside` channels: it sends 1/inside of its bytes outside.
    """
    passes = 2 if operation == "all_reduce" else 1
    sent = passes * (group.size - 1) / group.size * payload_bytes
    crosses = group.domains > 1
    outside = sent / group.inside * crosses
    steps = passes * (group.size - 1)
    return two_tiers(
        wires, group, sent - outside, outside, steps * (1 - crosses), steps, together=True
    )


def phases(
    operation: str, members: int, domain_size: int, payload_bytes: float
) -> list[list[tuple[int, int, float]]]:
    """Per step, every member passes one part on; channel c starts its domain walk at member c."""
    passes = 2 if operation == "all_reduce" else 1
    part = payload_bytes / members / domain_size
    domains = members // domain_size
    step = []
    for channel in range(domain_size):
        order = [
            d * domain_size + (channel + 1 + i) % domain_size
            for d in range(domains)
            for i in range(domain_size)
        ]
        step += [(a, b, part) for a, b in zip(order, order[1:] + order[:1], strict=True)]
    return [step] * (passes * (members - 1))
