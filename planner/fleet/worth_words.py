"""What one step more of a limit is worth, in words that do not say more than was proved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.documents.figures import human

EXA = 1e18
BELOW = "below the gap"


def worth_words(one: Mapping[str, Any]) -> str:
    """A worth as `worth_of_more` holds it.

    Parameters
    ----------
    one : "worth", "at_most", "unit" and of hardware alone "units"
    """
    units = f", {one['units']:+.0f} units" if "units" in one else ""
    if one["worth"] is not None:
        return _figure(one["worth"], one["unit"]) + units
    if one["at_most"] is None:
        return "no plan in time"
    return f"{BELOW}, at most {_figure(one['at_most'], one['unit'])}"


def _figure(value: float, unit: str) -> str:
    if unit == "1/s":
        return f"{value / EXA:.4g} EFLOP/s"
    return human(round(value, 2), unit) if unit != "MW" else f"{value:.4g} MW"
