"""Documents of the commands as text for a terminal; figures are rounded here and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.axes import AXES, COUNTS
from planner.documents.ruled import figure_text, table_text
from planner.study.pools import POOLS

FIRST_DECISIONS = (
    "scenario", "accelerator", "devices", "supernode_devices", "tensor_parallel",
    "pipeline_parallel",
    "context_parallel", "expert_parallel", "data_parallel", "virtual_stages",
    "micro_batch_sequences", "global_batch_sequences", "zero_stage", "recompute", "precision",
    "replicas", "attention_data_parallel", "kv_precision", "max_batch", "token_budget",
    "power_cap_frac", "arrangement", "block_devices", "reserve_frac",
)  # fmt: skip
ONE_POOL = (*FIRST_DECISIONS, *(n for n in AXES if n not in (*FIRST_DECISIONS, *COUNTS)))
DECISIONS = (*ONE_POOL, *(f"{pool}.{n}" for pool in POOLS for n in ONE_POOL if n != "accelerator"))
"""Every decision, in the order shown; one that does not vary on a front is left out."""


SHORT = {
    "purchase_units": "units", "power_cap_frac": "cap", "peak_flop_per_s": "flop/s",
    "more_purchase_units_with_1_mw": "+1 MW", "more_purchase_units_with_10_musd": "+$10M",
    "supernode_devices": "domain", "tensor_parallel": "tp", "pipeline_parallel": "pp",
    "context_parallel": "cp", "expert_parallel": "ep", "data_parallel": "dp",
    "attention_data_parallel": "adp", "kv_precision": "kv",
    "missed_targets": "misses",
    "arrangement": "as", "block_devices": "block", "reserve_frac": "reserve",
    "train_device_hours_per_day": "train h/day", "useful_device_hours_per_day": "useful h/day",
    "trained_frac": "of the rest", "lost_device_hours_per_day": "lost h/day",
    "stops_per_day": "stops/day", "idle_device_hours_per_day": "idle h/day",
    "virtual_stages": "vp", "micro_batch_sequences": "mbs", "global_batch_sequences": "gbs",
}  # fmt: skip
SHORT |= {
    f"{pool}.{name}": f"{pool[0].upper()} {SHORT.get(name, name)}"
    for pool in POOLS
    for name in ONE_POOL
}


def runs_text(document: Mapping[str, Any]) -> str:
    """All runs, one line each."""
    rows = document["runs"]
    if not rows:
        return "no runs yet; planner run STUDY makes one"
    return table_text(
        "runs", list(rows[0]), ([figure_text(v) for v in row.values()] for row in rows)
    )


def study_text(document: Mapping[str, Any]) -> str:
    """A study with its defaults."""
    lines = []
    for section, values in document.items():
        lines.append(f"[{section}]")
        lines += [f"  {key} = {value}" for key, value in values.items()]
    return "\n".join(lines)


def diff_text(document: Mapping[str, Any]) -> str:
    """What differs between two runs."""
    lines: list[str] = []
    _walk(document, lines, 0)
    return "\n".join(lines)


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
