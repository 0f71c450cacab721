"""Which ranks of a group share a scale-up domain: link classes from coordinates, not from sizes.

Ranks are numbered with the innermost parallel dimension fastest; consecutive ranks fill a domain.
A job uses the same number of devices in every domain, chosen so that no group straddles a domain
edge unevenly; what a rack holds beyond that is stranded and paid for, never silently used.
Experts are folded over the ranks of one pipeline stage in the order of the dense dimensions
(expert_tensor, then expert, then expert_data).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import permutations

import numpy as np

from simkernel.columns import Codes

DIMENSIONS = ("tp", "cp", "dp", "pp")
ORDERS = tuple(permutations(DIMENSIONS))
"""Every nesting of the dense dimensions, innermost first; a placement axis stores the index."""


@dataclass(frozen=True)
class Degrees:
    """Sizes of the parallel groups; each (n,) integers, their product is the world."""

    tensor: Codes
    context: Codes
    data: Codes
    pipeline: Codes
    expert: Codes
    expert_tensor: Codes

    @property
    def stage(self) -> Codes:
        """Ranks that hold one pipeline stage."""
        return self.tensor * self.context * self.data

    @property
    def world(self) -> Codes:
        """All ranks."""
        return self.stage * self.pipeline

    @property
    def expert_data(self) -> Codes:
        """Copies of each expert within a stage."""
        return self.stage // (self.expert * self.expert_tensor)


@dataclass(frozen=True)
class Group:
    """A communicating group: `size` ranks, `inside` of them in each domain; (n,) integers."""

    size: Codes
    inside: Codes

    @property
    def domains(self) -> Codes:
        """Domains the group touches."""
        return self.size // self.inside


def cut_in_runs(group: Group, runs: Codes) -> tuple[Group, Group]:
    """A group cut into equal runs of neighbours, and the groups of one member of each run.

    Parameters
    ----------
    runs : (n,) that divide the group's size

    Notes
    -----
    Members in the order of their ranks fill one domain after another, `inside` in each. Runs that
    straddle domain edges unevenly are counted by their smallest piece.
    """
    size = group.size // runs
    is_nested = group.inside % size == 0
    near = np.where(is_nested, group.inside // size, 1)
    return Group(size, np.gcd(size, group.inside)), Group(runs, near)


@dataclass(frozen=True)
class Placement:
    """Every group of a job on its domains; `used_per_domain` (n,) devices of each domain work."""

    used_per_domain: Codes
    tensor: Group
    context: Group
    data: Group
    pipeline: Group
    expert: Group
    expert_tensor: Group
    expert_data: Group
    dense_sync: Group


def order_code(name: str) -> int:
    """Code of a placement, innermost first, such as "tp-cp-ep-dp-pp" ("ep" may be left out).

    Raises
    ------
    ValueError : not a nesting of tp, cp, dp and pp
    """
    return ORDERS.index(tuple(part for part in name.split("-") if part != "ep"))


def place(degrees: Degrees, domain_devices: Codes, order_codes: Codes) -> Placement:
    """Groups on domains for every candidate.

    Parameters
    ----------
    degrees : group sizes, (n,) each
    domain_devices : devices in one scale-up domain, (n,)
    order_codes : index in ORDERS, (n,)

    Notes
    -----
    Exact where all group boundaries divide one another (a rule masks the rest); tested against
    enumeration of every rank.
    """
    strides = _strides(degrees, order_codes)
    used = _used_per_domain(degrees, strides, domain_devices)
    one = np.ones_like(used)

    def dense(*names: str) -> Group:
        size, inside = one, one
        for name in names:
            count, stride = strides[name]
            size = size * count
            inside = inside * _inside(used, count, stride)
        return Group(size, inside)

    def folded(count: Codes, start: Codes) -> Group:
        inside = one
        for size, stride in _fold(count, start, strides):
            inside = inside * _inside(used, size, stride)
        return Group(count, inside)

    d = degrees
    return Placement(
        used_per_domain=used,
        tensor=dense("tp"),
        context=dense("cp"),
        data=dense("dp"),
        pipeline=dense("pp"),
        dense_sync=dense("cp", "dp"),
        expert_tensor=folded(d.expert_tensor, one),
        expert=folded(d.expert, d.expert_tensor),
        expert_data=folded(d.expert_data, d.expert_tensor * d.expert),
    )


def by_group_size(placement: Placement, domain_devices: Codes) -> Placement:
    """The same, but replicas are inside a domain where they are no more than it has devices.

    Not physical: see `link_rules`.
    """

    def sized(group: Group) -> Group:
        return Group(group.size, np.where(group.size <= domain_devices, group.size, 1))

    return replace(
        placement,
        data=sized(placement.data),
        dense_sync=sized(placement.dense_sync),
        expert_data=sized(placement.expert_data),
    )


def _strides(d: Degrees, order_codes: Codes) -> dict[str, tuple[Codes, Codes]]:
    """Size and rank stride of each dense dimension, and its stride among the ranks of a stage."""
    sizes = {"tp": d.tensor, "cp": d.context, "dp": d.data, "pp": d.pipeline}
    ranks = np.array([[o.index(name) for name in DIMENSIONS] for o in ORDERS])[order_codes]
    out = {}
    for i, name in enumerate(DIMENSIONS):
        stride = np.ones_like(d.tensor)
        for j, other in enumerate(DIMENSIONS):
            if other != name:
                stride = stride * np.where(ranks[..., j] < ranks[..., i], sizes[other], 1)
        out[name] = (sizes[name], stride)
    return out


def _stage_stride(name: str, strides: dict[str, tuple[Codes, Codes]]) -> Codes:
    """Stride of a dense dimension counted among the ranks of one stage only."""
    pipeline_size, pipeline_stride = strides["pp"]
    stride = strides[name][1]
    return np.where(stride > pipeline_stride, stride // pipeline_size, stride)


def _fold(
    count: Codes, start: Codes, strides: dict[str, tuple[Codes, Codes]]
) -> list[tuple[Codes, Codes]]:
    """An expert group (stride `start` in the stage) as factors (size, rank stride)."""
    factors = []
    for name in ("tp", "cp", "dp"):
        size, stride = strides[name]
        low = _stage_stride(name, strides)
        low, high, first = low, low * size, np.maximum(low, start)
        shared = np.minimum(high, start * count) // first
        factors.append((np.maximum(shared, 1), stride * (first // low)))
    return factors


def _inside(used: Codes, size: Codes, stride: Codes) -> Codes:
    """Members of a strided group that fit in one domain's used devices."""
    return np.clip(used // stride, 1, size)


def _used_per_domain(
    d: Degrees, strides: dict[str, tuple[Codes, Codes]], domain_devices: Codes
) -> Codes:
    """Most devices of a domain such that every group boundary divides it or is divided by it."""
    pipeline_size, pipeline_stride = strides["pp"]
    edges = [strides[name][1] * strides[name][0] for name in DIMENSIONS]
    folded = (d.expert_tensor, d.expert_tensor * d.expert)
    edges += [np.where(e > pipeline_stride, e * pipeline_size, e) for e in folded]
    low, high = np.ones_like(d.tensor), d.world
    for edge in edges:
        low = np.where(edge <= domain_devices, np.maximum(low, edge), low)
        high = np.where(edge > domain_devices, np.minimum(high, edge), high)
    return low * _largest_divisor(np.maximum(high // low, 1), domain_devices // low)


def _largest_divisor(number: Codes, limit: Codes) -> Codes:
    """Largest divisor of `number` not above `limit`; both (n,), few distinct pairs."""
    pairs, inverse = np.unique(number * (1 << 32) + limit, return_inverse=True)
    best = [_divisor(int(pair) >> 32, int(pair) & 0xFFFFFFFF) for pair in pairs]
    return np.array(best, dtype=np.int64)[inverse.reshape(np.shape(number))]


def _divisor(number: int, limit: int) -> int:
    return max(k for k in range(1, min(number, limit) + 1) if number % k == 0)
