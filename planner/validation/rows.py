"""Published measurements as rows: what a truth file says, read and checked, nothing computed."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from planner.validation.faults import name_of, row_faults, unread_words
from simkernel.errors import BadFile, BadStudy

TRAINING_COLUMNS = (
    "case_id", "model", "accelerator", "n_accel", "tp", "pp", "dp", "cp", "ep", "vpp",
    "seq_len", "global_batch_seqs", "micro_batch", "recompute", "zero_stage", "precision",
    "metric", "value", "unit", "source_group", "usable_as",
)  # fmt: skip
"""Columns that a file of training measurements has to have; others are read where they are."""

SERVING_COLUMNS = (
    "case_id", "model_slug", "accelerator_id", "n_accel", "engine", "precision", "tp", "pp", "ep",
    "disagg", "batch_or_concurrency", "input_len", "output_len", "metric", "value", "use",
)  # fmt: skip
"""The same of a file of single serving figures."""

SWEEP_COLUMNS = (
    "case_id", "backend", "backend_version", "model_path", "system", "mode", "isl", "osl",
    "gemm_quant_mode", "moe_quant_mode", "attention_dp_size", "moe_ep_size", "pp_size",
    "n_gpu_clean", "silicon_ttft_ms", "silicon_tpot_ms", "concurrency", "use", "use_ttft",
)  # fmt: skip
"""The same of a file of serving sweeps, one configuration a row."""

METERED_COLUMNS = (
    "case_id", "model", "gpu", "n_gpu", "tp", "ep", "weight_precision", "engine", "task",
    "avg_batch", "avg_output_len", "tok_s", "joules_per_token", "power_w_per_gpu", "power_scope",
    "source", "anomaly", "use",
)  # fmt: skip
"""The same of a file of metered serving runs."""

NODE_COLUMNS = (
    "case_id", "what", "value", "unit", "accelerator", "n_accel", "scope", "workload", "source",
)  # fmt: skip
"""The same of a file of metered training nodes."""

KINDS_OF_FILE = (
    TRAINING_COLUMNS, SERVING_COLUMNS, SWEEP_COLUMNS, METERED_COLUMNS, NODE_COLUMNS
)  # fmt: skip

NODE_UNIT = "W/node"
"""Unit of the rows of metered nodes that may be scored."""

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
    """The rows of some files of measurements, in order.

    Raises
    ------
    BadFile : files that cannot be read or have no such rows, all at once
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
    for column, wanted in (("usable_as", USABLE), ("use", ("yes",))):
        if not any(name == column for name, _ in conditions):
            rows = tuple(r for r in rows if column not in r.cells or r.text(column) in wanted)
    return tuple(row for row in rows if all(row.text(n) == v for n, v in conditions))


@dataclass(frozen=True)
class Sound:
    """Rows that can be predicted; the others with the reason; words that were taken as blank."""

    rows: tuple[TruthRow, ...]
    faulty: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]


def sound(rows: Iterable[TruthRow]) -> Sound:
    """Rows apart from those whose cells contradict each other, mean nothing or come twice."""
    good: list[TruthRow] = []
    faulty: list[tuple[str, str]] = []
    notes: list[str] = []
    met: dict[tuple[str, ...], str] = {}
    for row in rows:
        faults = row_faults(row.cells) if _is_counted(row) else []
        name = name_of(row.cells)
        if name in met and _is_counted(row):
            faults.append(f"case_id: the same case and metric stand at {met[name]}; keep one")
        if faults:
            faulty.append((row.text("case_id"), f"{row.where} {'; '.join(faults)}"))
            continue
        met.setdefault(name, row.where)
        unread = unread_words(row.cells)
        notes += [f"{row.where} {told}" for told in unread.values()]
        good.append(replace(row, cells={**row.cells, **dict.fromkeys(unread, "")}))
    return Sound(tuple(good), tuple(faulty), tuple(notes))


def _read(path: Path) -> list[TruthRow]:
    """All rows, each with the line it starts on; a mark of byte order before them is no text."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.DictReader(file)
        _ = reader.fieldnames
        rows, line = [], reader.line_num + 1
        for row in reader:
            cells = {k: v or "" for k, v in row.items() if k}
            rows.append(TruthRow(cells, f"{path}:{line}"))
            line = reader.line_num + 1
        return rows


def _file_faults(path: Path, rows: Sequence[TruthRow]) -> list[str]:
    """What is wrong with a file, in words."""
    if not rows:
        return [f"{path} has no rows; give a CSV file of measurements"]
    lacks = [[n for n in kind if n not in rows[0].cells] for kind in KINDS_OF_FILE]
    lacking = min(lacks, key=len)
    if lacking:
        named = ", ".join(lacking)
        return [f"{path} lacks {named}; give training measurements, serving rows or sweeps"]
    return []


def _is_counted(row: TruthRow) -> bool:
    """False for rows of metered nodes that state no watts: those are told apart later."""
    return "case_id" in row.cells and ("scope" not in row.cells or row.text("unit") == NODE_UNIT)
