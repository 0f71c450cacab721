"""A replay as text for a terminal; figures are rounded here and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

SHOWN = ("replayed_ttft_s_p95", "replayed_tpot_s_p95", "replayed_step_s", "replayed_days")
"""Replayed figures that a terminal shows."""


def replay_text(document: Mapping[str, Any]) -> str:
    """The document of `planner replay` for a terminal."""
    if "streams" in document:
        return "\n".join([*_purchase_lines(document), *_over(document["violations"])])
    if "replay" not in document:
        return "\n".join(["not replayed: no fleet can run it", *_over(document["violations"])])
    lines = [replayed_text(document["replay"])]
    if "operations" in document:
        lines += _operations(document["operations"])
    if "sizing" in document:
        lines += _sizing(document["sizing"])
    return "\n".join(lines)


def _purchase_lines(document: Mapping[str, Any]) -> Iterator[str]:
    """A purchase plan at its peak: every stream and run, and whether all is kept."""
    for line in document["streams"]:
        future = f", {line['future']}" if line["future"] else ""
        yield (
            f"{line['stream']} in period {line['period']}{future}, {line['demand']:.3g} times its "
            f"workload: {'misses a bound' if line['violations'] else 'meets every bound'}"
        )
        for part in line["parts"]:
            yield f"  {part['plan']} on {part['on']}, {part['replicas']} replicas:"
            yield replayed_text(part)
    for line in document["runs"]:
        for part in line["parts"]:
            word = "too late" if line["violations"] else "in time"
            yield (
                f"{line['run']}: {part['plan']} on {part['on']} takes {part['days']:.1f} days as "
                f"replayed ({part['stretch'] - 1.0:+.1%}), {part['days_to_date']:.1f} are there: "
                f"{word}"
            )
    yield "the plan holds" if not document["violations"] else "the plan does not hold"


def step_text(found: Mapping[str, Any]) -> str:
    """A replayed training step: how long, what it differs by and why, what it waits for."""
    step, closed_s = found["step_s"], found["closed_form_s"]
    lines = [
        f"step_s = {step['value']:.4g}, mean of {found['seeds']} seeds (their 5% to 95%: "
        f"{step['low']:.4g} to {step['high']:.4g}); closed form {closed_s:.4g}",
        f"replay less closed form: {step['value'] - closed_s:+.4g} s "
        f"({step['value'] / closed_s - 1.0:+.2%} of the closed form)",
        *(_term(name, value, closed_s) for name, value in found["gap_s"].items()),
        f"what follows, and a timeline, is seed {found['first_seed']} alone, a step of "
        f"{found['first_step_s']:.4g} s",
        f"critical path, {found['critical_path']['passes']:,} passes:",
        *(_term(n, v, closed_s) for n, v in found["critical_path"]["seconds"].items()),
        "stages:",
        *(_stage(line) for line in found["stages"]),
        *(_port(line) for line in found["links"]),
        *(f"as the study decrees: {words}" for words in found["marks"].values()),
    ]
    return "\n".join([*lines, *_over(found["violations"])])


def _term(name: str, value_s: float, closed_s: float) -> str:
    return f"  {name:<18} {value_s:+.4g} s ({value_s / closed_s:+.2%} of the closed form)"


def _stage(line: Mapping[str, float]) -> str:
    return (
        f"  stage {line['stage']:.0f}: busy {line['busy_s']:.4g} s, "
        f"idle {line['idle_s']:.4g} s, gradients {line['data_parallel_s']:.3g} s"
    )


def _port(line: Mapping[str, Any]) -> str:
    if "uplink" in line:
        return f"  uplink {line['uplink']}: busy {line['busy_frac']:.1%}"
    return (
        f"  links of stage {line['stage']}: domain {line['domain_port_busy_frac']:.1%}, "
        f"scale-out {line['scaleout_port_busy_frac']:.1%} of the step"
    )


def replayed_text(found: Mapping[str, Any]) -> str:
    """A replay: what was served, every latency with its interval, and what it breaks."""
    if "closed_form_s" in found:
        return step_text(found)
    lines = [
        f"{found['replicas']} replicas, {found['requests']:,} requests of {found['seeds']} seeds "
        f"in {found['window_s']:g} s after {found['warm_up_s']:g} s of warm-up; "
        f"{found['refused']} refused, {found['preemptions']} preempted"
    ]
    lines += [_latency(name, one, found["gap"]) for name, one in found["metrics"].items()]
    return "\n".join([*lines, *_over(found["violations"])])


def _over(violations: Sequence[Mapping[str, Any]]) -> list[str]:
    return [
        f"over the limit: {v['limit']} has {v['have']:.4g}, limit {v['need']:.4g} {v['unit']}"
        for v in violations
    ]


def _latency(name: str, one: Mapping[str, Any], gaps: Mapping[str, float]) -> str:
    ends = "" if one["low"] is None else f" ({one['low']:.4g} to {one['high']:.4g})"
    gap = f"; closed form {gaps[name]:+.1%}" if name in gaps else ""
    return f"{name} = {one['value']:.4g}{ends}{gap}"


def _operations(found: Mapping[str, Any]) -> Iterator[str]:
    """What happened to the fleet, and what hosts that fail leave of it."""
    yield (
        f"bounds missed in {found['slo_minutes_lost']:.3g} of {found['window_minutes']:.3g} "
        f"minutes; {found['shed_frac']:.2%} not let in, {found['lost_frac']:.2%} lost; "
        f"{found['powered_replicas']:.3g} replicas on, mean"
    )
    for row in found["survivors"]:
        used = row["utilisation_frac"]
        busy = "nobody is left" if used is None else f"{used:.0%} of their rate is asked"
        word = "keeps" if row["keeps_bounds"] else "breaks"
        yield (
            f"without {row['hosts']} hosts, closed form: {row['replicas_left']} replicas, {busy}; "
            f"{word} the bounds"
        )
    yield found["note"]


def _sizing(found: Mapping[str, Any]) -> list[str]:
    if found["floors"]:
        lines = [
            f"no number of replicas helps: {f['limit']} has {f['have']:.4g}, limit "
            f"{f['need']:.4g} {f['unit']}"
            for f in found["floors"]
        ]
        near = found.get("nearest") or {}
        words = f"{near['axis']} = {near['to']}" if near else "no single change of an axis"
        return [*lines, f"nearest feasible: {words}"]
    if not found["replicas"]:
        return [f"no fleet was found in {len(found['tries'])} tries that keeps every bound"]
    return [
        f"smallest fleet: {found['replicas']} replicas on {found['devices']:.0f} devices: "
        f"{found['working']} keep every bound, {found['lost']} may fail; {found['saturated']} are "
        f"the least that keep up; the closed form said {found['closed_form_replicas']}"
    ]


def replays_lines(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The best replayed plan in each objective, one paragraph each."""
    return [_replayed_plan(row) for row in rows if row["best_in"]]


