"""Request traces: any of the public formats, told by its header, as arrivals and token counts.

What is shipped is listed in `tables/traces.csv`, what can be read in `tables/trace_formats.csv`.
Rows that are wrong are told all at once; requests that no engine can answer (no prompt, no output:
BurstGPT writes failed ones so) are left out and counted. It does not know what answers a request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from costdata.facts import TABLES, Row
from costdata.overlay import read_ours
from costdata.trace_text import Block, RowFaults, blocks_of, header_of, text_of
from costdata.trace_times import Times, plain_numbers, read_times, seconds_from_first
from simkernel.columns import Codes, Floats
from simkernel.errors import BadFile, unknown
from simkernel.workload import Prefixes, RequestStream, recorded_span_s

MOST_TOKENS = 100_000_000  # our choice: ten times the longest context offered; more is a slip
NO_SESSION = ("", "None")
"""Cells that name no session: blank ones, and what a line does not have."""

NO_PROMPT = "no prompt tokens"
NO_OUTPUT = "no output tokens"


@dataclass(frozen=True)
class TraceFormat:
    """How a public trace names its columns.

    Parameters
    ----------
    unit : of its times as published: iso, s, ms, us or ns
    session, priority, hashes : "" where it has no such column
    block_tokens : tokens of one hashed block, 0 without hashes
    also, excludes : columns it also has; columns that it must not have
    """

    name: str
    time: str
    unit: str
    prompt: str
    output: str
    session: str
    priority: str
    hashes: str
    block_tokens: int
    also: tuple[str, ...]
    excludes: tuple[str, ...]
    excludes_why: str

    @property
    def needed(self) -> tuple[str, ...]:
        """Columns without which it is another format."""
        return (self.time, self.prompt, self.output, *self.also)


@dataclass(frozen=True)
class Trace:
    """The requests of a trace, and how it was read.

    Parameters
    ----------
    format : name of the format
    times : in words, what its times were taken for
    left_out : reason to the number of requests that no engine can answer
    is_shuffled : rows were not in the order of their times
    """

    requests: RequestStream
    format: str
    times: str
    left_out: Mapping[str, int]
    is_shuffled: bool


@cache
def trace_formats() -> tuple[TraceFormat, ...]:
    """Every format that can be read, in the order of the table."""
    return tuple(_format(row) for row in read_ours()["trace_formats"].values())


def trace_names() -> tuple[str, ...]:
    """Traces that ship."""
    return tuple(row.name for row in read_ours()["traces"].values())


def trace_name(name: str) -> str:
    """The name of a trace that ships, as given.

    Raises
    ------
    UnknownName : no such trace
    """
    if name not in trace_names():
        raise unknown("trace", name, trace_names())
    return name


def catalogue_trace(name: str) -> Trace:
    """A trace that ships.

    Raises
    ------
    UnknownName : no such trace
    """
    return read_trace(TABLES / "traces" / f"{trace_name(name)}.csv.xz")


def read_trace(path: Path, time_unit: str = "") -> Trace:
    """The requests of a file: CSV or one JSON object a line, plain, gzip or xz.

    Parameters
    ----------
    path : the file
    time_unit : s, ms, us or ns where its times are numbers whose unit cannot be told; "" else

    Raises
    ------
    BadFile : everything that is wrong with it, each with its line
    """
    text = text_of(path)
    header = header_of(text)
    form = _format_of(header, path.name)
    spelt = {_plain(name): name for name in header}
    names = {role: spelt[_plain(name)] for role, name in _roles(form) if _plain(name) in spelt}
    faults = RowFaults(path.name)
    parts = [
        _part(block, names, form, faults)
        for block in blocks_of(text, list(names.values()), faults)
    ]
    faults.raise_if_any()
    whole = _joined([part for part in parts if len(part.prompt)])
    if whole is None:
        raise BadFile(f"{path.name} has a header and no request; give at least one row")
    return _trace(whole, form, time_unit, faults)


def write_trace(stream: RequestStream, path: Path) -> Path:
    """Write a stream that begins at 0 as a file that reads back the same, to the last bit.

    Parameters
    ----------
    stream : an open stream
    path : of the CSV file, without compression

    Raises
    ------
    BadFile : the file cannot be written, or could not hold the whole stream
    """
    own = trace_formats()[0]
    blocks = stream.prefixes.block_tokens if stream.prefixes else own.block_tokens
    if stream.concurrency or blocks != own.block_tokens:
        raise BadFile(
            f"{path} cannot be written: a trace holds an open stream with prefix blocks of "
            f"{own.block_tokens} tokens; give such a stream"
        )
    columns = {name: cells for name, cells in _columns(stream, own).items() if cells}
    rows = zip(*columns.values(), strict=True)
    text = "\n".join([",".join(columns), *map(",".join, rows), ""])
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise BadFile(f"{path} cannot be written: {error.strerror}; give another path") from error
    return path


@dataclass(frozen=True)
class _Part:
    """Columns of some rows; `hashes` flat with `hash_counts` of each row, empty without."""

    times: Times
    prompt: Floats
    output: Floats
    sessions: tuple[str, ...]
    priorities: Floats
    hashes: Codes
    hash_counts: Codes


def _columns(stream: RequestStream, own: TraceFormat) -> dict[str, list[str]]:
    """Cells of our own format by column, none where the stream knows nothing."""
    sessions, priorities = stream.session_codes, stream.priorities
    hashes: list[str] = []
    if stream.prefixes is not None:
        ends = stream.prefixes.starts.tolist()
        every = [str(item) for item in stream.prefixes.hashes.tolist()]
        hashes = [" ".join(every[a:b]) for a, b in zip(ends, ends[1:], strict=False)]
    return {
        own.time: [repr(float(time)) for time in stream.arrival_s],
        own.prompt: [str(tokens) for tokens in stream.prompt_tokens.tolist()],
        own.output: [str(tokens) for tokens in stream.output_tokens.tolist()],
        own.session: [] if sessions is None else [str(code) for code in sessions.tolist()],
        own.priority: [] if priorities is None else [repr(float(p)) for p in priorities],
        own.hashes: hashes,
    }


def _format(row: Row) -> TraceFormat:
    return TraceFormat(
        name=row.name,
        time=row.text("time"),
        unit=row.text("time_unit"),
        prompt=row.text("prompt"),
        output=row.text("output"),
        session=row.text("session"),
        priority=row.text("priority"),
        hashes=row.text("hashes"),
        block_tokens=int(row.number("block_tokens") or 0),
        also=_names(row, "also"),
        excludes=_names(row, "excludes"),
        excludes_why=row.text("excludes_why"),
    )


def _names(row: Row, column: str) -> tuple[str, ...]:
    found = row.values.get(column, ())
    return tuple(str(name) for name in found) if isinstance(found, tuple) else ()


def _plain(name: str) -> str:
    """A column's name without case, and with spaces and dashes as underscores."""
    return name.strip().casefold().replace(" ", "_").replace("-", "_")


