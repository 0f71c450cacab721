"""A replayed step as bars: what every stage and every port does when, the critical path marked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from planner.documents.timeline import MICROSECONDS, link_events, port_row, stage_events
from planner.documents.training_replay import told
from planner.space.blocks import values_of
from planner.space.plan_keys import codes_of
from planner.study.read import Study
from planner.training.engine import prepare
from planner.training.replay import ready, replayed

LOGGED_PHASES = 250_000
MOST_BARS = 3_000
"""Of a chart: what a browser draws without a pause."""

Bar = dict[str, Any]


def step_bars(study: Study, key: int, part: str = "start") -> dict[str, Any]:
    """Bars of one plan's replayed step, beside what `planner replay` tells of it.

    Parameters
    ----------
    key : design key of the plan in the study's space
    part : "start" or "end" of the step, where all of it has more bars than can be drawn

    Returns
    -------
    "replay", and "stages" and "links" with bars of row, name, start_s, end_s, critical
    """
    engine = prepare(study)
    codes = codes_of(engine.space, np.array([key]))
    accelerator = str(engine.space.levels["accelerator"][codes[0, 0]])
    plan = ready(engine, values_of(engine.space, codes), accelerator)
    found = replayed(plan, study.seed, 1, LOGGED_PHASES)
    stages = [_bar(event, f"stage {event['tid']}") for event in stage_events(found)]
    links = [_bar(event, port_row(event["tid"])) for event in link_events(found)]
    kept = _part(stages, part)
    from_s, to_s = kept[0]["start_s"], max(bar["end_s"] for bar in kept)
    within = [bar for bar in links if from_s <= bar["start_s"] <= to_s]
    return {
        "replay": told(found),
        "stages": kept,
        "links": _part(within, part) if within else [],
        "is_whole": len(kept) == len(stages),
    }


def _bar(event: Bar, row: str) -> Bar:
    start_s = event["ts"] / MICROSECONDS
    return {
        "row": row,
        "name": event["name"],
        "start_s": start_s,
        "end_s": start_s + event["dur"] / MICROSECONDS,
        "critical": bool(event["args"].get("critical", False)),
    }


def _part(bars: Iterable[Bar], part: str) -> list[Bar]:
    """As many bars as can be drawn, from the start or up to the end, in the order of time."""
    ordered = sorted(bars, key=lambda bar: (bar["start_s"], bar["row"]))
    return ordered[:MOST_BARS] if part == "start" else ordered[-MOST_BARS:]
