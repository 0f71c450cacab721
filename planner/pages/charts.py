"""The charts, as Altair specifications over plain rows; every mark carries the id of its plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

OKABE_ITO = (
    "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#F0E442", "#000000",
)  # fmt: skip
"""Colours that colour-blind readers can tell apart: Okabe and Ito, jfly.uni-koeln.de/color."""

SELECTION = "plan"
"""Name of the selection that a click makes; its one field is the id."""

FRONT_PX = 460
BAR_PX = 24
MOST_SHAPES = 6
LABEL_PX = 260

Row = Mapping[str, Any]
Chart = Any
"""An Altair chart: operators on them have types that no checker follows."""


@dataclass(frozen=True)
class Axis:
    """One direction of a chart: the field of the rows, its title, linear or logarithmic."""

    field: str
    title: str
    is_log: bool = False

    @property
    def scale(self) -> alt.Scale:
        """A logarithm, or a line that need not start at zero (points, not bars)."""
        return alt.Scale(type="log", nice=False) if self.is_log else alt.Scale(zero=False)


def pareto(rows: Sequence[Row], x: Axis, y: Axis, colour: str, shape: str, chosen: str) -> Chart:
    """The front as points, their bands as bars, the chosen plan in a ring with its name.

    Parameters
    ----------
    rows : "id", the fields of the axes with _low and _high where a band is shown, what the tooltip
        tells ("tip_…"), and the fields of colour and shape
    """
    shared = _chart(rows)
    layers = [
        _bands(shared, rows, x, y, colour),
        _ring(shared, x, y, chosen),
        _points(shared, rows, x, y, colour, shape),
    ]
    return alt.layer(*[layer for layer in layers if layer is not None]).properties(height=FRONT_PX)


def _chart(rows: Sequence[Row]) -> Chart:
    return alt.Chart(alt.InlineData(values=list(rows)))


def _points(
    shared: Chart, rows: Sequence[Row], x: Axis, y: Axis, colour: str, shape: str
) -> alt.Chart:
    click = alt.selection_point(name=SELECTION, fields=["id"], on="click", clear="dblclick")
    tips = [name for name in rows[0] if name.startswith("tip_")]
    points = shared.mark_point(filled=True, size=90, opacity=0.9, cursor="pointer").encode(
        x=_position(alt.X, x),
        y=_position(alt.Y, y),
        color=_colour(rows, colour),
        tooltip=[
            alt.Tooltip("id:N", title="plan @ site"),
            *(alt.Tooltip(f"{name}:N", title=name.removeprefix("tip_")) for name in tips),
        ],
    )
    if shape:
        points = points.encode(shape=alt.Shape(f"{shape}:N", title=shape))
    return points.add_params(click)


def _bands(shared: Chart, rows: Sequence[Row], x: Axis, y: Axis, colour: str) -> Chart | None:
    """Bars from the low to the high end of the 90% band, where there is one."""
    pale = shared.mark_rule(opacity=0.35, strokeWidth=1.5)
    shade = _colour(rows, colour)
    bars: list[Chart] = []
    if f"{x.field}_low" in rows[0]:
        low: Any = alt.X(f"{x.field}_low:Q", title=x.title, scale=x.scale)
        bars.append(pale.encode(x=low, x2=f"{x.field}_high:Q", y=_position(alt.Y, y), color=shade))
    if f"{y.field}_low" in rows[0]:
        low = alt.Y(f"{y.field}_low:Q", title=y.title, scale=y.scale)
        bars.append(pale.encode(y=low, y2=f"{y.field}_high:Q", x=_position(alt.X, x), color=shade))
    return alt.layer(*bars) if bars else None


def _ring(shared: Chart, x: Axis, y: Axis, chosen: str) -> Chart:
    one = shared.transform_filter(alt.datum.id == chosen)
    at = {"x": _position(alt.X, x), "y": _position(alt.Y, y)}
    ring = one.mark_point(size=420, strokeWidth=2.5, filled=False, color="#D00000")
    name = one.mark_text(dy=-19, fontWeight="bold", fontSize=12, color="#D00000")
    return ring.encode(**at) + name.encode(text="id:N", **at)


def _position(channel: Any, axis: Axis) -> Any:
    return channel(f"{axis.field}:Q", title=axis.title, scale=axis.scale)


def _colour(rows: Sequence[Row], field: str) -> alt.Color:
    """One colour per name; more names than colours fall back on a palette of twenty."""
    names = sorted({str(row[field]) for row in rows})
    few = len(names) <= len(OKABE_ITO)
    scale = alt.Scale(domain=names, range=list(OKABE_ITO[: len(names)]))
    return alt.Color(
        f"{field}:N",
        title=field,
        scale=scale if few else alt.Scale(domain=names, scheme="tableau20"),
        legend=alt.Legend(orient="right", symbolLimit=45),
    )


def waterfall(terms: Mapping[str, float], unit: str) -> Chart:
    """The terms of a sum one after the other, and the sum, as bars that start at zero.

    Parameters
    ----------
    terms : name to value in `unit`, in reading order; terms of zero are left out
    """
    rows = stairs(terms)
    order = [row["term"] for row in rows]
    shared = _chart(rows)
    names = alt.Axis(labelLimit=LABEL_PX, title=None, labelFontSize=12)
    y = alt.Y("term:N", sort=order, axis=names)
    bars = shared.mark_bar(height=BAR_PX - 8).encode(
        y=y,
        x=alt.X("from:Q", title=f"[{unit}]", scale=alt.Scale(zero=True)),
        x2="to:Q",
        color=alt.Color(
            "kind:N",
            scale=alt.Scale(domain=["term", "total"], range=[OKABE_ITO[0], "#444444"]),
            legend=None,
        ),
        tooltip=[
            alt.Tooltip("term:N"),
            alt.Tooltip("value:Q", format=",.4~g", title=unit),
            alt.Tooltip("share:Q", format=".1%"),
        ],
    )
    words = shared.mark_text(align="left", dx=5, fontSize=12).encode(
        y=y, x="end:Q", text="words:N"
    )
    return (bars + words).properties(height=BAR_PX * len(rows) + 40)


def stairs(terms: Mapping[str, float]) -> list[dict[str, Any]]:
    """Rows of a waterfall: where each term starts and ends, then the total from zero."""
    total = sum(terms.values())
    rows, at = [], 0.0
    for name, value in terms.items():
        if value:
            rows.append(_stair(name, "term", at, at + value, total))
            at += value
    return [*rows, _stair("total", "total", 0.0, total, total)]


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
        "words": f"{value:,.3g}" + (f" ({share:.0%})" if kind == "term" else ""),
    }


def bars(rows: Sequence[Row], name: str, count: str, colour: str) -> Chart:
    """Counts as bars from zero, the largest first, with their numbers."""
    shared = _chart(rows)
    y = alt.Y(f"{name}:N", sort="-x", axis=alt.Axis(labelLimit=LABEL_PX, title=None))
    x = alt.X(f"{count}:Q", title=count, scale=alt.Scale(zero=True), axis=alt.Axis(tickMinStep=1))
    drawn = shared.mark_bar(height=BAR_PX - 8).encode(y=y, x=x, color=_colour(rows, colour))
    words = shared.mark_text(align="left", dx=5).encode(
        y=y, x=x, text=alt.Text(f"{count}:Q", format=",")
    )
    return (drawn + words).properties(height=BAR_PX * len(rows) + 50)
