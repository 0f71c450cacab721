"""Published measurements as rows: what a truth file says, read and checked, nothing computed."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from simkernel.errors import BadFile, BadStudy

TRAINING_COLUMNS = (
    "case_id", "model", "accelerator", "n_accel", "tp", "pp", "dp", "cp", "ep", "vpp",
    "seq_len", "global_batch_seqs", "micro_batch", "recompute", "zero_stage", "precision",
    "metric", "value", "unit", "source_group", "usable_as",
)  # fmt: skip
"""Columns that a file of training measurements has to have; others are read where they are."""

NUMBERS = (
    "value", "n_accel", "tp", "pp", "dp", "cp", "ep", "vpp", "zero_stage", "seq_len",
    "global_batch_seqs", "micro_batch", "params_b", "n_layers", "hidden", "n_heads",
    "n_kv_heads", "ffn_hidden", "vocab", "head_dim", "scaleout_gbytes_per_s",
)  # fmt: skip
"""Columns whose cells are numbers above 0, or blank."""

USABLE = ("throughput", "memory")
"""Values of `usable_as` that are scored unless --where says otherwise."""


@dataclass(frozen=True)
class TruthRow:
    """One published number and the settings it was measured with; cells as written, "" unknown."""

    cells: Mapping[str, str]
    where: str

    @property
    def case_id(self) -> str:
        """The configuration; with the metric it names a row."""
        return self.cells["case_id"]

    @property
    def value(self) -> float:
        """The published number, in the row's unit."""
        return float(self.cells["value"])

    def text(self, name: str) -> str:
        """A cell, "" where the file has no such column."""
        return self.cells.get(name, "").strip()

    def number(self, name: str) -> float | None:
        """A cell as a number; None where it is not stated."""
        text = self.text(name)
        return float(text) if text else None

    def count(self, name: str) -> int | None:
        """A cell as a whole number; None where it is not stated."""
        number = self.number(name)
        return None if number is None else int(number)


def read_truth(paths: Sequence[Path]) -> tuple[TruthRow, ...]:
    """The rows of some files of training measurements, in order.

    Raises
    ------
    BadFile : a file that cannot be read, has no training rows, or cells that are no numbers;
        all at once
    """
    rows: list[TruthRow] = []
    faults: list[str] = []
    for path in paths:
        try:
            found = _read(path)
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            faults.append(f"{path} cannot be read: {error}; give a CSV file of measurements")
            continue
        faults += _file_faults(path, found)
        rows += found
    if faults:
        raise BadFile(*faults)
    return tuple(rows)


def chosen(rows: Iterable[TruthRow], where: Sequence[str]) -> tuple[TruthRow, ...]:
    """The rows that are usable, narrowed by COLUMN=VALUE conditions; `usable_as` may be replaced.

    Raises
    ------
    BadStudy : a condition that is none, or a column that no row has
    """
    rows = tuple(rows)
    columns = {name for row in rows for name in row.cells}
    conditions = []
    for item in where:
        name, is_condition, value = item.partition("=")
        if not is_condition or name not in columns:
            raise BadStudy(f"--where {item}: wanted COLUMN=VALUE with a column of the file")
        conditions.append((name, value))
    if not any(name == "usable_as" for name, _ in conditions):
        rows = tuple(row for row in rows if row.text("usable_as") in USABLE)
    return tuple(row for row in rows if all(row.text(n) == v for n, v in conditions))


def _read(path: Path) -> list[TruthRow]:
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        return [
            TruthRow({k: v or "" for k, v in row.items() if k}, f"{path} line {line}")
            for line, row in enumerate(reader, start=2)
        ]


def _file_faults(path: Path, rows: Sequence[TruthRow]) -> list[str]:
    """What is wrong with a file, in words."""
    if not rows:
        return [f"{path} has no rows; give a CSV file of measurements"]
    lacking = [name for name in TRAINING_COLUMNS if name not in rows[0].cells]
    if lacking:
        named = ", ".join(lacking)
        return [f"{path} lacks {named}; this version reads training measurements"]
    return [fault for row in rows for fault in _row_faults(row)]


def _row_faults(row: TruthRow) -> list[str]:
    return [
        f"{row.where} {name}: {row.text(name)!r} is not a number above 0"
        for name in NUMBERS
        if row.text(name) and not _is_amount(row.text(name), name == "zero_stage")
    ]


def _is_amount(text: str, may_be_zero: bool) -> bool:
    try:
        value = float(text)
    except ValueError:
        return False
    return math.isfinite(value) and (value > 0 or (may_be_zero and value == 0))
