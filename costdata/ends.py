"""One end of a band of a fact: low, typical or high, as every quote of a table takes it."""

from __future__ import annotations

from collections.abc import Mapping

from costdata.facts import Fact
from costdata.offers import Part
from simkernel.errors import MissingFact

LOW, TYPICAL, HIGH = range(3)
"""Ends of a band, as `Band` has them."""


def part_usd(part: Part, end: int) -> float:
    """Price of a part.

    Raises
    ------
    MissingFact : it has none
    """
    if part.price_usd is None:
        raise MissingFact(f"{part.name} has no price in network.csv; add it with its source")
    return part.price_usd[end]


def part_w(part: Part, end: int) -> float:
    """Draw of a part.

    Raises
    ------
    MissingFact : it has none
    """
    if part.power_w is None:
        raise MissingFact(f"{part.name} has no power in network.csv; add it with its source")
    return part.power_w[end]


def quantities(facts: Mapping[str, Fact]) -> dict[str, Fact]:
    """Facts that are quantities, not words."""
    return {key: fact for key, fact in facts.items() if fact.unit}


def value_of(fact: Fact) -> float:
    """The number of a fact.

    Raises
    ------
    MissingFact : it is none
    """
    if not isinstance(fact.value, int | float):
        raise MissingFact(f"{fact.value!r} of {fact.source} is no number; give one")
    return float(fact.value)


def end_of(fact: Fact, end: int) -> float:
    """An end of a fact's band, its typical figure where it has none."""
    typical = value_of(fact)
    found = (fact.low, typical, fact.high)[end]
    return typical if found is None else found
