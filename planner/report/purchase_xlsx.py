"""A purchase plan as a spreadsheet: orders, what they consist of, calendar, cash, other ways."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import xlsxwriter

from planner.documents.purchase_rows import cash_rows, compared_rows, worth_rows
from planner.exports.purchase import COLUMNS, order_items
from planner.report.words import Say

Document = Mapping[str, Any]
Row = Mapping[str, Any]

ORDERED = (
    "order_by", "order_by_week", "lead_weeks", "arrives_on", "arrives_week", "period", "future",
    "how", "units", "chip", "site", "devices", "unit_usd", "usd", "usd_per_year",
)  # fmt: skip
SPENT = ("capex_usd", "running_usd", "rent_usd", "moving_usd", "kgco2e")
WIDTH = 16


def purchase_xlsx(document: Document, title: str, lines: Sequence[str], say: Say) -> bytes:
    """The file's bytes; sums of money are formulas over their rows.

    Parameters
    ----------
    document : of `explain` for the plan
    title, lines : of the first sheet

    Notes
    -----
    Text is written as text, never as a formula, whatever it begins with.
    """
    file = io.BytesIO()
    options = {"in_memory": True, "strings_to_formulas": False, "strings_to_urls": False}
    book = xlsxwriter.Workbook(file, {**options, "nan_inf_to_errors": False})
    head = book.add_format({"bold": True, "bottom": 1})
    first = book.add_worksheet("decision")
    first.set_column(0, 0, 120, book.add_format({"text_wrap": True, "valign": "top"}))
    first.write_string(0, 0, title, book.add_format({"bold": True, "font_size": 14}))
    for i, line in enumerate(lines):
        first.write_string(2 + i, 0, line)
    sheets = (
        ("orders", ORDERED, document["orders"], ("usd", "usd_per_year")),
        ("materials", COLUMNS, _materials(document), ("usd",)),
        ("calendar", *_calendar(document), ()),
        ("cash", *_under(cash_rows(document)), ()),
        ("other ways", *_under(compared_rows(document, say)), ()),
        ("worth of more", *_under(worth_rows(document, say)), ()),
    )
    for name, heads, rows, summed in sheets:
        if rows:
            _table(book.add_worksheet(name), heads, rows, summed, head)
    book.close()
    return file.getvalue()


def _table(
    sheet: Any, heads: Sequence[str], rows: Sequence[Row], summed: Sequence[str], head: Any
) -> None:
    """Rows under their heads, and below them the sums of some columns."""
    sheet.set_column(0, len(heads) - 1, WIDTH)
    sheet.freeze_panes(1, 0)
    for at, name in enumerate(heads):
        sheet.write_string(0, at, name, head)
        for i, row in enumerate(rows):
            value = row.get(name)
            if isinstance(value, int | float):
                sheet.write_number(1 + i, at, value)
            elif value is not None:
                sheet.write_string(1 + i, at, str(value))
        if name in summed:
            letter = chr(ord("A") + at)
            sheet.write_formula(
                len(rows) + 1, at, f"=SUM({letter}2:{letter}{len(rows) + 1})", head,
                sum(float(row.get(name) or 0.0) for row in rows),
            )  # fmt: skip


def _materials(document: Document) -> list[dict[str, Any]]:
    is_bought = any(one["usd"] for one in document["orders"])
    return order_items(document) if is_bought else []


def _calendar(document: Document) -> tuple[list[str], list[dict[str, Any]]]:
    """Units, money and power of every period in every future."""
    rows = [dict(_period(node)) for node in document["calendar"]]
    return list(dict.fromkeys(name for row in rows for name in row)), rows


def _period(node: Row) -> Iterator[tuple[str, Any]]:
    for name in ("period", "from_day", "from_year", "future", "chance"):
        yield name, node[name]
    for word, table in (("buy", node["buy"]), ("rent", node["rent"]), ("owned", node["owned"])):
        yield word, ", ".join(f"{units:g} {name}" for name, units in table.items())
    yield "runs", "; ".join(f"{name}: {words}" for name, words in node["runs"].items())
    for name in SPENT:
        yield name, node[name]
    for site, mw in node["site_mw"].items():
        yield f"MW at {site}", mw
    for name, asked in node["demand"].items():
        yield f"demand of {name}", asked
        yield f"capacity for {name}", node["served"][name]


def _under(rows: Sequence[Row]) -> tuple[list[str], Sequence[Row]]:
    return list(dict.fromkeys(name for row in rows for name in row)), rows
