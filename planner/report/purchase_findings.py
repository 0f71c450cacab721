"""What the charts of a purchase plan show, in the words of their titles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from planner.documents.figures import figure, human
from planner.documents.purchase_rows import MUSD, THIS
from planner.report.words import Say

Row = Mapping[str, Any]
RENTED = "rent everything"
WATTS = 1e6
KG = 1e3
SAME_FRAC = 1e-9


def spent(rows: Sequence[Row], say: Say) -> str:
    """Dollars spent by the end, of the plan and of renting everything.

    Parameters
    ----------
    rows : of `cash_rows`, in order of time
    """
    ends = {str(row["plan"]): float(row["spent"]) * MUSD for row in rows}
    own = human(ends[THIS], "USD")
    if RENTED not in ends:
        return say("fleet_spent", usd=own)
    return say("fleet_spent_beside", usd=own, rent=human(ends[RENTED], "USD"))


def served(rows: Sequence[Row], say: Say) -> str:
    """Whether every stream is served in every period; else how little of which one.

    Parameters
    ----------
    rows : of `capacity_rows`
    """
    asked = {
        (r["stream"], r["year"]): float(r["multiples"]) for r in rows if r["what"] == "demand"
    }
    shares = {
        (row["stream"], row["year"]): float(row["multiples"]) / asked[row["stream"], row["year"]]
        for row in rows
        if row["what"] == "capacity" and asked[row["stream"], row["year"]] > 0
    }
    if not shares:
        return say("fleet_capacity")
    (stream, year), least = min(shares.items(), key=lambda item: item[1])
    if least >= 1.0 - SAME_FRAC:
        return say("fleet_served_all", years=figure(max(row["year"] for row in rows)))
    return say("fleet_served_least", stream=stream, share=f"{least:.0%}", year=figure(year))


def powered(rows: Sequence[Row], say: Say) -> str:
    """The most that any site has to provide, beside its cap.

    Parameters
    ----------
    rows : of `power_rows`
    """
    provided = [row for row in rows if row["what"] == "provided"]
    if not provided:
        return say("fleet_power")
    most = max(provided, key=lambda row: float(row["MW"]))
    caps = [float(r["MW"]) for r in rows if r["what"] == "cap" and r["site"] == most["site"]]
    told = {"site": most["site"], "power": human(float(most["MW"]) * WATTS, "W")}
    if not caps:
        return say("fleet_powered", **told)
    return say("fleet_powered_cap", **told, cap=human(caps[0] * WATTS, "W"))


def emitted(rows: Sequence[Row], say: Say) -> str:
    """The year with most carbon.

    Parameters
    ----------
    rows : of `carbon_rows`
    """
    own = [row for row in rows if row["what"] == "emitted"]
    if not own:
        return say("fleet_carbon")
    most = max(own, key=lambda row: float(row["t"]))
    carbon = human(float(most["t"]) * KG, "kgCO2e")
    return say("fleet_emitted", carbon=carbon, year=figure(most["year"]))
