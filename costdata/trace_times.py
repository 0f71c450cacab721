"""Times of a trace, written in whatever way, as seconds from its first request.

ISO text, or numbers: epoch seconds, milli-, micro- or nanoseconds, told by their size, or relative
in the unit of the format. Times that do not share an origin are refused, never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from costdata.trace_text import RowFaults
from simkernel.columns import Codes, Floats, Masks

UNITS_PER_S = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}

EPOCH_FROM_S = 978_307_200.0  # 2001-01-01: no public request trace is older
EPOCH_TO_S = 4_102_444_800.0  # 2100-01-01: the bands of s, ms, us and ns do not overlap
LONGEST_SPAN_S = 400 * 86_400.0  # our choice: the longest public trace, BurstGPT, has 213 days
MOST_SHOWN = 5  # our choice: lines named where two origins meet

ISO_AT_THE_DOOR = re.compile(r"\s*\d{4}-\d\d-\d\d")
_ISO = re.compile(
    r"((?:19[7-9]\d|20\d\d|21\d\d)-\d\d-\d\d(?:[ T]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?)?)\d*"
    r"\s*(Z|UTC|[+-]\d\d:?\d\d)?"
)
_PLAIN = re.compile(r"[-0-9:. T\n]*")  # no zone, no word such as "now", which NumPy would take
_NS_PER_MINUTE = 60_000_000_000


@dataclass(frozen=True)
class Times:
    """Times of some rows as read.

    Parameters
    ----------
    values : (n,) nanoseconds since 1970 of ISO text (whole numbers), else the numbers given
    kind_codes : (n,) index into KINDS
    lines : (n,) line of each
    """

    values: Floats
    kind_codes: Codes
    lines: Codes


KINDS = ("a number", "a date without a zone", "a date with a zone")
NUMBER, NAIVE, ZONED = range(3)


def read_times(cells: Sequence[Any], lines: Codes, name: str, faults: RowFaults) -> Times:
    """The times of one block of rows; a cell that is no time is a fault and counts as 0.

    Parameters
    ----------
    cells : text, or numbers of JSON
    lines : (n,) line of each
    name : the column
    """
    if all(type(cell) is str and ISO_AT_THE_DOOR.match(cell) for cell in cells[:1]):
        found = _all_iso(cells)
        if found is not None:
            return Times(found[0], np.full(len(cells), found[1]), lines)
    numbers = plain_numbers(cells)
    if numbers is not None and (numbers >= 0).all():
        return Times(numbers, np.full(len(cells), NUMBER), lines)
    return _one_by_one(cells, lines, name, faults)


def plain_numbers(cells: Sequence[Any]) -> Floats | None:
    """All cells as finite numbers, or None if one of them is anything else."""
    kinds = set(map(type, cells))
    if not kinds <= {int, float, str}:
        return None
    if str in kinds and "_" in "".join([cell for cell in cells if type(cell) is str]):
        return None
    try:
        found = np.array(list(map(float, cells)))
    except (ValueError, OverflowError):
        return None
    return found if np.isfinite(found).all() else None


def seconds_from_first(
    times: Times, unit: str, is_unit_given: bool, faults: RowFaults
) -> tuple[Floats, str]:
    """Times as seconds from the earliest one, and in words how they were read.

    Parameters
    ----------
    times : of all rows, at least one
    unit : what the format says its numbers are: s, ms, us or ns; iso where it says dates
    is_unit_given : the user said the unit, which then holds whatever the numbers look like

    Raises
    ------
    BadFile : times of several origins, a unit that cannot be told, an impossible span
    """
    _refuse_several(times.kind_codes, KINDS, times.lines, faults)
    faults.raise_if_any()
    if times.kind_codes[0] != NUMBER:
        first = np.datetime64(int(times.values.min()), "ns")
        arrival_s, words = (times.values - times.values.min()) / 1e9, f"dates; {first} is 0 s"
    else:
        found, is_epoch = _unit_of(times, unit, is_unit_given, faults)
        arrival_s = (times.values - times.values.min()) / UNITS_PER_S[found]
        origin = "since 1970" if is_epoch else "of their own origin"
        words = f"{found} {origin}; {times.values.min():.16g} is 0 s"
    _refuse_span(float(arrival_s.max()), words, int(times.lines[arrival_s.argmax()]), faults)
    faults.raise_if_any()
    return arrival_s, words


def _unit_of(times: Times, unit: str, is_unit_given: bool, faults: RowFaults) -> tuple[str, bool]:
    """The unit of the numbers, and whether they count from 1970."""
    documented = "s" if unit == "iso" else unit
    if is_unit_given:
        return unit, bool(_is_epoch(times.values, unit).all())
    units = [u for u in UNITS_PER_S if UNITS_PER_S[u] >= UNITS_PER_S[documented]]
    names = ("relative", *(f"in {u} since 1970" for u in units))
    codes = np.zeros(len(times.values), dtype=np.int64)
    for code, name in enumerate(units, start=1):
        codes = np.where(_is_epoch(times.values, name), code, codes)
    _refuse_several(codes, names, times.lines, faults)
    if documented == "ms" and _is_epoch(times.values, "s").all():
        faults.add(
            int(times.lines[0]),
            f"{times.values[0]:.16g} may be seconds since 1970, or milliseconds of a trace that "
            'starts on its 12th day; say which with time_unit = "s" or "ms"',
        )
    faults.raise_if_any()
    return (documented, False) if codes[0] == 0 else (units[int(codes[0]) - 1], True)


def _is_epoch(values: Floats, unit: str) -> Masks:
    scale = UNITS_PER_S[unit]
    return (values >= EPOCH_FROM_S * scale) & (values < EPOCH_TO_S * scale)


def _refuse_several(codes: Codes, names: Sequence[str], lines: Codes, faults: RowFaults) -> None:
    """Note where times are not of the kind that most of them are."""
    counts = np.bincount(codes, minlength=len(names))
    main = int(counts.argmax())
    for code in np.flatnonzero(counts).tolist():
        if code != main:
            where = lines[codes == code]
            shown = ", ".join(str(line) for line in where[:MOST_SHOWN])
            more = f" and {len(where) - MOST_SHOWN} more" if len(where) > MOST_SHOWN else ""
            faults.add(
                int(where[0]),
                f"the time is {names[code]} (lines {shown}{more}), in {counts[main]} rows it is "
                f"{names[main]}; give all times one origin and unit",
            )


def _refuse_span(span_s: float, words: str, line: int, faults: RowFaults) -> None:
    if span_s > LONGEST_SPAN_S:
        faults.add(
            line,
            f"read as {words}, the trace lasts {span_s / 86_400:,.0f} days up to here, more than "
            f'{LONGEST_SPAN_S / 86_400:.0f}; say the unit, e.g. time_unit = "ms", or mend the row',
        )


def _all_iso(cells: Sequence[Any]) -> tuple[Codes, int] | None:
    """Nanoseconds since 1970 of dates that are all written alike, or None."""
    if set(map(type, cells)) != {str}:
        return None
    zone = _zone(cells[0])
    if zone and not all(cell.endswith(zone) for cell in cells):
        return None
    bare = [cell[: -len(zone)] for cell in cells] if zone else cells
    together = "\n".join(bare)
    is_plain = _PLAIN.fullmatch(together) and together.count("-") == 2 * len(bare)
    if not is_plain or not all(9 < len(cell) < 30 and "1970" <= cell < "22" for cell in bare):
        return None
    try:
        found = np.array(bare, dtype="M8[ns]")
    except ValueError:
        return None
    return found.astype(np.int64) - _offset_ns(zone), ZONED if zone else NAIVE


def _zone(cell: str) -> str:
    match = _ISO.fullmatch(cell)
    return (match.group(2) or "") if match else ""


def _offset_ns(zone: str) -> int:
    """How far clocks of a zone are ahead of UTC."""
    if zone in ("", "Z", "UTC"):
        return 0
    digits = zone[1:].replace(":", "")
    minutes = int(digits[:2]) * 60 + int(digits[2:])
    return minutes * _NS_PER_MINUTE * (-1 if zone[0] == "-" else 1)


def _one_by_one(cells: Sequence[Any], lines: Codes, name: str, faults: RowFaults) -> Times:
    values: list[Any] = []
    kinds: list[int] = []
    for cell, line in zip(cells, lines, strict=True):
        value, kind = _one(cell)
        if value is None:
            wanted = "wanted a number of at least 0, or a date such as 2023-11-16 18:15:46.68"
            faults.add(int(line), f"{name} = {str(cell)[:40]!r} is no time; {wanted}")
        values.append(0 if value is None else value)
        kinds.append(kind)
    is_whole = all(kind != NUMBER for kind in kinds)
    return Times(np.array(values, dtype=np.int64 if is_whole else float), np.array(kinds), lines)


def _one(cell: Any) -> tuple[int | float | None, int]:
    """Value and kind of one cell; None where it is no time."""
    match = _ISO.fullmatch(cell.strip()) if isinstance(cell, str) else None
    if match:
        try:
            stamp = int(np.datetime64(match.group(1).replace(" ", "T"), "ns").astype(np.int64))
        except ValueError:
            return None, NAIVE
        zone = match.group(2) or ""
        return stamp - _offset_ns(zone), ZONED if zone else NAIVE
    number = plain_numbers([cell])
    return (float(number[0]) if number is not None and number[0] >= 0 else None), NUMBER
