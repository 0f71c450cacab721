"""How a plan uses its chip and its wires: the roofline, and bytes by tier of the network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from planner.charts.bars import waterfall
from planner.charts.roofline import roof_chart
from planner.documents.figures import figure, scale_of
from planner.explain.roofline import Roofline, roofline
from planner.pages import desk
from planner.pages.desk import Desk
from planner.pages.tables import draw_table
from planner.space.plan_keys import plan_key
from planner.training.engine import prepare

TIERS = {
    "inside_bytes_per_step": "inside the scale-up domain",
    "outside_bytes_per_step": "outside, over the scale-out network",
}


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


def _tiers(document: Mapping[str, Any]) -> None:
    st.subheader("Bytes by tier")
    sent = {words: document["traffic"].get(name, 0.0) for name, words in TIERS.items()}
    factor, unit = scale_of("B", sent.values())
    terms = {words: value / factor for words, value in sent.items()}
    if not sum(terms.values()):
        st.info("Nothing is sent.")
        return
    st.altair_chart(waterfall(terms, unit), width="stretch", key="tiers")
    domain = document["axes"].get("supernode_devices")
    st.caption(f"Sent by each device in a step; a scale-up domain has {figure(domain)} devices.")


@st.cache_data(max_entries=16, show_spinner="working out the roofline")
def _roof_of(run: str, plan: str, peak_flop_per_s: float, _found: Desk) -> Roofline:
    return roofline(prepare(desk.study_of(_found)), plan_key(plan), peak_flop_per_s)
