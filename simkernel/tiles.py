"""Time of a matrix product tile by tile: how many waves the cores run, and what each takes.

A kernel cuts the result into tiles; every core works at one tile, so tiles come in waves as wide
as the chip has cores. In a tile the inner extent is walked step by step: operands come from the
cache while the core multiplies, whichever is slower sets the pace. Before it a pipeline is filled,
after it results are written. The inner extent may be split among cores, whose sums are then added.
Of all tiles and splits the fastest is taken, as a library's own choice does. Not known here: what
rasterises tiles so that a cache keeps them, or how a power cap slows the clock.

References
----------
NVIDIA, Matrix Multiplication Background User's Guide (DU-09799-001), sections 2 and 3: tiles and
wave quantisation. Osama et al., Stream-K, PPoPP 2023, arXiv 2301.03598, section 5.1: prologue,
iterations and epilogue of a tile, and splits of the inner extent.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from itertools import product

import numpy as np

from simkernel.columns import Codes, Column, Floats

SIDES = (32, 64, 128, 256)
TILES = tuple(
    (rows, columns)
    for rows, columns in product(SIDES, SIDES)
    if 32 * 64 <= rows * columns <= 128 * 256
)
"""Rows and columns of a tile: those of CUTLASS's and cuBLAS's kernels for matrix units, whose sums
fit a core's registers or tensor memory."""

INNER_STEP = 64.0
"""Of the inner extent, what a core takes at once: 128 bytes of 16-bit values, a cache line."""

SPLITS = (1, 2, 4, 8, 16)
"""Into how many parts the inner extent is cut."""

SUM_BYTES = 4.0
"""Of a partial sum, in fp32."""


@dataclass(frozen=True)
class TileCurve:
    """What is fitted to the products of chips; (n, precisions) each.

    Parameters
    ----------
    cores : of a device
    loop_frac : of a core's dense peak in the main loop
    cache_frac : rate of operands from the shared cache over that of the memory
    fill_s : before and after the main loop of a tile [s]
    hbm_frac, floor_s : as of `hardware.GemmCurve`
    """

    cores: Floats
    loop_frac: Floats
    cache_frac: Floats
    fill_s: Floats
    hbm_frac: Floats
    floor_s: Floats

    def take(self, rows: Codes | int) -> TileCurve:
        """The curves of some chips."""
        return TileCurve(**{f.name: getattr(self, f.name)[rows] for f in fields(self)})


@dataclass(frozen=True)
class TileRates:
    """What a core reaches; (n,) or numbers each.

    Parameters
    ----------
    cores : of a device, each at one tile
    core_s_per_flop : of one core in the main loop [s/flop]
    cache_s_per_byte : of operands on their way from the shared cache to one core, all at work [s]
    fill_s : before and after the main loop of one tile [s]
    """

    cores: Column
    core_s_per_flop: Column
    cache_s_per_byte: Column
    fill_s: Column


def tiled_s(
    rates: TileRates,
    shape: tuple[Column, Column, Column],
    value_bytes: tuple[Column, Column, Column],
    groups: Column,
) -> Floats:
    """Seconds of a product in its best tiles, without what its launch and the memory take; (n,).

    Parameters
    ----------
    shape : rows, inner and columns
    value_bytes : of the left, the right and the resulting matrix [bytes]
    groups : equal products in one kernel, whose tiles share the waves
    """
    rows, inner, columns = shape
    left_bytes, right_bytes, result_bytes = value_bytes
    best: Floats | float = np.inf
    for (high, wide), splits in product(TILES, SPLITS):
        tiles = np.ceil(rows / high) * np.ceil(columns / wide) * groups
        waves = np.ceil(tiles * splits / rates.cores)
        walked = np.ceil(inner / (splits * INNER_STEP)) * INNER_STEP
        step_s = np.maximum(
            2.0 * high * wide * rates.core_s_per_flop,
            (high * left_bytes + wide * right_bytes) * rates.cache_s_per_byte,
        )
        written = result_bytes if splits == 1 else 2.0 * SUM_BYTES + result_bytes / splits
        last_s = rates.fill_s + high * wide * written * rates.cache_s_per_byte
        best = np.minimum(best, waves * (walked * step_s + last_s))
    return np.asarray(best)
