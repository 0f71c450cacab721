"""Which plans are worth having? The Pareto front of a run as a chart and a table."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import streamlit as st

from planner.documents.figures import column_of, is_metric, offered, values_of
from planner.documents.text import DECISIONS
from planner.metrics import find_metric
from planner.pages import charts, desk
from planner.pages.desk import Desk
from planner.pages.points import COLOURS, axes_of, colour_of, points_of, shape_of
from planner.pages.tables import draw_table

# More marks than this nobody can tell apart, and browsers get slow.
MOST_POINTS = 5000


def draw() -> None:
    """The page."""
    st.title("Which plans are worth having?")
    found = desk.opened()
    if found is None:
        return
    _counts(found)
    if found.ids:
        _chart(found)
        _table(found)
    else:
        desk.say_why_empty(found)


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


def _chart(found: Desk) -> None:
    """Choices above, the chart below; a click looks at the plan under it."""
    names = offered(found.front, found.objectives)
    left, right, hue = st.columns(3)
    second = names[min(1, len(names) - 1)]
    x = left.selectbox("Horizontal", names, key=desk.kept("x", names[0], names))
    y = right.selectbox("Vertical", names, key=desk.kept("y", second, names))
    colours = [name for name in COLOURS if name in found.front]
    colour = hue.selectbox("Colour", colours, key=desk.kept("colour", colours[0], colours))
    logs = [
        column.toggle("logarithmic", key=desk.kept(name, False))
        for column, name in ((left, "log_x"), (right, "log_y"))
    ]
    is_banded = hue.toggle(
        "90% bands", key=desk.kept("bands", False), help="bars from X_low to X_high"
    )
    axes = axes_of(found.front, (x, y), logs)
    rows = points_of(found.front, axes, found.objectives, is_banded=is_banded)[:MOST_POINTS]
    chosen = next((row for row in rows if row["id"] == found.chosen), None)
    shades = colour_of(colour, found.record.start.resolved, rows)
    chart = charts.pareto(rows, axes, shades, shape_of(rows, colour), chosen)
    st.altair_chart(
        chart, width="stretch", on_select=_clicked, selection_mode=charts.SELECTION, key="chart"
    )
    st.caption("Click a point, or a row of the table, to look at its plan (red ring).")


def _clicked() -> None:
    """Look at the plan under the click."""
    picked = st.session_state["chart"]["selection"].get(charts.SELECTION) or []
    if picked:
        desk.choose(picked[0]["id"])


def _table(found: Desk) -> None:
    """All rows, best first; a click on one looks at its plan."""
    front = found.front
    decisions = [n for n in DECISIONS if n in front]
    varied = [n for n in decisions if len(set(values_of(front, n))) > 1 or n == "accelerator"]
    where = [name for name in ("plan", "site", "scenario") if name in front]
    names = [*where, *found.objectives, *varied, "unverified_facts"]
    if st.toggle("all metrics", key=desk.kept("all_metrics", False)):
        names += offered(front, found.objectives)
    columns = (column_of(n, values_of(front, n)) for n in dict.fromkeys(names))
    table = {name: [cells[row] for row in found.order] for name, cells in columns}
    ids = [found.ids[row] for row in found.order]
    key, checked = _table_of(found.chosen)
    first: Any = {"selection": {"rows": [ids.index(checked)]}} if checked in ids else None
    draw_table(
        table,
        on_select=partial(_picked, key, ids),
        selection_mode="single-row",
        selection_default=first,
        key=key,
        column_config={name: _numbers(name) for name in table if is_metric(name.split(" [")[0])},
    )


def _numbers(heading: str) -> Any:
    """Thousands apart, and what the metric is for who points at the heading."""
    doc = find_metric(heading.split(" [")[0]).doc
    return st.column_config.NumberColumn(help=doc, format="localized")


def _table_of(chosen: str) -> tuple[str, str]:
    """Key of the table and the plan checked when it was made.

    A plan chosen elsewhere makes a new table with that row checked; a click in the table itself
    leaves it as it is, sorted and scrolled.
    """
    turn, known, checked = st.session_state.get("table_turn", (0, "", ""))
    if known != chosen:
        turn, checked = turn + 1, chosen
        st.session_state["table_turn"] = (turn, chosen, checked)
    return f"table_{turn}", checked


def _picked(key: str, ids: Sequence[str]) -> None:
    """Look at the plan of the row that was clicked; a row unchecked is checked again."""
    rows = st.session_state[key]["selection"]["rows"]
    turn, _, checked = st.session_state["table_turn"]
    st.session_state["table_turn"] = (turn, ids[rows[0]] if rows else "", checked)
    if rows:
        desk.choose(ids[rows[0]])


if __name__ == "__main__":
    draw()
