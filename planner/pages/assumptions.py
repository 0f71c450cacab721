"""What do the figures rest on? Every fact a run used, with its source; the study; the versions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from planner.charts.bars import stacked
from planner.charts.palette import OKABE_ITO
from planner.documents.figures import figure
from planner.pages import desk
from planner.pages.desk import Desk
from planner.pages.tables import draw_table

# From the best to the worst.
GRADES = ("measured", "vendor", "paper", "estimate", "guess")
SHADES = {"yes": OKABE_ITO[0], "no": OKABE_ITO[3]}


def draw() -> None:
    """The page."""
    st.title("What do the figures rest on?")
    found = desk.opened()
    if found is None:
        return
    rows = fact_rows(desk.facts_of(found.db, found.run))
    if rows:
        _counts(rows)
        _facts(rows)
    else:
        st.info("The run has kept no facts; it does so when its plans are costed.")
    _study(found)


def fact_rows(facts: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Name, value, unit, band, grade, whether it was checked, source; a row per fact."""
    return [
        {
            "fact": fact["name"],
            "value": fact["words"] or _value(fact["value"], fact["unit"]),
            "unit": fact["unit"],
            "band": _band(fact["low"], fact["high"], fact["unit"]),
            "grade": fact["grade"],
            "verified": bool(fact["verified"]),
            "source": fact["source"],
            "as of": fact["as_of"],
            "licence": fact["licence"],
        }
        for fact in facts
    ]


def _value(value: Any, unit: str) -> str:
    """A quantity with its thousands apart; a count or a year as it is."""
    return figure(value) if unit or value is None else f"{value:.6g}"


def _band(low: Any, high: Any, unit: str) -> str:
    """From low to high, or nothing."""
    return " to ".join(_value(end, unit) for end in (low, high) if end is not None)


def grade_rows(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """How many facts there are of each grade, checked and not; the best grade first."""
    named = [*GRADES, *sorted({row["grade"] for row in rows} - set(GRADES))]
    counts = [
        {
            "grade": grade,
            "facts": sum(row["grade"] == grade and row["verified"] == is_verified for row in rows),
            "found in its source": "yes" if is_verified else "no",
        }
        for grade in named
        for is_verified in (True, False)
    ]
    return [row for row in counts if row["facts"]]


def _counts(rows: Sequence[Mapping[str, Any]]) -> None:
    unverified = sum(not row["verified"] for row in rows)
    guesses = sum(row["grade"] in ("estimate", "guess") for row in rows)
    shown = {"Facts": len(rows), "Unverified": unverified, "Estimates and guesses": guesses}
    for column, (name, count) in zip(st.columns(len(shown)), shown.items(), strict=True):
        column.metric(name, f"{count:,}")
    chart = stacked(grade_rows(rows), "grade", "facts", "found in its source", SHADES)
    st.altair_chart(chart, width="stretch", key="grades")


def _facts(rows: Sequence[Mapping[str, Any]]) -> None:
    """The facts that match what a person looks for."""
    left, middle, right = st.columns([2, 2, 1], vertical_alignment="bottom")
    text = left.text_input(
        "Contains", key=desk.kept("fact_text", ""), placeholder="e.g. price or H100"
    )
    grades = middle.multiselect(
        "Grades", GRADES, key=desk.kept("fact_grades", []), placeholder="all"
    )
    only = right.toggle("only unverified", key=desk.kept("fact_unverified", False))
    shown = [row for row in rows if _is_wanted(row, text, grades, only)]
    st.caption(f"{len(shown):,} of {len(rows):,} facts")
    draw_table(shown, key="facts")


def _is_wanted(row: Mapping[str, Any], text: str, grades: Sequence[str], only: bool) -> bool:
    has_text = text.lower() in f"{row['fact']} {row['source']}".lower()
    return has_text and (not grades or row["grade"] in grades) and not (only and row["verified"])


def _study(found: Desk) -> None:
    """What was asked, on which terms, and by which versions."""
    start = found.record.start
    with st.expander("Costing terms"):
        terms = start.resolved["costing"]
        draw_table(
            [
                {"term": name, "value": "of the catalogue" if value is None else str(value)}
                for name, value in terms.items()
            ],
        )
    with st.expander("Study file"):
        st.code(start.study_text, language="toml")
    with st.expander("Versions"):
        rows = {**start.versions, "seed": start.seed, "facts": start.facts_hash[:12]}
        rows |= {"study": start.study_hash[:12], "priced anew from": start.parent or "no run"}
        draw_table([{"of": name, "is": str(value)} for name, value in rows.items()])


if __name__ == "__main__":
    draw()
