"""Which plan to take? Weights, an aspiration, TOPSIS and the knee side by side, and the odds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import streamlit as st

from planner.charts.scatter import pareto
from planner.decide.methods import aspiration, knee, topsis, weighted_sum
from planner.decide.robust import beats_frac, mean, regret, tail_mean, win_frac, worst_regret
from planner.decide.scaled import Scaled, scaled
from planner.documents.figures import human, scale_of, unit_of, values_of
from planner.pages import desk
from planner.pages.desk import Desk
from planner.pages.points import axes_of, colour_of, known_points, points_of, shape_of
from planner.pages.tables import draw_table
from planner.pages.words import plain
from planner.report.choice import MONEY as MONEY_METRICS
from planner.report.choice import objectives
from planner.report.gather import MONEY, Gathered, scenario_table
from simkernel.columns import Floats

MOST_POINTS = 5000
TAIL_FRAC = 0.1

FORMULAS: Mapping[str, str] = {
    "weighted sum": "least Σ wᵢ fᵢ, each objective fᵢ scaled from 0 at its best on the front to 1 "
    "at its worst; never a plan in a dent of the front",
    "aspiration": "least maxᵢ wᵢ (fᵢ − zᵢ) + 0.0001 Σ wᵢ (fᵢ − zᵢ), z what is hoped for",
    "TOPSIS": "largest d⁻ / (d⁺ + d⁻), distances from the best and the worst values",
    "knee": "largest (1 − Σ fᵢ) / √k, the bulge below the plane through the extremes; no weights",
    "minimax regret": "least of the largest regrets over the scenarios of the report, in cost",
}


@dataclass(frozen=True)
class Pick:
    """What a rule takes: its row of the front and its figure there."""

    rule: str
    row: int
    figure: float


def draw() -> None:
    """The page."""
    st.title("Which plan to take?")
    found = desk.opened()
    if found is None:
        return
    if not found.ids:
        desk.say_why_empty(found)
        return
    study = desk.study_of(found)
    signs = objectives(study)
    left, right = st.columns([1, 2.2], gap="large")
    with left:
        weights = _weights(signs)
        wanted = _wanted(found, signs)
    rows, points = known_points(found.front, signs)
    front = scaled(points)
    picks = picked(front, weights, wanted, signs)
    with right:
        _chart(found, [Pick(p.rule, int(rows[p.row]), p.figure) for p in picks])
    _table(found, [Pick(p.rule, int(rows[p.row]), p.figure) for p in picks], signs)
    _robust(found)


def picked(
    front: Scaled, weights: Floats, wanted: Floats, signs: Mapping[str, float]
) -> list[Pick]:
    """The plan that each rule takes.

    Parameters
    ----------
    front : objectives to minimise, (n, k)
    weights, wanted : (k,) the latter in the units of the objectives as a person writes them
    """
    sign = np.array(list(signs.values()))
    figures = {
        "weighted sum": -weighted_sum(front, weights),
        "aspiration": -aspiration(front, sign * wanted, np.where(weights > 0, weights, 1e-6)),
        "TOPSIS": topsis(front, weights),
        "knee": knee(front),
    }
    return [
        Pick(rule, int(figure.argmax()), abs(float(figure.max())))
        for rule, figure in figures.items()
    ]


def _weights(signs: Mapping[str, float]) -> Floats:
    """A slider per objective; all alike at first, and none is hidden."""
    st.subheader("Weights")
    found = [
        st.slider(name, 0, 10, key=desk.kept(f"weight_{name}", 5), help="0: does not count")
        for name in signs
    ]
    if not any(found):
        st.warning("All weights are 0; taken as alike.")
        found = [1] * len(found)
    return np.array(found, float)


def _wanted(found: Desk, signs: Mapping[str, float]) -> Floats:
    """What is hoped for in each objective; the best on the front at first."""
    st.subheader("Aspiration")
    values = []
    for name, sign in signs.items():
        known = [v for v in values_of(found.front, name) if v is not None]
        best = min(known) if sign > 0 else max(known)
        factor, unit = scale_of(unit_of(name), known)
        label = f"{name} [{unit}]" if unit else name
        shown = st.number_input(label, key=desk.kept(f"wanted_{name}", float(best / factor)))
        values.append(shown * factor)
    return np.array(values)


def _chart(found: Desk, picks: list[Pick]) -> None:
    """The front with the plan of the first rule ringed; a click looks at a plan."""
    names = found.objectives
    cost = next((name for name in MONEY_METRICS if name in names), names[0])
    pair = (next((name for name in names if name != cost), cost), cost)
    axes = axes_of(found.front, pair, (False, False))
    rows = points_of(found.front, axes, names, is_banded=True)[:MOST_POINTS]
    shades = colour_of("site", found.record.start.resolved, rows)
    ringed = found.ids[picks[0].row]
    chosen = next((row for row in rows if row["id"] == ringed), None)
    chart = pareto(rows, axes, shades, shape_of(rows, "site"), chosen)
    st.altair_chart(chart, width="stretch", key="decide_chart")
    st.caption(f"Ringed: the plan of the weighted sum. Bars: 90% bands of {pair[0]}, {pair[1]}.")


def _table(found: Desk, picks: list[Pick], signs: Mapping[str, float]) -> None:
    """What each rule takes, and by which formula."""
    st.subheader("What each rule takes")
    table = [
        {
            "rule": pick.rule,
            "plan": found.ids[pick.row],
            **{n: human(values_of(found.front, n)[pick.row], unit_of(n)) for n in signs},
            "formula": FORMULAS[pick.rule],
        }
        for pick in picks
    ]
    draw_table(table, key="picks")


def _robust(found: Desk) -> None:
    """Regret over scenarios and odds over draws; worked out when asked for."""
    st.subheader("When it is not known how things turn out")
    if not st.toggle("work out regret and odds", key=desk.kept("robust", False)):
        st.caption("Costs every plan of the front in the report's scenarios and 1,000 draws.")
        return
    got = desk.gathered_of(found)
    names, table = scenario_table(got)
    losses = regret(table)
    front = got.odds.front_frac()
    drawn = got.odds.values[MONEY].T
    wins = win_frac(drawn)
    rows = [
        {
            "plan": found.ids[int(row)],
            "worst regret": human(float(worst_regret(table)[i]), "USD"),
            "in": names[int(losses[i].argmax())],
            "mean cost": human(float(mean(drawn)[i]), "USD"),
            "worst tenth": human(float(tail_mean(drawn, TAIL_FRAC)[i]), "USD"),
            "on the front": f"{front[i]:.0%}",
            "cheapest": f"{wins[i]:.0%}",
        }
        for i, row in enumerate(got.drawn_rows)
    ]
    order = np.argsort(worst_regret(table), kind="stable")
    draw_table([rows[i] for i in order], key="robust_table")
    st.caption(
        f"Sorted by {FORMULAS['minimax regret']}. Worst tenth: mean of the dearest 10% of draws "
        "(CVaR). On the front, cheapest: shares of draws in which nothing beats the plan, or "
        "its cost."
    )
    _beats(found, got)
    _sources(found)


def _beats(found: Desk, got: Gathered) -> None:
    """Probability that one plan is better than another, in the same draws."""
    st.subheader("Does one plan beat another?")
    drawn = {found.ids[int(row)]: i for i, row in enumerate(got.drawn_rows)}
    names = list(drawn)
    left, right, metric = st.columns(3)
    first = found.chosen if found.chosen in drawn else names[0]
    one = left.selectbox("Plan", names, key=desk.kept("beats_a", first, names))
    other = right.selectbox("against", names, key=desk.kept("beats_b", names[0], names))
    options = list(got.odds.signs)
    name = metric.selectbox("in", options, key=desk.kept("beats_in", options[0], options))
    values = got.odds.signs[name] * got.odds.values[name]
    odds = beats_frac(values[:, drawn[one]], values[:, drawn[other]])
    left.metric("Probability that it is better", f"{odds:.0%}")
    for place, plan in ((left, one), (right, other)):
        low, middle, high = got.odds.quantiles(name)[:, drawn[plan]]
        figures = " · ".join(human(float(v), unit_of(name)) for v in (low, middle, high))
        place.caption(plain(f"{name}, P10 · P50 · P90: {figures}"))


def _sources(found: Desk) -> None:
    """Where the spread of the chosen plan's cost comes from."""
    st.subheader("Where the spread of its cost comes from")
    got = desk.gathered_of(found, found.row)
    if not got.sources:
        st.info("Every price and rate was given by the study, so no input has a band.")
        return
    draw_table(
        [
            {
                "input": one.name,
                "share alone (Sobol)": f"{max(one.alone_frac, 0.0):.1%}",
                "share with others (Sobol)": f"{max(one.total_frac, 0.0):.1%}",
                "mean effect (Morris)": human(one.mean_size, "USD"),
                "unevenness (Morris)": human(one.spread, "USD"),
            }
            for one in got.sources
        ],
        key="sources",
    )
    st.caption(
        f"Of {plain(found.chosen)}. Shares of variance, all inputs at random together; effects as "
        "an input crosses its 90% band."
    )


if __name__ == "__main__":
    draw()
