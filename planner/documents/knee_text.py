"""A knee as text for a terminal; figures are rounded here and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def knee_text(document: Mapping[str, Any]) -> str:
    """The document of `planner knee` for a terminal."""
    names = [*document["along"], document["by"]]
    head = "  ".join(f"{name:>{_width(name)}}" for name in names)
    lines = [
        f"{head}  {'step s':>9} {'speed':>6} {'GB in':>8} {'GB out':>8} "
        f"{'run M$':>8} {'buy M$':>8}"
    ]
    lines += [_line(names, row) for row in document["rows"]]
    counts = document["candidates"]
    lines.append(
        f"{counts['evaluated']:,} of {counts['enumerated']:,} candidates evaluated in "
        f"{document['seconds']:.1f} s, {document['evaluated_per_s']:,.0f} per second"
    )
    lines.append(
        f"placement {', '.join(document['placement'])}, innermost first; GB are sent by a device "
        "in a step, inside its domain and to others"
    )
    if document["assumes"]:
        lines.append(f"preset {document['preset']} assumes: {document['assumes']}")
    lines += [f"note: {words}" for words in document["notes"].values()]
    if any("unphysical_link_rule" in row.get("marks", ()) for row in document["rows"]):
        lines.append("note: unphysical_link_rule: no plan of these can be on a front or be bought")
    return "\n".join(lines)


def _width(name: str) -> int:
    return max(len(name), 8)


def _line(names: list[str], row: Mapping[str, Any]) -> str:
    head = "  ".join(f"{row[name]!s:>{_width(name)}}" for name in names)
    if not row["can_run"]:
        return f"{head}  no plan can run"
    run, buy = (_millions(row[name]) for name in ("usd", "capex_usd"))
    return (
        f"{head}  {row['step_s']:9.4g} {row['speed_over_first']:6.3f} "
        f"{row['inside_bytes_per_step'] / 1e9:8.4g} {row['outside_bytes_per_step'] / 1e9:8.4g} "
        f"{run:>8} {buy:>8}{'  <- knee' if row.get('is_knee') else ''}"
    )


def _millions(usd: float | None) -> str:
    return "-" if usd is None else f"{usd / 1e6:.2f}"
