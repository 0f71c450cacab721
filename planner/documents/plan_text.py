"""One plan as text: its parts, what binds, what one change does, and a plan beside another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from planner.documents.replay_text import replayed_text
from planner.documents.ruled import figure_or, figure_text, table_text
from planner.documents.text import SHORT
from planner.fleet.document import purchase_text

STALE = ("facts", "stored")
"""Notes of a plan that stand at its head: what has moved since its run."""


def evaluate_text(document: Mapping[str, Any]) -> str:
    """One candidate: feasible or not, its metrics and ledgers."""
    lines = [_feasible_line(document)]
    if document["taken"]:
        taken = ", ".join(f"{k}={v}" for k, v in document["taken"].items())
        lines.append(f"the study leaves these open; taken: {taken}")
    if document["nearest"]:
        change = document["nearest"]
        lines.append(f"nearest feasible: {change['axis']} {change['from']} -> {change['to']}")
    if "replay" in document:
        lines.append(replayed_text(document["replay"]))
    if "breakeven" in document:
        lines.append(_breakeven_table(document["breakeven"]))
    return "\n".join([*lines, *_plan_parts(document)])


def _breakeven_table(found: Mapping[str, Any]) -> str:
    """Days by rate of failures and time of recovery, and the rate at which a limit still holds."""
    recoveries = [f"recovery {s:,.0f} s" for s in found["recovery_s"]]
    rows = [
        [f"{hours:,.0f}", *map(figure_text, days)]
        for hours, days in zip(found["device_mtbf_h"], found["days"], strict=True)
    ]
    if found["days_limit"] is not None:
        label = f"at least, for {found['days_limit']:g} days"
        rows.append([label, *map(figure_text, found["least_device_mtbf_h"])])
    title = "days, if one device fails every so many hours"
    return table_text(title, ["device-hours", *recoveries], rows)


def explain_text(document: Mapping[str, Any]) -> str:
    """A stored plan: parts, what binds, and the table of single changes."""
    if "calendar" in document:
        return purchase_text(document)
    lines = [_plan_head(document), *_stale_lines(document), *_other_places(document)]
    lines += [_feasible_line({**document, "feasible": False})] if document["violations"] else []
    lines += _plan_parts(document)
    lines.append(_changes_table(document["one_change"]))
    return "\n".join(lines)


def compare_text(document: Mapping[str, Any]) -> str:
    """A plan beside another: choices, figures and ratios that change; bands are left to --json."""
    sides = ("against", "plan")
    heads = [f"{document[side]['plan']}{_at(document[side])}" for side in sides]
    lines = [f"run {document['run']}: {heads[1]}, against {heads[0]}", *_stale_lines(document)]
    lines += [
        f"{document[side]['plan']} is {_feasible_line({**document[side], 'feasible': False})}"
        for side in sides
        if document[side]["violations"]
    ]
    differing = (
        [n, *(figure_text(pair[s]) for s in sides)] for n, pair in document["differs"].items()
    )
    lines.append(table_text("what differs", ["choice", "against", "plan"], differing))
    if "abatement" in document:
        avoided = document["abatement"]
        lines.append(
            f"{avoided['avoided_kgco2e'] / 1000:,.4g} t less, at {avoided['usd_per_t']:,.4g} USD "
            "a tonne"
        )
    figures = {
        name: line
        for name, line in document["metrics"].items()
        if not name.endswith(("_low", "_high")) and name not in document["ratios"]
    }
    lines.append(_change_table("figures that change", figures))
    lines.append(_change_table("what the money, watts and carbon buy", document["ratios"]))
    return "\n".join(lines)


def _change_table(title: str, figures: Mapping[str, Mapping[str, Any]]) -> str:
    rows = (
        [
            name,
            *(figure_text(line[n]) for n in ("against", "plan", "change")),
            _percent(line["change_frac"]) or "NULL",
            line.get("how") or line.get("why", ""),
        ]
        for name, line in figures.items()
        if line["change"] != 0 and (line["against"], line["plan"]) != (None, None)
    )
    heads = ["", "against", "plan", "change", "%", "how"]
    return table_text(title, heads, rows)


def _plan_head(document: Mapping[str, Any]) -> str:
    words = f"plan {document['plan']} of run {document['run']}{_at(document)}"
    here = {"site": document["site"], "scenario": document["scenario"]}
    is_front = any(here.items() <= row.items() for row in document["on_front"])
    return words if is_front else f"{words}; not on the front there"


def _stale_lines(document: Mapping[str, Any]) -> list[str]:
    return [f"{name}: {document['notes'][name]}" for name in STALE if name in document["notes"]]


def _at(document: Mapping[str, Any]) -> str:
    """Where a plan is looked at, in words."""
    site = f" at {document['site']}" if document["site"] else ""
    return site + (f", {document['scenario']}" if document["scenario"] else "")


def _other_places(document: Mapping[str, Any]) -> list[str]:
    """The sites and scenarios to choose from, if there is a choice."""
    lines = []
    for option, parting in (("site", ", "), ("scenario", "; ")):
        known = document[f"{option}s"]
        if len(known) > 1:
            lines.append(f"{option}s, each by --{option}: {parting.join(known)}")
    return lines


def _feasible_line(document: Mapping[str, Any]) -> str:
    if document["feasible"]:
        return "feasible"
    broken = "; ".join(
        f"{v['limit']}: has {figure_text(v['have'])}, limit {figure_text(v['need'])} {v['unit']}"
        for v in document["violations"]
    )
    return f"infeasible: {broken}"


def _plan_parts(document: Mapping[str, Any]) -> list[str]:
    axes = "  ".join(
        f"{SHORT.get(k, k)}={v}" for k, v in document["axes"].items() if v is not None
    )
    why = document["null_reasons"]
    metrics = table_text(
        "metrics",
        ["metric", "value"],
        ([k, figure_or(v, why.get(k))] for k, v in document["metrics"].items()),
    )
    ledgers = [
        _ledger_table(name, ledger, document["binds"][name])
        for name, ledger in document["ledgers"].items()
    ]
    bytes_moved = ", ".join(
        f"{k.split('_')[0]} the domain {v:.4g}" for k, v in document["traffic"].items()
    )
    traffic = [f"bytes per device and step: {bytes_moved}"] if bytes_moved else []
    notes = [f"{k}: {v}" for k, v in document.get("notes", {}).items() if k not in STALE]
    napkin = table_text(
        "napkin check",
        ["figure", "napkin", "plan", "how"],
        (
            [name, figure_text(line["napkin"]), figure_text(line["plan"]), line["how"]]
            for name, line in document["napkin"].items()
        ),
    )
    unverified = (
        f"{len(document['unverified_facts'])} of {len(document['facts_used'])} facts unverified"
    )
    return [axes, metrics, *ledgers, *traffic, napkin, *notes, unverified]


def _ledger_table(name: str, ledger: Mapping[str, Any], binds: str) -> str:
    total = ledger["total"] or 1.0
    rows = [
        [term, figure_text(value), f"{value / total:.1%}"]
        for term, value in ledger["terms"].items()
        if value
    ]
    rows.append(["total", figure_text(ledger["total"]), ""])
    return table_text(
        f"{name} [{ledger['unit']}]: most is {binds}", ["term", "value", "share"], rows
    )


def _changes_table(lines: Sequence[Mapping[str, Any]]) -> str:
    names = sorted({name for line in lines for name in line["objectives"]})
    rows = []
    for line in lines:
        changes = [_percent(line["objectives"].get(name, {}).get("change_frac")) for name in names]
        rows.append([line["axis"], f"{line['from']} -> {line['to']}", *changes, line["why_not"]])
    return table_text("one change on each axis", ["axis", "change", *names, "why not"], rows)


def _percent(change: float | None) -> str:
    return "" if change is None else f"{change:+.1%}"
