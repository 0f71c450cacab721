"""The step of one trace: its calls, its pieces of device time, how long it took in all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from planner.imports.kernel_kinds import COMMUNICATION, OTHER, kind_of
from planner.imports.steps.operators import NOBODY, Calls, Tree, steps_of, tree_of
from planner.imports.steps.recognised import Batch, Pieces, Recognised, batch_of, recognised
from planner.imports.steps.sorting import HOST, PARTS, Sorted, sort_calls
from simkernel.columns import Codes, Floats

STEP = "ProfilerStep#"


@dataclass(frozen=True)
class Kernels:
    """Kernels of a device; (n,) each, names by code."""

    names: Sequence[str]
    name_codes: Codes
    starts_s: Floats
    seconds: Floats
    calls: Codes


@dataclass(frozen=True)
class Timeline:
    """What a trace says of a training step.

    Parameters
    ----------
    calls, tree, sorted : calls with their nesting and their parts
    pieces : of the steps
    step : recognised
    batch : sequences and tokens of its micro-batches
    step_s : median of the marked steps, of the whole trace where none is marked [s]
    is_host : the host was the device
    """

    calls: Calls
    tree: Tree
    sorted: Sorted
    pieces: Pieces
    step: Recognised
    batch: Batch
    step_s: float
    is_host: bool


def timeline_of(calls: Calls, kernels: Kernels | None, tokens: int = 0) -> Timeline:
    """The step of a trace.

    Parameters
    ----------
    kernels : of the device, None where the host was it
    tokens : of a sequence where it is known, 0 to read it from the trace
    """
    tree, marks = tree_of(calls), step_marks(calls)
    starts_s = np.frombuffer(calls.starts_us, dtype=float) * 1e-6
    steps, count = steps_of(starts_s, marks), max(len(marks), 1)
    is_in = (steps != NOBODY) | (not marks)
    sorted_ = sort_calls(calls, tree, tokens)
    batch = batch_of(calls, sorted_.is_backward, is_in, count)
    if not tokens and batch.sequence_tokens:
        sorted_ = sort_calls(calls, tree, batch.sequence_tokens)
    if kernels is None:
        everything = np.arange(len(calls))
        pieces = Pieces(
            everything, tree.own_s, starts_s, sorted_.parts, sorted_.is_backward, steps
        )
    else:
        pieces = _of_kernels(calls, sorted_, kernels, marks)
    pieces = pieces.take(np.flatnonzero((pieces.steps != NOBODY) | (not marks)))
    step = recognised(calls, tree, pieces, count)
    wall_s = _wall_s(calls, kernels, marks)
    between_s = max(float(np.mean(wall_s)) - _busy_s(calls, tree, pieces, kernels) / count, 0.0)
    step = _with_host(step, between_s)
    return Timeline(
        calls, tree, sorted_, pieces, step, batch, float(np.median(wall_s)), not kernels
    )


def step_marks(calls: Calls) -> list[tuple[float, float]]:
    """Start and end of every step that the profiler was told of [s]."""
    names = list(calls.names)
    return sorted(
        (start * 1e-6, (start + lasts) * 1e-6)
        for code, start, lasts, mark in zip(
            calls.name_codes, calls.starts_us, calls.lasts_us, calls.is_mark, strict=True
        )
        if mark and names[code].startswith(STEP)
    )


def _wall_s(
    calls: Calls, kernels: Kernels | None, marks: Sequence[tuple[float, float]]
) -> list[float]:
    """Length of every step; without marks the one from the first to the last that ran [s]."""
    if marks:
        return [end - start for start, end in marks]
    if kernels is not None:
        return [float((kernels.starts_s + kernels.seconds).max() - kernels.starts_s.min())]
    starts = np.frombuffer(calls.starts_us, dtype=float)
    ends = starts + np.frombuffer(calls.lasts_us, dtype=float)
    return [float(ends.max() - starts.min()) * 1e-6]


def _of_kernels(
    calls: Calls, sorted_: Sorted, kernels: Kernels, marks: Sequence[tuple[float, float]]
) -> Pieces:
    """Kernels by the part of their call; by their own names where that is not known."""
    names, known = list(calls.names), {}
    parts = np.empty(len(kernels.seconds), dtype=np.int64)
    unsure = {PARTS.index(HOST), PARTS.index(OTHER)}
    for i, (name, call) in enumerate(
        zip(kernels.name_codes.tolist(), kernels.calls.tolist(), strict=True)
    ):
        of_call = int(sorted_.parts[call]) if call != NOBODY else PARTS.index(OTHER)
        operator = names[calls.name_codes[call]] if call != NOBODY else ""
        key = (name, of_call, operator)
        if key not in known:
            own = kind_of(kernels.names[name], operator)
            is_own = own == COMMUNICATION or of_call in unsure
            known[key] = PARTS.index(own) if is_own else of_call
        parts[i] = known[key]
    back = np.where(kernels.calls != NOBODY, sorted_.is_backward[kernels.calls], False)
    steps = steps_of(kernels.starts_s, marks)
    return Pieces(kernels.calls, kernels.seconds, kernels.starts_s, parts, back, steps)


def _busy_s(calls: Calls, tree: Tree, pieces: Pieces, kernels: Kernels | None) -> float:
    """Seconds in which the device did anything at all in the steps.

    The host's own time of a step is a piece like others: nothing is between its calls but where
    no step is marked.
    """
    if kernels is None:
        return float(tree.own_s[pieces.calls].sum())
    order = np.argsort(pieces.starts_s)
    begin = pieces.starts_s[order]
    reached = np.maximum.accumulate(begin + pieces.seconds[order])
    before = np.concatenate([begin[:1], reached[:-1]])
    return float(np.sum(np.maximum(reached - np.maximum(begin, before), 0.0)))


def _with_host(step: Recognised, idle_s: float) -> Recognised:
    """The step with what its device waited for the host."""
    if idle_s <= 0.0:
        return step
    key = (HOST, False)
    parts_s = {**step.parts_s, key: step.parts_s.get(key, 0.0) + idle_s}
    usual_s = {**step.usual_s, key: step.usual_s.get(key, 0.0) + idle_s}
    return replace(step, parts_s=parts_s, usual_s=usual_s)
