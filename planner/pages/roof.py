"""How a plan uses its chip and its wires: the roofline, and bytes by tier of the network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import altair as alt
import numpy as np
import streamlit as st

from planner.documents.figures import figure, scale_of, unit_of
from planner.explain.roofline import Roofline, roofline
from planner.pages import charts, desk
from planner.pages.charts import CHOSEN, MARKED, OKABE_ITO, SMALL_PX
from planner.pages.desk import Desk
from planner.pages.tables import draw_table
from planner.space.plan_keys import plan_key
from planner.training.engine import prepare

TIERS = {
    "inside_bytes_per_step": "inside the scale-up domain",
    "outside_bytes_per_step": "outside, over the scale-out network",
}
DECADES = 40
"""Points from which the roof is drawn."""


def draw_roof(found: Desk, document: Mapping[str, Any]) -> None:
    """Both, where the plan is one of training."""
    if found.record.start.kind != "train":
        return
    left, right = st.columns(2)
    with left:
        _roofline(found, document)
    with right:
        _tiers(document)


def _roofline(found: Desk, document: Mapping[str, Any]) -> None:
    st.subheader("Under its roof")
    metrics = document["metrics"]
    if not metrics.get("mfu_frac"):
        return
    peak = metrics["model_flop_per_s_per_device"] / metrics["mfu_frac"]
    one = _roof_of(found.record.run, document["plan"], float(peak), found)
    st.altair_chart(roof_chart(one), width="stretch", key="roofline")
    binds = "products" if one.flop_per_byte >= one.ridge_flop_per_byte else "memory"
    st.caption(
        f"{figure(one.flop_per_byte)} flop a byte of memory, the ridge is at "
        f"{figure(one.ridge_flop_per_byte)}: {binds} are the roof. Closed form of a step, "
        "recomputing counted, before a pace that the study gives."
    )
    draw_table(use_rows(one), key="chip_use")


def use_rows(one: Roofline) -> list[dict[str, str]]:
    """Shares of the peaks that a step uses."""
    shares = {
        "products, of the dense peak": one.compute_frac,
        "memory, of its rate": one.memory_frac,
        "wires, of their rate": one.network_frac,
    }
    return [{"used": name, "share of the step": f"{share:.1%}"} for name, share in shares.items()]


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


def _tiers(document: Mapping[str, Any]) -> None:
    st.subheader("Bytes by tier")
    sent = {words: document["traffic"].get(name, 0.0) for name, words in TIERS.items()}
    factor, unit = scale_of("B", sent.values())
    terms = {words: value / factor for words, value in sent.items()}
    if not sum(terms.values()):
        st.info("Nothing is sent.")
        return
    st.altair_chart(charts.waterfall(terms, unit), width="stretch", key="tiers")
    domain = document["axes"].get("supernode_devices")
    st.caption(f"Sent by each device in a step; a scale-up domain has {figure(domain)} devices.")


@st.cache_data(max_entries=16, show_spinner="working out the roofline")
def _roof_of(run: str, plan: str, peak_flop_per_s: float, _found: Desk) -> Roofline:
    return roofline(prepare(desk.study_of(_found)), plan_key(plan), peak_flop_per_s)
