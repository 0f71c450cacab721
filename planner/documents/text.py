"""Documents of the commands as text for a terminal; figures are rounded here and nowhere else."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from planner.axes import AXES, COUNTS
from planner.documents.replay_text import replayed_text, replays_lines
from planner.fleet.document import HEADS, calendar_rows, purchase_lines

WIDTH = 110
FIRST_DECISIONS = (
    "scenario", "accelerator", "devices", "supernode_devices", "tensor_parallel",
    "pipeline_parallel",
    "context_parallel", "expert_parallel", "data_parallel", "virtual_stages",
    "micro_batch_sequences", "global_batch_sequences", "zero_stage", "recompute", "precision",
    "replicas", "attention_data_parallel", "kv_precision", "max_batch", "token_budget",
    "power_cap_frac",
)  # fmt: skip
DECISIONS = (*FIRST_DECISIONS, *(n for n in AXES if n not in (*FIRST_DECISIONS, *COUNTS)))
"""Every decision, in the order shown; one that does not vary on a front is left out."""
BUYING = (
    "plan", "accelerator", "purchase_units", "devices", "power_cap_frac", "precision", "site",
    "scenario", "peak_flop_per_s", "capex_usd", "it_peak_w", "binding",
    "more_purchase_units_with_1_mw", "more_purchase_units_with_10_musd", "stranded_w",
    "stranded_usd", "over",
)  # fmt: skip
"""What is shown of every option where hardware alone is bought."""

NEVER_LEFT_OUT = ("plan", "accelerator", "purchase_units", "capex_usd", "binding")

SHORT = {
    "purchase_units": "units", "power_cap_frac": "cap", "peak_flop_per_s": "flop/s",
    "more_purchase_units_with_1_mw": "+1 MW", "more_purchase_units_with_10_musd": "+$10M",
    "supernode_devices": "domain", "tensor_parallel": "tp", "pipeline_parallel": "pp",
    "context_parallel": "cp", "expert_parallel": "ep", "data_parallel": "dp",
    "attention_data_parallel": "adp", "kv_precision": "kv",
    "virtual_stages": "vp", "micro_batch_sequences": "mbs", "global_batch_sequences": "gbs",
}  # fmt: skip
MOST_ROWS = 40
ALWAYS = ("accelerator", "devices", "supernode_devices", "tensor_parallel", "pipeline_parallel")
STOPPED = (
    "STOPPED EARLY: only part of the space was seen, in the order of the study; this is not the "
    "front of the study.\n"
)
CUT_SHORT = "ENDED EARLY, by its budget or by a person: this is the front of what was evaluated.\n"
SAID = (
    "search",
    "facts",
    "traffic",
    "peak",
    "latencies",
    "lockstep",
    "stops",
    "basis",
    "period",
    "not_included",
    "not_priced",
    "zero_in_pipelines",
    "idle_prices",
)
"""Notes of a run that a reader of its figures needs."""
STALE = ("facts", "stored")
"""Notes of a plan that stand at its head: what has moved since its run."""


def run_text(document: Mapping[str, Any]) -> str:
    """A run: the front, then what was removed and why."""
    lines = [_run_head(document)]
    wanted = document["objectives"]
    objectives = (*wanted.get("minimise", ()), *wanted.get("maximise", ()))
    if document["front"]:
        lines.append(_front_table(document["front"], objectives))
    else:
        lines += _said_of_no_front(document["state"])
        lines += _nearest_lines(document.get("nearest", {}))
    if document.get("replayed"):
        lines += replays_lines(document["replayed"])
    if document.get("options"):
        lines.append(_options_table(document["options"]))
    masked, rejected = document["candidates"]["masked"], document["rejected"]
    if masked:
        lines.append(_counts_table("cannot exist (no physics needed)", masked))
    if rejected:
        lines.append(_counts_table("evaluated and over a limit", rejected))
    lines += [f"{k}: {document['notes'][k]}" for k in SAID if k in document["notes"]]
    missing = [f"{k}: {v}" for k, v in document["notes"].items() if k.startswith("missing_fact")]
    if missing:
        lines.append("left out, a fact is missing:\n  " + "\n  ".join(missing))
    if "money" in document["notes"]:
        lines.append(f"money: {document['notes']['money']}")
    return "\n".join(lines)


def runs_text(document: Mapping[str, Any]) -> str:
    """All runs, one line each."""
    rows = document["runs"]
    if not rows:
        return "no runs yet; planner run STUDY makes one"
    return table_text("runs", list(rows[0]), ([_figure(v) for v in row.values()] for row in rows))


def study_text(document: Mapping[str, Any]) -> str:
    """A study with its defaults."""
    lines = []
    for section, values in document.items():
        lines.append(f"[{section}]")
        lines += [f"  {key} = {value}" for key, value in values.items()]
    return "\n".join(lines)


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
    return "\n".join([*lines, *_plan_parts(document)])


def explain_text(document: Mapping[str, Any]) -> str:
    """A stored plan: parts, what binds, and the table of single changes."""
    if "calendar" in document:
        calendar = table_text("calendar", HEADS, calendar_rows(document))
        return "\n".join([*purchase_lines(document), calendar]) + "\n"
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
        [n, *(_figure(pair[s]) for s in sides)] for n, pair in document["differs"].items()
    )
    lines.append(table_text("what differs", ["choice", "against", "plan"], differing))
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
            *(_figure(line[n]) for n in ("against", "plan", "change")),
            _percent(line["change_frac"]) or "NULL",
            line.get("how") or line.get("why", ""),
        ]
        for name, line in figures.items()
        if line["change"] != 0 and (line["against"], line["plan"]) != (None, None)
    )
    heads = ["", "against", "plan", "change", "%", "how"]
    return table_text(title, heads, rows)


def diff_text(document: Mapping[str, Any]) -> str:
    """What differs between two runs."""
    lines: list[str] = []
    _walk(document, lines, 0)
    return "\n".join(lines)


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


def _walk(value: Any, lines: list[str], depth: int) -> None:
    pad = "  " * depth
    if not isinstance(value, Mapping):
        lines.append(f"{pad}{value}")
        return
    for key, item in value.items():
        if isinstance(item, Mapping) and item:
            lines.append(f"{pad}{key}:")
            _walk(item, lines, depth + 1)
        else:
            lines.append(f"{pad}{key}: {item}")


def _run_head(document: Mapping[str, Any]) -> str:
    counts = document["candidates"]
    if counts["evaluated"] is None:
        return f"run {document['run']} of {document['study']}: {document['state']}"
    is_swept = document["notes"].get("search", "sweep").startswith("sweep")
    early = (STOPPED if is_swept else CUT_SHORT) if document["state"] == "stopped" else ""
    if "parent" in document:
        return (
            f"{early}run {document['run']} of {document['study']}: physical front "
            f"{document['physical_front']:,} of run {document['parent']} priced anew in "
            f"{document['seconds']:.4f} s ({document['evaluated_per_s_per_core']:,.0f} plans at "
            f"sites per second); front {len(document['front'])}"
        )
    return (
        f"{early}run {document['run']} of {document['study']}: "
        f"{counts['enumerated']:,} candidates, {sum(counts['masked'].values()):,} cannot exist, "
        f"{counts['evaluated']:,} evaluated in "
        f"{document['seconds']:.1f} s ({document['evaluated_per_s_per_core']:,.0f} per second and "
        f"core); physical front {document['physical_front']:,}, front {len(document['front'])}"
    )


def _front_table(front: Sequence[Mapping[str, Any]], objectives: Sequence[str]) -> str:
    known = [n for n in DECISIONS if any(row.get(n) is not None for row in front)]
    varied = [n for n in known if n in ALWAYS or _is_chosen(n, front)]
    names = ["plan", *objectives, "site", *[n for n in varied if n not in objectives]]
    rows = ([_figure(row.get(name)) for name in names] for row in front[:MOST_ROWS])
    text = table_text("front", [SHORT.get(name, name) for name in names], rows)
    more = len(front) - MOST_ROWS
    return text + (f"\n… and {more} more; --json prints all" if more > 0 else "")


def _is_chosen(name: str, front: Sequence[Mapping[str, Any]]) -> bool:
    """A decision differs: between plans, or, where it may just follow the chip, on one chip."""
    is_own = name in FIRST_DECISIONS
    met = {(None if is_own else row.get("accelerator"), row.get(name)) for row in front}
    return len(met) > len({chip for chip, _ in met})


def _said_of_no_front(state: str) -> list[str]:
    if state == "finished":
        return ["Nothing is feasible."]
    return ["Nothing feasible was found before it was stopped."] if state == "stopped" else []


def _options_table(options: Sequence[Mapping[str, Any]]) -> str:
    """Every option, the chosen ones marked; a column that says nothing is left out."""
    names = [n for n in BUYING if any(row.get(n) not in (None, "") for row in options)]
    names = [n for n in names if n in NEVER_LEFT_OUT or len({row[n] for row in options}) > 1]
    rows = (
        ["*" if row["is_front"] else "", *(_figure(row.get(n)) for n in names)]
        for row in options[:MOST_ROWS]
    )
    heads = ["", *(SHORT.get(name, name) for name in names)]
    text = table_text("options, * on the front of their scenario", heads, rows)
    more = len(options) - MOST_ROWS
    return text + (f"\n… and {more} more; --json prints all" if more > 0 else "")


def _nearest_lines(nearest: Mapping[str, Any]) -> list[str]:
    lines = [f"  {words}" for words in nearest.get("why", ())]
    for plan in nearest.get("plans", ())[:3]:
        chips = f"{plan['devices']:,.0f} {plan['accelerator']}"
        place = f" where {plan['scenario']}" if plan.get("scenario") else ""
        lines.append(f"  nearest: {plan['plan']}{place} on {chips} {_short_of(plan)}")
    return lines


def _short_of(plan: Mapping[str, Any]) -> str:
    """How far a plan is from the front, or what it has no figure for."""
    over, name = plan["worst_excess"], plan["binding"]
    if name in plan and plan[name] is None and over is not None:
        return f"keeps every limit and has no {name}"
    share = "an unknown share" if over is None else f"{over:.1%}"
    has = f" ({_figure(plan[name])})" if name in plan else ""
    return f"is {share} beyond {name}{has}"


def _feasible_line(document: Mapping[str, Any]) -> str:
    if document["feasible"]:
        return "feasible"
    broken = "; ".join(
        f"{v['limit']}: has {_figure(v['have'])}, limit {_figure(v['need'])} {v['unit']}"
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
        ([k, _figure_or(v, why.get(k))] for k, v in document["metrics"].items()),
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
            [name, _figure(line["napkin"]), _figure(line["plan"]), line["how"]]
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
        [term, _figure(value), f"{value / total:.1%}"]
        for term, value in ledger["terms"].items()
        if value
    ]
    rows.append(["total", _figure(ledger["total"]), ""])
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


def _counts_table(title: str, counts: Mapping[str, int]) -> str:
    ordered = sorted(counts.items(), key=lambda item: -item[1])
    return table_text(title, ["reason", "candidates"], ([k, f"{v:,}"] for k, v in ordered))


def _percent(change: float | None) -> str:
    return "" if change is None else f"{change:+.1%}"


def _figure(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, float):
        return f"{value:,.0f}" if 1e3 <= abs(value) < 1e15 else f"{value:.4g}"
    return str(value)


def _figure_or(value: Any, why: str | None) -> str:
    """A figure, or that there is none and why."""
    return f"NULL: {why}" if value is None and why else _figure(value)


def table_text(title: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Rows under headings, ruled."""
    table = Table(title=Text(title), title_justify="left", show_edge=False, pad_edge=False)
    for head in heads:
        table.add_column(Text(head), overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    out = io.StringIO()
    Console(file=out, width=max(WIDTH, 12 * len(heads)), no_color=True).print(table)
    return out.getvalue().rstrip()
