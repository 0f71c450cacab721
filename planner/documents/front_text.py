"""A run as text: its front, what was removed and why, and what comes nearest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from planner.documents.replay_text import replays_lines, tiers_lines
from planner.documents.ruled import figure_text, table_text
from planner.documents.text import DECISIONS, FIRST_DECISIONS, SHORT
from planner.pareto import thinned

BUYING = (
    "plan", "accelerator", "purchase_units", "devices", "power_cap_frac", "precision", "site",
    "scenario", "peak_flop_per_s", "capex_usd", "it_peak_w", "binding",
    "more_purchase_units_with_1_mw", "more_purchase_units_with_10_musd", "stranded_w",
    "stranded_usd", "over",
    "arrangement", "block_devices", "reserve_frac", "train_device_hours_per_day", "trained_frac",
    "stops_per_day", "lost_device_hours_per_day", "useful_device_hours_per_day",
    "idle_device_hours_per_day",
)  # fmt: skip
"""What is shown of every option where hardware alone is bought, or a cluster is shared."""
NEVER_LEFT_OUT = ("plan", "accelerator", "purchase_units", "capex_usd", "binding")
MOST_ROWS = 40
MOST_BATCHES = 8
ALWAYS = ("accelerator", "devices", "supernode_devices", "tensor_parallel", "pipeline_parallel")
STOPPED = (
    "STOPPED EARLY: only part of the space was seen, in the order of the study; this is not the "
    "front of the study.\n"
)
CUT_SHORT = "ENDED EARLY, by its budget or by a person: this is the front of what was evaluated.\n"
MONEY = ("money", "electricity")
"""Notes of what amounts are in, told last."""

SAID = (
    "search",
    "engine",
    "replay",
    "facts",
    "traffic",
    "peak",
    "latencies",
    "lockstep",
    "pools",
    "stops",
    "basis",
    "period",
    "not_included",
    "not_priced",
    "failures",
    "measured",
    "zero_in_pipelines",
    "idle_prices",
)
"""Notes of a run that a reader of its figures needs."""


def run_text(document: Mapping[str, Any]) -> str:
    """A run: the front, then what was removed and why."""
    lines = [_run_head(document)]
    wanted = document["objectives"]
    objectives = (*wanted.get("minimise", ()), *wanted.get("maximise", ()))
    if document["front"]:
        lines.append(_front_table(document["front"], objectives))
        lines += _target_lines(document["front"], document.get("targets", {}))
    else:
        lines += _said_of_no_front(document["state"])
        lines += _nearest_lines(document.get("nearest", {}))
    lines += _tier_lines(document, objectives)
    if document.get("options"):
        lines.append(_options_table(document["options"]))
    lines += _trace_lines(document.get("trace", {}))
    masked, rejected = document["candidates"]["masked"], document["rejected"]
    if masked:
        lines.append(_counts_table("cannot exist (no physics needed)", masked))
    if skipped := document["candidates"].get("skipped"):
        lines.append(_counts_table("not evaluated: a bound proves the limit broken", skipped))
    if rejected:
        lines.append(_counts_table("evaluated and over a limit", rejected))
    lines += [f"{k}: {document['notes'][k]}" for k in SAID if k in document["notes"]]
    missing = [f"{k}: {v}" for k, v in document["notes"].items() if k.startswith("missing_fact")]
    if missing:
        lines.append("left out, a fact is missing:\n  " + "\n  ".join(missing))
    lines += [f"{k}: {document['notes'][k]}" for k in MONEY if k in document["notes"]]
    return "\n".join(lines)


def _run_head(document: Mapping[str, Any]) -> str:
    counts = document["candidates"]
    if counts["evaluated"] is None:
        return f"run {document['run']} of {document['study']}: {document['state']}"
    is_swept = document["notes"].get("search", "sweep").startswith("sweep")
    early = (STOPPED if is_swept else CUT_SHORT) if document["state"] == "stopped" else ""
    if "parent" in document and "priced" not in document["notes"]:
        return (
            f"{early}run {document['run']} of {document['study']}: purchases of run "
            f"{document['parent']} solved anew, its sweeps kept, in {document['seconds']:.1f} s; "
            f"front {len(document['front'])}"
        )
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
    names += ["missed_targets"] * ("missed_targets" in front[0])
    some, said = _few_of(front, objectives)
    rows = ([figure_text(row.get(name)) for name in names] for row in some)
    return table_text("front", [SHORT.get(name, name) for name in names], rows) + said


def _few_of(
    front: Sequence[Mapping[str, Any]], objectives: Sequence[str]
) -> tuple[Sequence[Mapping[str, Any]], str]:
    """What of a front there is room for, and what is said of the rest; the run keeps all."""
    more = len(front) - MOST_ROWS
    points: list[list[Any]] = [[row.get(name) for name in objectives] for row in front]
    if more <= 0 or any(value is None for point in points for value in point):
        return front[:MOST_ROWS], f"\n… and {more} more; --json prints all" if more > 0 else ""
    is_kept, epsilon = thinned(np.array(points, dtype=float), MOST_ROWS)
    some = [row for row, kept in zip(front, is_kept, strict=True) if kept]
    return some, (
        f"\n{len(some)} of {len(front)} shown; each of the others is within {epsilon:.1%} of the "
        "front's extent of one of these, in every objective; --json prints all"
    )


def _trace_lines(trace: Mapping[str, Any]) -> list[str]:
    """How the front grew, in a few of its batches; nothing of a run of one batch."""
    batches = trace.get("batches", ())
    if len(batches) < 2 or not trace["reference"]:
        return []
    places = sorted(
        {round(i * (len(batches) - 1) / MOST_BATCHES) for i in range(MOST_BATCHES + 1)}
    )
    last = batches[-1]["hypervolume"] or 1.0
    rows = [
        [
            figure_text(batches[at]["evaluated"]),
            f"{batches[at]['seconds']:.1f}",
            f"{batches[at]['hypervolume']:.5g}",
            f"{batches[at]['hypervolume'] / last:.2%}",
        ]
        for at in places
    ]
    origin = ", ".join(
        f"{name} {figure_text(value)}" for name, value in trace["reference"].items()
    )
    heads = ["evaluated", "seconds", "hypervolume", "of the last"]
    return [table_text(f"how the front grew, measured from {origin}", heads, rows)]


def _target_lines(front: Sequence[Mapping[str, Any]], targets: Mapping[str, float]) -> list[str]:
    """How many plans of the front meet what is wished for."""
    if not targets:
        return []
    missed = [row["missed_targets"].split("; ") for row in front]
    each = [
        f"{name} {figure_text(wish)}: {sum(name not in names for names in missed)}"
        for name, wish in targets.items()
    ]
    whole = sum(names == [""] for names in missed)
    return [f"targets met by plans of the front, of {len(front)}: {', '.join(each)}; all: {whole}"]


def _tier_lines(document: Mapping[str, Any], objectives: Sequence[str]) -> list[str]:
    """What the replays say: a front of their own, never one with the closed form's."""
    tiers, lines = document.get("tiers"), []
    if tiers and tiers["front"]:
        names = ["plan", *objectives, "site", "accelerator", "devices"]
        rows = (
            [figure_text(row.get(name)) for name in names] for row in tiers["front"][:MOST_ROWS]
        )
        lines.append(table_text("front of the replayed plans alone", names, rows))
    lines += tiers_lines(tiers) if tiers else []
    return lines + replays_lines(document.get("replayed", ()))


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
        ["*" if row["is_front"] else "", *(figure_text(row.get(n)) for n in names)]
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
    lines += [_relaxed_line(line) for line in nearest.get("relaxations", ())]
    if "together" in nearest:
        lines.append(_together_line(nearest["together"]))
    return lines


