"""Passes over time, a row for each stage or port."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from planner.charts.palette import CHOSEN, OKABE_ITO

ROW_PX = 22


def gantt(bars: Sequence[Mapping[str, Any]]) -> Any:
    """Bars over time, one row per stage or port; those of the critical path have red edges."""
    rows = len({bar["row"] for bar in bars})
    order = sorted({str(bar["row"]) for bar in bars}, key=lambda name: (len(name), name))
    return (
        alt.Chart(alt.InlineData(values=[dict(bar) for bar in bars]))
        .mark_bar()
        .encode(
            x=alt.X("start_s:Q", title="time [s]", scale=alt.Scale(zero=False)),
            x2="end_s:Q",
            y=alt.Y("row:N", title=None, sort=order),
            color=alt.Color("name:N", title=None, scale=alt.Scale(range=list(OKABE_ITO))),
            stroke=alt.condition("datum.critical", alt.value(CHOSEN), alt.value("#FFFFFF00")),
            tooltip=["row:N", "name:N", "start_s:Q", "end_s:Q", "critical:N"],
        )
        .properties(
            height=max(rows, 2) * ROW_PX + ROW_PX,
            description=f"Gantt chart of {len(bars)} passes on {rows} rows over seconds.",
        )
    )
