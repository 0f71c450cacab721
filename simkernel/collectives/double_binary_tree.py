"""Two binary trees, each for half of the message: who has children in one is a leaf in the other.

Halves go up and come down in chunks, so that all edges are busy and a device sends at most twice
the message, in a number of steps that grows with the logarithm. Inside domains the message is
scattered first and gathered last, as in two levels; where all are in one domain, the trees are
there.

References
----------
Sanders, Speck and Traff, Two-tree algorithms for full bandwidth broadcast, reduction and scan,
Parallel Computing 2009; the trees are those of NVIDIA/nccl src/graph/trees.cc.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from simkernel.collectives import _flows
from simkernel.collectives._flows import PLAIN, Phase, Way, within
from simkernel.columns import Codes, Column, Floats
from simkernel.placement import Group
from simkernel.traffic import Traffic, Wires, two_tiers

OPERATIONS = ("all_reduce",)
IN_BEST = False
_no_parent = -1


def traffic(
    operation: str, wires: Wires, group: Group, payload_bytes: Column, remote_frac: Column = 1.0
) -> Traffic:
    """Closed form: wave fronts of the best number of chunks, each at its busiest device's pace."""
    inside, domains = group.inside, group.domains
    is_apart = domains > 1
    near = np.where(is_apart, 2 * payload_bytes * (inside - 1) / inside, 0.0)
    half = payload_bytes / np.where(is_apart, inside, 1) / 2.0
    busiest, fronts, loads = _of_trees(np.where(is_apart, domains, inside))
    rings = two_tiers(
        wires, group, near, 0.0 * half, 2 * (inside - 1) * is_apart, 0, together=False
    )
    rate = np.where(
        is_apart,
        wires.outside_bytes_per_s * wires.outside_frac,
        wires.inside_bytes_per_s * wires.inside_frac,
    )
    step_s = np.where(is_apart, wires.outside_step_s, wires.inside_step_s)
    options = [
        step_s * fronts[..., i] + loads[..., i] * half / chunks / rate
        for i, chunks in enumerate(_flows.CHUNKS)
    ]
    sent = busiest * half
    return replace(
        rings,
        elapsed_s=rings.elapsed_s + np.min(np.stack(options), axis=0),
        inside_s=rings.inside_s + np.where(is_apart, 0.0, sent / rate),
        outside_s=np.where(is_apart, sent / rate, 0.0),
        inside_bytes=near + np.where(is_apart, 0.0, sent),
        outside_bytes=np.where(is_apart, sent, 0.0),
    )


def phases(
    operation: str, members: int, domain_size: int, payload_bytes: float, way: Way = PLAIN
) -> list[Phase]:
    """Ring steps inside; wave fronts of the trees between equal members of all domains."""
    q, domains = domain_size, members // domain_size
    if domains == 1:
        return _fronts(members, 1, payload_bytes / 2.0, way.chunks)
    once = within(domains, q, payload_bytes / q)
    return once + _fronts(domains, q, payload_bytes / q / 2.0, way.chunks) + once


@dataclass(frozen=True)
class _Tree:
    """One tree over n members: each one's parent, and its distance from the root; (n,)."""

    parents: Codes
    depths: Codes

    @property
    def children(self) -> Codes:
        """How many each has."""
        has_parent = self.parents != _no_parent
        return np.bincount(self.parents[has_parent], minlength=len(self.parents))


def _fronts(nodes: int, q: int, half: float, chunks: int) -> list[Phase]:
    """Chunk c leaves depth d in front c + height - d, and is back there in c + height + d - 1.

    Every member of a domain does so with its own shard.
    """
    trees = _trees(nodes)
    height = int(max(tree.depths.max() for tree in trees))
    found: list[Phase] = [[] for _ in range(chunks + 2 * height - 1)]
    for tree in trees:
        for node in np.flatnonzero(tree.parents != _no_parent).tolist():
            depth, ends = int(tree.depths[node]), (node * q, int(tree.parents[node]) * q)
            up = [(ends[0] + i, ends[1] + i, half / chunks) for i in range(q)]
            down = [(parent, child, sent) for child, parent, sent in up]
            for chunk in range(chunks):
                found[chunk + height - depth] += up
                found[chunk + height + depth - 1] += down
    return found


def _of_trees(nodes: Codes) -> tuple[Floats, Floats, Floats]:
    """Halves that the busiest device sends; fronts, and their loads summed, for each of CHUNKS.

    Returns
    -------
    (n,), (n, len(CHUNKS)), (n, len(CHUNKS))
    """
    distinct, inverse = np.unique(nodes, return_inverse=True)
    rows = inverse.reshape(np.shape(nodes))
    shapes = [_shape(int(count)) for count in distinct]
    busiest, fronts, loads = (np.array(column, float) for column in zip(*shapes, strict=True))
    return busiest[rows], fronts[rows], loads[rows]


@cache
def _shape(nodes: int) -> tuple[float, tuple[float, ...], tuple[float, ...]]:
    """Of two trees over some nodes: the most halves sent; fronts and summed loads by chunks."""
    if nodes == 1:
        return 0.0, (0.0,) * len(_flows.CHUNKS), (0.0,) * len(_flows.CHUNKS)
    trees = _trees(nodes)
    height = int(max(tree.depths.max() for tree in trees))
    sent = sum(tree.children + (tree.parents != _no_parent) for tree in trees)
    counts = [chunks + 2 * height - 1 for chunks in _flows.CHUNKS]
    loads = [
        float(sum(_load(trees, height, chunks, front) for front in range(count)))
        for chunks, count in zip(_flows.CHUNKS, counts, strict=True)
    ]
    return float(np.max(sent)), tuple(float(count) for count in counts), tuple(loads)


def _load(trees: tuple[_Tree, _Tree], height: int, chunks: int, front: int) -> int:
    """Chunks that the busiest device sends or receives in a front."""
    sent, got = np.zeros((2, len(trees[0].parents)), np.int64)
    for tree in trees:
        has_parent = tree.parents != _no_parent
        up, down = front - height + tree.depths, front - height - tree.depths + 1
        goes_up = has_parent & (up >= 0) & (up < chunks)
        comes_down = has_parent & (down >= 0) & (down < chunks)
        sent += goes_up
        got += comes_down
        np.add.at(got, tree.parents[goes_up], 1)
        np.add.at(sent, tree.parents[comes_down], 1)
    return int(max(sent.max(), got.max()))


@cache
def _trees(nodes: int) -> tuple[_Tree, _Tree]:
    """The first tree, and the second: mirrored, or moved by one where the number is odd."""
    first = np.array([_parent(nodes, node) for node in range(nodes)])
    second = np.full(nodes, _no_parent)
    for node in range(nodes):
        place = (node + 1) % nodes if nodes % 2 else nodes - 1 - node
        if first[node] != _no_parent:
            above = int(first[node])
            second[place] = (above + 1) % nodes if nodes % 2 else nodes - 1 - above
    return _tree(first), _tree(second)


def _parent(nodes: int, node: int) -> int:
    """The lowest set bit of a number says its height; the root is 0, with one child."""
    if node == 0:
        return _no_parent
    bit = node & -node
    above = (node ^ bit) | (bit << 1)
    return above if above < nodes else node ^ bit


def _tree(parents: Codes) -> _Tree:
    depths = np.zeros(len(parents), np.int64)
    above = parents.copy()
    while np.any(above != _no_parent):
        depths += above != _no_parent
        above = np.where(above == _no_parent, _no_parent, parents[above])
    return _Tree(parents, depths)
