"""Exchange with partners ever further away, of ever smaller parts; back the other way to gather.

For any number of members: a step for each prime factor f, in which f partners exchange f-th parts.
With powers of two it is recursive halving and doubling. Near partners come first, so most bytes
stay inside the domain.

References
----------
Thakur, Rabenseifner and Gropp (2005), section 4; steps of other radices: Ruefenacht, Bull and
Booth (2017), Generalisation of recursive doubling for AllReduce.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from simkernel.collectives._flows import PLAIN, Phase, Way, in_order, passes
from simkernel.columns import Codes, Column
from simkernel.placement import Group
from simkernel.traffic import Traffic, Wires, two_tiers

OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter")
IN_BEST = False


def traffic(
    operation: str, wires: Wires, group: Group, payload_bytes: Column, remote_frac: Column = 1.0
) -> Traffic:
    """Closed form: bytes of two levels, one step for each prime factor of their sizes."""
    rounds, inside, domains = passes(operation), group.inside, group.domains
    return two_tiers(
        wires,
        group,
        rounds * payload_bytes * (inside - 1) / inside,
        rounds * payload_bytes / inside * (1 - 1 / domains),
        rounds * _step_counts(inside),
        rounds * _step_counts(domains),
        together=False,
    )


def phases(
    operation: str, members: int, domain_size: int, payload_bytes: float, way: Way = PLAIN
) -> list[Phase]:
    """A phase for each prime factor of the domain's size and of the number of domains."""
    scatters, stride, part = [], 1, payload_bytes
    for factor in (*_prime_factors(domain_size), *_prime_factors(members // domain_size)):
        part /= factor
        scatters.append(_exchange(members, factor, stride, part))
        stride *= factor
    return in_order(operation, scatters, scatters[::-1])


def _exchange(members: int, factor: int, stride: int, part: float) -> Phase:
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


def _step_counts(sizes: Codes) -> Codes:
    """Prime factors of each size; (n,)."""
    distinct, inverse = np.unique(sizes, return_inverse=True)
    counts = np.array([len(_prime_factors(int(size))) for size in distinct])
    return counts[inverse.reshape(np.shape(sizes))]


@cache
def _prime_factors(number: int) -> tuple[int, ...]:
    """Smallest first."""
    for divisor in range(2, int(number**0.5) + 1):
        if number % divisor == 0:
            return (divisor, *_prime_factors(number // divisor))
    return (number,) if number > 1 else ()