def _roles(form: TraceFormat) -> list[tuple[str, str]]:
    roles = ("time", "prompt", "output", "session", "priority", "hashes")
    return [(role, getattr(form, role)) for role in roles if getattr(form, role)]


def _format_of(header: Sequence[str], label: str) -> TraceFormat:
    """The format that a header tells.

    Raises
    ------
    BadFile : none does, a column is there twice, or the file is something else
    """
    there = [_plain(name) for name in header]
    twice = sorted({name for name in there if there.count(name) > 1})
    if twice:
        raise BadFile(f"{label} line 1: column {', '.join(twice)} is there twice; keep one")
    for form in trace_formats():
        strange = [name for name in form.excludes if _plain(name) in there]
        if strange and {_plain(name) for name in (form.time,)} <= set(there):
            raise BadFile(f"{label} has {strange[0]}: {form.excludes_why}; give such a list")
    found = [f for f in trace_formats() if {_plain(name) for name in f.needed} <= set(there)]
    if len(found) == 1:
        return found[0]
    known = "; ".join(f"{f.name}: {', '.join(f.needed)}" for f in found or trace_formats())
    what = "fits several formats" if found else "is the header of no known trace"
    raise BadFile(f"{label} line 1: {', '.join(header)[:200]!r} {what}; wanted one of: {known}")


def _part(block: Block, names: Mapping[str, str], form: TraceFormat, faults: RowFaults) -> _Part:
    lines = np.asarray(block.lines, dtype=np.int64)
    cells = {role: block.cells[name] for role, name in names.items()}
    hashes, counts = _hashes(cells.get("hashes", ()), lines, faults)
    priorities = cells.get("priority", ())
    return _Part(
        times=read_times(cells["time"], lines, names["time"], faults),
        prompt=_tokens(cells["prompt"], lines, names["prompt"], faults),
        output=_tokens(cells["output"], lines, names["output"], faults),
        sessions=tuple(str(cell) for cell in cells.get("session", ())),
        priorities=_checked(priorities, lines, names.get("priority", ""), "a number", faults),
        hashes=hashes,
        hash_counts=counts,
    )


def _tokens(cells: Sequence[Any], lines: Codes, name: str, faults: RowFaults) -> Floats:
    """Token counts; a cell that is none is a fault and counts as 0."""
    wanted = f"a whole number from 0 to {MOST_TOKENS:,}"
    found = _checked(cells, lines, name, wanted, faults)
    is_wrong = (found < 0) | (found > MOST_TOKENS) | (found != np.floor(found))
    for row in np.flatnonzero(is_wrong).tolist():
        faults.add(int(lines[row]), _no_count(name, cells[row], wanted))
    return np.where(is_wrong, 0.0, found)


