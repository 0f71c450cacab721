"""Soft targets: what is wished for and not required, told of every plan and rankable.

A plan that misses a target stays: "missed_targets" names what it misses, and
"target_shortfall_frac" is by how much of the target it misses the worst, 0 where all are met.
As an objective the latter ranks plans by how near they come.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from planner.metrics import SHORTFALL, is_at_least
from planner.study.read import Study
from simkernel.columns import Floats

MISSED = "missed_targets"


def with_targets(study: Study, columns: Mapping[str, Any]) -> dict[str, Any]:
    """The columns, and what plans miss of the study's targets where it has any.

    Parameters
    ----------
    columns : of costed rows, bands among them; (m,)
    """
    if not study.targets:
        return dict(columns)
    short = {name: _shortfall_frac(columns, name, wish) for name, wish in study.targets.items()}
    rows = np.stack(list(short.values()))
    missed = [
        "; ".join(name for name, one in zip(short, row, strict=True) if not one <= 0)
        for row in rows.T
    ]
    worst = np.maximum(rows.max(axis=0), 0.0)
    return {**columns, SHORTFALL.name: worst, MISSED: np.array(missed, dtype=object)}


def is_ranked_by_targets(study: Study) -> bool:
    """How near plans come to the targets is among what is compared."""
    return SHORTFALL.name in study.objectives.minimise


def _shortfall_frac(columns: Mapping[str, Any], name: str, wish: float) -> Floats:
    """How far beyond a target rows are, over the target; below 0 where it is met, NaN unknown."""
    sign, size = (-1.0 if is_at_least(name) else 1.0), abs(wish) or 1.0
    return sign * (np.asarray(columns[name], float) - wish) / size
