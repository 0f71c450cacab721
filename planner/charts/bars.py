"""Bars from zero with their figures: the terms of a sum, counts, cases side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from planner.charts.palette import MARKED, OKABE_ITO, Chart, Row, chart_of
from planner.documents.figures import figure

BAR_PX = 24
LABEL_PX = 260
AXIS_PX = 76
TICKS = 6
WORDS_FRAC = 1.15
"""A chart of bars is this much longer than its longest bar."""

ROOM_FRAC = 0.6
"""Of the longest bar: further out a figure beside a bar would be cut on a narrow screen."""

SIDES = {
    "beyond": ("left", 5, MARKED, "end"),
    "before": ("right", -5, MARKED, "start"),
    "inside": ("right", -5, "#FFFFFF", "end"),
}
"""Where a figure stands: how it is aligned, its distance and colour, and the end it stands at."""

BEFORE_AFTER = {"before": "#999999", "after": OKABE_ITO[0]}


def waterfall(terms: Mapping[str, float], unit: str, total: str = "total") -> Chart:
    """The terms of a sum one after the other, and the sum, as bars that start at zero.

    Parameters
    ----------
    terms : name to value in `unit`, in reading order; terms of zero are left out
    total : name of the sum
    """
    rows = stairs(terms, total)
    order = [row["term"] for row in rows]
    shared = chart_of(rows)
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
    words = [
        shared.transform_filter(alt.datum.side == side)
        .mark_text(align=align, dx=dx, fontSize=12, color=colour)
        .encode(y=y, x=f"{at}:Q", text="words:N")
        for side, (align, dx, colour, at) in SIDES.items()
    ]
    told = ", ".join(f"{row['term']} {row['words']}" for row in rows)
    about = f"Waterfall in {unit}: {told}."
    return alt.layer(bars, *words).properties(
        height=BAR_PX * len(rows) + AXIS_PX, description=about
    )


def stairs(terms: Mapping[str, float], total_name: str = "total") -> list[dict[str, Any]]:
    """Rows of a waterfall: where each term starts and ends, then the total from zero."""
    total = sum(terms.values())
    rows, at = [], 0.0
    for name, value in terms.items():
        if value:
            rows.append(_stair(name, "term", at, at + value, total))
            at += value
    rows.append(_stair(total_name, "total", 0.0, total, total))
    most = max((row["end"] for row in rows), default=0.0)
    return [{**row, "side": _side(row, most)} for row in rows]


def _side(row: Row, most: float) -> str:
    """Where the figure of a bar has room: beyond it, before it, or in it."""
    if row["end"] <= ROOM_FRAC * most:
        return "beyond"
    return "before" if min(row["from"], row["to"]) > (1.0 - ROOM_FRAC) * most else "inside"


def _stair(name: str, kind: str, start: float, end: float, total: float) -> dict[str, Any]:
    value = end - start
    share = value / total if total else 0.0
    return {
        "term": name,
        "kind": kind,
        "from": start,
        "to": end,
        "start": min(start, end),
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
    shared = chart_of(rows)
    y = alt.Y(f"{name}:N", sort=[row[name] for row in rows], axis=_names())
    x = _from_zero(count, f"{count} [count]", [row[count] for row in rows])
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
    shared = chart_of(rows)
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
        chart_of(rows)
        .mark_bar(height=BAR_PX - 8)
        .encode(
            y=alt.Y(f"{name}:N", sort=order, axis=_names()),
            x=_from_zero(count, f"{count} [count]", [sums[row[name]] for row in rows]),
            color=_shaded(colour, shades),
            tooltip=[f"{name}:N", f"{colour}:N", f"{count}:Q"],
        )
        .properties(
            height=BAR_PX * len(order) + AXIS_PX,
            description=f"Bars of {count} by {name}, divided by {colour}: "
            + ", ".join(f"{key} {total:,}" for key, total in sums.items()),
        )
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