def _checked(
    cells: Sequence[Any], lines: Codes, name: str, wanted: str, faults: RowFaults
) -> Floats:
    """Finite numbers; a cell that is none is a fault and counts as 0."""
    found = plain_numbers(cells)
    if found is not None:
        return found
    values = np.zeros(len(cells))
    for row, (cell, line) in enumerate(zip(cells, lines, strict=True)):
        number = plain_numbers([cell])
        if number is None:
            faults.add(int(line), _no_count(name, cell, wanted))
        else:
            values[row] = number[0]
    return values


def _no_count(name: str, cell: Any, wanted: str) -> str:
    given = "nothing" if cell is None else repr(str(cell)[:40])
    return f"{name} = {given} is not {wanted}; mend or remove the row"


def _hashes(cells: Sequence[Any], lines: Codes, faults: RowFaults) -> tuple[Codes, Codes]:
    """Hashes of all rows one after another, and how many each row has."""
    rows: Sequence[Any] = cells
    if not _are_lists(cells):
        rows = [_hash_list(cell) for cell in cells]
        for row, line in zip(rows, lines, strict=False):
            if row is None:
                faults.add(int(line), "its prefix hashes are no whole numbers; mend the row")
        rows = [row or [] for row in rows]
    counts = np.array([len(row) for row in rows], dtype=np.int64)
    return np.fromiter(chain.from_iterable(rows), np.int64, count=int(counts.sum())), counts


def _are_lists(cells: Sequence[Any]) -> bool:
    """All cells are lists of whole numbers that fit 64 bits."""
    if not set(map(type, cells)) <= {list}:
        return False
    flat = list(chain.from_iterable(cells))
    return set(map(type, flat)) <= {int} and max(map(abs, flat), default=0) < 2**62


def _hash_list(cell: Any) -> list[int] | None:
    if isinstance(cell, str):
        try:
            cell = [int(word) for word in cell.split()]
        except ValueError:
            return None
    is_list = isinstance(cell, list) and set(map(type, cell)) <= {int}
    return cell if is_list and all(abs(item) < 2**62 for item in cell) else None


def _joined(parts: Sequence[_Part]) -> _Part | None:
    """One part of many; None where there is no row."""
    if not parts:
        return None
    times = Times(
        _together([part.times.values for part in parts]),
        _together([part.times.kind_codes for part in parts]),
        _together([part.times.lines for part in parts]),
    )
    return _Part(
        times=times,
        prompt=_together([part.prompt for part in parts]),
        output=_together([part.output for part in parts]),
        sessions=tuple(name for part in parts for name in part.sessions),
        priorities=_together([part.priorities for part in parts]),
        hashes=_together([part.hashes for part in parts]),
        hash_counts=_together([part.hash_counts for part in parts]),
    )


def _together(arrays: Sequence[Any]) -> Any:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _trace(whole: _Part, form: TraceFormat, time_unit: str, faults: RowFaults) -> Trace:
    arrival_s, words = seconds_from_first(
        whole.times, time_unit or form.unit, bool(time_unit), faults
    )
    order = np.argsort(arrival_s, kind="stable")
    left_out = {
        NO_PROMPT: int((whole.prompt == 0).sum()),
        NO_OUTPUT: int(((whole.output == 0) & (whole.prompt > 0)).sum()),
    }
    kept = order[((whole.prompt > 0) & (whole.output > 0))[order]]
    if not len(kept):
        raise BadFile(f"{faults.label}: no request has a prompt and an output; give another trace")
    return Trace(
        requests=_requests(whole, form, arrival_s, kept),
        format=form.name,
        times=words,
        left_out={reason: count for reason, count in left_out.items() if count},
        is_shuffled=bool((np.diff(order) != 1).any()),
    )


def _requests(whole: _Part, form: TraceFormat, arrival_s: Floats, kept: Codes) -> RequestStream:
    names = dict.fromkeys(name for name in whole.sessions if name not in NO_SESSION)
    codes = {name: code for code, name in enumerate(names)}
    alone = iter(range(len(names), len(names) + len(whole.sessions)))  # nobody's: one each
    starts = np.concatenate([[0], np.cumsum(whole.hash_counts)])
    every = RequestStream(
        arrival_s=arrival_s,
        prompt_tokens=whole.prompt.astype(np.int64),
        output_tokens=whole.output.astype(np.int64),
        span_s=0.0,
        prefixes=Prefixes(whole.hashes, starts, form.block_tokens) if len(starts) > 1 else None,
        session_codes=np.array([codes[n] if n in codes else next(alone) for n in whole.sessions])
        if names
        else None,
        priorities=whole.priorities if len(whole.priorities) else None,
    )
    times = arrival_s[kept] - arrival_s[kept[0]]
    return every.take(kept, times, recorded_span_s(times))
