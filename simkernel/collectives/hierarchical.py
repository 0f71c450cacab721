"""Two levels: inside the domain first, then one shard per device across domains.

all_to_all sends a token once to each remote domain that holds one of its experts and forwards it
there (DeepSeek-V3 report, section 3.2.2, node-limited dispatch).
"""

from __future__ import annotations

from simkernel.columns import Column
from simkernel.placement import Group
from simkernel.traffic import Traffic, Wires, two_tiers

OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")


def traffic(
    operation: str, wires: Wires, group: Group, payload_bytes: Column, remote_frac: Column = 1.0
) -> Traffic:
    """Closed form.

    Reductions: (q-1)/q of the payload inside, then (k-1)/k of the q-th part outside, q members
    in each of k domains. all_to_all: remote_frac of the bytes for other domains go outside once,
    and every byte may need a last hop inside.
    """
    inside, domains = group.inside, group.domains
    if operation == "all_to_all":
        outside_bytes = payload_bytes * (1 - 1 / domains) * remote_frac
        inside_bytes = payload_bytes * (inside - 1) / inside
        return two_tiers(
            wires, group, inside_bytes, outside_bytes, inside - 1, domains - 1, together=True
        )
    passes = 2 if operation == "all_reduce" else 1
    inside_bytes = passes * payload_bytes * (inside - 1) / inside
    outside_bytes = passes * payload_bytes / inside * (1 - 1 / domains)
    return two_tiers(
        wires,
        group,
        inside_bytes,
        outside_bytes,
        passes * (inside - 1),
        passes * (domains - 1),
        together=False,
    )


def phases(
    operation: str, members: int, domain_size: int, payload_bytes: float
) -> list[list[tuple[int, int, float]]]:
    """Flows step by step; all_to_all with nothing sent twice (remote_frac 1)."""
    domains = members // domain_size
    if operation == "all_to_all":
        part = payload_bytes / members
        across = [
            (d * domain_size + i, e * domain_size + i, part * domain_size)
            for d in range(domains)
            for e in range(domains)
            for i in range(domain_size)
            if d != e
        ]
        within = [
            (d * domain_size + i, d * domain_size + j, part * domains)
            for d in range(domains)
            for i in range(domain_size)
            for j in range(domain_size)
            if i != j
        ]
        return [across + within]
    once = _within(domains, domain_size, payload_bytes / domain_size)
    over = _across(domains, domain_size, payload_bytes / domain_size / domains)
    if operation == "reduce_scatter":
        return once + over
    if operation == "all_gather":
        return over + once
    return once + over + over + once


def _within(domains: int, q: int, part: float) -> list[list[tuple[int, int, float]]]:
    """Ring steps inside every domain at once."""
    step = [(d * q + i, d * q + (i + 1) % q, part) for d in range(domains) for i in range(q)]
    return [step] * (q - 1)


def _across(domains: int, q: int, part: float) -> list[list[tuple[int, int, float]]]:
    """Ring steps between equal members of all domains at once."""
    step = [(d * q + i, (d + 1) % domains * q + i, part) for d in range(domains) for i in range(q)]
    return [step] * (domains - 1)
