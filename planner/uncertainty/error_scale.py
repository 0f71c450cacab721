"""Bands wider or narrower than measured: what a front looks like if the model errs more.

A scale of 1 is the 90% band as the tables have it, 0 no error at all, 2 twice as far on the scale
on which the band is drawn (`quantile.at_quantile`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from planner.metrics import is_at_least
from planner.pareto import nondominated_by
from planner.uncertainty.inputs import MOVED, Ends, Inputs
from planner.uncertainty.plans import Part
from planner.uncertainty.quantile import Z_95, Band, at_quantile
from simkernel.columns import Floats, Masks

OF_THE_MODEL = ("time of the run", "size of the fleet", "watts at work", "watts at rest")
"""Inputs that the model predicts; the others are prices and facts."""


def end_of(columns: Mapping[str, Any], name: str, scale: float, end: str) -> Floats:
    """An end of the scaled band of a metric, the metric itself where it has no band; (n,).

    Parameters
    ----------
    end : "low" or "high"
    """
    value = _floats(columns[name])
    if f"{name}_low" not in columns:
        return value
    band = Band(_floats(columns[f"{name}_low"]), value, _floats(columns[f"{name}_high"]))
    found = at_quantile(band, np.full(len(value), (-scale if end == "low" else scale) * Z_95))
    return np.where(np.isfinite(found), found, value)


def widened(columns: Mapping[str, Any], names: Sequence[str], scale: float) -> dict[str, Any]:
    """Columns with the ends of some metrics at another scale."""
    found = dict(columns)
    for name in names:
        if f"{name}_low" in columns:
            for end in ("low", "high"):
                found[f"{name}_{end}"] = end_of(columns, name, scale, end)
    return found


def front_at_bad_end(
    columns: Mapping[str, Any],
    signs: Mapping[str, float],
    limits: Mapping[str, float],
    may: Masks,
    scale: float,
) -> tuple[dict[str, Floats], Masks]:
    """The objectives at the end of their band that hurts, and who is on the front there.

    Parameters
    ----------
    columns : of plans at sites, with bands; (m,)
    signs : objective to +1 where less is better
    limits : metric to its bound, which is asked of the bad end too
    may : rows that keep every limit as they are predicted

    Notes
    -----
    A plan on a chip without measurements has a wider band, so it moves further than others.
    """
    worst = {
        name: end_of(columns, name, scale, "high" if sign > 0 else "low")
        for name, sign in signs.items()
    }
    stays = np.asarray(may).copy()
    for name, bound in limits.items():
        if name in columns:
            is_floor = is_at_least(name)
            at = end_of(columns, name, scale, "low" if is_floor else "high")
            stays &= ~((at < bound) if is_floor else (at > bound))
    points = np.stack([sign * worst[name] for name, sign in signs.items()], axis=1)
    rows = np.flatnonzero(stays & np.isfinite(points).all(axis=1))
    words = np.asarray(columns["scenario"]) if "scenario" in columns else np.zeros(len(stays))
    _, groups = np.unique(words.astype(str), return_inverse=True)
    is_front = np.zeros(len(stays), dtype=bool)
    is_front[rows[nondominated_by(groups[rows], points[rows])]] = True
    return worst, is_front


def with_error(parts: Sequence[Part], scale: float) -> list[Part]:
    """Rows to be drawn, with the errors of the model at another scale; prices keep theirs."""
    return [replace(part, ends=_scaled(part.ends, scale)) for part in parts]


def _scaled(ends: Ends, scale: float) -> Ends:
    low, high = ends.low, ends.high
    for name in OF_THE_MODEL:
        low, high = (_at(ends, one, name, s * Z_95) for one, s in ((low, -scale), (high, scale)))
    return Ends(low, ends.middle, high)


def _at(ends: Ends, inputs: Inputs, name: str, score: float) -> Inputs:
    """Some inputs with one of them where a score puts it between its own ends."""
    moved = MOVED[name]
    cells = {}
    for n in moved.names:
        three = [end.cell(moved, n) for end in (ends.low, ends.middle, ends.high)]
        cells[n] = at_quantile(Band(*three), np.full(len(ends), score))
    return inputs.having(moved, cells)


def _floats(column: Any) -> Floats:
    return np.ma.filled(np.ma.asarray(column, dtype=float), np.nan)
