"""One ring through all members, as many parallel channels as a domain has members.

Each channel crosses a domain edge at another device, so all network cards of a domain carry the
ring; bandwidth term of Thakur, Rabenseifner and Gropp (2005), section 4, channels as NCCL's rings.
"""

from __future__ import annotations

from simkernel.collectives._flows import PLAIN, Phase, Way, passes
from simkernel.columns import Column
from simkernel.placement import Group
from simkernel.traffic import Traffic, Wires, two_tiers

OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter")
IN_BEST = True


def traffic(
    operation: str, wires: Wires, group: Group, payload_bytes: Column, remote_frac: Column = 1.0
) -> Traffic:
    """Closed form: (n-1)/n of the payload per pass round the ring, two passes for all_reduce.

    A device is the edge of one of `inside` channels: it sends 1/inside of its bytes outside.
    """
    rounds = passes(operation)
    sent = rounds * (group.size - 1) / group.size * payload_bytes
    crosses = group.domains > 1
    outside = sent / group.inside * crosses
    steps = rounds * (group.size - 1)
    return two_tiers(
        wires, group, sent - outside, outside, steps * (1 - crosses), steps, together=True
    )


def phases(
    operation: str, members: int, domain_size: int, payload_bytes: float, way: Way = PLAIN
) -> list[Phase]:
    """Per step, every member passes one part on; channel c leaves the first domain at member c.

    Every other domain is walked backwards, so a channel enters a domain on the rail that it left
    the one before by.
    """
    part = payload_bytes / members / domain_size
    step: Phase = []
    for channel in range(domain_size):
        walk = [(channel + 1 + i) % domain_size for i in range(domain_size)]
        order = [
            domain * domain_size + member
            for domain in range(members // domain_size)
            for member in (walk if domain % 2 == 0 else reversed(walk))
        ]
        step += [(a, b, part) for a, b in zip(order, order[1:] + order[:1], strict=True)]
    return [step] * (passes(operation) * (members - 1))
