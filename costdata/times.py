"""What a user timed on chips, joined with the curves of those chips.

product_times.csv, collective_times.csv and part_times.csv of the user's own tables. We ship no
such rows: our own timings are inside the curves that were fitted to them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, replace
from typing import TypeVar

import numpy as np

from costdata.chips import chips_of, curve_faults
from costdata.facts import Row, Table, Tables
from simkernel.errors import MissingFact
from simkernel.hardware import OPERATIONS, PRECISIONS, Chips, Columns
from simkernel.timed_over_curves import (
    MessageTimes,
    ProductTimes,
    message_curve_s,
    product_curve_s,
    timed_of,
)
from simkernel.timed_parts import PARTS, PartTimes, least_part_s, part_lines

PRODUCTS, COLLECTIVES, PARTS_OF_STEPS = "product_times", "collective_times", "part_times"
TABLES = (PRODUCTS, COLLECTIVES, PARTS_OF_STEPS)
IN_STEP = "in_step"

FASTER_FRAC = 0.02
"""By how much a time may lie below the peak or the wire: clocks and rates are rounded."""

C = TypeVar("C", bound=Columns)


def timed_chips(tables: Tables, rows: Sequence[Row]) -> Chips:
    """Chips that take the times of a user's own tables before their curves.

    Raises
    ------
    MissingFact : curves that are not there, or nothing was timed on any of the chips
    """
    chips = chips_of(tables, rows)
    names = [row.name for row in rows]
    products = product_times(tables.get(PRODUCTS, {}).values(), names)
    messages = message_times(tables.get(COLLECTIVES, {}).values(), names)
    parts = part_times(tables.get(PARTS_OF_STEPS, {}).values(), names)
    if not len(products) and not len(messages) and not len(parts):
        raise MissingFact(
            f"nothing was timed on {', '.join(names)} in the tables of the study; import what "
            "was (planner import) and name the folder under study.tables, or take "
            'compute = "roofline"'
        )
    timed = timed_of(chips, products, messages)
    return replace(chips, timed=replace(timed, parts=part_lines(chips, parts)))


def product_times(rows: Iterable[Row], names: Sequence[str]) -> ProductTimes:
    """Rows of product_times.csv as columns; those of other chips are left out."""
    found = [
        (
            names.index(row.text("accelerator")),
            PRECISIONS.index(row.text("precision")),
            *(row.need(name) for name in ("rows", "inner", "columns")),
            float(row.text("timed") == IN_STEP),
            row.need("seconds"),
        )
        for row in rows
        if row.text("accelerator") in names
    ]
    return _columns(ProductTimes, found)


def message_times(rows: Iterable[Row], names: Sequence[str]) -> MessageTimes:
    """Rows of collective_times.csv as columns; those of other chips are left out."""
    found = [
        (
            names.index(row.text("accelerator")),
            OPERATIONS.index(row.text("operation")),
            *(row.need(name) for name in ("inside", "domains", "payload_bytes", "seconds")),
        )
        for row in rows
        if row.text("accelerator") in names
    ]
    return _columns(MessageTimes, found)


def part_times(rows: Iterable[Row], names: Sequence[str]) -> PartTimes:
    """Rows of part_times.csv as columns; those of other chips are left out."""
    measured = ("tokens_per_sequence", "passes", "flop", "moved_bytes", "seconds")
    found = [
        (
            names.index(row.text("accelerator")),
            PARTS.index(row.text("part")),
            *(row.need(name) for name in measured),
        )
        for row in rows
        if row.text("accelerator") in names
    ]
    return _columns(PartTimes, found)


def imports_told(tables: Tables) -> str:
    """On which imports, by name and digest, and on how many times kernels stand, in words."""
    counts = {table: len(tables.get(table, {})) for table in TABLES}
    names = [
        f"{row.name} ({row.text('kind')}, {row.text('imported_on')}, {row.text('digest')[:12]})"
        for row in tables.get("imports", {}).values()
    ]
    return (
        f"products, collectives and parts of steps by {counts[PRODUCTS]:,}, "
        f"{counts[COLLECTIVES]:,} and {counts[PARTS_OF_STEPS]:,} times of "
        f"your own: {', '.join(names) or 'rows of your own tables'}; everything else by curves"
    )


def too_fast(tables: Tables, whole: Tables) -> Iterator[str]:
    """A product or a part of a step faster than the dense peak, a collective than the wires."""
    for table in TABLES:
        rows = tables.get(table, {})
        names = sorted({row.text("accelerator") for row in rows.values()})
        known = [whole["accelerators"].get((name,)) for name in names]
        chips = [row for row in known if row is not None]
        if rows and len(chips) == len(names) and not curve_faults(whole, chips):
            yield from _too_fast(table, rows, chips_of(whole, chips), names)


def _too_fast(table: str, rows: Table, chips: Chips, names: Sequence[str]) -> Iterator[str]:
    if table == PRODUCTS:
        products = product_times(rows.values(), names)
        seconds, (_, least_s) = products.seconds, product_curve_s(chips, products)
        limit = "the dense peak"
    elif table == PARTS_OF_STEPS:
        parts = part_times(rows.values(), names)
        seconds, least_s = parts.seconds, least_part_s(chips, parts)
        limit = "the dense peak"
    else:
        messages = message_times(rows.values(), names)
        seconds, (_, least_s) = messages.seconds, message_curve_s(chips, messages)
        limit = "the wires"
    for row, had_s, wanted_s in zip(rows.values(), seconds, least_s, strict=True):
        if not np.isfinite(wanted_s):
            yield (
                f"{table}.csv, {row.name}: {row.text('accelerator')} has no peak in "
                f"{row.text('precision')}; is the precision right?"
            )
        elif had_s < wanted_s * (1.0 - FASTER_FRAC):
            yield (
                f"{table}.csv, {row.name}: {had_s:.4g} s is faster than {limit} of the chip allow "
                f"({wanted_s:.4g} s); is it another chip, precision, model, group or unit?"
            )


def _columns(kind: type[C], rows: Sequence[tuple[float, ...]]) -> C:
    """Rows as columns; whole numbers where a name ends in _code or counts members."""
    table = np.array(rows, dtype=float).reshape(-1, len(fields(kind)))
    whole = ("chip_code", "precision_code", "operation_code", "part_code", "inside", "domains")
    return kind(
        **{
            f.name: table[:, i].astype(np.int64) if f.name in whole else table[:, i]
            for i, f in enumerate(fields(kind))
        }
    )
