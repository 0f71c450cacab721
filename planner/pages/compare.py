"""How do they differ? Plans side by side, of one run or of two, and runs in all that went in."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import streamlit as st

from planner.archive.columns import ledgers_of
from planner.archive.diff import Difference, Pair
from planner.axes import AXES
from planner.charts.bars import paired
from planner.charts.palette import OKABE_ITO
from planner.charts.scatter import pareto
from planner.documents.figures import figure, human, offered, scale_of, unit_of, values_of
from planner.evaluated import REPLAY
from planner.explain.comparison import compared
from planner.metrics import METRICS
from planner.pages import desk
from planner.pages.desk import Desk
from planner.pages.points import axes_of, colour_of, ids_of, points_of, shape_of
from planner.pages.tables import draw_table

MOST_PLANS = 4
MOST_ROWS = 500
"""Of a table of differences: more is not read, and the command gives all."""

NO_OTHER = "no other run"


@dataclass(frozen=True)
class Column:
    """A plan that stands in the table.

    Parameters
    ----------
    name : of the column
    axes, metrics : by name, None where not known
    null_reasons : metric to why it is not known
    cost : term to [USD]
    """

    name: str
    axes: Mapping[str, Any]
    metrics: Mapping[str, Any]
    null_reasons: Mapping[str, str]
    cost: Mapping[str, float]

    @property
    def document(self) -> dict[str, Any]:
        """As `explain.comparison` takes it."""
        return {"axes": self.axes, "metrics": self.metrics, "null_reasons": self.null_reasons}


def draw() -> None:
    """The page."""
    st.title("How do they differ?")
    found = desk.opened(is_closed=True)  # fronts of two runs are of one kind
    if found is None:
        return
    if desk.replayed_of(found.db, found.run).fidelity == REPLAY:
        st.caption("All figures here are of the closed form, of both runs.")
    other = _other(found)
    _plans(found, other)
    if other:
        _runs(found, other)


def columns_of(front: Mapping[str, Any], prefix: str = "") -> Iterator[Column]:
    """Every row of a front as a column of the table.

    Parameters
    ----------
    prefix : before the name of each
    """
    names = ids_of(front)
    tables = {name: values_of(front, name) for name in front if name in METRICS or name in AXES}
    reasons = values_of(front, "null_reasons")
    costs = ledgers_of({n: np.ma.filled(np.ma.asarray(front[n], float), 0.0)
                        for n in front if n.startswith("usd[")}).get("usd")  # fmt: skip
    for row, name in enumerate(names):
        yield Column(
            prefix + name,
            {n: cells[row] for n, cells in tables.items() if n in AXES and n not in METRICS},
            {n: cells[row] for n, cells in tables.items() if n in METRICS},
            json.loads(reasons[row] or "{}"),
            {term: float(np.asarray(values)[row]) for term, values in costs.terms.items()}
            if costs
            else {},
        )


def _other(found: Desk) -> Desk | None:
    """The other run, if one is chosen."""
    records = {one.run: one for one in reversed(desk.records_of(found.db))}
    options = [NO_OTHER, *(run for run in records if run != found.run)]
    run = st.selectbox(
        "Other run", options, key=desk.kept("other_run", NO_OTHER, options),
        format_func=lambda name: name if name == NO_OTHER
        else f"{name} · {records[name].start.study}",
    )  # fmt: skip
    if run == NO_OTHER:
        return None
    front = desk.front_of(found.db, run)
    return Desk(found.db, records[run], front, ids_of(front) if front else (), "")


def _plans(found: Desk, other: Desk | None) -> None:
    """A few plans, each in a column, the first of them held against the others."""
    st.subheader("Plans side by side")
    columns = {one.name: one for one in columns_of(found.front)} if found.ids else {}
    if other and other.ids:
        columns |= {one.name: one for one in columns_of(other.front, f"{other.run}: ")}
    if not columns:
        desk.say_why_empty(found)
        return
    first = [name for name in (found.chosen, *columns) if name in columns]
    chosen = st.multiselect(
        f"Plans (the first is held against; at most {MOST_PLANS})", list(columns),
        key=desk.kept(f"compared_{found.run}_{other.run if other else ''}",
                      list(dict.fromkeys(first))[:2]),
        max_selections=MOST_PLANS,
    )  # fmt: skip
    shown = [columns[name] for name in chosen if name in columns]
    if len(shown) < 2:
        st.info("Choose two plans or more.")
        return
    only = st.toggle("only what differs", key=desk.kept("only_differs", True))
    rows = plan_rows(shown, is_short=only)
    draw_table(rows, key="plans_table")
    _costs(shown)


def plan_rows(shown: Sequence[Column], *, is_short: bool) -> list[dict[str, str]]:
    """A line for each decision, metric and ratio: a column for each plan, changes over the first.

    Parameters
    ----------
    is_short : leave out what is the same in all
    """
    base, *others = shown
    answers = [compared(one.document, base.document) for one in others]
    names = dict.fromkeys(name for one in shown for name in (*one.axes, *one.metrics))
    rows = []
    for name in names:
        cells = [one.axes.get(name, one.metrics.get(name)) for one in shown]
        if is_short and all(cell == cells[0] for cell in cells):
            continue
        unit = unit_of(name) if name in METRICS else ""
        words = [human(c, unit) if name in METRICS and _is_number(c) else figure(c) for c in cells]
        changes = [answer["metrics"].get(name, {}) for answer in answers]
        rows.append(_row(name, shown, words, changes))
    for name in answers[0]["ratios"]:
        lines = [answer["ratios"].get(name, {}) for answer in answers]
        words = [figure(lines[0].get("against")), *(figure(line.get("plan")) for line in lines)]
        rows.append(_row(name, shown, words, lines))
    return rows


def _row(
    name: str, shown: Sequence[Column], words: Sequence[str], changes: Sequence[Mapping[str, Any]]
) -> dict[str, str]:
    row = {"of": name, **{one.name: text for one, text in zip(shown, words, strict=True)}}
    for one, change in zip(shown[1:], changes, strict=True):
        share = change.get("change_frac")
        row[f"change: {one.name}"] = "" if share is None else f"{share:+.1%}"
    return row


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _costs(shown: Sequence[Column]) -> None:
    """What each plan costs, term by term."""
    priced = [one for one in shown if one.cost]
    if not priced:
        return
    factor, unit = scale_of("USD", [value for one in priced for value in one.cost.values()])
    terms = dict.fromkeys(term for one in priced for term, value in one.cost.items() if value)
    rows = [
        {"term": term, "when": one.name, "value": one.cost.get(term, 0.0) / factor}
        for term in terms
        for one in priced
    ]
    shades = dict(zip([one.name for one in priced], OKABE_ITO, strict=False))
    st.altair_chart(paired(rows, unit, shades), width="stretch", key="costs_beside")


def _runs(found: Desk, other: Desk) -> None:
    """Everything that is not the same in two runs."""
    st.subheader(f"{found.run} against {other.run}")
    differs = desk.difference_of(found.db, found.run, other.run)
    _fronts(found, other, differs)
    parts = (
        ("Studies", differs.study, "the studies are the same"),
        ("Facts", differs.facts, "both used the same facts"),
        ("Versions, seed", differs.inputs, "the same versions, seed and tables"),
        ("Counts", differs.counts, "the same counts"),
        ("Removed", differs.rejections, "the same candidates were removed"),
    )
    for tab, (name, pairs, none) in zip(
        st.tabs([f"{name} ({len(pairs)})" for name, pairs, _ in parts]), parts, strict=True
    ):
        if not pairs:
            tab.caption(none)
            continue
        rows = pair_rows(pairs, found.run, other.run)
        draw_table(rows, tab, key=f"differs_{name}")
        if len(pairs) > MOST_ROWS:
            tab.caption(f"The first {MOST_ROWS} of {len(pairs):,}: `planner diff` tells all.")


def pair_rows(pairs: Mapping[str, Pair], left: str, right: str) -> list[dict[str, str]]:
    """What differs by name, with both values in words."""
    return [
        {"of": name, left: _words(a), right: _words(b)}
        for name, (a, b) in list(pairs.items())[:MOST_ROWS]
    ]


def _words(value: Any) -> str:
    return "–" if value is None else figure(value)


def _fronts(found: Desk, other: Desk, differs: Difference) -> None:
    """Both fronts in one chart, and how many of their rows are the same."""
    shown = {
        "Same rows": differs.same,
        "Changed figures": len(differs.changed),
        f"Only in {found.run}": len(differs.only_left),
        f"Only in {other.run}": len(differs.only_right),
    }
    for column, (name, count) in zip(st.columns(len(shown)), shown.items(), strict=True):
        column.metric(name, f"{count:,}")
    if not (found.ids and other.ids):
        return
    known = set(offered(other.front, ()))
    names = [name for name in offered(found.front, found.objectives) if name in known]
    if len(names) < 2:
        return
    pair = [
        column.selectbox(label, names, key=desk.kept(key, names[at], names))
        for column, label, key, at in zip(
            st.columns(2), ("Horizontal", "Vertical"), ("diff_x", "diff_y"), (0, 1), strict=True
        )
    ]
    axes = axes_of(found.front, pair, (False, False))
    rows, old = (
        points_of(front, axes, names[:1], is_banded=False) for front in (found.front, other.front)
    )
    shades = colour_of("site", found.record.start.resolved, rows)
    ring = next((row for row in rows if row["id"] == found.chosen), None)
    chart = pareto(rows, axes, shades, shape_of(rows, "site"), ring, old)
    st.altair_chart(chart, width="stretch", key="diff_chart")
    st.caption(f"Grey: {other.run}.")


if __name__ == "__main__":
    draw()
