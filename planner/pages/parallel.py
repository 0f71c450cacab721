"""Parallel coordinates: an axis per metric, a line per plan, and a brush over the axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np

from planner.charts.palette import CHOSEN, MARKED, OKABE_ITO, Chart
from planner.documents.figures import human, unit_of, values_of
from planner.pages.narrowed import BRUSH, Span
from simkernel.columns import Masks

MOST_LINES = 300
"""More lines are a carpet."""

HEIGHT_PX = 300
STATES = {
    "filtered out": "#BBBBBB",
    "kept": OKABE_ITO[0],
    "baseline, knee": MARKED,
    "chosen": CHOSEN,
}
"""What a line is to its colour, the later over the earlier."""

WIDTHS = {"filtered out": 0.7, "kept": 1.1, "baseline, knee": 2.5, "chosen": 3.0}


def parallel(
    front: Mapping[str, Any],
    ids: Sequence[str],
    spans: Sequence[Span],
    kept: Masks,
    chosen: str,
    marked: Sequence[str],
) -> Chart:
    """The lines of a front, those that are filtered out pale.

    Parameters
    ----------
    ids : name of each row; (n,)
    spans : an axis each, from the least at its foot to the most at its head
    kept : rows that the filters keep; (n,)
    chosen, marked : names of plans that stand out
    """
    rows, count = _lines(front, ids, spans, kept, chosen, marked)
    order = [span.label for span in spans]
    x = alt.X("axis:N", sort=order, title=None, axis=alt.Axis(labelAngle=0, labelLimit=150))
    y = alt.Y("share:Q", axis=None, scale=alt.Scale(domain=[-0.08, 1.08]))
    base = alt.Chart(alt.InlineData(values=rows)).encode(x=x, y=y, detail="id:N")
    brush = alt.selection_interval(name=BRUSH, encodings=["x", "y"])
    shade = alt.Color(
        "state:N",
        title=None,
        scale=alt.Scale(domain=list(STATES), range=list(STATES.values())),
        legend=alt.Legend(orient="top", values=sorted({row["state"] for row in rows})),
    )
    layers = [
        base.transform_filter(alt.datum.state == state)
        .mark_line(opacity=0.35 if state == "filtered out" else 0.75, strokeWidth=WIDTHS[state])
        .encode(color=shade, tooltip=["id:N", "axis:N", "value:N"])
        for state in STATES
        if any(row["state"] == state for row in rows)
    ]
    handles = base.mark_point(opacity=0.0, size=30, aria=False).add_params(brush)
    drawn = alt.layer(handles, *_ends(spans, x, y), *layers)
    about = (
        f"Parallel coordinates of {count} of {len(ids)} plans over {', '.join(order)}; "
        f"{int(kept.sum())} are kept by the filters."
    )
    return drawn.properties(height=HEIGHT_PX, description=about)


def _ends(spans: Sequence[Span], x: Any, y: Any) -> list[Chart]:
    """The axes, with what stands at head and foot of each."""
    rows = [
        {"axis": span.label, "share": share, "words": human(value, unit_of(span.metric))}
        for span in spans
        for share, value in ((0.0, span.least), (1.0, span.most))
    ]
    base = alt.Chart(alt.InlineData(values=rows)).encode(x=x, y=y)
    return [
        base.mark_line(color=MARKED, strokeWidth=1).encode(detail="axis:N"),
        base.transform_filter(alt.datum.share > 0)
        .mark_text(dy=-9, fontSize=11, color=MARKED)
        .encode(text="words:N"),
        base.transform_filter(alt.datum.share < 1)
        .mark_text(dy=11, fontSize=11, color=MARKED)
        .encode(text="words:N"),
    ]


def _lines(
    front: Mapping[str, Any],
    ids: Sequence[str],
    spans: Sequence[Span],
    kept: Masks,
    chosen: str,
    marked: Sequence[str],
) -> tuple[list[dict[str, Any]], int]:
    """A row for each plan at each axis, and how many plans there are."""
    columns = {span.metric: values_of(front, span.metric) for span in spans}
    state = ["kept" if is_kept else "filtered out" for is_kept in kept]
    for name, words in (*((one, "baseline, knee") for one in marked), (chosen, "chosen")):
        if name in ids:
            state[ids.index(name)] = words
    first = [i for i, words in enumerate(state) if words in ("chosen", "baseline, knee")]
    rest = np.array([i for i in range(len(ids)) if i not in set(first)], dtype=np.int64)
    spread = np.linspace(0, len(rest) - 1, min(len(rest), MOST_LINES)).astype(np.int64)
    picked = [
        row
        for row in (*rest[spread].tolist(), *first)
        if all(columns[span.metric][row] is not None for span in spans)
    ]
    rows = [
        {
            "id": ids[row],
            "axis": span.label,
            "share": span.share(float(columns[span.metric][row])),
            "value": human(columns[span.metric][row], unit_of(span.metric)),
            "state": state[row],
        }
        for row in picked
        for span in spans
    ]
    return rows, len(picked)
