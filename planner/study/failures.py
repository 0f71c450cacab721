"""The table [reliability] of a study, of which each kind of study uses its own part."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.study.faults import Faults, part
from planner.study.parts import OF_TRAINING_ALONE, Reliability

GOODPUT = "goodput_frac"


def read_reliability(
    table: Mapping[str, Any], kind: str, faults: Faults, pin: Mapping[str, Any]
) -> Reliability:
    """Failures, checkpoints and spares; faults of keys that the kind has no use for noted.

    Parameters
    ----------
    pin : the table [pin], whose goodput leaves the cost of checkpoints and recovery without effect
    """
    idle = [key for key in table if kind == "serve" and key in OF_TRAINING_ALONE]
    idle += list(table) if kind == "hardware" else []
    for key in idle:
        problem = f"a {kind} study has no use for it"
        faults.add(("reliability", key), table[key], problem, "remove it")
    for key in OF_TRAINING_ALONE if GOODPUT in pin and not idle else ():
        if table.get(key) not in (None, getattr(Reliability(), key)):
            problem = f"pin.{GOODPUT} already says what failures leave of the time"
            faults.add(("reliability", key), table[key], problem, f"remove it, or pin.{GOODPUT}")
    return part(Reliability, table, ("reliability",), faults) or Reliability()
