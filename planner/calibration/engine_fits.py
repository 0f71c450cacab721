"""Make the table of engine curves: what each serving engine's own kernels reach on each chip.

`python -m planner.calibration.engine_fits SYSTEMS_DATA` writes engine_curves.csv from the
operator timings of aiconfigurator-core (its folder systems/data); with `--check` it compares them
instead.

The same forms as the chip's curves (planner.calibration.curves), fitted per engine, kernel and
precision. A kernel that its form does not describe is host-bound or badly timed: its twin of
another engine stands in, which the row says.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from planner.calibration.curves import Fit, Products, fit_gemm, robust_fit, summary
from planner.calibration.engine_timings import (
    ENGINES,
    Attended,
    Found,
    Grouped,
    Reduced,
    read_earlier,
    read_engines,
)
from planner.calibration.kernels import RESULT_BYTES, TABLES, VALUE_BYTES, Row, write_or_check
from planner.calibration.measured import Nameplate, read_nameplates
from simkernel.columns import Column, Floats
from simkernel.hardware import PRECISION_BYTES, PRECISIONS
from simkernel.roofline import (
    AttentionRates,
    CoreShape,
    GemmRates,
    attention_work,
    gemm_work,
)

TABLE = "engine_curves.csv"
HOST_BOUND_FRAC = 0.2
"""Median error beyond which a curve is no curve of the chip: `fp8_block` of vLLM on B200 is flat
up to 1,024 rows (host-bound), while its twins come within 0.12."""

SLOWER_THAN_TWIN = 1.25
"""Times the best twin's for a decode product beyond which a timing holds more than its kernel:
the engines share kernels, but TensorRT-LLM was timed with quantisation and a launch outside a
graph (16 x 8192 x 8192 in nvfp4 on B200: 22 us against 14 and 15)."""

DECODE_PRODUCT = (16.0, 8192.0, 8192.0)

MXFP4_BYTES = PRECISION_BYTES[PRECISIONS.index("mxfp4")]
HEAD = 128
LATENT, LATENT_VALUE = 576, 512  # DeepSeek-V3 config.json: kv_lora_rank + rope, kv_lora_rank
KEY, VALUE = 192, 128  # the same: nope + rope, v_head_dim
NUMBERS = (
    "flop_frac_max", "most_flop_frac", "rows_half", "columns_half", "inner_half", "tokens_half",
    "hbm_frac", "floor_s", "wire_frac", "step_s",
)  # fmt: skip


def fit_found(found: Found, plate: Nameplate) -> Fit | None:
    """The curve of one kernel; None where the chip lacks the precision and 16 bits as well."""
    bytes_per_s = plate.hbm_bytes_per_s
    peak = plate.peak_flop_per_s.get(found.precision, plate.peak_flop_per_s["bf16"])
    each = MXFP4_BYTES if found.precision == "mxfp4" else VALUE_BYTES[found.precision]
    rows = found.rows
    if isinstance(rows, Products):
        return fit_gemm(rows, peak, bytes_per_s, (each, each, RESULT_BYTES), is_capped=True)
    if isinstance(rows, Grouped):
        return fit_grouped(rows, peak, bytes_per_s, each)
    if isinstance(rows, Attended):
        shape = core_shape(found.kernel, rows, each)
        bf16 = plate.peak_flop_per_s["bf16"]
        return fit_core(shape, rows.seconds, bf16, bytes_per_s)
    return None


def fit_grouped(
    measured: Grouped, peak_flop_per_s: float, hbm_bytes_per_s: float, value_bytes: float
) -> Fit:
    """The curve of grouped products: both of an expert layer, over the experts that are met.

    The timings deal tokens out evenly, so that as many experts are met as can be.

    Parameters
    ----------
    measured : (n,) rows
    peak_flop_per_s : dense peak of the precision [flop/s]
    hbm_bytes_per_s : [bytes/s]
    value_bytes : of inputs and weights [bytes]
    """
    m, widths = measured, (value_bytes, value_bytes, RESULT_BYTES)
    local = m.experts / m.expert_ranks
    touched = np.minimum(local, m.tokens * m.used / m.expert_ranks)
    rows = m.tokens * m.used / m.expert_ranks / touched

    def seconds(x: Floats) -> Floats:
        rates = _gemm_rates(x, peak_flop_per_s, hbm_bytes_per_s)
        up = gemm_work(rates, rows, m.hidden, 2.0 * m.width, widths, touched)
        down = gemm_work(rates, rows, m.width, m.hidden, widths, touched)
        return np.asarray(up.elapsed_s + down.elapsed_s)

    x = robust_fit(
        lambda x: np.log(seconds(x) / m.seconds),
        starts=[(0.5, 32.0, 128.0, 128.0, 0.7, 1e-5), (0.7, 64.0, 256.0, 64.0, 0.5, 2e-5)],
        low=(0.05, 0.1, 1.0, 1.0, 0.05, 1e-7),
        high=(1.0, 2000.0, 3000.0, 4000.0, 1.0, 1.5e-4),
    )
    names = ("flop_frac_max", "rows_half", "columns_half", "inner_half", "hbm_frac", "floor_s")
    return summary(names, x, seconds(x), m.seconds, np.ones(len(m), dtype=bool))


def core_shape(kernel: str, rows: Attended, cache_bytes: float) -> CoreShape:
    """What a timed core met; prefill is causal, decode has one query per sequence."""
    is_decode, is_latent = kernel.endswith("decode"), kernel.startswith("latent")
    key, value = float(HEAD), float(HEAD)
    kv_heads: Column = rows.kv_heads
    if is_latent:
        key, value = (LATENT, LATENT_VALUE) if is_decode else (KEY, VALUE)
        kv_heads = np.full(len(rows), key / (key + value)) if is_decode else rows.kv_heads
    return CoreShape(
        queries=rows.sequences * (1.0 if is_decode else rows.context),
        mean_keys=rows.context * (1.0 if is_decode else 0.5),
        sequence_tokens=rows.context,
        key_tokens=rows.sequences * rows.context,
        heads=rows.heads,
        kv_heads=kv_heads,
        key_dim=key,
        value_dim=value,
        bytes_per_value=cache_bytes if is_decode else RESULT_BYTES,
    )


def fit_core(
    shape: CoreShape, measured: Floats, peak_flop_per_s: float, hbm_bytes_per_s: float
) -> Fit:
    """The curve of an attention core; arithmetic is counted against the bf16 peak."""

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
        lambda x: np.log(seconds(x) / measured),
        starts=[(0.5, 500.0, 0.8, 1e-5), (0.3, 10.0, 0.8, 1e-5), (0.05, 1000.0, 0.9, 5e-6)],
        low=(0.005, 1.0, 0.1, 1e-7),
        high=(1.0, 8000.0, 1.0, 5e-5),
    )
    names = ("flop_frac_max", "tokens_half", "hbm_frac", "floor_s")
    return summary(names, x, seconds(x), measured, np.ones(len(measured), dtype=bool))


SWITCHED_FROM = 4.0
"""Devices from which a library lets the switches add up (NVIDIA/nccl, src/transport/nvls.cc: more
than two on a switch that can)."""

SUMMING = ("H100-SXM", "H200-SXM", "B200-SXM", "B300-SXM", "GB200", "GB300")
"""Timed chips whose scale-up switches can (NVIDIA H100 white paper: NVLink SHARP)."""


def fit_reduces(rows: Reduced, wire_bytes_per_s: float, is_summing: bool) -> dict[str, Fit]:
    """The ways of an all-reduce, of which the fastest counts.

    Whole messages to all at once, in a ring, or up to the switch, which adds up, and down.

    Parameters
    ----------
    rows : (n,) timings inside a node
    wire_bytes_per_s : per device and direction [bytes/s]
    is_summing : the switch can add up
    """
    others = rows.devices - 1.0
    once_bytes, ring_bytes = (k * rows.message_bytes for k in (others, 2 * others / rows.devices))
    never_s = np.where((rows.devices >= SWITCHED_FROM) & is_summing, 0.0, np.inf)

    def once(x: Floats) -> Floats:
        return np.asarray(x[0] + once_bytes / (wire_bytes_per_s * x[1]))

    def ring(x: Floats) -> Floats:
        return np.asarray(x[2] + 2 * others * x[3] + ring_bytes / (wire_bytes_per_s * x[4]))

    def switched(x: Floats) -> Floats:
        return np.asarray(x[5] + never_s + rows.message_bytes / (wire_bytes_per_s * x[6]))

    def seconds(x: Floats) -> Floats:
        return np.asarray(np.minimum(np.minimum(once(x), ring(x)), switched(x)))

    x = robust_fit(
        lambda x: np.log(seconds(x) / rows.seconds),
        starts=[(4e-6, 0.5, 1e-5, 5e-7, 0.8, 2e-5, 0.6), (1e-5, 0.3, 1e-5, 1e-6, 0.6, 2e-5, 0.5)],
        low=(1e-7, 0.05, 1e-7, 1e-9, 0.05, 1e-7, 0.05),
        high=(1e-4, 2.0, 1e-4, 2e-5, 2.0, 1e-4, 1.0),
    )
    every = np.ones(len(rows), dtype=bool)
    names = (
        "floor_s", "wire_frac", "ring_floor_s", "step_s", "ring_frac", "up_floor_s", "up_frac",
    )  # fmt: skip
    fit = summary(names, x, seconds(x), rows.seconds, every)
    v, errors = fit.values, (fit.median_error_frac, fit.p90_error_frac, fit.rows)
    in_ring = {"floor_s": v["ring_floor_s"], "step_s": v["step_s"], "wire_frac": v["ring_frac"]}
    at_once = {"floor_s": v["floor_s"], "step_s": 0.0, "wire_frac": v["wire_frac"]}
    made = {"all_reduce": Fit(in_ring, *errors), "all_reduce_once": Fit(at_once, *errors)}
    if is_summing:
        up = {"floor_s": v["up_floor_s"], "step_s": 0.0, "wire_frac": v["up_frac"]}
        made["all_reduce_switched"] = Fit(up, *errors)
    return made


Curves = dict[tuple[str, str, str, str], tuple[Fit, str]]
"""By engine, chip, kernel and precision: the fit and the version it was timed on."""


def curves(found: Sequence[Found], plates: dict[str, Nameplate]) -> Curves:
    """Every curve, host-bound ones replaced by a twin's."""
    made: Curves = {}
    for item in found:
        plate, key = plates[item.chip], (item.engine, item.chip)
        fits: dict[str, Fit | None]
        if isinstance(item.rows, Reduced):
            fits = {**fit_reduces(item.rows, plate.scaleup_bytes_per_s, item.chip in SUMMING)}
        else:
            fits = {item.kernel: fit_found(item, plate)}
        for kernel, fit in fits.items():
            if fit is not None:
                made[*key, kernel, item.precision] = (fit, item.version)
    return {key: _twin(key, made) if key[0] in ENGINES else made[key] for key in made}


