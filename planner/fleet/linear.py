"""Columns and rows of a linear program as they are written down, and the limit each row keeps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field, fields
from itertools import pairwise

import numpy as np

from simkernel.columns import Codes, Floats

Terms = Mapping[int, float]


@dataclass
class Linear:
    """A program being written.

    Parameters
    ----------
    limits : name of a limit to the rows that keep it, with the sign in which they give way and
        how much they give for one step
    """

    lower: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    whole: list[bool] = field(default_factory=list)
    row_low: list[float] = field(default_factory=list)
    row_high: list[float] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    limits: dict[str, list[tuple[int, float]]] = field(default_factory=dict)

    def columns(self, *shape: int, upper: float = np.inf, whole: bool = False) -> Codes:
        """New columns in a shape, their places; from 0 to `upper`."""
        count = int(np.prod(shape))
        first = len(self.lower)
        self.lower += [0.0] * count
        self.upper += [upper] * count
        self.whole += [whole] * count
        return np.arange(first, first + count).reshape(shape)

    def column(self, upper: float = np.inf, whole: bool = False) -> int:
        """One new column."""
        return int(self.columns(1, upper=upper, whole=whole)[0])

    def fix(self, column: int, value: float) -> None:
        """A column that is known."""
        self.lower[column] = self.upper[column] = value

    def row(
        self,
        terms: Terms,
        low: float = -np.inf,
        high: float = np.inf,
        limit: str = "",
        step: float = 1.0,
    ) -> None:
        """Low <= sum of terms <= high.

        Parameters
        ----------
        limit : that it keeps, "" for what is so by nature
        step : by which the row gives way when the limit is relaxed by one
        """
        if limit:
            sign = -1.0 if np.isfinite(high) else 1.0
            self.limits.setdefault(limit, []).append((len(self.starts), sign * step))
        self.starts.append(len(self.places))
        self.places += list(terms)
        self.values += list(terms.values())
        self.row_low.append(low)
        self.row_high.append(high)

    def again(self) -> Linear:
        """The same once more, to be written on."""
        return Linear(*(copy(getattr(self, field.name)) for field in fields(self)))

    def with_column(self, rows: Terms) -> tuple[Linear, int]:
        """The same with a column more, from 0 on, in some rows; and its place."""
        found = Linear(lower=[*self.lower], upper=[*self.upper], whole=[*self.whole])
        column = found.column()
        for row, (first, last) in enumerate(pairwise([*self.starts, len(self.places)])):
            terms = dict(zip(self.places[first:last], self.values[first:last], strict=True))
            more = {column: rows[row]} if row in rows else {}
            found.row({**terms, **more}, self.row_low[row], self.row_high[row])
        return found, column


@dataclass
class Tally:
    """Something that columns add to at nodes, such as dollars or kilograms.

    Parameters
    ----------
    nodes, columns, values : one entry each time something is added
    fixed : node to what is there whatever the columns are
    """

    nodes: list[int] = field(default_factory=list)
    columns: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    fixed: dict[int, float] = field(default_factory=dict)

    def add(self, node: int, column: int, value: float) -> None:
        """What one of a column adds at a node."""
        if value:
            self.nodes.append(node)
            self.columns.append(column)
            self.values.append(value)

    def at(self, nodes: Mapping[int, float]) -> tuple[dict[int, float], float]:
        """Terms and fixed part of some nodes, each with its weight."""
        terms: dict[int, float] = {}
        for node, column, value in zip(self.nodes, self.columns, self.values, strict=True):
            if node in nodes:
                terms[column] = terms.get(column, 0.0) + value * nodes[node]
        return terms, sum(self.fixed.get(node, 0.0) * w for node, w in nodes.items())

    def by_node(self) -> Iterator[tuple[int, dict[int, float], float]]:
        """Every node with its terms and its fixed part."""
        found: dict[int, dict[int, float]] = {}
        for node, column, value in zip(self.nodes, self.columns, self.values, strict=True):
            own = found.setdefault(node, {})
            own[column] = own.get(column, 0.0) + value
        for node in sorted({*found, *self.fixed}):
            yield node, found.get(node, {}), self.fixed.get(node, 0.0)


def value_of(terms: Terms, found: Floats) -> float:
    """What some terms come to."""
    return float(sum(found[column] * value for column, value in terms.items()))
