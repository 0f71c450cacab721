"""The roof of a chip, and a plan under it."""

from __future__ import annotations

from typing import Any

import altair as alt
import numpy as np

from planner.charts.palette import CHOSEN, MARKED, OKABE_ITO, SMALL_PX
from planner.documents.figures import figure, scale_of, unit_of
from planner.explain.roofline import Roofline

DECADES = 40
"""Points from which the roof is drawn."""


def roof_chart(one: Roofline) -> Any:
    """The roof of the chip as a line, the plan as a point under it."""
    factor, unit = scale_of(unit_of("model_flop_per_s_per_device"), [one.peak_flop_per_s])
    least = min(one.flop_per_byte, one.ridge_flop_per_byte) / 10.0
    most = max(one.flop_per_byte, one.ridge_flop_per_byte) * 10.0
    at = np.unique(np.append(np.geomspace(least, most, DECADES), one.ridge_flop_per_byte))
    roof = [
        {"x": float(x), "y": float(min(one.peak_flop_per_s, x * one.hbm_bytes_per_s) / factor)}
        for x in at
    ]
    point = {"x": one.flop_per_byte, "y": one.flop_per_s / factor, "name": "this plan"}
    x = alt.X("x:Q", title="flop per byte of memory [flop/byte]", scale=alt.Scale(type="log"))
    y = alt.Y("y:Q", title=f"per device [{unit}]", scale=alt.Scale(type="log"))
    base = alt.Chart(alt.InlineData(values=[point])).encode(x=x, y=y)
    line = alt.Chart(alt.InlineData(values=roof)).mark_line(color=OKABE_ITO[0], strokeWidth=2.5)
    about = (
        f"Roofline: the plan computes {figure(point['y'])} {unit} at "
        f"{figure(one.flop_per_byte)} flop a byte, under a roof of "
        f"{figure(one.roof_flop_per_s / factor)} {unit}."
    )
    drawn = alt.layer(
        line.encode(x=x, y=y),
        base.mark_point(size=140, filled=True, color=CHOSEN).encode(tooltip=["x:Q", "y:Q"]),
        base.mark_text(align="left", dx=9, dy=12, color=MARKED).encode(text="name:N"),
    )
    return drawn.properties(height=SMALL_PX + 40, description=about)
