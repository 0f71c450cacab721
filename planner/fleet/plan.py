"""A purchase plan as it is decided: orders, what leaves early, who serves, when runs are on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from simkernel.columns import Floats


@dataclass(frozen=True)
class Left:
    """Units that are sold or moved before the end of their term.

    Parameters
    ----------
    deal, asset, ordered : of the lot they are of: its deal and the node where it was ordered, -1
        for units held from the start, and the asset
    term : periods that the lot stays; of held units those that were left
    node : where they leave
    units : how many
    to : asset at another site, -1 where they are sold
    """

    deal: int
    asset: int
    ordered: int
    term: int
    node: int
    units: float
    to: int


@dataclass(frozen=True)
class Running:
    """A training run: `when` is (o, n) of `begin` or `on`, (o, n, h) of `blocks`."""

    form: str
    when: Floats


@dataclass(frozen=True)
class Plan:
    """Everything decided, by node of the calendar.

    Parameters
    ----------
    status : "optimal", "feasible" (time was up), "infeasible", "unbounded", "no plan in time"
    value, bound, gap_frac : of the objective; the bound is proved
    ordered : (d, n) units by deal and node of order
    left : units that leave early
    replicas : stream to (o, n)
    runs : run to when it is on
    columns : of the program, to begin another one with
    """

    status: str
    value: float
    bound: float
    gap_frac: float
    ordered: Floats
    left: tuple[Left, ...]
    replicas: Mapping[str, Floats]
    runs: Mapping[str, Running]
    columns: Floats

    @property
    def is_there(self) -> bool:
        """There is a plan."""
        return bool(np.isfinite(self.value))
