"""Two imports side by side: what both speak of, and how far the second is from the first."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from costdata.facts import Row, parse_table, read_cells, schema_names
from costdata.overlay import IMPORTS, import_folders
from simkernel.errors import BadFile, unknown

OPERATOR_KEYS = {
    "product_times": ("accelerator", "precision", "timed"),
    "part_times": ("accelerator", "part"),
    "collective_times": ("accelerator", "operation", "inside", "domains"),
    "efficiency_gemm": ("accelerator", "precision"),
    "links": ("accelerator", "tier", "operation"),
    "power_curves": ("accelerator",),
    "cloud_prices": ("accelerator", "plan"),
}
"""Columns that name an operator; what else is in a row's key is its size."""

ERRORS = ("median_error_frac", "p90_error_frac", "spread_frac", "timings")


def compare(folder: Path, one: str, other: str) -> dict[str, Any]:
    """Ratios of all numbers that two imports both give, by operator and column.

    Parameters
    ----------
    one, other : names in the folder, or paths of imports in other ones: those that speak of the
        same things cannot lie in one

    Raises
    ------
    UnknownName : no import of a name
    BadFile : a table of one that cannot be read

    Returns
    -------
    `moved`, the farthest first, and `alone`: operators that only one has, by its name
    """
    tables = {name: _tables(folder, name) for name in (one, other)}
    ratios: dict[tuple[str, str], list[float]] = defaultdict(list)
    for key, row in tables[one].items():
        after = tables[other].get(key)
        for column in row.values if after is not None else ():
            was, is_now = row.number(column), after.number(column) if after else None
            is_size = row.schema[column].is_key or column in ERRORS
            if was and is_now and not is_size:
                ratios[_operator(row), column].append(is_now / was)
    moved = [
        {
            "operator": operator,
            "column": column,
            "rows": len(found),
            "ratio_median": float(np.median(found)),
            "ratio_least": min(found),
            "ratio_most": max(found),
        }
        for (operator, column), found in ratios.items()
    ]
    names = {name: {_operator(row) for row in rows.values()} for name, rows in tables.items()}
    return {
        "moved": sorted(moved, key=lambda m: -abs(np.log(float(str(m["ratio_median"]))))),
        "alone": {
            one: sorted(names[one] - names[other]),
            other: sorted(names[other] - names[one]),
        },
    }


def _tables(folder: Path, name: str) -> dict[tuple[str, ...], Row]:
    """Rows of an import but its own record, by table and key."""
    known = [path.name for path in import_folders(folder)]
    place = folder / IMPORTS / name if name in known else Path(name)
    if not (place / f"{IMPORTS}.csv").is_file():
        raise unknown("import", name, known)
    found: dict[tuple[str, ...], Row] = {}
    faults: list[str] = []
    for path in sorted(place.glob("*.csv")):
        if path.stem in schema_names() and path.stem != IMPORTS:
            rows, wrong = parse_table(path.stem, read_cells(path)[1], {}, is_user=True)
            found |= {(path.stem, *key): row for key, row in rows.items()}
            faults += wrong
    if faults:
        raise BadFile(*faults)
    return found


def _operator(row: Row) -> str:
    return " ".join((row.table, *(row.text(name) for name in OPERATOR_KEYS.get(row.table, ()))))
