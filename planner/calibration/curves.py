"""Curves fitted to measurements: robust least squares on the logarithm of time or power.

Predictions come from simkernel, so what is fitted is what the planner evaluates. Not known
here: where measurements come from, and what stands for a chip nobody has measured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from simkernel.columns import Column, Floats
from simkernel.hardware import Columns
from simkernel.roofline import AttentionRates, CoreShape, GemmRates, attention_work, gemm_work

LARGE_ROWS = 1024.0
"""Products of training have at least this many rows (one micro-batch): they weigh in full."""

SMALL_WEIGHT = 0.4
"""Weight of the smaller products, which only serving meets: they hold floor and memory rate."""

USUAL_LINK = {"step_s": 0.6e-6, "chunk_s": 1e-6, "own_frac": 0.3}
"""What a link's rows are weakly pulled to: a hop of a ring over NVLink and what a chunk costs more
(NVIDIA/nccl src/graph/tuning.cc, hwLat NVLINK, ring LL); own choice for what is copied at home."""

PULL = 0.05
"""Weight of that pull: of one row that is a twentieth as sure."""

OUTLIER_FRAC = 0.1
"""Log error beyond which a row's pull stops growing (soft L1); twice a usual kernel's scatter."""


@dataclass(frozen=True)
class Fit:
    """Fitted parameters by column name, and how far the measurements lie from them.

    Errors are |predicted / measured - 1| over the rows that matter (large products, large
    messages), `rows` their number.
    """

    values: dict[str, float]
    median_error_frac: float
    p90_error_frac: float
    rows: int


@dataclass(frozen=True)
class Products(Columns):
    """Measured matrix products of one chip and precision; shape (n,)."""

    rows: Floats
    inner: Floats
    columns: Floats
    seconds: Floats


@dataclass(frozen=True)
class Cores(Columns):
    """Measured attention cores of one chip; shape (n,). Decode rows have one query each."""

    sequences: Floats
    queries: Floats
    keys: Floats
    heads: Floats
    kv_heads: Floats
    head_dim: Floats
    kv_bytes: Floats
    is_causal: Floats
    seconds: Floats


@dataclass(frozen=True)
class Messages(Columns):
    """Measured collectives of one chip and operation; shape (n,).

    `wire_bytes` are those one device sends, `own_bytes` the part that stays at home, as often as
    the message goes round, `steps` those of a ring.
    """

    wire_bytes: Floats
    own_bytes: Floats
    steps: Floats
    seconds: Floats


def robust_fit(
    log_errors: Callable[[Floats], Floats],
    starts: Sequence[Sequence[float]],
    low: Sequence[float],
    high: Sequence[float],
) -> Floats:
    """Positive parameters that make errors small, from the best of several starts.

    Parameters
    ----------
    log_errors : parameters (p,) to log(predicted / measured) (n,), weights included
    starts : first guesses, each (p,)
    low, high : (p,) bounds, above zero

    Returns
    -------
    (p,)

    References
    ----------
    Levenberg-Marquardt with the soft-L1 loss 2 s^2 (sqrt(1 + (e/s)^2) - 1) by re-weighting:
    Triggs et al., Bundle Adjustment: a Modern Synthesis, 2000.
    """
    bounds = np.log(np.array([low, high], dtype=float))
    fits = [_descend(log_errors, np.log(np.array(s, dtype=float)), bounds) for s in starts]
    return np.exp(min(fits, key=lambda fit: fit[1])[0])


def fit_gemm(
    measured: Products,
    peak_flop_per_s: float,
    hbm_bytes_per_s: float,
    value_bytes: tuple[float, float, float],
    is_capped: bool = False,
) -> Fit:
    """The product curve of one chip and precision.

    Parameters
    ----------
    measured : (n,) rows
    peak_flop_per_s : dense peak of the precision [flop/s]
    hbm_bytes_per_s : [bytes/s]
    value_bytes : of the left, right and resulting matrix [bytes]
    is_capped : products that are larger than all timed ones reach no more than the best of those

    Returns
    -------
    Fit with the columns of hardware.GemmCurve; errors over rows >= LARGE_ROWS
    """
    weight = np.where(measured.rows >= LARGE_ROWS, 1.0, SMALL_WEIGHT)
    flop = 2.0 * measured.rows * measured.inner * measured.columns
    most = min(float(np.max(flop / measured.seconds)) / peak_flop_per_s, 1.0)

    def seconds(x: Floats) -> Floats:
        rates = GemmRates(
            peak_s_per_flop=1 / np.array(peak_flop_per_s),
            best_s_per_flop=1 / (peak_flop_per_s * x[0]),
            peak_s_per_byte=1 / np.array(hbm_bytes_per_s),
            best_s_per_byte=1 / (hbm_bytes_per_s * x[4]),
            rows_half=x[1],
            columns_half=x[2],
            inner_half=x[3],
            floor_s=x[5],
            least_s_per_flop=1 / np.array([peak_flop_per_s * most]) if is_capped else 0.0,
        )
        work = gemm_work(rates, measured.rows, measured.inner, measured.columns, value_bytes)
        return np.asarray(work.elapsed_s)

    def log_errors(x: Floats) -> Floats:
        # A weak pull to a plausible tile (own choice) settles what few shapes leave open.
        tile = 0.03 * np.log(x[1:4] / np.array([64.0, 256.0, 128.0]))
        return np.concatenate([weight * np.log(seconds(x) / measured.seconds), tile])

    starts = [
        (frac, 64.0, 256.0, 128.0, 0.8, floor) for frac, floor in product((0.5, 0.8), (3e-6, 1e-5))
    ]
    low = (0.05, 1.0, 1.0, 1.0, 0.1, 1e-7)
    high = (1.0, 2000.0, 3000.0, 4000.0, 1.0, 4e-5)
    x = robust_fit(log_errors, starts, low, high)
    names = ("flop_frac_max", "rows_half", "columns_half", "inner_half", "hbm_frac", "floor_s")
    fit = summary(names, x, seconds(x), measured.seconds, measured.rows >= LARGE_ROWS)
    most_frac = {"most_flop_frac": rounded(most)} if is_capped else {}
    return replace(fit, values={**fit.values, **most_frac})


def fit_attention(measured: Cores, peak_flop_per_s: float, hbm_bytes_per_s: float) -> Fit:
    """The attention curve of one chip, prefill and decode rows together.

    Parameters
    ----------
    measured : (n,) rows
    peak_flop_per_s : dense bf16 peak [flop/s]
    hbm_bytes_per_s : [bytes/s]

    Returns
    -------
    Fit with flop_frac_max, tokens_half, hbm_frac, floor_s; errors over causal (prefill) rows

    Notes
    -----
    Decode rows read keys and values once and hold the memory rate and the floor; prefill rows
    hold the arithmetic.
    """
    causal = measured.is_causal > 0
    shape = CoreShape(
        queries=measured.sequences * measured.queries,
        mean_keys=np.where(causal, measured.keys / 2, measured.keys),
        sequence_tokens=np.where(causal, measured.keys, np.inf),
        key_tokens=measured.sequences * measured.keys,
        heads=measured.heads,
        kv_heads=measured.kv_heads,
        key_dim=measured.head_dim,
        value_dim=measured.head_dim,
        bytes_per_value=measured.kv_bytes,
    )

    def seconds(x: Floats) -> Floats:
        rates = AttentionRates(
            peak_s_per_flop=1 / np.array(peak_flop_per_s),
            best_s_per_flop=1 / (peak_flop_per_s * x[0]),
            peak_s_per_byte=1 / np.array(hbm_bytes_per_s),
            best_s_per_byte=1 / (hbm_bytes_per_s * x[2]),
            tokens_half=x[1],
            backward_frac=np.array(1.0),
            floor_s=x[3],
        )
        return np.asarray(attention_work(rates, shape).elapsed_s)

    x = robust_fit(
        lambda x: np.log(seconds(x) / measured.seconds),
        starts=[(0.7, 1000.0, 0.8, 1e-5), (0.5, 300.0, 0.9, 5e-6)],
        low=(0.05, 1.0, 0.1, 1e-7),
        high=(1.0, 8000.0, 1.0, 5e-5),
    )
    names = ("flop_frac_max", "tokens_half", "hbm_frac", "floor_s")
    return summary(names, x, seconds(x), measured.seconds, causal)


def fit_link(
    measured: Messages,
    wire_bytes_per_s: float,
    has_steps: bool,
    *,
    is_pipelined: bool = True,
    large_bytes: float = 0.0,
) -> Fit:
    """The link curve of one chip, tier and operation.

    Parameters
    ----------
    measured : (n,) rows
    wire_bytes_per_s : per device and direction [bytes/s]
    has_steps : False where all peers are served at once (all_to_all, send): no cost per step
    is_pipelined : False for a line: no chunks, nothing copied at home
    large_bytes : messages from here on weigh in full [bytes]

    Returns
    -------
    Fit with the columns of hardware.LinkCurve; errors over messages >= large_bytes

    Notes
    -----
    One curve for all groups: eight H100 reduce in their switch (NVLS, 445 of 450 GB/s in ring
    terms) and are predicted a fifth too slow.
    """
    names = ("wire_frac", "base_s", "step_s", "chunk_s", "own_frac")
    keeps_own = is_pipelined and bool(np.any(measured.own_bytes > 0))
    is_used = np.array([1.0, 1.0, has_steps, is_pipelined, keeps_own])
    is_large = measured.wire_bytes >= large_bytes
    weight = np.where(is_large, 1.0, SMALL_WEIGHT / 2)

    def seconds(x: Floats) -> Floats:
        return link_s(x * is_used, measured, wire_bytes_per_s)

    def log_errors(x: Floats) -> Floats:
        pulled = [PULL * np.log(x[names.index(n)] / usual) for n, usual in USUAL_LINK.items()]
        return np.concatenate([weight * np.log(seconds(x) / measured.seconds), pulled])

    x = robust_fit(
        log_errors,
        starts=[(0.8, 5e-6, 5e-7, 1e-6, 0.3), (0.9, 5e-6, 5e-7, 1e-5, 0.3)],
        low=(0.05, 1e-7, 1e-9, 1e-10, 1e-3),
        high=(1.0, 1e-4, 2e-5, 1e-3, 1.0),
    )
    return summary(names, x * is_used, seconds(x), measured.seconds, is_large)


def link_s(x: Floats, rows: Messages, wire_bytes_per_s: float) -> Floats:
    """Times of messages on a link whose curve has the values x, in order of its fields; (n,)."""
    wire_frac, base_s, step_s, chunk_s, own_frac = x
    moving_s = (rows.wire_bytes + own_frac * rows.own_bytes) / (wire_bytes_per_s * wire_frac)
    return base_s + step_s * rows.steps + moving_s + 2.0 * np.sqrt(chunk_s * moving_s)


def rounded(value: Column) -> float:
    """A figure as tables of fits hold it: four digits of it."""
    return float(f"{float(value):.4g}")


def summary(
    names: Sequence[str], x: Floats, predicted: Floats, measured: Floats, matters: Floats
) -> Fit:
    """Values rounded to what a table holds, with the error left where it matters, (n,) mask."""
    error = np.abs(predicted / measured - 1)[matters]
    values = {name: rounded(value) for name, value in zip(names, x, strict=True)}
    return Fit(values, float(np.median(error)), float(np.quantile(error, 0.9)), len(error))


LEAST_DAMPING = 1e-12
"""Where nothing moves a parameter, none at all would leave its step undetermined."""


def _descend(
    log_errors: Callable[[Floats], Floats], start: Floats, bounds: Floats
) -> tuple[Floats, float]:
    """One descent in the logarithms of the parameters; the point and its loss."""
    x, damping = np.clip(start, *bounds), 1e-2
    loss = _loss(log_errors(np.exp(x)))
    for _ in range(200):
        errors = log_errors(np.exp(x))
        root = (1 + (errors / OUTLIER_FRAC) ** 2) ** -0.25
        slope = _slope(log_errors, x, errors) * root[:, None]
        normal, pull = slope.T @ slope, slope.T @ (errors * root)
        while damping < 1e8:
            lift = damping * (np.diag(normal) + 1e-9)
            step = np.clip(x - np.linalg.solve(normal + np.diag(lift), pull), *bounds)
            step_loss = _loss(log_errors(np.exp(step)))
            if step_loss < loss:
                break
            damping *= 4
        else:
            break
        gain, x, loss = loss - step_loss, step, step_loss
        damping = max(damping / 8, LEAST_DAMPING)
        if gain < 1e-10 * loss:
            break
    return x, loss


def _slope(log_errors: Callable[[Floats], Floats], x: Floats, errors: Floats) -> Floats:
    """Derivatives by forward differences, (n, p)."""
    nudge = 1e-6
    moved = [log_errors(np.exp(x + nudge * axis)) for axis in np.eye(len(x))]
    return np.stack([(m - errors) / nudge for m in moved], axis=1)


def _loss(errors: Floats) -> float:
    """Soft L1."""
    return float(np.sum(np.sqrt(1 + (errors / OUTLIER_FRAC) ** 2) - 1))
