"""A plan's training step replayed: stages and links over time, and what the step waits for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from planner.charts.gantt import gantt
from planner.documents.step_bars import step_bars
from planner.pages import desk
from planner.pages.desk import Desk
from planner.pages.tables import draw_table
from planner.space.plan_keys import plan_key
from planner.training.evaluate import is_step_given

LOOKED_AT = {"the start of the step": "start", "the end of the step": "end"}


def draw_step(found: Desk, plan: str) -> None:
    """A switch that replays the plan's step, and what came of it."""
    if found.record.start.kind != "train":
        return
    st.subheader("When: the step replayed")
    if is_step_given(desk.study_of(found)):
        st.info("The study gives how long a step takes: there is nothing to replay.")
        return
    if not st.toggle("replay its step", key=desk.kept("replay_step", False)):
        return
    part = st.radio(
        "Look at",
        list(LOOKED_AT),
        horizontal=True,
        key=desk.kept("step_part", next(iter(LOOKED_AT))),
    )
    told = _bars(found.record.run, plan, LOOKED_AT.get(str(part), "start"), found)
    replay = told["replay"]
    step = replay["step_s"]
    st.caption(
        f"{step['value']:.4g} s against {replay['closed_form_s']:.4g} s in closed form; "
        "red edges are the critical path: the chain of passes that ends the step"
        + ("" if told["is_whole"] else "; a part of it is drawn")
    )
    st.altair_chart(gantt(told["stages"]), width="stretch")
    if told["links"]:
        st.altair_chart(gantt(told["links"]), width="stretch")
    left, right = st.columns(2)
    draw_table(gap_rows(replay), left)
    draw_table(replay["stages"], right)


def gap_rows(replay: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Replay less closed form, term by term, in seconds and of the closed form in per cent."""
    closed_s = replay["closed_form_s"]
    return [
        {"replay less closed form": name, "s": value, "%": 100.0 * value / closed_s}
        for name, value in replay["gap_s"].items()
    ]


@st.cache_data(max_entries=8, show_spinner="replaying the step")
def _bars(run: str, plan: str, part: str, _found: Desk) -> dict[str, Any]:
    return step_bars(desk.study_of(_found), plan_key(plan), part)
