"""Chips whose matrix products are priced tile by tile, where their tiles were fitted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from costdata.chips import chips_of
from costdata.facts import Row, Tables
from simkernel.hardware import PRECISIONS, Chips
from simkernel.tiles import TileCurve

TILES = "tile_curves"
COLUMNS = ("cores", "loop_frac", "cache_frac", "fill_s", "hbm_frac", "floor_s")


def tiled_chips(tables: Tables, rows: Sequence[Row]) -> Chips:
    """Chips with tile curves; a precision without one is NaN throughout, as if not supported.

    Raises
    ------
    MissingFact : curves that are not there, by chip and table
    """
    chips, known = chips_of(tables, rows), tables.get(TILES, {})
    cells = np.full((len(COLUMNS), len(rows), len(PRECISIONS)), np.nan)
    for i, row in enumerate(rows):
        for j, precision in enumerate(PRECISIONS):
            curve = known.get((row.name, precision))
            if curve is not None:
                cells[:, i, j] = [curve.need(name) for name in COLUMNS]
    return replace(chips, tiles=TileCurve(*cells))


def untiled(tables: Tables, name: str) -> str:
    """Why a chip's products cannot be priced tile by tile, in words; "" where they can."""
    if any(key[0] == name for key in tables.get(TILES, {})):
        return ""
    return (
        f"no row of {name} in {TILES}.csv: its tiles were not fitted; add one to your own "
        f'{TILES}.csv, or take compute = "roofline"'
    )