def _twin(key: tuple[str, str, str, str], made: Curves) -> tuple[Fit, str]:
    """The curve itself, or the best of another engine where the timings hold something else."""
    own = made[key]
    near = {e: made[e, *key[1:]] for e in ENGINES if (e, *key[1:]) in made}
    closest = min(near, key=lambda e: near[e][0].median_error_frac)
    if own[0].median_error_frac > HOST_BOUND_FRAC:
        return _instead(key[0], closest, near)
    if key[2].startswith("all_reduce"):
        small = {e: made[e, key[1], "all_reduce_once", key[3]][0] for e in near}
        fastest = min(small, key=lambda e: small[e].values["floor_s"])
        quick_s = SLOWER_THAN_TWIN * small[fastest].values["floor_s"]
        return _instead(
            key[0], fastest if small[key[0]].values["floor_s"] > quick_s else key[0], near
        )
    if key[2] == "gemm":
        sound = {e: v for e, v in near.items() if v[0].median_error_frac <= HOST_BOUND_FRAC}
        fastest = min(sound, key=lambda e: _decode_s(sound[e][0]))
        if _decode_s(own[0]) > SLOWER_THAN_TWIN * _decode_s(sound[fastest][0]):
            return _instead(key[0], fastest, near)
    return own


def _instead(engine: str, other: str, near: dict[str, tuple[Fit, str]]) -> tuple[Fit, str]:
    fit, version = near[other]
    return fit, version if other == engine else f"{version} of {other}"


