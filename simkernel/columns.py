"""Columns: the aliases for a quantity that may be a number or (n,) numbers, and their rows.

The dtype is in the alias's name for the reader; the type checker sees any array, because NumPy's
promotion of mixed columns is not expressible without casts on every line.
"""

from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[Any]
Codes = npt.NDArray[Any]
Masks = npt.NDArray[Any]

Column = float | npt.NDArray[Any]
"""A quantity of one candidate (a number) or of n candidates ((n,)); any equation takes either."""


def taken(value: Any, rows: Codes) -> Any:
    """The same structure for some rows: arrays are indexed, dataclasses and containers walked.

    Numbers and arrays of one row stand for every row, and so do views that repeat one row. What
    holds tables beside its rows takes its own: a method `rows_taken`.
    """
    if isinstance(value, np.ndarray):
        one_row = is_one_row(value)
        value = value[:1] if one_row else value
        return np.broadcast_to(value, (len(rows), *value.shape[1:])) if one_row else value[rows]
    if hasattr(value, "rows_taken"):
        return value.rows_taken(rows)
    if is_dataclass(value) and not isinstance(value, type):
        picked = {f.name: taken(getattr(value, f.name), rows) for f in fields(value)}
        return type(value)(**picked)
    if isinstance(value, dict):
        return {name: taken(item, rows) for name, item in value.items()}
    if isinstance(value, tuple):
        return tuple(taken(item, rows) for item in value)
    return value


def kept(value: Any, rows: Codes) -> Any:
    """As `taken`, but columns of one row stay one row: equations spread them by themselves."""
    if isinstance(value, np.ndarray):
        return value[:1] if is_one_row(value) else value[rows]
    if is_dataclass(value) and not isinstance(value, type):
        names = type(value).__dataclass_fields__
        return type(value)(**{name: kept(getattr(value, name), rows) for name in names})
    return value


def is_one_row(values: Floats) -> bool:
    """An array of one row, or a view that repeats one row without holding it more than once."""
    return len(values) == 1 or (len(values) > 0 and values.strides[0] == 0)


def distinct(columns: Sequence[Codes]) -> tuple[Codes, Codes]:
    """First row of each distinct combination of integer columns, and for every row which it is.

    Parameters
    ----------
    columns : k arrays of shape (n,)

    Returns
    -------
    (m,) rows, (n,) indices into them

    Notes
    -----
    Rows are told apart by a 64-bit mix of their values; should two different rows ever share
    one, nothing is merged: the answer is checked against the columns, so it is always right.
    """
    mixed = np.zeros(len(columns[0]), dtype=np.uint64)
    for column in columns:
        mixed = (mixed ^ column.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)  # golden ratio
        mixed ^= mixed >> np.uint64(29)
    _, first, inverse = np.unique(mixed, return_index=True, return_inverse=True)
    if all(np.array_equal(column[first][inverse], column) for column in columns):
        return first, inverse
    every = np.arange(len(mixed))
    return every, every