def tiers_lines(found: Mapping[str, Any]) -> list[str]:
    """How many plans were replayed out of how many, why no more, and how far the tiers agree."""
    lines = [
        f"replayed {found['replayed']} of {found['within_the_band']} plans within the guard band "
        f"(proposed by {found['proposed_by']}): {found['ended']}"
    ]
    if found["agreement"]:
        told = ", ".join(f"{name} {tau:+.2f}" for name, tau in found["agreement"].items())
        lines.append(f"rank agreement of closed form and replay (Kendall): {told}")
    if spread := found.get("replayed_over_closed_form"):
        ends = f"{spread['low_frac']:.3f} to {spread['high_frac']:.3f}"
        lines.append(f"steps replayed over closed form {ends}: bands are wider by it")
    if not found["front"]:
        lines.append("no plan keeps every limit when it is replayed")
    return lines


def _replayed_plan(row: Mapping[str, Any]) -> str:
    """A replayed plan: its figures, its gap, the fleet it needs where it has one."""
    shown = [
        f"{name.removeprefix('replayed_')} {row[name]:.4g}{_ends(row, name)}"
        for name in SHOWN
        if row.get(name) is not None
    ]
    broken = f"; breaks {row['broken']}" if row.get("broken") else "; keeps every limit"
    return (
        f"replayed {row['plan']} (best in {row['best_in']}){_fleet(row)}: "
        f"{', '.join(shown)}{broken}"
    )


def _ends(row: Mapping[str, Any], name: str) -> str:
    """Interval of a replayed figure, and how far the closed form was."""
    gap = row.get(f"gap_{name.removeprefix('replayed_')}")
    low, high = (row.get(f"{name}_{end}") for end in ("low", "high"))
    parts = [f"{low:.4g} to {high:.4g}"] if low is not None and high is not None else []
    parts += [f"closed form {gap:+.0%}"] if gap is not None else []
    return f" ({'; '.join(parts)})" if parts else ""


def _fleet(row: Mapping[str, Any]) -> str:
    """Replicas that keep every bound in the replay, beside those of the closed form."""
    if row.get("needed_replicas") is None:
        return ""
    needed, said = int(row["needed_replicas"]), int(row["replicas"])
    more = "" if needed == said else f", where the closed form said {said}"
    return f", {needed} replicas on {int(row['needed_devices']):,} devices{more}"
