"""The calendar with what may happen in it: periods, and at gates the futures that part there.

A node is a period in a future. Futures that have not parted yet share their nodes, so that what
is decided at a node cannot know which of them comes: that is what waits for an observation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np

from simkernel.columns import Codes, Floats


@dataclass(frozen=True)
class Branch:
    """One thing that may happen at a gate; those of one period exclude each other.

    Parameters
    ----------
    name : of it
    period : from which on it shows
    chance : of it among those of its period [1]
    demand : workload to a factor on its demand from there on
    late_periods : by which deliveries are late from there on
    """

    name: str
    period: int
    chance: float
    demand: Mapping[str, float] = field(default_factory=dict)
    late_periods: int = 0


@dataclass(frozen=True)
class Tree:
    """Nodes of a calendar, parents before children; (n,) each.

    Parameters
    ----------
    period : of a node
    parent : the node before it, -1 for the first
    chance : of coming there [1]
    late : periods by which what is due there or later is late
    words : what has happened on the way, "" for nothing yet
    factors : workload to what its demand is multiplied with; (n,)
    """

    period: Codes
    parent: Codes
    chance: Floats
    late: Codes
    words: tuple[str, ...]
    factors: Mapping[str, Floats] = field(default_factory=dict)

    def __len__(self) -> int:
        """Nodes."""
        return len(self.period)

    def path(self, node: int) -> list[int]:
        """Nodes from the first to this one."""
        found = [node]
        while self.parent[found[-1]] >= 0:
            found.append(int(self.parent[found[-1]]))
        return found[::-1]

    @property
    def leaves(self) -> list[int]:
        """Last nodes, one for each future."""
        return np.flatnonzero(self.period == self.period.max()).tolist()

    def after(self, node: int) -> Iterator[int]:
        """The node and all that may come after it, parents before children."""
        seen = {node}
        yield node
        for other in range(node + 1, len(self)):
            if int(self.parent[other]) in seen:
                seen.add(other)
                yield other


def tree_of(periods: int, branches: Sequence[Branch] = ()) -> Tree:
    """The calendar of so many periods in which every branch may come at its gate.

    Parameters
    ----------
    branches : gates of different periods are independent of each other
    """
    gates = {
        period: list(group)
        for period, group in groupby(sorted(branches, key=lambda b: b.period), lambda b: b.period)
    }
    names = {name for branch in branches for name in branch.demand}
    rows: list[tuple[int, int, float, int, str]] = []
    factors: dict[str, list[float]] = {name: [] for name in names}
    before: list[int] = []
    for t in range(periods):
        now: list[int] = []
        for parent in before or [-1]:
            for branch in gates.get(t, [None]):
                now.append(len(rows))
                rows.append(_node(rows, parent, t, branch))
                for name in names:
                    old = factors[name][parent] if parent >= 0 else 1.0
                    own = branch.demand.get(name, 1.0) if branch else 1.0
                    factors[name].append(old * own)
        before = now
    period, parents, chance, late, words = zip(*rows, strict=True)
    return Tree(np.array(period), np.array(parents), np.array(chance, float), np.array(late),
                words, {n: np.array(f) for n, f in factors.items()})  # fmt: skip


def _node(
    rows: Sequence[tuple[int, int, float, int, str]], parent: int, t: int, branch: Branch | None
) -> tuple[int, int, float, int, str]:
    _, _, chance, late, words = rows[parent] if parent >= 0 else (0, 0, 1.0, 0, "")
    if branch is None:
        return t, parent, chance, late, words
    told = f"{words}, {branch.name}" if words else branch.name
    return t, parent, chance * branch.chance, late + branch.late_periods, told
