"""What the results of a run add up to: counts, the physical front, what came nearest to it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from planner.search.sweep import BillResult


@dataclass
class Total:
    """What the bills, or the rounds, of a run add up to.

    Parameters
    ----------
    evaluated, masked, rejected : counts; masked by rule, rejected by limit
    skipped : candidates that a bound left out, by limit
    cpu_s : processor time [s]
    fronts : tables of plans that were on the physical front when they were told
    beaten : design keys of those that are on it no more
    nearest : tables of least-violating candidates
    bills : results so far
    """

    evaluated: int = 0
    masked: Counter[str] = field(default_factory=Counter)
    rejected: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    cpu_s: float = 0.0
    fronts: list[dict[str, Any]] = field(default_factory=list)
    beaten: set[int] = field(default_factory=set)
    nearest: list[dict[str, Any]] = field(default_factory=list)
    bills: int = 0

    def add(self, result: BillResult) -> None:
        """One more result."""
        self.bills += 1
        self.evaluated += result.evaluated
        self.masked.update(result.masked)
        self.rejected.update(result.rejected)
        self.skipped.update(result.skipped)
        self.cpu_s += result.seconds
        self.beaten.update(result.beaten)
        if result.front:
            self.fronts.append(result.front)
        elif result.nearest:
            self.nearest.append(result.nearest)

    @property
    def front_rows(self) -> int:
        """Plans on the physical front."""
        return sum(len(table["plan"]) for table in self.fronts) - len(self.beaten)

    def physical(self) -> dict[str, Any]:
        """The physical front, by design key; nothing where nothing is feasible."""
        if not self.fronts:
            return {}
        plans = joined(self.fronts)
        stays = ~np.isin(plans["key"], list(self.beaten))
        order = np.argsort(plans["key"][stays], kind="stable")
        return {name: column[stays][order] for name, column in plans.items()}


def joined(tables: list[dict[str, Any]]) -> dict[str, Any]:
    """Tables of the same columns one below the other."""
    return {name: np.concatenate([t[name] for t in tables]) for name in tables[0]}
