"""Matrix products among the calls of a trace, and which weights of a model they are with.

A product forward has (tokens x inputs) with (inputs x outputs), the gradient of its input inputs
and outputs exchanged, that of its weight the tokens inside. Stacks lay weights that meet the same
tokens side by side, or split what a model's file names as one: both are known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from planner.imports.steps.operators import Dims
from simkernel.models import Model, Weight

HEAD = "head"

HALVES = ("kv", "gate_up", "shared_gate_up", "expert_gate_up")
"""Weights that a model's file names as one and stacks may hold as two of half the width."""

WITH_BIAS = ("aten::addmm", "aten::baddbmm", "aten::_addmm_activation")
BY_ROWS = ("aten::linear", "aten::mkldnn_linear", "mkldnn::_linear_pointwise")
PLAIN = ("aten::mm", "aten::_scaled_mm", "aten::bmm", "aten::matmul", "mkl::_mkl_linear")

SHAPED = (*WITH_BIAS, *BY_ROWS, *PLAIN)
"""Operators whose inputs say which product they are."""


class Shape(NamedTuple):
    """Rows, inner and columns of one of `groups` equal products."""

    rows: int
    inner: int
    columns: int
    groups: int = 1


def shape_of(name: str, dims: Dims) -> Shape | None:
    """Shape of the product of a call; None where its inputs do not say or contradict each other.

    Parameters
    ----------
    name : one of SHAPED
    """
    first = 1 if name in WITH_BIAS else 0
    pair = dims[first : first + 2]
    if len(pair) != 2 or not all(len(one) >= 2 for one in pair) or 0 in (*pair[0], *pair[1]):
        return None
    left, right = pair
    if name in BY_ROWS:
        right = (*right[:-2], right[-1], right[-2])
    if left[-1] != right[-2]:
        return None
    if len(right) == 2:
        return Shape(_times(left[:-1]), left[-1], right[-1])
    return Shape(left[-2], left[-1], right[-1], _times(left[:-2]))


@dataclass(frozen=True)
class Known:
    """A weight, or weights side by side, as a product meets it; `part` as `Weight.part` says."""

    part: str
    names: tuple[str, ...]


def weights_of(model: Model) -> Mapping[tuple[int, int], Known]:
    """Inputs and outputs of everything a product of the model may be with, the plainest first."""
    found: dict[tuple[int, int], Known] = {}
    for kind in model.kinds:
        for extents, known in (*_alone(kind.weights), *_side_by_side(kind.weights)):
            found.setdefault(extents, known)
    found.setdefault((model.hidden, model.vocab), Known(HEAD, (HEAD,)))
    return found


def match(
    shape: Shape, known: Mapping[tuple[int, int], Known], *, is_backward: bool
) -> Known | None:
    """The weights of a product, None where no weight has its extents."""
    if not is_backward:
        return known.get((shape.inner, shape.columns))
    for extents in (
        (shape.columns, shape.inner),  # gradient of the input
        (shape.columns, shape.rows),  # of the weight, as (outputs x inputs)
        (shape.rows, shape.columns),  # of the weight, as (inputs x outputs)
        (shape.inner, shape.columns),  # run again
    ):
        if extents in known:
            return known[extents]
    return None


def _alone(weights: tuple[Weight, ...]) -> Iterator[tuple[tuple[int, int], Known]]:
    for weight in weights:
        part = "attention" if weight.part == "mixer" else weight.part
        yield (weight.inputs, weight.outputs), Known(part, (weight.name,))
        if weight.name in HALVES:
            yield (weight.inputs, weight.outputs // 2), Known(part, (weight.name,))


def _side_by_side(weights: tuple[Weight, ...]) -> Iterator[tuple[tuple[int, int], Known]]:
    """Runs of neighbours with the same inputs, and the same part."""
    for i, first in enumerate(weights):
        for j in range(i + 2, len(weights) + 1):
            run = weights[i:j]
            if {(one.inputs, one.part) for one in run} != {(first.inputs, first.part)}:
                break
            part = "attention" if first.part == "mixer" else first.part
            outputs = sum(one.outputs for one in run)
            yield (first.inputs, outputs), Known(part, tuple(one.name for one in run))


def _times(extents: tuple[int, ...]) -> int:
    total = 1
    for extent in extents:
        total *= extent
    return total
