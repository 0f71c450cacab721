"""Rows that a chart takes of costed plans: named, in units a person reads, with their tips."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from planner.charts.scatter import MOST_SHAPES, Axis, Colour
from planner.decide.methods import knee
from planner.decide.scaled import scaled
from planner.documents.figures import axis_unit, human, scale_of, title_of, unit_of, values_of
from simkernel.columns import Codes, Floats

COLOURS = ("site", "accelerator", "scenario", "precision", "recompute")
"""Columns that may colour a point."""

TOLD = ("accelerator", "devices", "supernode_devices", "tensor_parallel", "pipeline_parallel")
"""Decisions that every tip tells."""

FIELDS = ("x", "y", "z")
"""Of the rows of a chart, one per axis."""

Columns = Mapping[str, Any]
Row = dict[str, Any]


def ids_of(plans: Columns) -> tuple[str, ...]:
    """The name of every row: its plan, where it stands, and its scenario if there are any."""
    names = [
        plans.get(n, ()) for n in ("plan", "site", *(["scenario"] if "scenario" in plans else []))
    ]
    return tuple(" @ ".join(str(part) for part in row) for row in zip(*names, strict=True))


def axes_of(plans: Columns, names: Sequence[str], is_log: Sequence[bool]) -> tuple[Axis, ...]:
    """Directions of a chart, one per metric, in the multiple that suits these plans.

    A logarithm is left out where a value or the low end of its band is not above zero.
    """
    axes = []
    for field, name, is_wanted in zip(FIELDS[: len(names)], names, is_log, strict=True):
        factor, unit = scale_of(unit_of(name), values_of(plans, name))
        ends = (*values_of(plans, name), *values_of(plans, f"{name}_low"))
        has_log = is_wanted and all(value is None or value > 0 for value in ends)
        axes.append(Axis(field, name, title_of(name, axis_unit(name, unit)), factor, has_log))
    return tuple(axes)


def points_of(
    plans: Columns, axes: Sequence[Axis], objectives: Sequence[str], *, is_banded: bool
) -> list[Row]:
    """One row per plan at a site that has a figure on every axis.

    Parameters
    ----------
    is_banded : add X_low and X_high of the axes, both X itself where no band is known
    """
    columns: dict[str, list[Any]] = {"id": list(ids_of(plans))}
    for axis in axes:
        has_band = f"{axis.metric}_low" in plans
        for end in ("", "_low", "_high") if is_banded else ("",):
            values = values_of(plans, f"{axis.metric}{end}" if has_band else axis.metric)
            columns[f"{axis.field}{end}"] = [v if v is None else v / axis.factor for v in values]
    for name in COLOURS:
        columns[name] = [str(value) for value in values_of(plans, name)]
    for name in dict.fromkeys((*(axis.metric for axis in axes), *objectives)):
        unit = unit_of(name)
        columns[f"tip_{name}"] = [human(v, unit) for v in values_of(plans, name)]
    for name in (told for told in TOLD if told in plans):
        columns[f"tip_{name}"] = values_of(plans, name)
    rows = [
        dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)
    ]
    return [row for row in rows if all(row[axis.field] is not None for axis in axes)]


def beside_of(plans: Columns, axes: Sequence[Axis], over: str) -> list[Row]:
    """Plans beside a front as a chart takes them: where they stand, and whether over a limit.

    Parameters
    ----------
    over : column that is above 0 where a limit is exceeded
    """
    ids = ids_of(plans)
    table = [np.ma.filled(np.ma.asarray(plans[a.metric], float), np.nan) / a.factor for a in axes]
    known = np.flatnonzero(np.isfinite(table).all(axis=0))
    is_over = np.asarray(plans[over]) > 0
    return [
        {
            "id": ids[row],
            "is_over": bool(is_over[row]),
            **{axis.field: float(table[i][row]) for i, axis in enumerate(axes)},
        }
        for row in known.tolist()
        if not any(axis.is_log and table[i][row] <= 0 for i, axis in enumerate(axes))
    ]


def known_points(plans: Columns, signs: Mapping[str, float]) -> tuple[Codes, Floats]:
    """Rows whose objectives are all known, and these to be minimised; (m,), (m, k).

    Parameters
    ----------
    signs : objective to +1 where less is better, -1 where more is
    """
    known = [[np.nan if v is None else v for v in values_of(plans, n)] for n in signs]
    table = np.array(known, float).T * np.array(list(signs.values()))
    rows = np.flatnonzero(np.isfinite(table).all(axis=1))
    return rows, table[rows]


def knee_row(plans: Columns, signs: Mapping[str, float], chosen: int) -> int:
    """The knee among the rows that compete with one, those of its scenario; -1 for none."""
    rows, points = known_points(plans, signs)
    if "scenario" in plans:
        is_same = np.asarray(plans["scenario"])[rows] == plans["scenario"][chosen]
        rows, points = rows[is_same], points[is_same]
    return int(rows[knee(scaled(points)).argmax()]) if len(rows) > 1 else -1


def colour_of(field: str, resolved: Mapping[str, Any], *tables: Sequence[Row]) -> Colour:
    """The colours of a column, the same in every chart of a run.

    Parameters
    ----------
    resolved : the study of the run, which names what may come
    tables : rows that are drawn
    """
    shown = sorted({row[field] for rows in tables for row in rows})
    asked = resolved["costing"].get(field) or resolved["axes"].get(field) or ()
    return Colour(field, tuple(dict.fromkeys([*map(str, asked), *shown])), tuple(shown))


def shape_of(rows: Sequence[Row], colour: str) -> str:
    """Chip or site told by shape where colour tells the other; "" if shapes do not suffice."""
    other = "accelerator" if colour == "site" else "site"
    return other if 1 < len({row[other] for row in rows}) <= MOST_SHAPES else ""
