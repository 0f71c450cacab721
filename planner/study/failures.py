"""The table [reliability] of a study, of which each kind of study uses its own part."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.study.faults import Faults, part
from planner.study.parts import OF_TRAINING_ALONE, Reliability


def read_reliability(table: Mapping[str, Any], kind: str, faults: Faults) -> Reliability:
    """Failures, checkpoints and spares; faults of keys that the kind has no use for noted."""
    idle = [key for key in table if kind == "serve" and key in OF_TRAINING_ALONE]
    idle += list(table) if kind == "hardware" else []
    for key in idle:
        problem = f"a {kind} study has no use for it"
        faults.add(("reliability", key), table[key], problem, "remove it")
    return part(Reliability, table, ("reliability",), faults) or Reliability()
