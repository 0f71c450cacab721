"""Why is this plan what it is? Its ledgers, what binds it, and what one change would do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from planner.charts.bars import waterfall
from planner.costing.places import scenarios_of
from planner.costing.recost import stored_study
from planner.documents.figures import figure, human, is_metric, scale_of, unit_of
from planner.documents.plan_text import STALE
from planner.documents.text import DECISIONS, SHORT
from planner.fleet.document import HEADS, calendar_rows, purchase_lines
from planner.metrics import find_metric, is_at_least
from planner.pages import desk
from planner.pages.desk import Desk
from planner.pages.roof import draw_roof
from planner.pages.step import draw_step
from planner.pages.tables import draw_table
from planner.pages.words import plain
from planner.report.validity import outside
from planner.report.words import Say

# Tab, ledger and what the sum is, in reading order.
LEDGERS = (
    ("Time", "step_s", "one optimiser step"),
    ("Memory", "resident_bytes", "on the heaviest device"),
    ("Power", "it_w", "all IT, mean"),
    ("Money", "usd", "whole cost of the job"),
    ("Money a year", "usd_per_year", "capital recovery and running cost"),
    ("Money up front", "capex_usd", "paid for hardware"),
    ("Carbon", "kgco2e", "operational and embodied, of the job"),
)


def draw() -> None:
    """The page."""
    st.title("Why is this plan what it is?")
    found = desk.opened()
    if found is None:
        return
    if not found.ids:
        desk.say_why_empty(found)
        return
    if found.record.start.kind == "mixed":
        st.info(
            "What each arrangement comes to is all in the table of *Which plans are worth having?*"
        )
        return
    if found.record.start.kind == "fleet":
        _purchases(found)
        return
    document = desk.explained_of(
        found.db, found.run, str(found.front["plan"][found.row]), *_place(found)
    )
    for name in STALE:
        if name in document["notes"]:
            st.warning(plain(document["notes"][name]))
    desk.say_closed_form(found)
    _head(found, document)
    _binds(found, document)
    _waterfalls(document)
    draw_roof(found, document)
    draw_step(found, document["plan"])
    _changes(document)
    _napkin(document)
    _unverified(document)


def _purchases(found: Desk) -> None:
    """A purchase plan period by period."""
    plan = str(found.front["plan"][found.row])
    document = desk.explained_of(found.db, found.run, plan)
    for line in purchase_lines(document):
        st.write(plain(line))
    rows = [dict(zip(HEADS, row, strict=True)) for row in calendar_rows(document)]
    draw_table(rows, key="calendar")


def _place(found: Desk) -> tuple[str, str]:
    """The site and the scenario looked at: those of the chosen row until another is chosen.

    Every place of the study is offered, on the front or not.
    """
    study = stored_study(found.record)
    offered = {"site": study.costing.site, "scenario": scenarios_of(study)}
    chosen = {name: "" for name in offered}
    for name, options in offered.items():
        if not options:
            continue
        own = str(found.front[name][found.row])
        chosen[name] = st.selectbox(
            name.capitalize(),
            options,
            index=options.index(own) if own in options else 0,
            key=f"place_{name}_{found.run}_{found.chosen}",
            disabled=len(options) == 1,
        )
    return chosen["site"], chosen["scenario"]


def _head(found: Desk, document: Mapping[str, Any]) -> None:
    """The plan's decisions in a line, its objectives in large figures."""
    axes = {name: document["axes"].get(name) for name in DECISIONS}
    words = [f"{SHORT.get(n, n)} {figure(v)}" for n, v in axes.items() if v is not None]
    place = [document["plan"], document["site"], document["scenario"]]
    told = f"plan {' @ '.join(part for part in place if part)}: " + " · ".join(words)
    st.caption(plain(told))
    metrics = document["metrics"]
    for column, name in zip(st.columns(len(found.objectives)), found.objectives, strict=True):
        unit = unit_of(name)
        column.metric(name, human(metrics[name], unit), help=find_metric(name).doc)
        if metrics.get(f"{name}_low") is not None:
            ends = [human(metrics[f"{name}{end}"], unit) for end in ("_low", "_high")]
            column.caption(plain(f"90% band: {ends[0]} to {ends[1]}"))


def _binds(found: Desk, document: Mapping[str, Any]) -> None:
    """The largest term of each sum, and how far each limit is."""
    st.subheader("What binds")
    left, right = st.columns(2)
    draw_table(
        [{"of": name, "most is": largest} for name, largest in document["binds"].items()],
        left,
    )
    draw_table(limit_rows(document["limits"], document), right)
    if not document["metrics"].get("validated", True):
        row = {**document["axes"], **document["metrics"]}
        why = outside(desk.study_of(found), row, Say("en"))
        st.warning(plain(f"Not validated: {why}. Bands are widened by judgement."))


