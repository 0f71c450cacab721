"""Plans as points: a front, its bands, what lies beside it; a mark carries its plan's id."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

import altair as alt

from planner.charts.palette import CHOSEN, MARKED, OKABE_ITO, Chart, Row, chart_of

SELECTION = "plan"
"""Name of the selection that a click makes; its one field is the id."""

PALE = 0.25
FRONT_PX = 460
MOST_SHAPES = 6
TITLE_LETTERS = 56
SHAPES = alt.Legend(symbolFillColor=MARKED, symbolStrokeColor=MARKED)
"""Shapes are black where nothing is said, which a dark page swallows."""


@dataclass(frozen=True)
class Axis:
    """One direction of a chart.

    Parameters
    ----------
    field : of the rows, in multiples of `factor`
    metric, title : what it is, by name and in words
    is_log : logarithmic instead of linear
    """

    field: str
    metric: str
    title: str
    factor: float = 1.0
    is_log: bool = False

    @property
    def lines(self) -> list[str]:
        """The title in lines that are shorter than the chart is high."""
        return wrap(self.title, TITLE_LETTERS)

    @property
    def scale(self) -> alt.Scale:
        """A logarithm, or a line that need not start at zero (points, not bars)."""
        return alt.Scale(type="log", nice=False) if self.is_log else alt.Scale(zero=False)


@dataclass(frozen=True)
class Colour:
    """What colours tell apart.

    Parameters
    ----------
    field : of the rows
    names : every name there may be, so that a name keeps its colour from chart to chart
    shown : the names that the legend explains
    """

    field: str
    names: Sequence[str]
    shown: Sequence[str]


def pareto(
    rows: Sequence[Row],
    axes: Sequence[Axis],
    colour: Colour,
    shape: str,
    chosen: Row | None,
    before: Sequence[Row] = (),
    beside: Sequence[Row] = (),
    named: Sequence[Row] = (),
    height_px: int = FRONT_PX,
) -> Chart:
    """The front as points, their bands as bars, the chosen plan in a ring with its name.

    Parameters
    ----------
    chosen : the row in a ring, which need not be on the front
    rows : "id", the fields of the axes with _low and _high where a band is shown, what the tooltip
        tells ("tip_…"), and the fields of colour and shape
    before : rows of another front, drawn as empty grey points
    beside : rows that are not on the front: the fields of the axes, and "is_over" for those that
        exceed a limit
    named : rows that have a "mark" written beside them
    height_px : of the chart
    """
    (x, y), shared = axes, chart_of(rows)
    layers = [_beside(beside, x, y), _before(before, x, y)]
    if any(f"{field}_low" in row for row in rows[:1] for field in (x.field, y.field)):
        layers += _bands(shared, x, y, _colour(colour), PALE)
        layers += _bands(chart_of([chosen]), x, y, alt.value(CHOSEN), 1.0) if chosen else []
    layers += [_ring(chosen, x, y), _points(shared, rows, x, y, colour, shape)]
    layers += _names_of(named, x, y)
    drawn = alt.layer(*[layer for layer in layers if layer is not None])
    words = f"◯ {chosen['id']}" if chosen else ""
    name = alt.TitleParams(words, color=CHOSEN, fontSize=13, anchor="start")
    over = sum(bool(row["is_over"]) for row in beside)
    told = f"{len(rows)} plans on the front" + (f", {len(beside)} beside it" if beside else "")
    told += f", {over} of these over a limit" if over else ""
    told += f"; chosen: {chosen['id']}" if chosen else ""
    about = f"Scatter of {y.metric} against {x.metric}: {told}."
    return drawn.properties(height=height_px, title=name, description=about)


def _points(
    shared: Chart, rows: Sequence[Row], x: Axis, y: Axis, colour: Colour, shape: str
) -> alt.Chart:
    click = alt.selection_point(name=SELECTION, fields=["id"], on="click", clear="dblclick")
    tips = [name for name in rows[0] if name.startswith("tip_")]
    points = shared.mark_point(filled=True, size=90, opacity=0.9, cursor="pointer").encode(
        x=_position(alt.X, x),
        y=_position(alt.Y, y),
        color=_colour(colour),
        description="id:N",
        tooltip=[
            alt.Tooltip("id:N", title="plan @ site"),
            *(alt.Tooltip(f"{name}:N", title=name.removeprefix("tip_")) for name in tips),
        ],
    )
    if shape:
        points = points.encode(shape=alt.Shape(f"{shape}:N", title=shape, legend=SHAPES))
    return points.add_params(click)


def _bands(shared: Chart, x: Axis, y: Axis, colour: Any, opacity: float) -> list[Chart]:
    """Bars from the low to the high end of the 90% band along both axes."""
    pale = shared.mark_rule(opacity=opacity, strokeWidth=1.5)
    along_x = pale.encode(
        x=alt.X(f"{x.field}_low:Q", title=x.lines, scale=x.scale),
        x2=f"{x.field}_high:Q",
        y=_position(alt.Y, y),
        color=colour,
    )
    along_y = pale.encode(
        y=alt.Y(f"{y.field}_low:Q", title=y.lines, scale=y.scale),
        y2=f"{y.field}_high:Q",
        x=_position(alt.X, x),
        color=colour,
    )
    return [along_x, along_y]


def _before(rows: Sequence[Row], x: Axis, y: Axis) -> Chart | None:
    if not rows:
        return None
    grey = chart_of(rows).mark_point(size=70, strokeWidth=1.5, color="#888888")
    tip = alt.Tooltip("id:N", title="before")
    return grey.encode(x=_position(alt.X, x), y=_position(alt.Y, y), tooltip=tip)


def _beside(rows: Sequence[Row], x: Axis, y: Axis) -> Chart | None:
    """Beaten plans as pale dots, those over a limit as crosses."""
    if not rows:
        return None
    shade = alt.condition("datum.is_over", alt.value(OKABE_ITO[3]), alt.value("#8a8a8a"))
    shape = alt.condition("datum.is_over", alt.value("cross"), alt.value("circle"))
    points = chart_of(rows).mark_point(size=14, filled=True, opacity=PALE + 0.1)
    return points.encode(
        x=_position(alt.X, x), y=_position(alt.Y, y), color=shade, shape=shape,
        tooltip=[alt.Tooltip("id:N", title="not on the front")],
    )  # fmt: skip


def _names_of(rows: Sequence[Row], x: Axis, y: Axis) -> list[Chart]:
    """A diamond and a word at each plan that has a name of its own."""
    if not rows:
        return []
    shared = chart_of(rows).encode(x=_position(alt.X, x), y=_position(alt.Y, y))
    word = shared.mark_text(align="left", dx=9, dy=-13, fontSize=12, fontWeight="bold")
    return [
        shared.mark_point(shape="diamond", size=330, strokeWidth=2, filled=False, color=MARKED),
        word.encode(text="mark:N", color=alt.value(MARKED)),
    ]


def _ring(chosen: Row | None, x: Axis, y: Axis) -> Chart | None:
    if chosen is None:
        return None
    ring = chart_of([chosen]).mark_point(size=420, strokeWidth=2.5, filled=False, color=CHOSEN)
    return ring.encode(x=_position(alt.X, x), y=_position(alt.Y, y))


def _position(channel: Any, axis: Axis) -> Any:
    return channel(f"{axis.field}:Q", title=axis.lines, scale=axis.scale)


def _colour(colour: Colour) -> alt.Color:
    """One colour per name; more names than colours fall back on a palette of twenty."""
    names = list(colour.names)
    few = len(names) <= len(OKABE_ITO)
    scale = alt.Scale(domain=names, range=list(OKABE_ITO[: len(names)]))
    return alt.Color(
        f"{colour.field}:N",
        title=colour.field,
        scale=scale if few else alt.Scale(domain=names, scheme="tableau20"),
        legend=alt.Legend(
            orient="right", symbolLimit=45, symbolOpacity=1.0, values=list(colour.shown)
        ),
    )
