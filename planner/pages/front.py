"""Which plans are worth having? The Pareto front of a run as a chart and a table."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import streamlit as st

from planner.metrics import METRICS
from planner.pages import charts, desk
from planner.pages.desk import Desk
from planner.pages.figures import human, offered, scale_of, title_of, values_of
from planner.tables_text import DECISIONS

COLOURS = ("site", "accelerator", "precision", "recompute")

# More marks than this nobody can tell apart, and browsers get slow.
MOST_POINTS = 5000


def draw() -> None:
    """The page."""
    st.title("Which plans are worth having?")
    found = desk.opened()
    if found is None:
        return
    _counts(found)
    if not found.ids:
        _say_why_empty(found)
        return
    _chart(found)
    _table(found)


def _counts(found: Desk) -> None:
    """How many candidates there were and what was left."""
    summary = found.record.summary
    st.caption(f"run {found.run} of study {found.record.start.study}: {found.state}")
    if summary is None:
        return
    shown = {
        "Candidates": summary.enumerated,
        "Evaluated": summary.evaluated,
        "Physical front": summary.physical_front,
        "Front (plan @ site)": summary.front,
    }
    for column, (name, count) in zip(st.columns(len(shown)), shown.items(), strict=True):
        column.metric(name, f"{count:,}")


def _say_why_empty(found: Desk) -> None:
    if found.state == "running":
        st.info("The run is still going; its front is made at the end. Read again in a while.")
    elif found.record.summary is None:
        st.warning(f"The run was {found.state} before it had a front.")
    else:
        st.warning(
            "Nothing is feasible. The page of removed candidates says what stood in the way."
        )


def _chart(found: Desk) -> None:
    names = offered(found.front, found.objectives)
    left, right, hue = st.columns(3)
    x = left.selectbox("Horizontal", names, 0, key="x", help="what is compared")
    y = right.selectbox("Vertical", names, min(1, len(names) - 1), key="y")
    colours = [name for name in COLOURS if name in found.front]
    colour = hue.selectbox("Colour", colours, key="colour")
    is_log_x = left.toggle("logarithmic", key="log_x")
    is_log_y = right.toggle("logarithmic", key="log_y")
    is_banded = hue.toggle("90% bands", key="bands", help="from X_low to X_high")
    rows = rows_of(found, (x, y), colours, is_banded)
    axes = [
        charts.Axis(field, _title(found, name), _can_log(rows, field, is_log))
        for field, name, is_log in (("x", x, is_log_x), ("y", y, is_log_y))
    ]
    shape = _shape(rows, colour)
    chart = charts.pareto(rows[:MOST_POINTS], axes[0], axes[1], colour, shape, found.chosen)
    st.altair_chart(
        chart, width="stretch", on_select=_clicked, selection_mode=charts.SELECTION, key="chart"
    )
    st.caption("Click a point, or a row of the table, to look at its plan (red ring).")


def _clicked() -> None:
    """Look at the plan under the click."""
    picked = st.session_state["chart"]["selection"].get(charts.SELECTION) or []
    if picked:
        desk.choose(picked[0]["id"])


def rows_of(
    found: Desk, axes: tuple[str, str], colours: Sequence[str], is_banded: bool
) -> list[dict[str, Any]]:
    """One row per plan @ site, in units a person reads, with all a mark needs."""
    columns: dict[str, list[Any]] = {"id": list(found.ids)}
    for field, name in zip(("x", "y"), axes, strict=True):
        factor, _ = scale_of(METRICS[name].unit, values_of(found.front, name))
        ends = ("", "_low", "_high") if is_banded and f"{name}_low" in found.front else ("",)
        for end in ends:
            values = values_of(found.front, f"{name}{end}")
            columns[f"{field}{end}"] = [v if v is None else v / factor for v in values]
    for name in colours:
        columns[name] = values_of(found.front, name)
    for name in dict.fromkeys((*axes, *found.objectives)):
        unit = METRICS[name].unit
        columns[f"tip_{name}"] = [human(v, unit) for v in values_of(found.front, name)]
    for name in ("accelerator", "devices", "tensor_parallel", "pipeline_parallel"):
        columns[f"tip_{name}"] = values_of(found.front, name)
    rows = [
        dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)
    ]
    return [row for row in rows if row["x"] is not None and row["y"] is not None]


def _title(found: Desk, name: str) -> str:
    return title_of(name, scale_of(METRICS[name].unit, values_of(found.front, name))[1])


def _can_log(rows: Sequence[dict[str, Any]], field: str, is_wanted: bool) -> bool:
    """A logarithm has no place for zero."""
    ends = [row[name] for row in rows for name in (field, f"{field}_low") if name in row]
    return is_wanted and all(value is not None and value > 0 for value in ends)


def _shape(rows: Sequence[dict[str, Any]], colour: str) -> str:
    """Chip or site by its shape where colour tells the other, if shapes suffice."""
    other = "accelerator" if colour == "site" else "site"
    return other if 1 < len({row.get(other) for row in rows}) <= charts.MOST_SHAPES else ""


def _table(found: Desk) -> None:
    """All rows; a click on one looks at its plan."""
    front = found.front
    decisions = [n for n in DECISIONS if n in front]
    varied = [n for n in decisions if len(set(values_of(front, n))) > 1 or n == "accelerator"]
    names = ["plan", "site", *found.objectives, *varied]
    if st.toggle("all metrics", key="all_metrics"):
        names += [n for n in offered(front, found.objectives) if n not in names]
    order = sorted(range(len(found.ids)), key=lambda i: values_of(front, names[2])[i] or 0.0)
    columns = {name: values_of(front, name) for name in dict.fromkeys(names)}
    table = {name: [cells[i] for i in order] for name, cells in columns.items()}
    st.dataframe(
        table,
        width="stretch",
        hide_index=True,
        on_select=partial(_picked, [found.ids[i] for i in order]),
        selection_mode="single-row",
        key="table",
        column_config={
            name: st.column_config.NumberColumn(help=METRICS[name].doc, format="localized")
            for name in table
            if name in METRICS
        },
    )


def _picked(ids: Sequence[str]) -> None:
    """Look at the plan of the row that was clicked."""
    rows = st.session_state["table"]["selection"]["rows"]
    if rows:
        desk.choose(ids[rows[0]])


if __name__ == "__main__":
    draw()