def limit_rows(limits: Mapping[str, float], document: Mapping[str, Any]) -> list[dict[str, str]]:
    """Each limit of the study beside what the plan has, and the memory where a model is in it."""
    metrics = document["metrics"]
    rows = []
    for name, need in limits.items():
        unit = unit_of(name)
        sign = "at least" if is_at_least(name) else "at most"
        have = metrics.get(name)
        used = "" if have is None or not need else f"{have / need:.0%}"
        rows.append(_limit(name, human(have, unit), f"{sign} {human(need, unit)}", used))
    if "resident_bytes" not in metrics:
        return rows
    memory_bytes = metrics["resident_bytes"] + metrics["headroom_bytes"]
    used = f"{metrics['resident_bytes'] / memory_bytes:.0%}"
    have, most = (human(v, "B") for v in (metrics["resident_bytes"], memory_bytes))
    return [*rows, _limit("memory", have, f"at most {most}", used)]


def _limit(name: str, have: str, need: str, used: str) -> dict[str, str]:
    return {"limit": name, "has": have, "wanted": need, "of it": used}


def _waterfalls(document: Mapping[str, Any]) -> None:
    """Every sum by its terms."""
    st.subheader("What it is made of")
    ledgers = {**document["ledgers"], "kgco2e": carbon_ledger(document)}
    shown = [line for line in LEDGERS if ledgers.get(line[1])]
    for tab, (_, name, words) in zip(st.tabs([tab for tab, *_ in shown]), shown, strict=True):
        ledger = ledgers[name]
        factor, unit = scale_of(ledger["unit"], [ledger["total"]])
        terms = {term: value / factor for term, value in ledger["terms"].items()}
        tab.caption(f"{name}: {words}")
        tab.altair_chart(waterfall(terms, unit), width="stretch")


def carbon_ledger(document: Mapping[str, Any]) -> dict[str, Any]:
    """Carbon of the job: electricity, and each part that was made."""
    made = document["ledgers"].get("embodied_kgco2e")
    if not made:
        return {}
    terms = {"electricity": document["metrics"]["operational_kgco2e"]}
    terms |= {f"making: {name}": value for name, value in made["terms"].items()}
    return {"unit": "kgCO2e", "terms": terms, "total": sum(terms.values())}


def _changes(document: Mapping[str, Any]) -> None:
    """One change on each axis, evaluated in full."""
    st.subheader("What one change would do")
    lines = document["one_change"]
    only = st.toggle("only changes that are feasible", key=desk.kept("feasible", True))
    rows = change_rows([line for line in lines if line["feasible"] or not only])
    if not rows:
        st.info(
            "No single change is feasible." if lines else "The study leaves nothing to change."
        )
        return
    draw_table(
        rows,
        key="changes",
        column_config={
            name: st.column_config.NumberColumn(format="%+.1f %%")
            for name in rows[0]
            if is_metric(name)
        },
    )


def change_rows(lines: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A line per change: axis, from, to, change of each objective in per cent, why not."""
    names = sorted({name for line in lines for name in line["objectives"]})
    has_reasons = any(line["why_not"] for line in lines)
    rows = []
    for line in lines:
        changes = {name: line["objectives"].get(name, {}).get("change_frac") for name in names}
        rows.append(
            {
                "change": line["axis"],
                "from": figure(line["from"]),
                "to": figure(line["to"]),
                **{name: None if v is None else 100.0 * v for name, v in changes.items()},
                **({"why not": line["why_not"]} if has_reasons else {}),
                "plan": line["plan"],
            }
        )
    return rows


def _napkin(document: Mapping[str, Any]) -> None:
    """Hand arithmetic beside the plan's own figures."""
    with st.expander("The napkin beside it"):
        rows = [
            {"figure": name, **{k: figure(v) for k, v in line.items()}}
            for name, line in document["napkin"].items()
        ]
        draw_table(rows)


def _unverified(document: Mapping[str, Any]) -> None:
    """The facts it rests on that nobody has found in their source."""
    names = document["unverified_facts"]
    with st.expander(f"{len(names)} of {len(document['facts_used'])} facts are unverified"):
        draw_table(
            [{"fact": name, **document["facts_used"][name]} for name in names],
        )


if __name__ == "__main__":
    draw()
