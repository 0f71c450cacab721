"""Columns on their way into the archive and back: finite numbers or NULL with a reason, never NaN.

A ledger travels as columns `name[unit].term`, one per term, so its parts can be asked for in SQL
and the total can be put together again.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from simkernel.errors import PlanError
from simkernel.ledger import Ledger

Array = npt.NDArray[Any]
Columns = Mapping[str, Array]

OK = "ok"
"""Status of a row that has all its numbers."""

_TYPES = {"f": "DOUBLE", "i": "BIGINT", "u": "UBIGINT", "b": "BOOLEAN"}
_ARROW = {
    "DOUBLE": pa.float64(),
    "BIGINT": pa.int64(),
    "UBIGINT": pa.uint64(),
    "BOOLEAN": pa.bool_(),
    "VARCHAR": pa.large_string(),
}
_LEDGER = re.compile(r"(?P<name>[^\[]+)\[(?P<unit>[^\]]*)\]\.(?P<term>.+)")


def table_of(run: str, columns: Columns) -> tuple[pa.Table, dict[str, str]]:
    """A batch as DuckDB takes it, with the type of every column.

    Parameters
    ----------
    run : the run all rows belong to
    columns : name to (n,) numbers or words, or one value for all rows; "plan" must be there. A
        masked, NaN or infinite entry becomes NULL and its column is named in "status"

    Raises
    ------
    PlanError : no plan column, columns of different lengths, two names that differ in case only
    """
    rows = _equal_rows(columns)
    gaps = {name: _gaps(values) for name, values in rows.items()}
    rows["status"] = _status(rows.pop("status", None), gaps, len(rows["plan"]))
    rows["plan"] = rows["plan"].astype(str)
    types = {name: _TYPES.get(values.dtype.kind, "VARCHAR") for name, values in rows.items()}
    arrays = {name: _arrow(values, gaps.get(name), types[name]) for name, values in rows.items()}
    arrays["run"] = _arrow(np.full(len(rows["plan"]), run), None, "VARCHAR")
    return pa.table(arrays), types


def columns_of(found: Mapping[str, Array], types: Mapping[str, str]) -> dict[str, Array]:
    """What DuckDB gave back, in the order written and in the run's own types.

    Parameters
    ----------
    found : the columns of `types` and "rowid"; rows in any order, NULLs masked
    types : column name to the DuckDB type its run wrote

    Returns
    -------
    column name to (n,) values; a column with NULLs is a masked array
    """
    order = np.argsort(found["rowid"], kind="stable")
    return {name: _typed(found[name], kind)[order] for name, kind in types.items()}


def ledger_columns(ledgers: Iterable[Ledger]) -> dict[str, Array]:
    """Every term of every ledger as a column `name[unit].term`."""
    return {
        f"{ledger.name}[{ledger.unit}].{term}": np.asarray(value)
        for ledger in ledgers
        for term, value in ledger.terms.items()
    }


def ledgers_of(columns: Columns) -> dict[str, Ledger]:
    """The ledgers put together again from their columns, by name; other columns do not matter."""
    parts: dict[tuple[str, str], dict[str, Array]] = {}
    for name, values in columns.items():
        match = _LEDGER.fullmatch(name)
        if match:
            parts.setdefault((match["name"], match["unit"]), {})[match["term"]] = values
    return {name: Ledger(name, unit, terms) for (name, unit), terms in parts.items()}


def design_keys(axes: Columns) -> npt.NDArray[np.uint64]:
    """One number per candidate that stands for its choices in any study, on any machine.

    Parameters
    ----------
    axes : axis name to (n,) values as a person reads them (names, not codes)

    Returns
    -------
    (n,) keys; the order of the axes does not matter

    Notes
    -----
    Two of 1,000,000 designs share a key with a probability of 3e-8 (n^2 / 2^65).

    References
    ----------
    Zobrist, Univ. of Wisconsin TR 88, 1970: exclusive-or of one random word per choice.
    """
    count = max((len(values) for values in axes.values()), default=0)
    keys = np.zeros(count, dtype=np.uint64)
    for name, values in axes.items():
        levels, codes = np.unique(values, return_inverse=True)
        words = [_word(f"{name}={_level(level)}") for level in levels.tolist()]
        keys ^= np.array(words, dtype=np.uint64)[codes.reshape(-1)]
    return keys


def _level(level: object) -> object:
    """8 and 8.0 are one choice; a name stays a name."""
    return float(level) if isinstance(level, int | float) else level


def _word(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def _equal_rows(columns: Columns) -> dict[str, Array]:
    """All columns at one length, or every fault at once."""
    if "plan" not in columns:
        raise PlanError(f"rows for the archive need a column plan; given: {', '.join(columns)}")
    count = int(np.size(columns["plan"]))
    faults = [
        f"column {name} has the shape {np.shape(values)}, {count} rows are wanted"
        for name, values in columns.items()
        if np.ndim(values) > 0 and np.shape(values) != (count,)
    ]
    if len({name.lower() for name in columns}) < len(columns):
        faults.append("two columns differ only in upper and lower case: DuckDB sees one name")
    if faults:
        raise PlanError(*faults)
    return {name: _stretched(values, count) for name, values in columns.items()}


def _stretched(values: Array, count: int) -> Array:
    """One value for all rows, written out; a column stays as it is."""
    array = np.asanyarray(values)
    return np.full(count, array) if array.ndim == 0 else array


def _gaps(values: Array) -> npt.NDArray[np.bool_] | None:
    """Where there is no number to keep, or None when all are there."""
    gaps = np.ma.getmaskarray(values)
    if values.dtype.kind == "f":
        gaps = gaps | ~np.isfinite(np.ma.getdata(values))
    elif values.dtype.kind == "O":
        gaps = gaps | np.array([value is None for value in np.ma.getdata(values)], dtype=np.bool_)
    return gaps if gaps.any() else None


def _status(
    given: Array | None, gaps: Mapping[str, npt.NDArray[np.bool_] | None], count: int
) -> Array:
    """What each row lacks, after what its maker says about it."""
    status = (
        np.full(count, "", dtype=object) if given is None else given.astype(str).astype(object)
    )
    status[status == OK] = ""
    for name, gap in gaps.items():
        if gap is not None and name != "status":
            status[gap] = [
                f"{said}, {name}" if said else f"no value: {name}" for said in status[gap]
            ]
    status[status == ""] = OK
    return status


def _arrow(values: Array, gaps: npt.NDArray[np.bool_] | None, kind: str) -> pa.Array:
    """One column as Arrow, NULL where the gaps are.

    Put together from its buffers: `pa.array` would load pandas, a fifth of a small run.
    """
    data = np.ma.getdata(values)
    if kind == "VARCHAR":
        buffers = _text_buffers([str(value) for value in data])
    elif kind == "BOOLEAN":
        buffers = [_bits(data)]
    else:
        buffers = [pa.py_buffer(np.ascontiguousarray(data, _ARROW[kind].to_pandas_dtype()))]
    present = None if gaps is None else _bits(~gaps)
    return pa.Array.from_buffers(_ARROW[kind], len(data), [present, *buffers])


def _text_buffers(words: list[str]) -> list[pa.Buffer]:
    """Where each word begins and ends, and all words in UTF-8, as Arrow lays out text."""
    coded = [word.encode() for word in words]
    ends = np.cumsum([0, *map(len, coded)], dtype=np.int64)
    return [pa.py_buffer(ends), pa.py_buffer(b"".join(coded))]


def _bits(flags: npt.NDArray[np.bool_]) -> pa.Buffer:
    """One bit per row, the first row lowest, as Arrow lays out truth."""
    return pa.py_buffer(np.packbits(flags, bitorder="little"))


def _typed(values: Array, kind: str) -> Array:
    """One column in the type its run wrote, even when the table has since widened."""
    wanted = str if kind == "VARCHAR" else _ARROW[kind].to_pandas_dtype()
    typed = np.ma.getdata(values).astype(wanted)
    is_gap = np.ma.getmaskarray(values)
    return np.ma.masked_array(typed, is_gap) if is_gap.any() else typed
