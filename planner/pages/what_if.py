"""What if prices change? The physical front priced anew under sliders; nothing is simulated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import streamlit as st

from planner.charts.bars import paired
from planner.charts.scatter import pareto
from planner.costing.quoted import names_in, quotes_of
from planner.costing.recost import Repriced, priced
from planner.costing.second_pass import Costed
from planner.costing.terms import terms_of
from planner.documents.figures import figure, human, offered, scale_of, unit_of, values_of
from planner.metrics import find_metric
from planner.pages import desk, error_band
from planner.pages.desk import Desk
from planner.pages.error_band import Counted
from planner.pages.points import axes_of, colour_of, ids_of, points_of, shape_of
from planner.pages.words import plain
from planner.runs.kinds import kind_of
from planner.study.parts import Costing
from planner.study.read import Study
from planner.study.settings import price_in_force

TERMS = (
    ("wacc_frac", "Discount rate (WACC) [%]", 100.0, (0.0, 25.0, 0.5), "%.1f"),
    ("pue", "PUE", 1.0, (1.0, 2.0, 0.01), "%.2f"),
    ("usd_per_kwh", "Electricity [$/kWh]", 1.0, (0.0, 0.4, 0.005), "%.3f"),
    ("carbon_usd_per_t", "Carbon price [$/t]", 1.0, (0.0, 500.0, 5.0), "%.0f"),
    ("demand_usd_per_kw_month", "Demand charge [$/kW-month]", 1.0, (0.0, 40.0, 0.5), "%.1f"),
    ("utilisation_frac", "Hours in use [%]", 100.0, (5.0, 100.0, 1.0), "%.0f"),
)
ABREAST = 4
MOST_PRICED = 20_000
"""Plans that a slider prices anew: it answers while it is moved."""

PRICE_SPAN = (0.25, 2.0)
PRICE_STEP_USD = 500.0


@dataclass(frozen=True)
class Knob:
    """A slider over one key of [costing].

    Parameters
    ----------
    key : of the table, e.g. "pue" or "price_usd.H100-SXM"
    chip : whose price it is, "" for a term
    label : with the unit on the screen, which is `factor` times the table's
    stored : what the run was priced with, on the screen; at several sites the first one's
    least, most, step, digits : of the slider
    help : what the run was priced with at every site
    """

    key: str
    chip: str
    label: str
    factor: float
    stored: float
    least: float
    most: float
    step: float
    digits: str
    help: str

    def setting(self, value: float) -> str:
        """The setting of `planner recost` that stands for a position."""
        return f"costing.{self.key}={value / self.factor:.6g}"


def draw() -> None:
    """The page."""
    st.title("What if prices change?")
    found = desk.opened()
    if found is None:
        return
    if found.state == "running" or found.record.summary is None:
        desk.say_why_empty(found)
        return
    if found.ids:
        desk.say_closed_form(found)
    read, stored = desk.swept_of(found, MOST_PRICED)
    if not read.is_whole:
        st.warning(
            f"Priced are {len(read.physical['plan']):,} of {read.kept:,} plans that are kept: "
            "those of the front and others evenly spread. `planner recost` looks at all; here a "
            "better plan may be missed."
        )
    if stored.costed is None:
        desk.say_why_empty(found)
        return
    left, right = st.columns([1, 2.4], gap="large")
    with left:
        settings = _sliders(found, list(knobs(stored)))
        if words := fixed_by_scenarios(stored.study):
            st.caption(plain(words))
        how = error_band.asked()
    changed = priced(read, settings) if settings else stored
    with right:
        _front(found, stored, changed, settings, how)
    if changed.costed is not None and found.ids:
        _chosen(found, stored, changed)


def knobs(stored: Repriced) -> Iterator[Knob]:
    """A slider for each term that is the buyer's, and for the price of each chip bought."""
    costing, catalog = stored.study.costing, stored.catalog
    terms = terms_of(costing, catalog)
    for key, label, factor, (least, most, step), digits in TERMS:
        if f"costing.{key}" in stored.study.scenarios:
            continue
        values = factor * getattr(terms, key)
        told = ", ".join(
            f"{site} {figure(float(v))}" for site, v in zip(costing.site, values, strict=True)
        )
        most = max(most, float(values.max()))
        least = min(least, float(values.min()))
        words = f"One figure for all sites. As stored: {told}."
        yield Knob(key, "", label, factor, float(values[0]), least, most, step, digits, words)
    if costing.acquire != "buy":
        return
    for name in names_in(stored.plans):
        unit_usd = float(quotes_of(costing, catalog, [name]).chips.unit_usd[0])
        if np.isfinite(unit_usd):
            yield _price_knob(costing, name, unit_usd, catalog.purchase_unit(name).devices)