def _relaxed_line(line: Mapping[str, Any]) -> str:
    """How far one limit has to give, and the plan that is feasible then."""
    if line["needed"] is None:
        return f"  {line['limit']} alone is not enough: {line['why']}"
    share = "" if line["change_frac"] is None else f" ({line['change_frac']:+.1%})"
    least = "" if line["is_smallest"] else "; perhaps less is enough, not all was looked through"
    what = "there is a purchase plan"
    if "plan" in line:
        chips = f"{line['devices']:,} {line['accelerator']}"
        what = f"{line['plan']} on {chips} at {line['site']} is feasible"
    return (
        f"  relax {line['limit']} from {figure_text(line['given'])} to {line['needed']:.4g} "
        f"{line['unit']}{share}: then {what}{least}"
    )


def _together_line(line: Mapping[str, Any]) -> str:
    if line["change_frac"] is None:
        return f"  all limits together: {line['why']}"
    plan = f"{line['plan']} at {line['site']}" if "plan" in line else "a purchase plan"
    return f"  relax all limits by {line['change_frac']:.1%}: then {plan} is feasible"


MOST_SHARE = 100.0
"""Of a limit, that a plan is told to be beyond it by: more is told in words."""


def _short_of(plan: Mapping[str, Any]) -> str:
    """How far a plan is from the front, or what it has no figure for."""
    over, name = plan["worst_excess"], plan["binding"]
    if name in plan and plan[name] is None and over is not None:
        return f"keeps every limit and has no {name}"
    share = "an unknown share" if over is None else f"{over:.1%}"
    if over is not None and over > MOST_SHARE:
        is_full = (plan.get("utilisation_frac") or 0.0) >= 1.0
        share = "saturated, and so without end" if is_full else f"over {MOST_SHARE:g} times"
    has = f" ({figure_text(plan[name])})" if name in plan else ""
    return f"is {share} beyond {name}{has}"


def _counts_table(title: str, counts: Mapping[str, int]) -> str:
    ordered = sorted(counts.items(), key=lambda item: -item[1])
    return table_text(title, ["reason", "candidates"], ([k, f"{v:,}"] for k, v in ordered))
