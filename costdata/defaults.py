"""Planning figures that belong to no chip and no site, each with its source and band."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from simkernel.errors import MissingFact, unknown

TABLE = Path(__file__).parent / "tables" / "defaults.csv"


@dataclass(frozen=True)
class Default:
    """One figure with its band and provenance; `unit` "1" for a ratio."""

    name: str
    value: float
    unit: str
    low: float
    high: float
    source: str
    as_of: str
    grade: str
    licence: str
    unverified: tuple[str, ...]

    @property
    def verified(self) -> bool:
        """True where the value itself was read in its source."""
        return "value" not in self.unverified


@cache
def defaults() -> dict[str, Default]:
    """Every planning figure by name."""
    with TABLE.open(encoding="utf-8", newline="") as file:
        return {row["name"]: _default(row) for row in csv.DictReader(file)}


def default(name: str) -> float:
    """The value of one planning figure.

    Raises
    ------
    UnknownName : no such figure
    """
    if name not in defaults():
        raise unknown("planning figure", name, defaults())
    return defaults()[name].value


def _default(row: dict[str, str]) -> Default:
    numbers = {key: float(row[key]) for key in ("value", "low", "high")}
    if not numbers["low"] <= numbers["value"] <= numbers["high"]:
        raise MissingFact(
            f"planning figure {row['name']} is {numbers}; wanted low <= value <= high; mend it"
        )
    return Default(
        name=row["name"],
        value=numbers["value"],
        unit=row["unit"],
        low=numbers["low"],
        high=numbers["high"],
        source=row["source"],
        as_of=row["as_of"],
        grade=row["grade"],
        licence=row["licence"],
        unverified=tuple(part for part in row["unverified"].split(";") if part),
    )