def _price_knob(costing: Costing, name: str, unit_usd: float, devices: int) -> Knob:
    """The slider of the price in force, be it of servers alone or all in."""
    held = price_in_force(costing, name) or "price_usd"
    factor = 1.0 / devices if held == "all_in_usd_per_unit" else 1.0
    usd = unit_usd / devices
    low, high = (round(end * usd, -2) for end in PRICE_SPAN)
    high = max(high, low + PRICE_STEP_USD)
    is_all_in = held != "price_usd"
    words = "Server, network and storage." if is_all_in else "Its share of the server included."
    label = f"{name}{', all in' if is_all_in else ''} [$/device]"
    key = f"{held}.{name}"
    return Knob(key, name, label, factor, usd, low, high, PRICE_STEP_USD, "%.0f", words)


def fixed_by_scenarios(study: Study) -> str:
    """Which terms have no slider because the scenarios are their values; "" for none."""
    labels = [label for key, label, *_ in TERMS if f"costing.{key}" in study.scenarios]
    if not labels:
        return ""
    return (
        f"No slider for {', '.join(labels)}: the study varies it as a scenario, and each value "
        "has a front of its own. Choose a plan of that scenario in the side bar instead."
    )


def _sliders(found: Desk, every: Sequence[Knob]) -> list[str]:
    """The sliders, chips of the front before others; returns the settings of those moved."""
    keys = {knob.key: desk.kept(f"{found.run}_{knob.key}", knob.stored) for knob in every}
    if st.button("As the run was priced", key="reset"):
        st.session_state.update({keys[knob.key]: knob.stored for knob in every})
    chips = {"", *map(str, found.front.get("accelerator", ()))}
    others = [knob for knob in every if knob.chip not in chips]
    moved = [k for k in every if k not in others and _slide(k, keys[k.key])]
    if others:
        with st.expander("Chips that are not on the front"):
            moved += [knob for knob in others if _slide(knob, keys[knob.key])]
    return [knob.setting(st.session_state[keys[knob.key]]) for knob in moved]


def _slide(knob: Knob, key: str) -> bool:
    """One slider; True where it stands elsewhere than the run was priced."""
    value = st.slider(
        knob.label,
        knob.least,
        knob.most,
        step=knob.step,
        format=knob.digits,
        key=key,
        help=knob.help,
    )
    return not np.isclose(value, knob.stored, rtol=1e-9)


def _front(
    found: Desk, stored: Repriced, changed: Repriced, settings: Sequence[str], how: Counted
) -> None:
    """Both fronts in one chart, and in words how they differ."""
    before, now = _on_front(stored.costed), error_band.held(changed, how)
    after = now.shown
    names = offered(before or after, found.objectives)
    if not names:
        st.warning("Nothing is feasible under these prices, nor was under the stored ones.")
        return
    picked = [
        column.selectbox(label, names, key=desk.kept(key, names[min(at, len(names) - 1)], names))
        for column, label, at, key in zip(
            st.columns(2), ("Horizontal", "Vertical"), (0, 1), ("if_x", "if_y"), strict=True
        )
    ]
    axes = axes_of(before or after, picked, (False, False))
    words = "how far figures may be off: bars from X_low to X_high"
    is_banded = st.toggle("90% bands", key=desk.kept("if_bands", False), help=words)
    is_banded = is_banded or how.scale != 1.0
    rows, old, chosen = (
        points_of(plans, axes, found.objectives, is_banded=is_banded) if plans else []
        for plans in (after, before, alone(changed, found.chosen)[0])
    )
    if rows:
        shades = colour_of("site", found.record.start.resolved, rows)
        own = [row for row in rows if row["id"] == found.chosen] or chosen
        ring = own[0] if own else None
        chart = pareto(rows, axes, shades, shape_of(rows, "site"), ring, old)
        st.altair_chart(chart, width="stretch", key="if_chart")
    else:
        st.warning("Nothing is feasible under these prices.")
    words = difference(ids_of(before), ids_of(after))
    st.caption(f"{words} Grey: as the run was priced. {_speed(changed)}")
    odds = error_band.odds_of(changed, now.plans, found.chosen, how)
    if odds:
        st.caption(plain(error_band.told(odds, found.chosen)))
    if settings:
        words = " ".join(f"--set {setting}" for setting in settings)
        st.code(f"planner recost {found.run} {words}", language="bash", wrap_lines=True)


