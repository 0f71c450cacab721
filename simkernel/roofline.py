"""Work of one kernel turned into seconds: the slower of arithmetic and memory, plus a floor.

`gemm_rates`, `attention_rates` and `stream_rates` pick the curves of a block of candidates once;
the `*_work` functions then cost a few multiplications each. Not known here: which kernels a
layer runs, what overlaps with what, and what a kernel costs when the chip is capped in power.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np

from simkernel.columns import Codes, Column, Floats
from simkernel.hardware import PRECISIONS, Chips, Columns
from simkernel.tiles import TileCurve, TileRates, tiled_s
from simkernel.timed import Timed

BACKWARD_CORE_FLOP_PER_FORWARD = 2.5
"""Five products against two: scores are computed again (FlashAttention-2, arXiv 2307.08691, 4)."""


class Work(NamedTuple):
    """What one kernel keeps busy and how long it takes, each a number or (n,).

    Parameters
    ----------
    compute_s : the tensor cores are occupied, at the rate this kernel reaches [s]
    hbm_s : the memory is occupied, at the rate this kernel reaches [s]
    elapsed_s : floor + max(compute_s, hbm_s) [s]
    peak_compute_s : flop / dense peak; over elapsed time it is the arithmetic utilisation [s]
    peak_hbm_s : bytes / memory rate; over elapsed time it is the memory utilisation [s]
    timed_s, guessed_s : of the elapsed time, what times of such kernels speak for and what they do
        not; both 0 where the curve is all there is [s]
    """

    compute_s: Column
    hbm_s: Column
    elapsed_s: Column
    peak_compute_s: Column
    peak_hbm_s: Column
    timed_s: Column = 0.0
    guessed_s: Column = 0.0


@dataclass(frozen=True)
class GemmRates(Columns):
    """One precision's matrix products on each chip of a block; shape (n,).

    Seconds per flop and per byte, at peak and as reached by an infinitely large product;
    `least_s_per_flop` where no product is faster, 0 where the saturation says it all. `timed` has
    what products took that somebody timed, None where the curve is all there is;
    `tiles` what cores reach where products are priced tile by tile.
    """

    peak_s_per_flop: Floats
    best_s_per_flop: Floats
    peak_s_per_byte: Floats
    best_s_per_byte: Floats
    rows_half: Floats
    columns_half: Floats
    inner_half: Floats
    floor_s: Floats
    least_s_per_flop: Column = 0.0
    timed: Timed | None = None
    tiles: TileRates | None = None


@dataclass(frozen=True)
class AttentionRates(Columns):
    """The attention core on each chip of a block, arithmetic in bf16; shape (n,)."""

    peak_s_per_flop: Floats
    best_s_per_flop: Floats
    peak_s_per_byte: Floats
    best_s_per_byte: Floats
    tokens_half: Floats
    backward_frac: Floats
    floor_s: Floats


@dataclass(frozen=True)
class StreamRates(Columns):
    """Element-wise kernels on each chip of a block; shape (n,)."""

    peak_s_per_byte: Floats
    best_s_per_byte: Floats
    floor_s: Floats


class CoreShape(NamedTuple):
    """What an attention core meets on one device; each a number or (n,).

    Parameters
    ----------
    queries : query tokens of all sequences together
    mean_keys : keys one query meets on average (see `causal_keys`)
    sequence_tokens : length of one sequence, which decides how full the tiles are
    key_tokens : key tokens read of all sequences together
    heads, kv_heads : on this device
    key_dim, value_dim : per head
    bytes_per_value : of queries, keys, values and output [bytes]
    """

    queries: Column
    mean_keys: Column
    sequence_tokens: Column
    key_tokens: Column
    heads: Column
    kv_heads: Column
    key_dim: Column
    value_dim: Column
    bytes_per_value: Column


def gemm_rates(
    chips: Chips, precision_codes: Codes | int, reached_frac: Column = 1.0
) -> GemmRates:
    """The matrix-product curve of each chip at one precision per row.

    Parameters
    ----------
    chips : (n,) one row per candidate
    precision_codes : (n,) or one index into PRECISIONS
    reached_frac : of the isolated kernel's rate, inside a whole step

    Returns
    -------
    (n,) rates; NaN where the chip lacks the precision
    """
    curve, rows = chips.gemm, np.arange(len(chips))
    peak = chips.peak_flop_per_s[rows, precision_codes]
    hbm = chips.hbm_bytes_per_s
    if chips.tiles is not None:
        return _tiled_rates(chips.tiles, (peak, hbm), precision_codes, reached_frac)
    return GemmRates(
        peak_s_per_flop=1.0 / peak,
        best_s_per_flop=1.0 / (peak * curve.flop_frac_max[rows, precision_codes] * reached_frac),
        peak_s_per_byte=1.0 / hbm,
        best_s_per_byte=1.0 / (hbm * curve.hbm_frac[rows, precision_codes]),
        rows_half=curve.rows_half[rows, precision_codes],
        columns_half=curve.columns_half[rows, precision_codes],
        inner_half=curve.inner_half[rows, precision_codes],
        floor_s=curve.floor_s[rows, precision_codes],
        timed=chips.timed and chips.timed.of_precision(precision_codes, reached_frac),
    )


def _tiled_rates(
    tiles: TileCurve,
    peaks: tuple[Floats, Floats],
    precision_codes: Codes | int,
    reached_frac: Column,
) -> GemmRates:
    """Rates of chips whose products are priced tile by tile: only tiles are padded."""
    (peak, hbm), rows = peaks, np.arange(len(peaks[1]))
    nothing = np.zeros(len(rows))
    cores, loop_frac, cache_frac, fill_s, hbm_frac, floor_s = (
        getattr(tiles, f.name)[rows, precision_codes] for f in fields(tiles)
    )
    best = peak * loop_frac * reached_frac
    return GemmRates(
        peak_s_per_flop=1.0 / peak,
        best_s_per_flop=1.0 / best,
        peak_s_per_byte=1.0 / hbm,
        best_s_per_byte=1.0 / (hbm * hbm_frac),
        rows_half=nothing,
        columns_half=nothing,
        inner_half=nothing,
        floor_s=floor_s,
        tiles=TileRates(cores, cores / best, cores / (hbm * cache_frac), fill_s),
    )


def attention_rates(chips: Chips, reached_frac: Column = 1.0) -> AttentionRates:
    """The attention curve of each chip; fp16 peak where a chip has no bf16 (V100).

    Parameters
    ----------
    chips : (n,) one row per candidate
    reached_frac : of the isolated kernel's rate, inside a whole step

    Returns
    -------
    (n,) rates
    """
    curve, hbm = chips.attention, chips.hbm_bytes_per_s
    bf16 = chips.peak_flop_per_s[:, PRECISIONS.index("bf16")]
    fp16 = chips.peak_flop_per_s[:, PRECISIONS.index("fp16")]
    peak = np.where(np.isnan(bf16), fp16, bf16)
    return AttentionRates(
        peak_s_per_flop=1.0 / peak,
        best_s_per_flop=1.0 / (peak * curve.flop_frac_max * reached_frac),
        peak_s_per_byte=1.0 / hbm,
        best_s_per_byte=1.0 / (hbm * curve.hbm_frac),
        tokens_half=curve.tokens_half,
        backward_frac=curve.backward_frac,
        floor_s=curve.floor_s,
    )


def stream_rates(chips: Chips) -> StreamRates:
    """The element-wise curve of each chip.

    Parameters
    ----------
    chips : (n,) one row per candidate

    Returns
    -------
    (n,) rates
    """
    hbm = chips.hbm_bytes_per_s
    return StreamRates(1.0 / hbm, 1.0 / (hbm * chips.stream.hbm_frac), chips.stream.floor_s)


def gemm_work(
    rates: GemmRates,
    rows: Column,
    inner: Column,
    columns: Column,
    value_bytes: tuple[Column, Column, Column],
    groups: Column = 1.0,
) -> Work:
    """A product of (rows x inner) with (inner x columns), or `groups` equal ones in one kernel.

    Parameters
    ----------
    rates : (n,) curve of the precision
    rows, inner, columns : (n,) or numbers; for experts, rows of one group
    value_bytes : bytes of one value of the left, the right and the resulting matrix [bytes]
    groups : (n,) or number, e.g. experts on the device that meet tokens

    Returns
    -------
    Work of (n,)

    Notes
    -----
    The reached share of peak, flop_frac_max x m/(m+m_half) x n/(n+n_half) x k/(k+k_half),
    cancels the m n k of the flop, so a small product costs as much as one padded by the halves.
    Every matrix crosses the memory once: re-reads past the cache are inside the fitted rates.
    Curves come from single products. Grouped ones (aiconfigurator-core 0.12.0 MoE timings,
    balanced routing, with permutation and activation) take as long from 1,024 rows a group on
    in bf16, and 1.5 to 2 times as long below 512 rows; fp8_block on H100 1.6 times throughout.

    References
    ----------
    Williams, Waterman, Patterson, Roofline, CACM 52(4), 2009; saturation in each extent is the
    form of hardware.GemmCurve, fitted in planner/calibration/kernels.py.
    """
    left_bytes, right_bytes, result_bytes = value_bytes
    area = rows * columns
    padded = (rows + rates.rows_half) * (columns + rates.columns_half)
    padded = padded * (inner + rates.inner_half)
    moved = (inner * (rows * left_bytes + columns * right_bytes) + area * result_bytes) * groups
    compute_s = padded * (2.0 * groups) * rates.best_s_per_flop
    if rates.tiles is not None:
        compute_s = tiled_s(rates.tiles, (rows, inner, columns), value_bytes, groups)
    if np.ndim(rates.least_s_per_flop):
        compute_s = np.maximum(compute_s, area * inner * (2.0 * groups) * rates.least_s_per_flop)
    hbm_s = moved * rates.best_s_per_byte
    work = Work(
        compute_s=compute_s,
        hbm_s=hbm_s,
        elapsed_s=np.maximum(compute_s, hbm_s) + rates.floor_s,
        peak_compute_s=area * inner * (2.0 * groups) * rates.peak_s_per_flop,
        peak_hbm_s=moved * rates.peak_s_per_byte,
    )
    if rates.timed is None:
        return work
    if not (isinstance(groups, float) and groups == 1.0):
        return work._replace(guessed_s=work.elapsed_s)
    return _as_timed(work, rates.timed, (rows, inner, columns), rates.floor_s)


def _as_timed(
    work: Work, timed: Timed, shape: tuple[Column, Column, Column], floor_s: Column
) -> Work:
    """Single products as they were timed; never faster than the peaks of chip and memory."""
    alone_s = np.maximum(work.compute_s * timed.reached_frac, work.hbm_s) + floor_s
    least_s = np.maximum(work.peak_compute_s, work.peak_hbm_s)
    seconds, unknown_frac = timed.product_s(shape, work.elapsed_s, alone_s)
    elapsed_s = np.maximum(seconds, least_s)
    return work._replace(
        timed_s=elapsed_s * (1.0 - unknown_frac),
        guessed_s=elapsed_s * unknown_frac,
        compute_s=np.minimum(work.compute_s, elapsed_s),
        hbm_s=np.minimum(work.hbm_s, elapsed_s),
        elapsed_s=elapsed_s,
    )


def attention_work(rates: AttentionRates, shape: CoreShape) -> Work:
    """The forward core: scores, softmax and weighted values, fused (nothing squared in memory).

    Parameters
    ----------
    rates : (n,) curve
    shape : tokens, keys and heads on one device

    Returns
    -------
    Work of (n,)

    References
    ----------
    FlashAttention-2, arXiv 2307.08691, section 4: 4 x s^2 x d x heads flop, halved if causal.
    """
    return _core_work(rates, shape, flop_factor=1.0, byte_factor=1.0, reached=1.0)


def attention_backward_work(rates: AttentionRates, shape: CoreShape) -> Work:
    """The backward core: five products against two, at `backward_frac` of the forward rate.

    Parameters
    ----------
    rates : (n,) curve
    shape : as in the forward pass

    Returns
    -------
    Work of (n,)

    Notes
    -----
    Model flop count the backward pass twice the forward; the half beyond that is the scores
    computed again and is work, not useful flop. Traffic: the four tensors in, four gradients out.

    References
    ----------
    FlashAttention-2, arXiv 2307.08691, section 4.
    """
    factor = BACKWARD_CORE_FLOP_PER_FORWARD
    return _core_work(
        rates, shape, flop_factor=factor, byte_factor=2.0, reached=rates.backward_frac
    )


def stream_work(rates: StreamRates, moved_bytes: Column) -> Work:
    """A kernel that does nothing but read and write memory: norms, additions, casts, optimiser.

    Parameters
    ----------
    rates : (n,) curve
    moved_bytes : (n,) or number, read and written together [bytes]

    Returns
    -------
    Work of (n,); no arithmetic
    """
    hbm_s = moved_bytes * rates.best_s_per_byte
    idle = np.zeros_like(hbm_s)
    return Work(idle, hbm_s, hbm_s + rates.floor_s, idle, moved_bytes * rates.peak_s_per_byte)


def causal_keys(tokens: Column, window: Column = 0.0) -> Column:
    """Keys that a query meets on average when it sees itself and what came before.

    Parameters
    ----------
    tokens : (n,) or number, length of one sequence
    window : (n,) or number, keys seen at most; 0 for all

    Returns
    -------
    (n,) tokens / 2 without a window, else w - w^2 / (2 tokens) with w = min(window, tokens)

    Notes
    -----
    The half is the convention of published causal flop; the diagonal, 1/2 key, is left out.
    """
    reach = np.where(np.asarray(window) > 0, np.minimum(window, tokens), tokens)
    return reach - reach * reach / (2.0 * tokens)


def _core_work(
    rates: AttentionRates,
    shape: CoreShape,
    flop_factor: float,
    byte_factor: float,
    reached: Column,
) -> Work:
    """Forward or backward core; the share of peak saturates with the sequence length."""
    dims = shape.key_dim + shape.value_dim
    flop = shape.queries * shape.mean_keys * shape.heads * dims * (2.0 * flop_factor)
    heads_tokens = shape.queries * shape.heads + shape.key_tokens * shape.kv_heads
    moved = heads_tokens * dims * shape.bytes_per_value * byte_factor
    padding = 1.0 + rates.tokens_half / shape.sequence_tokens
    compute_s = flop * padding * rates.best_s_per_flop / reached
    hbm_s = moved * rates.best_s_per_byte
    return Work(
        compute_s=compute_s,
        hbm_s=hbm_s,
        elapsed_s=np.maximum(compute_s, hbm_s) + rates.floor_s,
        peak_compute_s=flop * rates.peak_s_per_flop,
        peak_hbm_s=moved * rates.peak_s_per_byte,
    )
