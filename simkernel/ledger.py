"""A total that remembers its terms: the explanation of a number is its calculation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from simkernel.columns import Codes, Column


@dataclass(frozen=True)
class Ledger:
    """Named terms of one unit; each term is a number or a column of shape (n,).

    Parameters
    ----------
    name : what the total is, e.g. "step_s"
    unit : unit of every term and of the total, e.g. "s"
    terms : term name to value, in reading order
    """

    name: str
    unit: str
    terms: Mapping[str, Column]

    @property
    def total(self) -> Column:
        """The sum of all terms, same shape as the terms."""
        return sum(self.terms.values(), start=0.0)

    def take(self, rows: Codes | int | slice) -> Ledger:
        """The same ledger for some rows; terms that are plain numbers stay as they are."""
        picked = {
            name: value if np.ndim(value) == 0 else np.asarray(value)[rows]
            for name, value in self.terms.items()
        }
        return Ledger(self.name, self.unit, picked)

    def scaled(self, factor: Column) -> Ledger:
        """Every term times a factor of shape (n,) or a number, the unit unchanged."""
        return Ledger(self.name, self.unit, {k: v * factor for k, v in self.terms.items()})

    def as_dict(self) -> dict[str, float]:
        """Plain numbers by term name; only for a ledger of one row."""
        return {name: float(np.asarray(value).reshape(())) for name, value in self.terms.items()}
