"""Flows that several collectives are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Flow = tuple[int, int, float]
"""Source, target, bytes."""
Phase = list[Flow]

SWITCH = -1
"""The other end of a flow that the network reduces on its way, or multiplies."""

CHUNKS = (1, 4, 16, 64)
"""Into how many pieces a pipelined algorithm may cut its message; the best is taken."""


@dataclass(frozen=True)
class Way:
    """How flows are laid out where it is not the algorithm's to say.

    Parameters
    ----------
    remote_frac : all_to_all: distinct bytes over copies among those leaving the domain
    axes : of the torus a domain is, 1 of any other
    chunks : pieces of a pipelined message
    """

    remote_frac: float = 1.0
    axes: int = 1
    chunks: int = CHUNKS[-1]


PLAIN = Way()


def passes(operation: str) -> int:
    """Times the payload goes round: an all-reduce scatters and gathers."""
    return 2 if operation == "all_reduce" else 1


def within(domains: int, q: int, part_bytes: float) -> list[Phase]:
    """Ring steps inside every domain at once."""
    step = [(d * q + i, d * q + (i + 1) % q, part_bytes) for d in range(domains) for i in range(q)]
    return [step] * (q - 1)


def across(domains: int, q: int, part_bytes: float) -> list[Phase]:
    """Ring steps between equal members of all domains at once."""
    step = [
        (d * q + i, (d + 1) % domains * q + i, part_bytes)
        for d in range(domains)
        for i in range(q)
    ]
    return [step] * (domains - 1)


def by_digits(
    operation: str, members: int, factors: Sequence[int], payload_bytes: float
) -> list[Phase]:
    """A phase for each factor, in which members that differ in one digit send each other a part.

    Parameters
    ----------
    factors : whose product is `members`, nearest partners first; those of 1 need no phase
    """
    scatters, stride, part = [], 1, payload_bytes
    for factor in factors:
        part /= factor
        if factor > 1:
            scatters.append(_of_digit(members, factor, stride, part))
        stride *= factor
    return in_order(operation, scatters, scatters[::-1])


def _of_digit(members: int, factor: int, stride: int, part: float) -> Phase:
    """Members whose numbers differ in one digit send each other a part."""
    flows: Phase = []
    for source in range(members):
        digit = source // stride % factor
        flows += [
            (source, source + (other - digit) * stride, part)
            for other in range(factor)
            if other != digit
        ]
    return flows


def in_order(operation: str, scatters: list[Phase], gathers: list[Phase]) -> list[Phase]:
    """What an operation needs of scattering and then gathering."""
    if operation == "all_reduce":
        return scatters + gathers
    return scatters if operation == "reduce_scatter" else gathers
