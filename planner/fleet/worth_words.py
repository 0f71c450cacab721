"""What one step more of a limit is worth, in words that do not say more than was proved."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from planner.documents.figures import human
from planner.report.words import Say

EXA = 1e18
EN = Say("en")
OF_ONE = re.compile(r"(?P<what>.+) (?:at|of) (?P<one>\S+)")
"""A limit at a site, or of a stream, a chip or a run."""


def worth_words(one: Mapping[str, Any], say: Say = EN) -> str:
    """A worth as `worth_of_more` holds it.

    Parameters
    ----------
    one : "worth", "at_most", "unit" and of hardware alone "units"
    """
    units = say("fleet_more_units", units=f"{one['units']:+.0f}") if "units" in one else ""
    if one["worth"] is not None:
        return _figure(one["worth"], one["unit"]) + units
    if one["at_most"] is None:
        return say("fleet_no_time")
    return say("fleet_below", most=_figure(one["at_most"], one["unit"]))


def limit_words(name: str, say: Say) -> str:
    """A limit, or one step more of it, as its reader knows it; what it is of as it is named."""
    if say.language == "en":
        return name
    found = OF_ONE.fullmatch(name)
    return f"{say.name(found['one'])} {say.name(found['what'])}" if found else say.name(name)


def _figure(value: float, unit: str) -> str:
    if unit == "1/s":
        return f"{value / EXA:.4g} EFLOP/s"
    return human(round(value, 2), unit) if unit != "MW" else f"{value:.4g} MW"
