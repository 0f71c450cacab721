"""How a plan uses its chip and its wires: the roofline, and bytes by tier of the network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from planner.charts.bars import waterfall
from planner.charts.roofline import roof_chart
from planner.costing.quoted import is_pooled
from planner.documents.figures import figure, scale_of
from planner.explain.roofline import Roofline, roofline
from planner.explain.serving_roofline import Served, serving_roofline
from planner.pages import desk
from planner.pages.desk import Desk
from planner.pages.tables import draw_table
from planner.runs import kinds
from planner.space.plan_keys import plan_key
from planner.training.engine import prepare

TIERS = {
    "inside_bytes_per_step": "inside the scale-up domain",
    "outside_bytes_per_step": "outside, over the scale-out network",
}


def draw_roof(found: Desk, document: Mapping[str, Any]) -> None:
    """Both, where the plan has a model."""
    kind = found.record.start.kind
    if kind not in ("train", "serve") or is_pooled(document["axes"]):
        return
    left, right = st.columns(2)
    if kind == "serve":
        _served(found, document, left, right)
        return
    with left:
        _roofline(found, document)
    with right:
        sent = {words: document["traffic"].get(name, 0.0) for name, words in TIERS.items()}
        _tiers(sent, document, "a step")


def _roofline(found: Desk, document: Mapping[str, Any]) -> None:
    st.subheader("Under its roof")
    metrics = document["metrics"]
    if not metrics.get("mfu_frac"):
        return
    peak = metrics["model_flop_per_s_per_device"] / metrics["mfu_frac"]
    one = _roof_of(found.record.run, document["plan"], float(peak), found)
    words = "Closed form of a step, recomputing counted, before a pace that the study gives."
    _under(one, words)


def _under(one: Roofline, words: str) -> None:
    """The plan under its roof, which of two it is, and the shares of the peaks it uses."""
    st.altair_chart(roof_chart(one), width="stretch", key="roofline")
    is_compute = one.flop_per_byte >= one.ridge_flop_per_byte
    binds = "products are" if is_compute else "memory is"
    st.caption(
        f"{figure(one.flop_per_byte)} flop a byte of memory, the ridge is at "
        f"{figure(one.ridge_flop_per_byte)}: {binds} the roof. {words}"
    )
    draw_table(use_rows(one), key="chip_use")


def _served(found: Desk, document: Mapping[str, Any], left: Any, right: Any) -> None:
    """The same of a serving plan, in its busiest window."""
    one = _served_of(found.record.run, document["plan"], found)
    with left:
        st.subheader("Under its roof")
        words = (
            "The busiest window on the fleet of the closed form, gaps between kernels counted; "
            f"{figure(one.tokens_per_step)} tokens in a mean step."
        )
        _under(one.roof, words)
    with right:
        sent = dict(
            zip(
                TIERS.values(),
                (one.inside_bytes_per_step, one.outside_bytes_per_step),
                strict=True,
            )
        )
        _tiers(sent, document, "a mean step of the busiest window")


def use_rows(one: Roofline) -> list[dict[str, str]]:
    """Shares of the peaks that a step uses."""
    shares = {
        "products, of the dense peak": one.compute_frac,
        "memory, of its rate": one.memory_frac,
        "wires, of their rate": one.network_frac,
    }
    return [{"used": name, "share of the step": f"{share:.1%}"} for name, share in shares.items()]


def _tiers(sent: Mapping[str, float], document: Mapping[str, Any], when: str) -> None:
    st.subheader("Bytes by tier")
    factor, unit = scale_of("B", sent.values())
    terms = {words: value / factor for words, value in sent.items()}
    if not sum(terms.values()):
        st.info("Nothing is sent.")
        return
    st.altair_chart(waterfall(terms, unit), width="stretch", key="tiers")
    domain = document["axes"].get("supernode_devices")
    st.caption(f"Sent by each device in {when}; a scale-up domain has {figure(domain)} devices.")


@st.cache_data(max_entries=16, show_spinner="working out the roofline")
def _roof_of(run: str, plan: str, peak_flop_per_s: float, _found: Desk) -> Roofline:
    return roofline(prepare(desk.study_of(_found)), plan_key(plan), peak_flop_per_s)


@st.cache_data(max_entries=16, show_spinner="working out the roofline")
def _served_of(run: str, plan: str, _found: Desk) -> Served:
    engine = kinds.prepare(desk.study_of(_found))
    return serving_roofline(engine, plan_key(plan))
