"""The charts of a report as Vega-Lite specifications: the front, cash, tornado, cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np

from planner.charts.bars import waterfall
from planner.charts.palette import CHOSEN, OKABE_ITO
from planner.documents.figures import axis_unit, scale_of, unit_of, values_of
from planner.report.cash import Cash
from planner.report.words import Say
from planner.uncertainty.tornado import Swing

WIDTH_PX = 560
HEIGHT_PX = 300
BAR_PX = 26
MOST_POINTS = 2000
MOST_SWINGS = 10
LABEL_PX = 220
NEAR_FRAC = 0.03
"""Points nearer than this share of a chart in both directions have one label."""

FONT = "Noto Sans SC"

Spec = dict[str, Any]


def front(
    columns: Mapping[str, Any],
    metrics: tuple[str, str],
    chosen: int,
    named: Mapping[int, str],
    colour: str,
    say: Say,
    bounds: tuple[float | None, float | None] = (None, None),
) -> Spec:
    """A front as points with their bands, the chosen plan ringed and the candidates named.

    Parameters
    ----------
    metrics : along x and along y
    named : place to the name written beside the point
    colour : column that colours tell apart
    bounds : limits along x and along y, drawn as lines; None for none
    """
    scales = [scale_of(unit_of(n), values_of(columns, n)) for n in metrics]
    rows = _points(columns, metrics, [factor for factor, _ in scales], named, colour)
    titles = [
        f"{say.metric(n)} [{axis_unit(n, unit)}]"
        for n, (_, unit) in zip(metrics, scales, strict=True)
    ]
    x, y = _axis(alt.X, "x", titles[0]), _axis(alt.Y, "y", titles[1])
    base = alt.Chart(alt.InlineData(values=rows))
    hue = alt.Color(
        f"{colour}:N",
        title=colour,
        scale=alt.Scale(range=list(OKABE_ITO[:6])),
        legend=alt.Legend(symbolLimit=12),
    )
    few = alt.datum.label != ""
    bars = base.transform_filter(alt.datum.is_named).mark_rule(opacity=0.45, color="#666666")
    ring = base.transform_filter(alt.datum.row == chosen)
    parts = [
        *_limits([b and b / f for b, (f, _) in zip(bounds, scales, strict=True)], titles, say),
        bars.encode(x=alt.X("x_low:Q", title=titles[0]), x2="x_high:Q", y=y),
        bars.encode(x=x, y=alt.Y("y_low:Q", title=titles[1]), y2="y_high:Q"),
        base.mark_point(filled=True, size=55, opacity=0.85).encode(x=x, y=y, color=hue),
        ring.mark_point(size=300, strokeWidth=2.5, filled=False, color=CHOSEN).encode(x=x, y=y),
        *(
            base.transform_filter(few & (alt.datum.is_above == is_above))
            .mark_text(align="left", dx=8, dy=-11 if is_above else 13, fontSize=12)
            .encode(x=x, y=y, text="label:N")
            for is_above in (True, False)
        ),
    ]
    return spec_of(alt.layer(*parts).properties(width=WIDTH_PX, height=HEIGHT_PX))


def _points(
    columns: Mapping[str, Any],
    metrics: Sequence[str],
    factors: Sequence[float],
    named: Mapping[int, str],
    colour: str,
) -> list[dict[str, Any]]:
    """Rows of the chart: the named ones and, spread evenly, others that can be told apart."""
    count = len(columns["plan"])
    spread = np.linspace(0, count - 1, min(count, MOST_POINTS)).astype(int).tolist()
    words = values_of(columns, colour)
    ends = {
        field: [values_of(columns, n if f"{n}{end}" not in columns else f"{n}{end}")
                for end in ("", "_low", "_high")]
        for field, n in zip(("x", "y"), metrics, strict=True)
    }  # fmt: skip
    labels = _joined(named, ends)
    rows = []
    for row in dict.fromkeys([*named, *spread]):
        found: dict[str, Any] = {"row": row, "label": labels.get(row, ""), colour: str(words[row])}
        found["is_named"] = row in named
        found["is_above"] = list(named).index(row) % 2 == 0 if row in named else True
        for (field, three), factor in zip(ends.items(), factors, strict=True):
            for end, values in zip(("", "_low", "_high"), three, strict=True):
                found[f"{field}{end}"] = None if values[row] is None else values[row] / factor
        if found["x"] is not None and found["y"] is not None:
            rows.append(found)
    return rows


def _joined(
    named: Mapping[int, str], ends: Mapping[str, Sequence[Sequence[float | None]]]
) -> dict[int, str]:
    """Names beside points; of points too near to one another to have two, joined at the first.

    Parameters
    ----------
    ends : along x and y the figures, their low and their high ends, of all rows
    """
    spans = {
        field: float(np.ptp([v for values in three for v in values if v is not None] or [0.0]))
        for field, three in ends.items()
    }

    def is_near(row: int, other: int) -> bool:
        pairs = [(three[0][row], three[0][other], spans[f]) for f, three in ends.items()]
        return all(a is not None and b is not None and abs(a - b) <= NEAR_FRAC * s
                   for a, b, s in pairs)  # fmt: skip

    found: dict[int, str] = {}
    for row, name in named.items():
        first = next((other for other in found if is_near(row, other)), row)
        found[first] = f"{found[first]}, {name}" if first in found else name
    return found


def _limits(bounds: Sequence[float | None], titles: Sequence[str], say: Say) -> Iterator[Any]:
    """A dashed line at each limit, with its name beside it."""
    name = "限值" if say.language == "zh" else "limit"
    for channel, field, bound, title in zip(
        (alt.X, alt.Y), ("x", "y"), bounds, titles, strict=True
    ):
        if bound is None:
            continue
        base = alt.Chart(alt.InlineData(values=[{"bound": bound, "name": name}]))
        place = {field: channel("bound:Q", title=title)}
        beside = {"y": alt.value(8)} if field == "x" else {"x": alt.value(8)}
        yield base.mark_rule(strokeDash=[5, 4], color=CHOSEN).encode(**place)
        yield base.mark_text(align="left", dx=4, dy=-4, color=CHOSEN, fontSize=11).encode(
            **place, **beside, text="name:N"
        )


def _axis(channel: Any, field: str, title: str) -> Any:
    return channel(f"{field}:Q", title=title, scale=alt.Scale(zero=False, nice=True))


def cash(money: Cash, say: Say) -> Spec:
    """Net money of each year as bars, their sum as a line, without and with what is left."""
    factor, unit = scale_of("USD", [*money.net, *money.cumulative])
    sums = np.append(np.cumsum(money.of_use), money.cumulative[-1])
    rows = [
        {"year": f"{year:.4g}", "net": float(net / factor)}
        for year, net in zip(money.years, money.net, strict=True)
    ]
    order = [str(row["year"]) for row in rows]
    points = [
        {"year": year, "sum": float(total / factor), "place": place}
        for place, (year, total) in enumerate(zip([*order, order[-1]], sums, strict=True))
    ]
    base = alt.Chart(alt.InlineData(values=rows))
    is_zh = say.language == "zh"
    year, amount = ("时间 [年]", "金额") if is_zh else ("time [years]", "money")
    x = alt.X("year:N", sort=order, title=year, axis=alt.Axis(labelAngle=0))
    tone = alt.condition(alt.datum.net < 0, alt.value(OKABE_ITO[3]), alt.value(OKABE_ITO[2]))
    bars = base.mark_bar(size=34).encode(
        x=x, y=alt.Y("net:Q", title=f"{amount} [{unit}]"), color=tone
    )
    line = (
        alt.Chart(alt.InlineData(values=points))
        .mark_line(point=True, color="#222222")
        .encode(x=x, y="sum:Q", order="place:Q")
    )
    return spec_of((bars + line).properties(width=WIDTH_PX, height=HEIGHT_PX - 60))


def tornado(swings: Sequence[Swing], middle: float, say: Say) -> Spec:
    """What each input does to the cost, from the middle to both sides."""
    shown = swings[:MOST_SWINGS]
    factor, unit = scale_of("USD", [s.at_high for s in shown] + [s.at_low for s in shown])
    is_zh = say.language == "zh"
    names = ("低端", "高端") if is_zh else ("at its low end", "at its high end")
    rows = [
        {
            "input": say.name(swing.name),
            "end": end,
            "from": middle / factor,
            "to": value / factor,
            "is_right": bool(value >= middle),
            "reach": f"{reach - 1.0:+.0%}",
        }
        for swing in shown
        for end, value, reach in zip(
            names, (swing.at_low, swing.at_high), (swing.low_frac, swing.high_frac), strict=True
        )
    ]
    base = alt.Chart(alt.InlineData(values=rows))
    order = [say.name(swing.name) for swing in shown]
    y = alt.Y("input:N", sort=order, title=None, axis=alt.Axis(labelLimit=LABEL_PX))
    cost = "成本" if is_zh else "cost"
    x = alt.X("from:Q", title=f"{cost} [{unit}]", scale=alt.Scale(zero=False, padding=46))
    scale = alt.Scale(domain=list(names), range=[OKABE_ITO[5], OKABE_ITO[1]])
    bars = base.mark_bar(height=BAR_PX - 10).encode(
        y=y, x=x, x2="to:Q",
        color=alt.Color("end:N", title=None, scale=scale, legend=alt.Legend(orient="bottom")),
    )  # fmt: skip
    texts = [
        base.transform_filter(alt.datum.is_right == is_right)
        .mark_text(align="left" if is_right else "right", dx=4 if is_right else -4, fontSize=10)
        .encode(y=y, x="to:Q", text="reach:N")
        for is_right in (True, False)
    ]
    rule = base.mark_rule(color="#222222").encode(x="from:Q")
    height = BAR_PX * len(shown) + 10
    return spec_of(alt.layer(bars, rule, *texts).properties(width=WIDTH_PX - 100, height=height))


def bridge(terms: Mapping[str, float], say: Say) -> Spec:
    """The terms of the cost one after the other, and the sum."""
    factor, unit = scale_of("USD", terms.values())
    named = {say.name(name): value / factor for name, value in terms.items() if value}
    return spec_of(waterfall(named, unit, say.name("total")).properties(width=WIDTH_PX - 100))


def spec_of(chart: Any) -> Spec:
    """A chart as it is set in a report."""
    set_in = chart.configure(font=FONT).configure_view(stroke=None)
    found: Spec = set_in.configure_axis(labelFontSize=11, titleFontSize=11).to_dict()
    return found
