"""Figures and ruled tables for a terminal: the one place where its numbers are rounded."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

WIDTH = 110


def figure_text(value: Any) -> str:
    """A figure in four digits, or with its thousands apart; NULL where there is none."""
    if value is None:
        return "NULL"
    if isinstance(value, float):
        return f"{value:,.0f}" if 1e3 <= abs(value) < 1e15 else f"{value:.4g}"
    return str(value)


def figure_or(value: Any, why: str | None) -> str:
    """A figure, or that there is none and why."""
    return f"NULL: {why}" if value is None and why else figure_text(value)


def table_text(title: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Rows under headings, ruled."""
    table = Table(title=Text(title), title_justify="left", show_edge=False, pad_edge=False)
    for head in heads:
        table.add_column(Text(head), overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    out = io.StringIO()
    Console(file=out, width=max(WIDTH, 12 * len(heads)), no_color=True).print(table)
    return out.getvalue().rstrip()
