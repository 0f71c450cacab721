"""A report as a spreadsheet whose cost follows from its terms: change a price, and it moves."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xlsxwriter

from planner.documents.figures import values_of
from planner.report.basis import weakest_first
from planner.report.blocks import Heading, Listing, Paper, Points, Table, Words
from planner.report.gather import Gathered
from planner.report.sums import Line, cost_lines
from planner.report.words import Say

NAME = re.compile(r"\{(\w+)\}")
WIDTHS = (34, 20, 16, 60)
FACTS = ("name", "value", "unit", "low", "high", "grade", "verified", "as_of", "source", "licence")
MOST_ROWS = 5000
"""Rows of the front that are written."""


def xlsx(got: Gathered, paper: Paper) -> bytes:
    """The file's bytes: summary, cost with formulas, front, tornado and facts.

    Notes
    -----
    Text is written as text, never as a formula, whatever it begins with.
    """
    file = io.BytesIO()
    options = {"in_memory": True, "strings_to_formulas": False, "strings_to_urls": False}
    book = xlsxwriter.Workbook(file, {**options, "nan_inf_to_errors": False})
    say = Say(paper.language)
    styles = {
        "head": book.add_format({"bold": True, "bottom": 1}),
        "open": book.add_format({"bg_color": "#FFF2CC", "border": 1}),
        "wrap": book.add_format({"text_wrap": True, "valign": "top"}),
        "title": book.add_format({"bold": True, "font_size": 14}),
    }
    _summary(book.add_worksheet(say("sheet_summary")), paper, styles)
    _costs(book.add_worksheet(say("sheet_cost")), cost_lines(got.ends.middle), say, styles)
    _front(book.add_worksheet(say("sheet_front")), got, styles)
    _swings(book.add_worksheet(say("sheet_tornado")), got, say, styles)
    _facts(book.add_worksheet(say("sheet_facts")), got.facts, styles)
    book.close()
    return file.getvalue()


def _summary(sheet: Any, paper: Paper, styles: Mapping[str, Any]) -> None:
    """What the report says, in its order, without its charts."""
    sheet.set_column(0, 0, 44, styles["wrap"])
    sheet.set_column(1, 8, 22, styles["wrap"])
    sheet.write_string(0, 0, paper.title, styles["title"])
    sheet.write_string(1, 0, paper.subtitle)
    at = 3
    for block in paper.blocks:
        match block:
            case Heading(text):
                sheet.write_string(at, 0, text, styles["head"])
                at += 1
            case Words(text):
                sheet.write_string(at, 0, text)
                at += 1
            case Points(lines):
                for line in lines:
                    sheet.write_string(at, 0, line)
                    at += 1
            case Listing(text):
                for line in text.splitlines():
                    sheet.write_string(at, 0, line)
                    at += 1
            case Table():
                at = _table(sheet, at, block, styles)


def _table(sheet: Any, at: int, table: Table, styles: Mapping[str, Any]) -> int:
    sheet.write_string(at, 0, table.title)
    for column, head in enumerate(table.heads):
        sheet.write_string(at + 1, column, head, styles["head"])
    for place, row in enumerate(table.rows):
        for column, cell in enumerate(row):
            sheet.write_string(at + 2 + place, column, cell)
    return at + 3 + len(table.rows)


def _costs(sheet: Any, lines: Sequence[Line], say: Say, styles: Mapping[str, Any]) -> None:
    """The lines of the cost; figures that may be changed are yellow."""
    for column, width in enumerate(WIDTHS):
        sheet.set_column(column, column, width)
    sheet.write_string(0, 0, say("sheet_cost_words"))
    for column, head in enumerate(("col_figure", "col_value", "col_unit", "col_formula")):
        sheet.write_string(2, column, say(head), styles["head"])
    cells = {line.name: f"$B${row + 4}" for row, line in enumerate(lines)}
    for row, line in enumerate(lines, start=3):
        sheet.write_string(row, 0, line.name)
        sheet.write_string(row, 2, line.unit)
        if line.formula:
            written = "=" + NAME.sub(lambda found: cells[found[1]], line.formula)
            sheet.write_formula(row, 1, written, None, line.value)
            sheet.write_string(row, 3, NAME.sub(lambda found: found[1], line.formula))
        else:
            sheet.write_number(row, 1, line.value, styles["open"] if line.is_open else None)
    sheet.freeze_panes(3, 1)


def _front(sheet: Any, got: Gathered, styles: Mapping[str, Any]) -> None:
    """Every column of the front but its ledgers, in the units of the contract."""
    skipped = ("run", "key", "status", "null_reasons")
    names = [n for n in got.front if "[" not in n and n not in skipped]
    for column, name in enumerate(names):
        sheet.write_string(0, column, name, styles["head"])
        for row, value in enumerate(values_of(got.front, name)[:MOST_ROWS], start=1):
            _write(sheet, row, column, value)
    sheet.freeze_panes(1, 1)


def _swings(sheet: Any, got: Gathered, say: Say, styles: Mapping[str, Any]) -> None:
    """The numbers of the tornado."""
    sheet.set_column(0, 0, 34)
    heads = (say("col_figure"), "low / middle", "high / middle", "usd at low", "usd at high")
    for column, head in enumerate(heads):
        sheet.write_string(0, column, head, styles["head"])
    for row, one in enumerate(got.swings, start=1):
        cells = (say.name(one.name), one.low_frac, one.high_frac, one.at_low, one.at_high)
        for column, cell in enumerate(cells):
            _write(sheet, row, column, cell)
    _sources(sheet, len(got.swings) + 3, got, say, styles)


def _sources(sheet: Any, at: int, got: Gathered, say: Say, styles: Mapping[str, Any]) -> None:
    """Shares of variance and elementary effects, below the tornado."""
    names = ("input", "share_alone", "share_total", "effect", "uneven")
    for column, name in enumerate(names):
        sheet.write_string(at, column, say(f"col_{name}"), styles["head"])
    for row, one in enumerate(got.sources, start=at + 1):
        cells = (say.name(one.name), one.alone_frac, one.total_frac, one.mean_size, one.spread)
        for column, cell in enumerate(cells):
            _write(sheet, row, column, cell)


def _facts(sheet: Any, facts: list[dict[str, Any]], styles: Mapping[str, Any]) -> None:
    """Every fact of the run with its source."""
    sheet.set_column(0, 0, 46)
    for column, name in enumerate(FACTS):
        sheet.write_string(0, column, name, styles["head"])
    for row, fact in enumerate(weakest_first(facts), start=1):
        for column, name in enumerate(FACTS):
            value = fact["words"] or fact["value"] if name == "value" else fact[name]
            _write(sheet, row, column, value)
    sheet.freeze_panes(1, 1)


def _write(sheet: Any, row: int, column: int, value: Any) -> None:
    """A number as a number, nothing for NULL, anything else as text."""
    is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if value is None or (is_number and not np.isfinite(value)):
        return
    if is_number:
        sheet.write_number(row, column, float(value))
    else:
        sheet.write_string(row, column, str(value))
