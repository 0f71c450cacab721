"""A replay as text for a terminal; figures are rounded here and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def replay_text(document: Mapping[str, Any]) -> str:
    """The document of `planner replay` for a terminal."""
    if "replay" not in document:
        return "\n".join(["not replayed: no fleet can run it", *_over(document["violations"])])
    if "closed_form_s" in document["replay"]:
        return step_text(document["replay"])
    lines = [replayed_text(document["replay"])]
    if "sizing" in document:
        lines += _sizing(document["sizing"])
    return "\n".join(lines)


def step_text(found: Mapping[str, Any]) -> str:
    """A replayed training step: how long, what it differs by and why, what it waits for."""
    step, closed_s = found["step_s"], found["closed_form_s"]
    lines = [
        f"step_s = {step['value']:.4g} ({step['low']:.4g} to {step['high']:.4g}) of "
        f"{found['seeds']} seeds; closed form {closed_s:.4g} ({found['gap']['step_s']:+.1%})",
        "replay less closed form:",
        *(_term(name, value, closed_s) for name, value in found["gap_s"].items()),
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
    """Plans of a front that were replayed, one paragraph each."""
    return [_replayed_plan(row) for row in rows]


def _replayed_plan(row: Mapping[str, Any]) -> str:
    """A plan of a front: its latencies in the replay, its gap, the fleet it needs."""
    shown = [
        f"{name} {row[f'replayed_{name}']:.4g} ({row[f'replayed_{name}_low']:.4g} to "
        f"{row[f'replayed_{name}_high']:.4g}; closed form {row[f'gap_{name}']:+.0%})"
        for name in ("ttft_s_p95", "tpot_s_p95")
        if row.get(f"replayed_{name}") is not None
    ]
    broken = f"; breaks {row['broken']}" if row["broken"] else "; keeps every bound"
    needed = row.get("needed_replicas")
    fleet = (
        f"; smallest fleet that keeps them: {needed:.0f} replicas, "
        f"{row['needed_devices']:.0f} devices"
        if needed
        else ""
    )
    return (
        f"replayed {row['plan']} (best in {row['best_in']}), {row['replicas']} replicas: "
        f"{', '.join(shown)}{broken}{fleet}"
    )
