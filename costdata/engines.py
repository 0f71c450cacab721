"""Curves of a serving engine's own kernels on some chips, joined from engine_curves.csv.

An engine that was not timed on a chip takes what it reaches on one of the same architecture, as
shares of the chip's own peaks; a kernel that was never timed takes the chip's curve of any
software.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import TypeVar

import numpy as np

from costdata.chips import chips_of
from costdata.facts import ALL_ROWS, Fact, Row, Tables
from simkernel.columns import Floats
from simkernel.errors import MissingFact
from simkernel.hardware import (
    OPERATIONS,
    PRECISIONS,
    AttentionCurve,
    Chips,
    Columns,
    GemmCurve,
    LinkCurve,
)
from simkernel.serving_engine import Engine, EngineCurves

ARCHETYPES = {
    "ampere": "A100-80G-SXM",
    "ada": "L40S",
    "hopper": "H100-SXM",
    "blackwell": "B200-SXM",
    "blackwell_ultra": "B300-SXM",
    "blackwell_workstation": "RTX-PRO-6000-Server",
}
"""The chip of an architecture whose timings stand for others of it."""

CACHES = ("bf16", "fp8")
"""Precisions of a cache that decode was timed with, wide and narrow."""

TABLE = "engine_curves"
ANY_ENGINE = "*"
"""An engine that is not known by name."""

C = TypeVar("C", bound=Columns)


def engine_names(tables: Tables) -> tuple[str, ...]:
    """Engines whose kernels were timed."""
    return tuple(sorted({key[0] for key in tables[TABLE]}))


def engine_of(tables: Tables, engine: str, architecture: str) -> Engine:
    """What an engine adds to kernels on an architecture; that of any engine where it is not known.

    Raises
    ------
    MissingFact : engines.csv has no row for any engine
    """
    row = _engine_row(tables, engine, architecture)
    return Engine(**{f.name: row.need(f.name) for f in fields(Engine)})


def engine_facts(tables: Tables, engine: str, architecture: str) -> dict[str, Fact]:
    """The same figures with their source, by name of the table and the row."""
    row = _engine_row(tables, engine, architecture)
    stem = ".".join(("engines", *row.key))
    return {f"{stem}.{name}": fact for name, fact in row.facts.items() if fact.unit}


def _engine_row(tables: Tables, engine: str, architecture: str) -> Row:
    rows = tables["engines"]
    for key in [(e, a) for e in (engine, ANY_ENGINE) for a in (architecture, ALL_ROWS)]:
        if key in rows:
            return rows[key]
    raise MissingFact(f"engines.csv has no row for {engine}; add one to your own engines.csv")


def engine_curves(tables: Tables, engine: str, rows: Sequence[Row]) -> EngineCurves:
    """Curves of an engine on the chips of some rows, in their order.

    An engine that is not in the table takes the chips' curves of any software throughout.
    """
    chips = chips_of(tables, rows)
    gemm = _products(tables, engine, "gemm", rows, chips.gemm)
    any_core = {f.name: getattr(chips.attention, f.name) for f in fields(AttentionCurve)}

    def core(kernel: str, caches: Sequence[str]) -> AttentionCurve:
        spread = {k: np.repeat(v[:, None], len(caches), axis=1) for k, v in any_core.items()}
        return _filled(tables, engine, kernel, rows, caches, AttentionCurve(**spread))

    return EngineCurves(
        gemm=gemm,
        grouped=_products(tables, engine, "grouped", rows, gemm),
        prefill=_only(core("prefill", CACHES[:1])),
        decode=core("decode", CACHES),
        latent_prefill=_only(core("latent_prefill", CACHES[:1])),
        latent_decode=core("latent_decode", CACHES),
        all_reduce=_reduces(tables, engine, "all_reduce", rows, chips),
        all_reduce_once=_reduces(tables, engine, "all_reduce_once", rows, chips),
        all_reduce_switched=_reduces(tables, engine, SWITCHED, rows, chips),
    )


def _products(
    tables: Tables, engine: str, kernel: str, rows: Sequence[Row], else_curve: GemmCurve
) -> GemmCurve:
    return _filled(tables, engine, kernel, rows, PRECISIONS, else_curve)


def _filled(
    tables: Tables,
    engine: str,
    kernel: str,
    rows: Sequence[Row],
    precisions: Sequence[str],
    else_curve: C,
) -> C:
    """A curve of (chips, precisions), with another's figures where nothing was timed."""
    cells = {
        f.name: np.array(getattr(else_curve, f.name), dtype=float) for f in fields(else_curve)
    }
    for i, row in enumerate(rows):
        for j, precision in enumerate(precisions):
            timed = _timed(tables, engine, row, kernel, precision)
            for name, values in cells.items() if timed else ():
                number = timed.number(name) if timed and name in timed.schema else None
                values[i, j] = values[i, j] if number is None else number
    return type(else_curve)(**cells)


def _timed(tables: Tables, engine: str, chip: Row, kernel: str, precision: str) -> Row | None:
    """The row of a chip, or of the chip that stands for its architecture."""
    table = tables[TABLE]
    near = ARCHETYPES.get(chip.text("architecture"), "")
    own = table.get((engine, chip.name, kernel, precision))
    return own or table.get((engine, near, kernel, precision))


def _only(curve: AttentionCurve) -> AttentionCurve:
    """A curve of one column without it."""
    return AttentionCurve(**{f.name: getattr(curve, f.name)[:, 0] for f in fields(curve)})


SWITCHED = "all_reduce_switched"


def _reduces(
    tables: Tables, engine: str, kernel: str, rows: Sequence[Row], chips: Chips
) -> LinkCurve:
    """One way of the all-reduce, or the library's ring; by the switch only where timed."""
    column = OPERATIONS.index("all_reduce")
    any_link = [getattr(chips.scaleup, f.name)[:, column] for f in fields(LinkCurve)]
    cells: list[Floats] = [np.array(values, dtype=float) for values in any_link]
    if kernel == SWITCHED:
        cells[1] = np.full(len(rows), np.inf)
    for i, row in enumerate(rows):
        timed = _timed(tables, engine, row, kernel, "bf16")
        if timed:
            one_rate = [timed.need(name) for name in ("wire_frac", "floor_s", "step_s")]
            for values, value in zip(cells, (*one_rate, 0.0, 0.0), strict=True):
                values[i] = value
    return LinkCurve(*cells)
