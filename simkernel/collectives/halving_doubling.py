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

from simkernel.collectives._flows import PLAIN, Phase, Way, by_digits
from simkernel.columns import Codes, Column
from simkernel.placement import Group
from simkernel.traffic import Traffic, Wires, two_levels

OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter")
IN_BEST = False


def traffic(
    operation: str, wires: Wires, group: Group, payload_bytes: Column, remote_frac: Column = 1.0
) -> Traffic:
    """Closed form: bytes of two levels, one step for each prime factor of their sizes."""
    steps = _step_counts(group.inside), _step_counts(group.domains)
    return two_levels(operation, wires, group, payload_bytes, *steps)


def phases(
    operation: str, members: int, domain_size: int, payload_bytes: float, way: Way = PLAIN
) -> list[Phase]:
    """A phase for each prime factor of the domain's size and of the number of domains."""
    factors = (*_prime_factors(domain_size), *_prime_factors(members // domain_size))
    return by_digits(operation, members, factors, payload_bytes)


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
