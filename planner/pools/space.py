"""All pairs of plans, one of each pool, with the replicas of both: levels, keys and rules.

A pair is never listed: pools are swept apart, and a pair has a number so that it has a name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from planner.axes import DERIVED, Level
from planner.space.blocks import MOST_KEYS, Ints, Space, mixed_radix, values_of
from planner.space.plan_keys import broken_rules, neighbours
from planner.study.pools import DECODE, OF_BOTH, POOLS, PREFILL, TRANSFER
from simkernel.columns import Codes
from simkernel.errors import BadStudy

MOST_REPLICAS = 1 << 14
"""Of a pool that the load decides; fewer where keys would not fit 64 bits."""

LEAST_REPLICAS = 1 << 6
COUNTED = "replicas"


@dataclass(frozen=True)
class PairSpace:
    """Pairs of plans.

    Parameters
    ----------
    pools : name of the pool to its own space
    levels : axis to its values, "prefill.X" and "decode.X"; replicas from 1 where the load decides
    bill_axes, plan_axes : names, in the order of a row of codes
    """

    pools: Mapping[str, Space]
    levels: Mapping[str, Sequence[Level]]
    bill_axes: tuple[str, ...]
    plan_axes: tuple[str, ...]

    @property
    def axes(self) -> tuple[str, ...]:
        """Names of a row's columns."""
        return (*self.bill_axes, *self.plan_axes)

    @property
    def chips(self) -> Mapping[str, Any]:
        """Sizes of the chips of both pools."""
        return {**self.pools[PREFILL].chips, **self.pools[DECODE].chips}

    @property
    def bill_codes(self) -> range:
        """A number for each pair of hardware bills."""
        return range(prod(len(space.bill_codes) for space in self.pools.values()))

    @property
    def key_count(self) -> int:
        """Design keys are below this."""
        return prod(len(self.levels[name]) for name in self.axes)

    @property
    def enumerated(self) -> int:
        """Pairs of plans, whatever their replicas, each way of sending apart."""
        ways = len(self.levels[TRANSFER])
        return ways * prod(space.enumerated for space in self.pools.values())

    def codes_of_pool(self, pool: str, codes: Ints) -> Ints:
        """The columns of one pool's own space; (n, its axes)."""
        own = self.pools[pool]
        found = np.zeros((len(codes), len(own.axes)), dtype=np.int32)
        for column, name in enumerate(own.axes):
            full = f"{pool}.{name}"
            if full in self.levels and not (name == COUNTED and self._is_derived(pool)):
                found[:, column] = codes[:, self.axes.index(full)]
            elif name in self.levels and name != TRANSFER:
                found[:, column] = codes[:, self.axes.index(name)]
        return found

    def replicas_of(self, pool: str, codes: Ints) -> Codes:
        """Replicas of one pool; (n,)."""
        name = f"{pool}.{COUNTED}"
        return np.array(self.levels[name])[codes[:, self.axes.index(name)]]

    def transfer_of(self, codes: Ints) -> Codes:
        """Places of the way of sending among the levels; (n,)."""
        return codes[:, self.axes.index(TRANSFER)]

    def codes_of_pair(
        self, own: Mapping[str, Ints], replicas: Mapping[str, Codes], transfer: Codes
    ) -> Ints:
        """Rows of codes of pairs, (n, axes); undoes the three above. Replicas are levels."""
        codes = np.zeros((len(transfer), len(self.axes)), dtype=np.int32)
        for column, name in enumerate(self.axes):
            pool, _, axis = name.partition(".")
            if name == TRANSFER:
                codes[:, column] = transfer
            elif name in OF_BOTH:
                space = self.pools[PREFILL]
                codes[:, column] = own[PREFILL][:, space.axes.index(name)]
            elif axis == COUNTED:
                place = {level: code for code, level in enumerate(self.levels[name])}
                codes[:, column] = [place[int(count)] for count in replicas[pool]]
            else:
                codes[:, column] = own[pool][:, self.pools[pool].axes.index(axis)]
        return codes

    def keys(self, codes: Ints) -> Any:
        """Design keys (n,) of rows of codes."""
        return mixed_radix([len(self.levels[name]) for name in self.axes], codes)

    def values(self, pool: str, codes: Ints) -> dict[str, Any]:
        """Columns of one pool as the physics reads them, replicas as numbers; (n,) each."""
        own = values_of(self.pools[pool], self.codes_of_pool(pool, codes))
        return {**own, COUNTED: self.replicas_of(pool, codes).astype(float)}

    def broken(self, row: Ints) -> tuple[str, ...]:
        """Names of the rules that a pair breaks, each with its pool before a colon."""
        found = []
        for pool in POOLS:
            own = self.codes_of_pool(pool, row[None, :])[0]
            found += [f"{pool}: {name}" for name in broken_rules(self.pools[pool], own)]
        return (*found, *self.unlike(row))

    def unlike(self, row: Ints) -> tuple[str, ...]:
        """What both pools have to have alike for one to read what the other wrote."""
        found = []
        for axis in ALIKE:
            levels = [
                self.levels[f"{p}.{axis}"][row[self.axes.index(f"{p}.{axis}")]] for p in POOLS
            ]
            if levels[0] != levels[1]:
                found.append(f"pools_differ_in_{axis}")
        return tuple(found)

    def neighbours(self, row: Ints) -> Iterator[tuple[str, Ints]]:
        """Every pair that differs on one axis; of replicas those next to it, and a tenth away."""
        for pool in POOLS:
            space = self.pools[pool]
            own = self.codes_of_pool(pool, row[None, :])[0]
            for axis, changed in neighbours(space, own):
                if axis == COUNTED or axis in OF_BOTH:
                    continue
                whole = row.copy()
                whole[self.axes.index(f"{pool}.{axis}")] = changed[space.axes.index(axis)]
                yield f"{pool}.{axis}", whole
            yield from self._counts_around(f"{pool}.{COUNTED}", row)
        for axis in (TRANSFER, *(n for n in OF_BOTH if n in self.levels and n != TRANSFER)):
            at = self.axes.index(axis)
            for code in range(len(self.levels[axis])):
                if code != row[at]:
                    whole = row.copy()
                    whole[at] = code
                    yield axis, whole

    def _counts_around(self, name: str, row: Ints) -> Iterator[tuple[str, Ints]]:
        at, levels = self.axes.index(name), self.levels[name]
        around = around_count(int(levels[row[at]])) if isinstance(levels, range) else levels
        for code in (levels.index(count) for count in around if count in levels):
            if code != row[at]:
                whole = row.copy()
                whole[at] = code
                yield name, whole

    def _is_derived(self, pool: str) -> bool:
        return self.pools[pool].levels[COUNTED] == (DERIVED,)


