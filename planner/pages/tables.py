"""The one way a page draws a table: every column of one kind, as the browser needs it.

Rows of several axes mix counts and words under one heading ("from 8", "from air"). Such a column
cannot be sent as numbers, so all of it is shown as words. Whoever looks may take a table away as
CSV, so words that a spreadsheet would work out are quoted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np
import streamlit as st

from planner.documents.cells import harmless

Rows = Sequence[Mapping[str, Any]]
Columns = Mapping[str, Sequence[Any]]


def draw_table(cells: Rows | Columns, place: Any = st, **how: Any) -> None:
    """Draw a table as wide as its place, without numbers of rows.

    Parameters
    ----------
    cells : a mapping per row, or heading to the cells of its column
    place : what it is drawn into, the page itself where nothing is said
    how : further words of `st.dataframe`
    """
    place.dataframe(even(cells), width="stretch", hide_index=True, **how)


def even(cells: Rows | Columns) -> dict[str, list[Any]]:
    """Headings in the order they come, each with one cell per row, all numbers or all words."""
    return {name: _one_kind(column) for name, column in _columns(cells).items()}


def _columns(cells: Rows | Columns) -> Columns:
    if isinstance(cells, Mapping):
        return cells
    names = dict.fromkeys(name for row in cells for name in row)
    return {name: [row.get(name) for row in cells] for name in names}


def _one_kind(column: Sequence[Any]) -> list[Any]:
    kinds = {_kind(cell) for cell in column if cell is not None}
    if len(kinds) < 2:
        return [harmless(cell) for cell in column]
    return [None if cell is None else harmless(str(cell)) for cell in column]


def _kind(cell: Any) -> str:
    """Yes or no, a number, or the name of its type."""
    if isinstance(cell, (bool, np.bool_)):
        return "bool"
    return "number" if isinstance(cell, (Real, np.number)) else type(cell).__name__
