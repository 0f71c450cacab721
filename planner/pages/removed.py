"""What did the rules and limits remove? Candidates by the reason they are not on the front."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from planner.charts.bars import bars
from planner.charts.palette import OKABE_ITO
from planner.costing.null_objectives import UNKNOWN_OBJECTIVE
from planner.documents.figures import human, unit_of
from planner.documents.text import DECISIONS
from planner.metrics import is_at_least
from planner.pages import desk
from planner.pages.desk import Desk
from planner.pages.tables import draw_table
from planner.pages.words import plain
from planner.runs.physics import every_rule
from planner.search.bounds import every_bound

STAGES = {"rule": "cannot exist", "bound": "proved over a limit", "limit": "over a limit"}
SHADES = dict(zip(STAGES.values(), OKABE_ITO, strict=False))
REASONS = {
    "memory": "more resident bytes than the heaviest device has memory",
    "missing_fact": "no price is known on the terms of the study",
    UNKNOWN_OBJECTIVE: "an objective of the study has no figure here",
}


def draw() -> None:
    """The page."""
    st.title("What did the limits remove?")
    found = desk.opened()
    if found is None:
        return
    rows = removed_rows(desk.rejections_of(found.db, found.run), _limits(found))
    if rows:
        _sentence(found, rows)
        st.altair_chart(
            bars(rows, "reason", "candidates", "stage", SHADES),
            width="stretch",
            key="removed_bars",
        )
        draw_table(
            rows,
            key="removed",
            column_config={
                "candidates": st.column_config.NumberColumn(format="localized"),
                "in words": st.column_config.TextColumn(width="large"),
            },
        )
    else:
        st.info("Nothing was removed." if found.record.summary else "The run has not ended yet.")
    _left_out(found)
    _nearest(found)


def removed_rows(
    rejections: list[dict[str, Any]], limits: Mapping[str, float]
) -> list[dict[str, Any]]:
    """Reason, how many candidates, when, and the reason in words; the largest first."""
    words = {rule.name: rule.reason for rule in every_rule()}
    words |= REASONS | {name: limit_words(name, bound) for name, bound in limits.items()}
    words |= {f"{bound.limit} by a bound": bound.inequality for bound in every_bound()}
    return [
        {
            "reason": row["reason"],
            "candidates": row["candidates"],
            "stage": STAGES.get(row["stage"], row["stage"]),
            "in words": row["note"] or words.get(row["reason"], ""),
        }
        for row in rejections
    ]


def limit_words(name: str, bound: float) -> str:
    """A limit of the study as a sentence."""
    sign = "at least" if is_at_least(name) else "at most"
    return f"wanted {sign} {human(bound, unit_of(name))}"


def _limits(found: Desk) -> Mapping[str, float]:
    limits: Mapping[str, float] = found.record.start.resolved["limits"]
    return limits


def _sentence(found: Desk, rows: list[dict[str, Any]]) -> None:
    summary = found.record.summary
    if summary is None:
        return
    masked = sum(row["candidates"] for row in rows if row["stage"] == STAGES["rule"])
    st.caption(
        f"{summary.enumerated:,} candidates: {masked:,} cannot exist and {summary.evaluated:,} "
        "were evaluated. A candidate counts under the first rule it breaks, but under every limit."
    )


def _left_out(found: Desk) -> None:
    """Chips that could not be evaluated, with the fact that is missing."""
    notes = found.record.summary.notes if found.record.summary else {}
    missing = [
        {"accelerator": name.removeprefix("missing_fact "), "missing": why}
        for name, why in notes.items()
        if name.startswith("missing_fact")
    ]
    if missing:
        st.subheader("Left out because a fact is missing")
        draw_table(missing, key="left_out")


def _nearest(found: Desk) -> None:
    """The candidates that break their limits least, when nothing is feasible."""
    nearest = found.record.summary.nearest if found.record.summary else {}
    for words in nearest.get("why", ()):
        st.warning(plain(words))
    plans = nearest.get("plans", [])
    if not plans:
        return
    st.subheader("Nothing is feasible; these come nearest")
    names = ["plan", "binding", "worst_excess", *_limits(found), *found.objectives, *DECISIONS]
    shown = [name for name in dict.fromkeys(names) if any(name in plan for plan in plans)]
    draw_table(
        [{name: plan.get(name) for name in shown} for plan in plans],
        key="nearest",
    )


if __name__ == "__main__":
    draw()
