"""The charts, as Altair specifications over plain rows; every mark carries the id of its plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

import altair as alt

from planner.documents.figures import figure

OKABE_ITO = (
    "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#999999", "#F0E442",
)  # fmt: skip
"""Colours that colour-blind readers can tell apart: Okabe and Ito, jfly.uni-koeln.de/color.

Grey stands for their black, which a dark page swallows; yellow, pale on white, comes last.
"""

SELECTION = "plan"
"""Name of the selection that a click makes; its one field is the id."""

CHOSEN = "#D00000"
MARKED = "#7A7A7A"
"""Of knee and baseline: grey enough for a white and for a black page."""

PALE = 0.25
FRONT_PX = 460
SMALL_PX = 200
BAR_PX = 24
MOST_SHAPES = 6
LABEL_PX = 260
TITLE_LETTERS = 56
AXIS_PX = 50
TICKS = 6
WORDS_FRAC = 1.15
"""A chart of bars is this much longer than its longest bar."""

BEFORE_AFTER = {"before": "#999999", "after": OKABE_ITO[0]}

Row = Mapping[str, Any]
Chart = Any
"""An Altair chart: operators on them have types that no checker follows."""


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
    (x, y), shared = axes, _chart(rows)
    layers = [_beside(beside, x, y), _before(before, x, y)]
    if any(f"{field}_low" in row for row in rows[:1] for field in (x.field, y.field)):
        layers += _bands(shared, x, y, _colour(colour), PALE)
        layers += _bands(_chart([chosen]), x, y, alt.value(CHOSEN), 1.0) if chosen else []
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


def _chart(rows: Sequence[Row]) -> Chart:
    return alt.Chart(alt.InlineData(values=list(rows)))


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
        points = points.encode(shape=alt.Shape(f"{shape}:N", title=shape))
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
    grey = _chart(rows).mark_point(size=70, strokeWidth=1.5, color="#888888")
    tip = alt.Tooltip("id:N", title="before")
    return grey.encode(x=_position(alt.X, x), y=_position(alt.Y, y), tooltip=tip)


def _beside(rows: Sequence[Row], x: Axis, y: Axis) -> Chart | None:
    """Beaten plans as pale dots, those over a limit as crosses."""
    if not rows:
        return None
    shade = alt.condition("datum.is_over", alt.value(OKABE_ITO[3]), alt.value("#8a8a8a"))
    shape = alt.condition("datum.is_over", alt.value("cross"), alt.value("circle"))
    points = _chart(rows).mark_point(size=14, filled=True, opacity=PALE + 0.1)
    return points.encode(
        x=_position(alt.X, x), y=_position(alt.Y, y), color=shade, shape=shape,
        tooltip=[alt.Tooltip("id:N", title="not on the front")],
    )  # fmt: skip


def _names_of(rows: Sequence[Row], x: Axis, y: Axis) -> list[Chart]:
    """A diamond and a word at each plan that has a name of its own."""
    if not rows:
        return []
    shared = _chart(rows).encode(x=_position(alt.X, x), y=_position(alt.Y, y))
    word = shared.mark_text(align="left", dx=9, dy=-13, fontSize=12, fontWeight="bold")
    return [
        shared.mark_point(shape="diamond", size=330, strokeWidth=2, filled=False, color=MARKED),
        word.encode(text="mark:N", color=alt.value(MARKED)),
    ]


def _ring(chosen: Row | None, x: Axis, y: Axis) -> Chart | None:
    if chosen is None:
        return None
    ring = _chart([chosen]).mark_point(size=420, strokeWidth=2.5, filled=False, color=CHOSEN)
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


def waterfall(terms: Mapping[str, float], unit: str, total: str = "total") -> Chart:
    """The terms of a sum one after the other, and the sum, as bars that start at zero.

    Parameters
    ----------
    terms : name to value in `unit`, in reading order; terms of zero are left out
    total : name of the sum
    """
    rows = stairs(terms, total)
    order = [row["term"] for row in rows]
    shared = _chart(rows)
    y = alt.Y("term:N", sort=order, axis=_names())
    bars = shared.mark_bar(height=BAR_PX - 8).encode(
        y=y,
        x=_from_zero("from", f"[{unit}]", [row["end"] for row in rows]),
        x2="to:Q",
        color=alt.Color(
            "kind:N",
            scale=alt.Scale(domain=["term", "total"], range=[OKABE_ITO[0], MARKED]),
            legend=None,
        ),
        tooltip=[
            alt.Tooltip("term:N"),
            alt.Tooltip("value:Q", format=",.4~g", title=unit),
            alt.Tooltip("share:Q", format=".1%"),
        ],
    )
    words = shared.mark_text(align="left", dx=5, fontSize=12, color=MARKED).encode(
        y=y, x="end:Q", text="words:N"
    )
    told = ", ".join(f"{row['term']} {row['words']}" for row in rows)
    about = f"Waterfall in {unit}: {told}."
    return (bars + words).properties(height=BAR_PX * len(rows) + AXIS_PX, description=about)


def stairs(terms: Mapping[str, float], total_name: str = "total") -> list[dict[str, Any]]:
    """Rows of a waterfall: where each term starts and ends, then the total from zero."""
    total = sum(terms.values())
    rows, at = [], 0.0
    for name, value in terms.items():
        if value:
            rows.append(_stair(name, "term", at, at + value, total))
            at += value
    return [*rows, _stair(total_name, "total", 0.0, total, total)]


def _stair(name: str, kind: str, start: float, end: float, total: float) -> dict[str, Any]:
    value = end - start
    share = value / total if total else 0.0
    return {
        "term": name,
        "kind": kind,
        "from": start,
        "to": end,
        "end": max(start, end),
        "value": value,
        "share": share,
        "words": figure(value) + (f" ({_share(share)})" if kind == "term" else ""),
    }


def _share(share: float) -> str:
    return f"{share:.0%}" if abs(share) >= 0.01 else f"{share:.1%}"


def bars(
    rows: Sequence[Row], name: str, count: str, colour: str, shades: Mapping[str, str]
) -> Chart:
    """Counts as bars from zero, in the order of the rows, with their numbers.

    Parameters
    ----------
    shades : value of `colour` to how it is drawn
    """
    shared = _chart(rows)
    y = alt.Y(f"{name}:N", sort=[row[name] for row in rows], axis=_names())
    x = _from_zero(count, count, [row[count] for row in rows])
    drawn = shared.mark_bar(height=BAR_PX - 8).encode(y=y, x=x, color=_shaded(colour, shades))
    words = shared.mark_text(align="left", dx=5, color=MARKED).encode(
        y=y, x=x, text=alt.Text(f"{count}:Q", format=",")
    )
    told = ", ".join(f"{row[name]} {row[count]:,}" for row in rows)
    about = f"Bars of {count} by {name}: {told}."
    return (drawn + words).properties(height=BAR_PX * len(rows) + AXIS_PX, description=about)


def paired(rows: Sequence[Row], unit: str, shades: Mapping[str, str] = BEFORE_AFTER) -> Chart:
    """A bar for each term and each of a few cases side by side, from zero.

    Parameters
    ----------
    rows : "term", "when" (one of `shades`) and "value" in `unit`
    shades : case to its colour, in reading order
    """
    order = list(dict.fromkeys(row["term"] for row in rows))
    cases = list(shades)
    y = alt.Y("term:N", sort=order, axis=_names())
    offset = alt.YOffset("when:N", sort=cases)
    shared = _chart(rows)
    drawn = shared.mark_bar().encode(
        y=y,
        yOffset=offset,
        x=_from_zero("value", f"[{unit}]", [row["value"] for row in rows]),
        color=alt.Color(
            "when:N",
            title=None,
            sort=cases,
            scale=alt.Scale(domain=cases, range=list(shades.values())),
            legend=alt.Legend(orient="top", columns=2, labelLimit=LABEL_PX),
        ),
        tooltip=["term:N", "when:N", alt.Tooltip("value:Q", format=",.4~g", title=unit)],
    )
    words = shared.mark_text(align="left", dx=4, fontSize=11, color=MARKED).encode(
        y=y, yOffset=offset, x="value:Q", text=alt.Text("value:Q", format=",.3~g")
    )
    told = ", ".join(f"{row['term']} {row['when']} {row['value']:.4g}" for row in rows)
    return (drawn + words).properties(
        height=len(cases) * BAR_PX * len(order) + 2 * AXIS_PX,
        description=f"Bars by term in {unit}: {told}.",
    )


def stacked(
    rows: Sequence[Row], name: str, count: str, colour: str, shades: Mapping[str, str]
) -> Chart:
    """Counts in one bar per name, in the order of the rows, divided by a colour.

    Parameters
    ----------
    shades : value of `colour` to how it is drawn
    """
    order = list(dict.fromkeys(row[name] for row in rows))
    sums = {key: sum(row[count] for row in rows if row[name] == key) for key in order}
    return (
        _chart(rows)
        .mark_bar(height=BAR_PX - 8)
        .encode(
            y=alt.Y(f"{name}:N", sort=order, axis=_names()),
            x=_from_zero(count, count, [sums[row[name]] for row in rows]),
            color=_shaded(colour, shades),
            tooltip=[f"{name}:N", f"{colour}:N", f"{count}:Q"],
        )
        .properties(
            height=BAR_PX * len(order) + AXIS_PX,
            description=f"Bars of {count} by {name}, divided by {colour}: "
            + ", ".join(f"{key} {total:,}" for key, total in sums.items()),
        )
    )


def growth(rows: Sequence[Row], run: str) -> Chart:
    """How the front of a run grew: hypervolume over the seconds of the run."""
    last = rows[-1]
    about = (
        f"Hypervolume of the front of run {run} over time: {last['hypervolume']:.4g} after "
        f"{last['seconds']:.1f} s and {last['evaluated']:,} candidates."
    )
    return (
        _chart(rows)
        .mark_line(point=True, color=OKABE_ITO[0])
        .encode(
            x=alt.X("seconds:Q", title="time of the run [s]"),
            y=alt.Y("hypervolume:Q", title="hypervolume of the front [1]"),
            tooltip=["seconds:Q", "hypervolume:Q", alt.Tooltip("evaluated:Q", format=",")],
        )
        .properties(height=SMALL_PX, description=about)
    )


def _shaded(field: str, shades: Mapping[str, str]) -> alt.Color:
    scale = alt.Scale(domain=list(shades), range=list(shades.values()))
    return alt.Color(f"{field}:N", scale=scale, title=field)


def _names() -> alt.Axis:
    """Every name beside its bar."""
    return alt.Axis(labelLimit=LABEL_PX, labelOverlap=False, labelFontSize=12, title=None)


def _from_zero(field: str, title: str, ends: Sequence[float]) -> alt.X:
    """A length: bars that do not start at zero mislead.

    Parameters
    ----------
    ends : where the bars end; beyond the furthest is room for its words
    """
    most, least = max((*ends, 0.0)), min((*ends, 0.0))
    scale = alt.Scale(domain=[least, (most or 1.0) * WORDS_FRAC], nice=False)
    return alt.X(f"{field}:Q", title=title, scale=scale, axis=alt.Axis(tickCount=TICKS))
