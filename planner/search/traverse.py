"""A space walked through whole, and the fastest plan kept of every combination of some axes.

A front keeps what nothing else beats; a traversal keeps what one asks about: how fast can it be in
domains of each size, at each rate. A plan priced with an unphysical link rule is kept as well, and
says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from planner.evaluated import Evaluated
from planner.search.sweep import BLOCK_ROWS, count_rejections, named_rows
from planner.space.blocks import Block, bills, blocks, columns
from planner.training.engine import Engine
from planner.training.evaluate import UNPHYSICAL, evaluate
from simkernel.columns import Masks

Group = tuple[Any, ...]


@dataclass
class Traversed:
    """What a traversal found.

    Parameters
    ----------
    rows : values of the axes to the columns of the fastest plan, one row each
    evaluated : candidates
    masked, rejected : removed by rules, by limits
    groups : combinations of the axes that any candidate has
    """

    rows: dict[Group, dict[str, Any]] = field(default_factory=dict)
    evaluated: int = 0
    masked: Counter[str] = field(default_factory=Counter)
    rejected: Counter[str] = field(default_factory=Counter)
    groups: set[Group] = field(default_factory=set)


def fastest_by(engine: Engine, axes: tuple[str, ...]) -> Traversed:
    """The fastest plan that can run of every combination of some axes.

    Parameters
    ----------
    axes : of the space, in the order of the result's keys
    """
    found = Traversed()
    for accelerator, block in _all_blocks(engine, found):
        rows = columns(engine.space, block)
        evaluated = evaluate(engine, rows, accelerator)
        found.evaluated += len(block)
        count_rejections(found.rejected, evaluated.limits)
        _keep(engine, found, axes, block, rows, evaluated)
    return found


def _all_blocks(engine: Engine, found: Traversed) -> Iterator[tuple[str, Block]]:
    for bill in bills(engine.space):
        if bill.masked_by:
            found.masked[bill.masked_by] += engine.space.plans_per_bill
            continue
        for block in blocks(engine.space, bill, BLOCK_ROWS):
            found.masked.update(block.masked)
            if len(block):
                yield str(bill.values["accelerator"]), block


def _keep(
    engine: Engine,
    found: Traversed,
    axes: tuple[str, ...],
    block: Block,
    rows: Mapping[str, Any],
    evaluated: Evaluated,
) -> None:
    """The fastest of every group in a block, where it beats what is kept."""
    codes = block.codes[:, [engine.space.axes.index(name) for name in axes]]
    groups, inverse = np.unique(codes, axis=0, return_inverse=True)
    levels = [engine.space.levels[name] for name in axes]
    step_s = np.where(_can_run(evaluated), evaluated.metrics["step_s"], np.inf)
    for number, group in enumerate(groups.tolist()):
        values = tuple(level[code] for level, code in zip(levels, group, strict=True))
        found.groups.add(values)
        own = np.flatnonzero(inverse.reshape(-1) == number)
        best = own[np.argmin(step_s[own])]
        before = found.rows.get(values)
        if np.isfinite(step_s[best]) and (before is None or step_s[best] < before["step_s"][0]):
            found.rows[values] = named_rows(engine, block.keys, rows, evaluated, np.array([best]))


def _can_run(evaluated: Evaluated) -> Masks:
    """Rows that break no limit but the one on links that no ranks can have."""
    able = np.ones(len(evaluated.metrics["devices"]), dtype=bool)
    for name, limit in evaluated.limits.items():
        if name != UNPHYSICAL:
            able &= limit.excess <= 0
    return able
