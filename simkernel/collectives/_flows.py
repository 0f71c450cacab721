"""Flows that several collectives are made of."""

from __future__ import annotations

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


def in_order(operation: str, scatters: list[Phase], gathers: list[Phase]) -> list[Phase]:
    """What an operation needs of scattering and then gathering."""
    if operation == "all_reduce":
        return scatters + gathers
    return scatters if operation == "reduce_scatter" else gathers
