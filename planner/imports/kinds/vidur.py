"""Profiling tables of Vidur (mlp.csv, linear_op.csv): milliseconds of the products of a layer.

Columns are those of microsoft/vidur, vidur/profiling/mlp: `time_stats.OPERATOR.median` beside the
model's widths, tokens and tensor ranks. A zero stands there for what was not timed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from costdata.facts import NUMBER, as_cells
from planner.imports.chip_named import chip_named, precision_given
from planner.imports.found import Found, Given, told_later
from planner.imports.left_out import product_errors
from planner.imports.text_files import read_text
from planner.imports.timed_rows import product_row
from simkernel.errors import BadFile

SETTINGS = {
    "accelerator": "chip that was profiled",
    "precision": "of the products; fp16 unless given",
}

WIDTHS = (
    "num_tokens", "num_tensor_parallel_workers", "n_head", "n_kv_head", "n_embd",
    "n_expanded_embd", "use_gated_mlp",
)  # fmt: skip
OPERATORS = ("attn_pre_proj", "attn_post_proj", "mlp_up_proj", "mlp_down_proj")


def read(paths: Sequence[Path], given: Given) -> Found:
    """Products of some tables.

    Raises
    ------
    BadFile : every fault of all files
    UnknownName : a chip or a precision that the catalogue does not have
    """
    chip = chip_named(given, (), ", ".join(path.name for path in paths))
    precision = precision_given(given, "precision", "fp16")
    times: dict[tuple[int, int, int], list[float]] = defaultdict(list)
    faults: list[str] = []
    missing = 0
    for path in paths:
        with told_later(faults):
            header, rows = as_cells(path.name, read_text(path))
            lacking = [name for name in (*WIDTHS, *map(_column, OPERATORS)) if name not in header]
            if lacking:
                raise BadFile(f"{path.name} lacks {', '.join(lacking)}; give mlp.csv of a profile")
            for line, row in enumerate(rows, start=2):
                try:
                    missing += _add(times, row)
                except ValueError as error:
                    faults.append(f"{path.name} line {line}: {error}")
    if not times and not faults:
        faults.append(f"{', '.join(p.name for p in paths)}: no product was timed")
    if faults:
        raise BadFile(*faults)
    found = [
        product_row(chip, precision, shape, "alone", seconds)
        for shape, seconds in sorted(times.items())
    ]
    notes = [f"{missing} zeros are taken as not timed"] if missing else []
    told = {"shapes": len(found), "errors": product_errors(given.catalog, chip, found)}
    return Found({"product_times": found}, f"{chip}: {len(found)} products", told, notes)


def _column(operator: str) -> str:
    return f"time_stats.{operator}.median"


def _add(times: dict[tuple[int, int, int], list[float]], row: Mapping[str, str]) -> int:
    """The products of a row; how many of them were not timed.

    Raises
    ------
    ValueError : a width or a time that cannot be
    """
    tokens, ranks, heads, kv_heads, hidden, width = (_whole(row, name) for name in WIDTHS[:6])
    wide = width * (2 if row["use_gated_mlp"].lower() == "true" else 1)
    dim = hidden // heads
    parts = {
        "n_embd by n_head": hidden % heads,
        "heads by tensor ranks": (heads % ranks) + (kv_heads % ranks),
        "n_expanded_embd by tensor ranks": width % ranks,
    }
    if wrong := [name for name, rest in parts.items() if rest]:
        raise ValueError(f"cannot divide {', '.join(wrong)}; are the columns those of a profile?")
    shapes = {
        "attn_pre_proj": (hidden, (heads + 2 * kv_heads) * dim // ranks),
        "attn_post_proj": (hidden // ranks, hidden),
        "mlp_up_proj": (hidden, wide // ranks),
        "mlp_down_proj": (width // ranks, hidden),
    }
    missing = 0
    for operator, (inner, columns) in shapes.items():
        milliseconds = _number(row, _column(operator))
        if not 0.0 <= milliseconds < np.inf:
            raise ValueError(f"{operator} took {milliseconds} ms; wanted a time, 0 if not timed")
        missing += milliseconds == 0.0
        if milliseconds > 0.0:
            times[tokens, inner, columns].append(milliseconds * 1e-3)
    return missing


def _whole(row: Mapping[str, str], name: str) -> int:
    number = _number(row, name)
    if not number.is_integer() or number < 1:
        raise ValueError(f"{name} = {row[name]!r} is no whole number above zero")
    return int(number)


def _number(row: Mapping[str, str], name: str) -> float:
    """A cell as a number, 0 where it is empty.

    Raises
    ------
    ValueError : it is none
    """
    text = row[name]
    if text and not NUMBER.fullmatch(text):
        raise ValueError(f"{name} = {text[:40]!r} is no number")
    return float(text or 0.0)
