"""Which plans are worth having? The Pareto front of a run, and what lies beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import streamlit as st

from planner.charts.scatter import FRONT_PX, SELECTION, Axis, pareto
from planner.costing.beside import OVER
from planner.documents.figures import (
    column_of,
    human,
    is_metric,
    offered,
    title_of,
    unit_of,
    values_of,
)  # fmt: skip
from planner.documents.text import DECISIONS
from planner.metrics import find_metric
from planner.pages import desk
from planner.pages.desk import Desk
from planner.pages.narrowed import Span, Wanted, brushed, spans_of, wanted
from planner.pages.parallel import parallel
from planner.pages.points import (
    COLOURS,
    axes_of,
    beside_of,
    colour_of,
    knee_row,
    points_of,
    shape_of,
)  # fmt: skip
from planner.pages.tables import draw_table
from planner.pages.words import plain
from planner.report.choice import objectives
from simkernel.columns import Masks

MOST_POINTS = 5000
"""Of those beside the front: more marks than this nobody can tell apart, and browsers get slow."""

SMALL_PX = 300
ABREAST = 4
NO_THIRD = "none"
PARALLEL = "parallel"
"""Key of the parallel coordinates."""


def draw() -> None:
    """The page."""
    st.title("Which plans are worth having?")
    found = desk.opened()
    if found is None:
        return
    _counts(found)
    if not found.ids:
        desk.say_why_empty(found)
        return
    marks = _marks(found)
    _deltas(found, marks)
    with st.expander("Filters (they act on every chart and on the table)"):
        spans = spans_of(found.front, _parallel_axes(found))
        filters = wanted(found, spans)
    kept = filters.keeps(found.front)
    if filters:
        st.caption(f"{int(kept.sum()):,} of {len(kept):,} plans of the front pass the filters.")
    _charts(found, filters, kept, marks)
    _parallel(found, spans, kept, marks)
    _table(found, kept, marks)


def _counts(found: Desk) -> None:
    """How many candidates there were and what was left."""
    summary = found.record.summary
    st.caption(plain(f"run {found.run} of study {found.record.start.study}: {found.state}"))
    if found.is_as_replayed:
        st.caption(
            "The front below is of the plans that were replayed, each with the fleet that keeps "
            "every bound there. The counts are of the closed form; the side bar shows its front."
        )
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


def _marks(found: Desk) -> dict[str, int]:
    """Rows that have a name: the baseline, which is chosen here, and the knee."""
    names = [found.ids[row] for row in found.order]
    key = desk.kept(f"baseline_{found.run}", names[0], names)
    words = "what the others are held against; at first the best in the first objective"
    baseline = st.selectbox("Baseline", names, key=key, help=words)
    row = found.row if found.chosen in found.ids else 0
    knee = knee_row(found.front, objectives(desk.study_of(found)), row)
    return {"baseline": found.ids.index(baseline), **({"knee": knee} if knee >= 0 else {})}


def _deltas(found: Desk, marks: Mapping[str, int]) -> None:
    """The chosen plan in large figures, with its change over the baseline."""
    if found.chosen not in found.ids:
        return
    columns = [c for _ in range(0, len(found.objectives), ABREAST) for c in st.columns(ABREAST)]
    for column, name in zip(columns, found.objectives, strict=False):
        values = values_of(found.front, name)
        own, base = values[found.row], values[marks["baseline"]]
        has_change = own is not None and base and own != base
        column.metric(
            name,
            human(own, unit_of(name)),
            f"{own / base - 1.0:+.1%} over the baseline" if has_change else None,
            delta_color="inverse" if find_metric(name).direction == "minimise" else "normal",
            help=find_metric(name).doc,
        )


def _charts(found: Desk, filters: Wanted, kept: Masks, marks: Mapping[str, int]) -> None:
    """Choices above, the charts below; a click looks at the plan under it."""
    names = offered(found.front, found.objectives)
    left, right, third, hue = st.columns(4)
    second = names[min(1, len(names) - 1)]
    x = left.selectbox("Horizontal", names, key=desk.kept("x", names[0], names))
    y = right.selectbox("Vertical", names, key=desk.kept("y", second, names))
    options = [NO_THIRD, *names]
    z = third.selectbox("Third", options, key=desk.kept("z", NO_THIRD, options))
    colours = [name for name in COLOURS if name in found.front]
    colour = hue.selectbox("Colour", colours, key=desk.kept("colour", colours[0], colours))
    logs = [
        column.toggle(f"logarithmic {word}", key=desk.kept(name, False))
        for column, name, word in (
            (left, "log_x", "across"), (right, "log_y", "up"), (third, "log_z", "third"),
        )
    ]  # fmt: skip
    is_banded = hue.toggle(
        "90% bands", key=desk.kept("bands", False), help="bars from X_low to X_high"
    )
    picked = [x, y, *([z] if z != NO_THIRD else [])]
    others = _beside(found, filters)
    axes = axes_of(found.front, picked, logs[: len(picked)])
    rows = points_of(found.front, axes, found.objectives, is_banded=is_banded)
    shades = colour_of(colour, found.record.start.resolved, rows)
    passing = {found.ids[row] for row in np.flatnonzero(kept)}
    shown = [row for row in rows if row["id"] in passing]
    if not shown:
        st.warning("No plan of the front passes the filters.")
        return
    named = [
        {**row, "mark": mark} for mark, at in marks.items() for row in rows
        if row["id"] == found.ids[at]
    ]  # fmt: skip
    chosen = next((row for row in rows if row["id"] == found.chosen), None)
    shape = shape_of(rows, colour)

    def drawn(place: Any, key: str, pair: Sequence[Axis], height_px: int) -> None:
        beaten = beside_of(others, pair, OVER) if others else []
        chart = pareto(shown, pair, shades, shape, chosen, (), beaten, named, height_px)
        place.altair_chart(
            chart, width="stretch", on_select=partial(_clicked, key),
            selection_mode=SELECTION, key=key,
        )  # fmt: skip

    drawn(st, "chart", axes[:2], FRONT_PX)
    if len(axes) == 3:
        for place, at in zip(st.columns(2), (0, 1), strict=True):
            drawn(place, f"chart_{at}", (axes[at], axes[2]), SMALL_PX)
    st.caption(
        "Click a point, or a row of the table, to look at its plan (red ring). Pale dots: plans "
        "kept beside the front; crosses: plans over a limit of cost or carbon."
    )


def _beside(found: Desk, filters: Wanted) -> Mapping[str, Any]:
    """Plans beside the front that are to be shown; {} for none, and beside replayed ones."""
    if found.is_as_replayed:
        return {}
    if not st.toggle(
        "plans beside the front", key=desk.kept("beside", False),
        help=f"at most {MOST_POINTS:,} of those that the sweep kept, evenly spread",
    ):  # fmt: skip
        return {}
    only = st.toggle(
        "feasible only", key=desk.kept("feasible_only", True),
        help="leave out plans that exceed a limit of the study",
    )  # fmt: skip
    plans = desk.beside_of(found, MOST_POINTS)
    if not plans:
        st.caption("Nothing is kept beside the front of this run.")
        return {}
    stays = filters.keeps(plans) & ((plans[OVER] <= 0) | (not only))
    return {name: np.asarray(column)[stays] for name, column in plans.items()}


def _parallel_axes(found: Desk) -> list[str]:
    """Metrics that have an axis, and so a filter."""
    names = offered(found.front, found.objectives)
    first = list(dict.fromkeys([*found.objectives, *(n for n in ("devices",) if n in names)]))
    key = desk.kept(f"axes_{found.run}", first)
    chosen = st.multiselect(
        "Axes of filters and parallel coordinates", names, key=key,
        format_func=lambda name: title_of(name, ""),
    )  # fmt: skip
    return chosen or first


def _parallel(found: Desk, spans: Sequence[Span], kept: Masks, marks: Mapping[str, int]) -> None:
    """All objectives at once; drawing over an axis sets its filter."""
    if len(spans) < 2:
        return
    marked = [found.ids[row] for row in marks.values()]
    chart = parallel(found.front, found.ids, spans, kept, found.chosen, marked)
    st.altair_chart(
        chart, width="stretch", on_select=partial(brushed, found.run, spans, PARALLEL),
        key=PARALLEL,
    )  # fmt: skip
    st.caption("Draw a box over an axis to keep the plans that pass through it.")


def _clicked(key: str) -> None:
    """Look at the plan under the click."""
    picked = st.session_state[key]["selection"].get(SELECTION) or []
    if picked:
        desk.choose(picked[0]["id"])


def _table(found: Desk, kept: Masks, marks: Mapping[str, int]) -> None:
    """Rows that the filters keep, best first; a click on one looks at its plan."""
    front = found.front
    decisions = [n for n in DECISIONS if n in front]
    varied = [n for n in decisions if len(set(values_of(front, n))) > 1 or n == "accelerator"]
    where = [name for name in ("plan", "site", "scenario") if name in front]
    names = [*where, *found.objectives, *varied, "unverified_facts"]
    if st.toggle("all metrics", key=desk.kept("all_metrics", False)):
        names += offered(front, found.objectives)
    order = [row for row in found.order if kept[row]]
    columns = (column_of(n, values_of(front, n)) for n in dict.fromkeys(names))
    table = {name: [cells[row] for row in order] for name, cells in columns}
    changes = _changes(found, marks["baseline"])
    table |= {name: [cells[row] for row in order] for name, cells in changes.items()}
    ids = [found.ids[row] for row in order]
    key, checked = _table_of(found.chosen)
    first: Any = {"selection": {"rows": [ids.index(checked)]}} if checked in ids else None
    draw_table(
        table,
        on_select=partial(_picked, key, ids),
        selection_mode="single-row",
        selection_default=first,
        key=key,
        column_config={
            **{name: _numbers(name) for name in table if is_metric(name.split(" [")[0])},
            **{name: st.column_config.NumberColumn(format="%+.1f %%") for name in changes},
        },
    )


def _changes(found: Desk, baseline: int) -> dict[str, list[float | None]]:
    """Change of each objective over the baseline, in per cent."""
    found_changes = {}
    for name in found.objectives:
        values = values_of(found.front, name)
        base = values[baseline]
        found_changes[f"{name} over baseline"] = [
            None if value is None or not base else 100.0 * (value / base - 1.0) for value in values
        ]
    return found_changes


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
