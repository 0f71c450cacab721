"""A training step as a trace shows it: seconds of every part, and which calls they are of.

Works on device time where a device ran kernels, and on the own time of calls where the host was
the device. A kind of call counts with the median of its times, so that one that was disturbed
does not stand for all.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass

import numpy as np

from planner.imports.kernel_kinds import OTHER, PRODUCT
from planner.imports.steps.operators import NOBODY, Calls, Dims, Tree
from planner.imports.steps.products import SHAPED, Shape, shape_of
from planner.imports.steps.sorting import PARTS
from simkernel.columns import Codes, Floats, Masks
from simkernel.hardware import Columns


@dataclass(frozen=True)
class Pieces(Columns):
    """Time of the device piece by piece; (n,) each.

    Parameters
    ----------
    calls : call that a piece is of, NOBODY where a trace does not say
    seconds, starts_s : [s]
    parts : index in PARTS
    is_backward : in the backward pass
    steps : index of the step, NOBODY outside all of them
    """

    calls: Codes
    seconds: Floats
    starts_s: Floats
    parts: Codes
    is_backward: Masks
    steps: Codes


@dataclass(frozen=True)
class Ran:
    """A kind of product that a step ran."""

    shape: Shape
    type: str
    is_backward: bool
    seconds: float
    """Median of one [s]."""
    per_step: float
    """How often a step runs it."""


@dataclass(frozen=True)
class Batch:
    """Micro-batches of a step, and sequences and tokens of each; 0 where a trace is silent."""

    micro_batches: float
    sequences: int
    sequence_tokens: int


@dataclass(frozen=True)
class Recognised:
    """One step of a trace, the mean of all that it holds.

    Parameters
    ----------
    steps : that the trace holds
    parts_s : (part, is backward) to seconds of a step, as they were [s]
    usual_s : the same from the median of every kind of call [s]
    products : kinds of products, the longest first
    strangers_s : calls or kernels that were not recognised, to seconds of a step [s]
    """

    steps: int
    parts_s: dict[tuple[str, bool], float]
    usual_s: dict[tuple[str, bool], float]
    products: tuple[Ran, ...]
    strangers_s: dict[str, float]

    @property
    def total_s(self) -> float:
        """Of all parts [s]."""
        return sum(self.parts_s.values())

    @property
    def recognised_frac(self) -> float:
        """Share of the time whose part is known."""
        lost_s = sum(s for (part, _), s in self.parts_s.items() if part == OTHER)
        return 1.0 - lost_s / self.total_s if self.total_s else 0.0

    def usual(self, *parts: str, backward: bool | None = None) -> float:
        """Seconds of a step in some parts, in one direction or both [s]."""
        return sum(
            s
            for (part, is_backward), s in self.usual_s.items()
            if part in parts and backward in (None, is_backward)
        )


def batch_of(calls: Calls, is_backward: Masks, is_in: Masks, steps: int) -> Batch:
    """Sequences and tokens of a micro-batch, as the largest embedding is asked for them.

    Where no embedding says it, the attention core does: (sequences, heads, tokens, width).

    Parameters
    ----------
    is_backward, is_in : (n,) calls of the backward pass, and of the steps
    """
    names, dims = list(calls.names), list(calls.dims)
    asked: Counter[Dims] = Counter()
    cores: Counter[Dims] = Counter()
    for i in np.flatnonzero(is_in & ~is_backward).tolist():
        name, shape = names[calls.name_codes[i]], dims[calls.dims_codes[i]]
        if name == "aten::embedding":
            asked[shape] += 1
        elif "scaled_dot_product" in name:
            cores[shape] += 1
    tables = [one for one in asked if len(one) > 1 and len(one[0]) == len(one[1]) == 2]
    if tables:
        widest = max(tables, key=lambda one: (one[0][0], one[1][0]))
        sequences, tokens = widest[1]
        return Batch(asked[widest] / steps, sequences, tokens)
    heads = next((one[0] for one in cores if one and len(one[0]) == 4), (0, 0, 0, 0))
    return Batch(0.0, heads[0], heads[2])


def recognised(calls: Calls, tree: Tree, pieces: Pieces, steps: int) -> Recognised:
    """Seconds of a step by part, and its products.

    Parameters
    ----------
    pieces : of the device, those outside steps left out where there are any
    steps : that the pieces are of
    """
    kinds: dict[tuple[int, ...], list[float]] = defaultdict(list)
    parts_s: dict[tuple[str, bool], float] = defaultdict(float)
    strangers_s: dict[str, float] = defaultdict(float)
    names = list(calls.names)
    product, other = PARTS.index(PRODUCT), PARTS.index(OTHER)
    owners = product_owners(calls, tree)
    of_product: dict[int, float] = defaultdict(float)
    for call, seconds, part, back in zip(
        pieces.calls.tolist(), pieces.seconds.tolist(), pieces.parts.tolist(),
        pieces.is_backward.tolist(), strict=True,
    ):  # fmt: skip
        parts_s[PARTS[part], back] += seconds / steps
        owner = int(owners[call]) if call != NOBODY and part == product else NOBODY
        if part == other:
            named = names[calls.name_codes[call]] if call != NOBODY else "kernels of no call"
            strangers_s[named] += seconds / steps
        if owner != NOBODY:
            of_product[owner] += seconds
        elif call != NOBODY:
            key = (part, back, calls.name_codes[call], calls.dims_codes[call])
            kinds[key].append(seconds)
        else:
            kinds[part, back, NOBODY, NOBODY].append(seconds)
    backs = dict(zip(pieces.calls.tolist(), pieces.is_backward.tolist(), strict=True))
    products = _products(calls, of_product, backs, steps)
    usual_s: dict[tuple[str, bool], float] = defaultdict(float)
    for (part, back, *_), all_s in kinds.items():
        usual_s[PARTS[part], bool(back)] += float(np.median(all_s)) * len(all_s) / steps
    for ran in products:
        usual_s[PRODUCT, ran.is_backward] += ran.seconds * ran.per_step
    return Recognised(steps, dict(parts_s), dict(usual_s), products, dict(strangers_s))


def product_owners(calls: Calls, tree: Tree) -> Codes:
    """The outermost call around each, itself included, whose inputs say which product it is."""
    names, dims = list(calls.names), list(calls.dims)
    shapes = {
        (name, shape): names[name] in SHAPED and shape_of(names[name], dims[shape]) is not None
        for name, shape in set(zip(calls.name_codes, calls.dims_codes, strict=True))
    }
    owners = np.full(len(calls), NOBODY)
    for i in tree.order.tolist():
        parent = int(tree.parents[i])
        if parent != NOBODY and owners[parent] != NOBODY:
            owners[i] = owners[parent]
        elif shapes[calls.name_codes[i], calls.dims_codes[i]]:
            owners[i] = i
    return owners


def _products(
    calls: Calls, of_product: dict[int, float], backs: dict[int, bool], steps: int
) -> tuple[Ran, ...]:
    names, dims, types = list(calls.names), list(calls.dims), list(calls.types)
    found: dict[tuple[Shape, str, bool], list[float]] = defaultdict(list)
    for call, seconds in of_product.items():
        shape = shape_of(names[calls.name_codes[call]], dims[calls.dims_codes[call]])
        if shape is not None:
            key = (shape, types[calls.type_codes[call]], backs.get(call, False))
            found[key].append(seconds)
    all_ran = [
        Ran(shape, kind, back, float(np.median(all_s)), len(all_s) / steps)
        for (shape, kind, back), all_s in found.items()
    ]
    return tuple(sorted(all_ran, key=lambda ran: -ran.seconds * ran.per_step))