ALIKE = ("kv_precision", "speculative")
"""Axes of a pool in which a pair has to agree: keys and values are moved, not converted, and a
drafter finds its own among them."""

REASONS = {
    "pools_differ_in_kv_precision": "keys and values are moved as they are, not converted",
    "pools_differ_in_speculative": "a drafter needs its keys and values of the prompt too",
}
"""Why pairs cannot exist, for a person."""


def around_count(count: int) -> list[int]:
    """Replicas next to so many, and a tenth away, with themselves; none below 1."""
    step = max(count // 10, 1)
    found = {count - step, count - 1, count, count + 1, count + step}
    return sorted(n for n in found if n >= 1)


def pair_space(
    pools: Mapping[str, Space],
    transfers: Sequence[Level],
    counts: Mapping[str, Sequence[int]] | None = None,
) -> PairSpace:
    """The space of pairs of two pools' plans.

    Parameters
    ----------
    counts : of each pool, the replicas that there are where the load decides; else from 1 to as
        many as keys have room for

    Raises
    ------
    BadStudy : more combinations than a 64-bit key can number
    """
    bill: list[str] = []
    plan: list[str] = []
    levels: dict[str, Sequence[Level]] = {}
    for pool, space in pools.items():
        for name in space.axes:
            if name in OF_BOTH:
                continue
            (bill if name in space.bill_axes else plan).append(f"{pool}.{name}")
            levels[f"{pool}.{name}"] = space.levels[name]
    shared = [name for name in pools[PREFILL].bill_axes if name in OF_BOTH]
    for name in shared:
        levels[name] = pools[PREFILL].levels[name]
    levels[TRANSFER] = tuple(transfers)
    open_ = [f"{p}.{COUNTED}" for p in pools if pools[p].levels[COUNTED] == (DERIVED,)]
    if counts is not None:
        levels |= {
            f"{p}.{COUNTED}": tuple(n) for p, n in counts.items() if f"{p}.{COUNTED}" in open_
        }
        open_ = []
    rest = prod(len(found) for found in levels.values())
    most = MOST_REPLICAS
    while most > LEAST_REPLICAS and rest * most ** len(open_) > MOST_KEYS:
        most //= 2
    if rest * most ** len(open_) > MOST_KEYS:
        raise BadStudy(
            f"the axes of both pools have {rest:.3g} combinations before replicas are counted; "
            f"wanted at most {MOST_KEYS / LEAST_REPLICAS ** len(open_):.3g}; give fewer levels"
        )
    return PairSpace(
        pools=pools,
        levels={**levels, **{name: range(1, most + 1) for name in open_}},
        bill_axes=(*bill, *shared),
        plan_axes=(*plan, TRANSFER),
    )