def difference(before: Sequence[str], after: Sequence[str]) -> str:
    """How two fronts differ, in words."""
    stayed = len(set(before) & set(after))
    return (
        f"{len(after)} plans at sites on the front: {stayed} stayed, {len(after) - stayed} came, "
        f"{len(before) - stayed} left."
    )


def _speed(changed: Repriced) -> str:
    return f"{changed.rows:,} plans at sites priced in {changed.seconds * 1e3:,.0f} ms."


def _chosen(found: Desk, stored: Repriced, changed: Repriced) -> None:
    """The chosen plan before and after: its objectives, its money term by term."""
    (was, spent), (now, spends) = (alone(priced, found.chosen) for priced in (stored, changed))
    if not was or not now:
        st.info(plain(f"{found.chosen} is not sold on these terms."))
        return
    st.subheader(plain(f"What happens to {found.chosen}"))
    is_on_front = found.chosen in ids_of(_on_front(changed.costed))
    st.caption("It stays on the front." if is_on_front else "It is no longer on the front.")
    names = dict.fromkeys((*found.objectives, "usd", "usd_per_device_hour", "kgco2e"))
    columns = [column for _ in range(0, len(names), ABREAST) for column in st.columns(ABREAST)]
    for column, name in zip(columns, names, strict=False):
        before, after = (values_of(plan, name)[0] for plan in (was, now))
        change = f"{after / before - 1.0:+.1%}" if before and after != before else None
        is_less_better = find_metric(name).direction == "minimise"
        column.metric(
            name,
            human(after, unit_of(name)),
            change,
            delta_color="inverse" if is_less_better else "normal",
            help=find_metric(name).doc,
        )
    rows, unit = money_rows(spent, spends)
    st.altair_chart(paired(rows, unit), width="stretch", key="if_money")


def money_rows(
    before: Mapping[str, float], after: Mapping[str, float]
) -> tuple[list[dict[str, Any]], str]:
    """Bars of the terms of a cost before and after with their sums, and the unit they are in.

    Parameters
    ----------
    before, after : term to [USD]; terms that are zero in both are left out
    """
    sums = {"before": sum(before.values()), "after": sum(after.values())}
    factor, unit = scale_of("USD", sums.values())
    terms = [term for term in before if before[term] or after.get(term)]
    rows = [
        {"term": term, "when": when, "value": spent.get(term, 0.0) / factor}
        for term in terms
        for when, spent in (("before", before), ("after", after))
    ]
    totals = [{"term": "total", "when": w, "value": v / factor} for w, v in sums.items()]
    return rows + totals, unit


def alone(priced: Repriced, name: str) -> tuple[Mapping[str, Any], dict[str, float]]:
    """One plan at a site, on the front or not: its columns of one row, and its cost by term.

    Returns
    -------
    ({}, {}) where the plan cannot be had on these terms
    """
    plan = name.partition(" @ ")[0]
    picked = np.flatnonzero(np.asarray(priced.plans["plan"], dtype=str) == plan)
    if not len(picked):
        return {}, {}
    plans = {key: np.asarray(column)[picked] for key, column in priced.plans.items()}
    costed = kind_of(priced.study).price(priced.study, priced.catalog, plans)
    ids = ids_of(costed.columns)
    if name not in ids:
        return {}, {}
    row = ids.index(name)
    spent = {
        term: float(np.broadcast_to(value, len(costed.is_front))[row])
        for term, value in costed.ledgers["usd"].terms.items()
    }
    return _rows(costed, np.array([row])), spent


def _on_front(costed: Costed | None) -> Mapping[str, Any]:
    """Columns of the rows that are on the front."""
    return {} if costed is None else _rows(costed, np.flatnonzero(costed.is_front))


def _rows(costed: Costed, picked: Any) -> Mapping[str, Any]:
    return {n: np.asarray(c)[picked] for n, c in costed.columns.items()} if len(picked) else {}


if __name__ == "__main__":
    draw()