def _decode_s(fit: Fit) -> float:
    """Relative seconds of a decode product on one chip and in one precision."""
    v = fit.values
    x = np.array([v[n] for n in ("flop_frac_max", "rows_half", "columns_half", "inner_half",
                                 "hbm_frac", "floor_s")])  # fmt: skip
    rates = _gemm_rates(x, REFERENCE_FLOP_PER_S, REFERENCE_BYTES_PER_S)
    return float(gemm_work(rates, *DECODE_PRODUCT, (1.0, 1.0, RESULT_BYTES)).elapsed_s)


REFERENCE_FLOP_PER_S, REFERENCE_BYTES_PER_S = 2e15, 3.35e12
"""H100 in fp8: twins are compared with each other on the same chip, so any chip would do."""


def tables(folder: Path, out: Path = TABLES) -> dict[str, list[Row]]:
    """The table, by file name."""
    plates = read_nameplates(out / "accelerators.csv")
    made = curves([*read_engines(folder), *read_earlier(folder)], plates)
    return {TABLE: [_row(key, *value) for key, value in sorted(made.items())]}


def _row(key: tuple[str, str, str, str], fit: Fit, version: str) -> Row:
    row: Row = dict(zip(("engine", "accelerator", "kernel", "precision"), key, strict=True))
    row |= {"version": version}
    row |= {name: fit.values.get(name, "") for name in NUMBERS}
    row |= {"median_error_frac": fit.median_error_frac, "p90_error_frac": fit.p90_error_frac}
    return row | {
        "timings": float(fit.rows),
        "source": "aiconfigurator-core 0.12.0 systems/data, fitted by "
        "planner.calibration.engine_fits",
        "as_of": "2026-08",
        "grade": "measured",
        "licence": "Apache-2.0",
    }


def _gemm_rates(x: Floats, peak_flop_per_s: float, hbm_bytes_per_s: float) -> GemmRates:
    return GemmRates(
        peak_s_per_flop=1 / np.array(peak_flop_per_s),
        best_s_per_flop=1 / (peak_flop_per_s * x[0]),
        peak_s_per_byte=1 / np.array(hbm_bytes_per_s),
        best_s_per_byte=1 / (hbm_bytes_per_s * x[4]),
        rows_half=x[1],
        columns_half=x[2],
        inner_half=x[3],
        floor_s=x[5],
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; 0 if done or equal, 2 if the shipped table differs or a file is bad."""
    parser = argparse.ArgumentParser(
        prog="python -m planner.calibration.engine_fits", description=__doc__
    )
    parser.add_argument("timings", type=Path, help="systems/data of aiconfigurator-core")
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    given = parser.parse_args(arguments)
    return write_or_check(lambda: tables(given.timings), TABLES, only_check=given.check)


if __name__ == "__main__":
    sys.exit(main())
