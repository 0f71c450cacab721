"""Figures over time: a front that grows, a purchase plan over its years with its caps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from planner.charts.palette import CHOSEN, MARKED, OKABE_ITO, SMALL_PX, Chart, Row, chart_of

HEIGHT_PX = 240
CAP = "cap"
TIME = "time [years]"


def lines(
    rows: Sequence[Row], y: str, title: str, colour: str, dash: str = "", time: str = TIME
) -> Chart:
    """Lines over the years, a colour for each name; what `dash` tells apart is dashed or not.

    Parameters
    ----------
    rows : "year", `y`, `colour` and `dash`
    title, time : of the vertical and of the horizontal direction, with their units
    """
    names = list(dict.fromkeys(str(row[colour]) for row in rows))
    scale = alt.Scale(domain=names, range=list(OKABE_ITO[: len(names)]))
    channels: dict[str, Any] = {
        "x": alt.X("year:Q", title=time, axis=alt.Axis(tickCount=8)),
        "y": alt.Y(f"{y}:Q", title=title),
        "color": alt.Color(f"{colour}:N", scale=scale, title=colour),
        "tooltip": ["year:Q", alt.Tooltip(f"{y}:Q", format=",.4~g"), f"{colour}:N"],
    }
    if dash:
        kinds = list(dict.fromkeys(str(row[dash]) for row in rows))
        dashes = alt.Scale(domain=kinds, range=[[1, 0], [5, 4]][: len(kinds)])
        channels["strokeDash"] = alt.StrokeDash(
            f"{dash}:N",
            scale=dashes,
            title=None,
            legend=alt.Legend(symbolType="stroke", symbolSize=400, symbolStrokeColor=MARKED),
        )
        channels["tooltip"].append(f"{dash}:N")
    shared = chart_of(rows)
    points = {name: channel for name, channel in channels.items() if name != "strokeDash"}
    drawn = shared.mark_line().encode(**channels) + shared.mark_point(filled=True).encode(**points)
    about = f"{title} over the years, by {colour}: {', '.join(names)}"
    return drawn.properties(height=HEIGHT_PX, description=about)


def years(rows: Sequence[Row], y: str, title: str, time: str = TIME) -> Chart:
    """A bar for each year, and the cap of a year as a line across.

    Parameters
    ----------
    rows : "year", `y` and "what", which is CAP for the cap
    """
    shared = chart_of([row for row in rows if row["what"] != CAP])
    x = alt.X("year:O", title=time, axis=alt.Axis(labelAngle=0))
    bars = shared.mark_bar(color=OKABE_ITO[0]).encode(
        x=x,
        y=alt.Y(f"{y}:Q", title=title),
        tooltip=["year:O", alt.Tooltip(f"{y}:Q", format=",.4~g")],
    )
    about = f"{title} of each year, with the cap of a year where there is one"
    caps = [row for row in rows if row["what"] == CAP]
    if not caps:
        return bars.properties(height=HEIGHT_PX, description=about)
    line = chart_of(caps[:1]).mark_rule(color=CHOSEN, strokeDash=[5, 4])
    both = bars + line.encode(y=f"{y}:Q")
    return both.properties(height=HEIGHT_PX, description=about)


def growth(rows: Sequence[Row], run: str) -> Chart:
    """How the front of a run grew: hypervolume over the seconds of the run."""
    last = rows[-1]
    about = (
        f"Hypervolume of the front of run {run} over time: {last['hypervolume']:.4g} after "
        f"{last['seconds']:.1f} s and {last['evaluated']:,} candidates."
    )
    return (
        chart_of(rows)
        .mark_line(point=True, color=OKABE_ITO[0])
        .encode(
            x=alt.X("seconds:Q", title="time of the run [s]"),
            y=alt.Y("hypervolume:Q", title="hypervolume of the front [1]"),
            tooltip=["seconds:Q", "hypervolume:Q", alt.Tooltip("evaluated:Q", format=",")],
        )
        .properties(height=SMALL_PX, description=about)
    )
