"""Make the calibration tables: measured curves where timings exist, transferred ones elsewhere.

`python -m planner.calibration.kernels tests/truth/microbench.csv
tests/truth/microbench_shapes.csv` writes the efficiency and link tables; with `--check` it
compares them with the shipped ones instead. Power curves are made by
planner.calibration.power_fit, bands of speed by planner.validation.measured_bands.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from planner.calibration import curves as fits
from planner.calibration import measured
from planner.calibration.curves import Fit
from planner.calibration.measured import Nameplate
from simkernel.errors import BadFile, PlanError
from simkernel.hardware import OPERATIONS

Row = dict[str, str | float]
TABLES = Path(__file__).parents[2] / "costdata" / "tables"

VALUE_BYTES = {
    "bf16": 2.0,
    "int8": 1.0,
    "fp8": 1.0,
    "fp8_block": 1.0 + 4 / 128,  # one fp32 scale per 128 values of the input (DeepSeek-V3, 3.3.2)
    "nvfp4": 0.5 + 1 / 16,  # one fp8 scale per 16 values (NVIDIA Blackwell NVFP4)
}
RESULT_BYTES = (
    2.0  # all kernels of the timing files return bf16 or fp16 (aiconfigurator collector)
)

STANDS_IN = {
    "fp16": ("bf16",),
    "int8": ("fp8", "bf16"),
    "fp8": ("fp8_block", "bf16"),
    "fp8_block": ("fp8", "bf16"),
    "mxfp8": ("fp8_block", "fp8"),
    "nvfp4": ("fp8_block",),
    "mxfp4": ("nvfp4", "fp8_block", "fp8"),
}
"""Whose curve a precision without timings takes, in order: the nearest in width and scaling.
DeepGEMM runs fp8_block on Blackwell as mxfp8 products, so they share a curve there."""

EXTRA_MEDIAN_FRAC, EXTRA_P90_FRAC = 0.15, 0.35
"""Added to the donor's error when a curve goes to another chip: the spread of flop_frac_max among
the nine measured chips (0.55 to 0.9), taken as a band; estimate."""

BACKWARD_CORE_FRAC = 0.86
"""Backward over forward rate of the fused core at head 128 on H100: 542/638 at 4k, 561/648 at 16k
(FlashAttention-3, arXiv 2407.08608, figures of forward and backward speed)."""

STREAM_HBM_FRAC, STREAM_FLOOR_S = 0.8, 3e-6  # aiconfigurator h100_sxm.yaml, gpu.mem_*_empirical

OUT_WIRE_FRAC = 0.94  # 47 of 50 GB/s per NDR card expected by its makers (NVIDIA/nccl-tests#290)
OUT_BASE_S = 10e-6  # point-to-point latency, aiconfigurator h100_sxm.yaml node.p2p_latency
OUT_STEP_S = 4e-6  # one network hop of an LL128 ring (NVIDIA/nccl src/graph/tuning.cc, hwLat NET)

APACHE = "Apache-2.0"
TIMINGS = "ai-dynamo/aiconfigurator systems/data, tests/truth/README.md"
AS_OF = "2026-08"


@dataclass(frozen=True)
class Transfer:
    """A chip without timings takes `donor`'s curves, shares of peak and wire scaled."""

    donor: str
    scales: Mapping[str, float]
    source: str
    as_of: str
    grade: str
    licence: str


def gemm_rows(
    plates: Mapping[str, Nameplate], fitted: Mapping[tuple[str, str], Fit], moved: Transfers
) -> list[Row]:
    """One row for every accelerator and precision it supports.

    Raises
    ------
    BadFile : a chip has neither timings nor a donor
    """
    rows: list[Row] = []
    for name, plate in plates.items():
        for precision in plate.peak_flop_per_s:
            rows.append({"accelerator": name, "precision": precision})
            rows[-1] |= _gemm_cells(name, precision, fitted, moved)
    return rows


def attention_rows(
    plates: Mapping[str, Nameplate], fitted: Mapping[str, Fit], moved: Transfers
) -> list[Row]:
    """One row for every accelerator; the backward share is the same published ratio for all."""
    backward: Row = {"backward_frac": BACKWARD_CORE_FRAC}
    rows: list[Row] = []
    for name in plates:
        cells = _chip_cells(name, fitted, moved, {"flop_frac_max": "attention_scale"})
        rows.append({"accelerator": name})
        rows[-1] |= _after(cells, "floor_s", backward)
    return rows


def stream_rows(plates: Iterable[str]) -> list[Row]:
    """One row for every accelerator: no timings of element-wise kernels, one published ratio."""
    cells: Row = {"hbm_frac": STREAM_HBM_FRAC, "floor_s": STREAM_FLOOR_S}
    source = "ai-dynamo/aiconfigurator systems/h100_sxm.yaml, gpu.mem_*_empirical_*"
    cells |= {"median_error_frac": 0.1, "p90_error_frac": 0.3, "basis": "one ratio for all chips"}
    return [
        {"accelerator": n} | cells | _origin(source, AS_OF, "estimate", APACHE) for n in plates
    ]


def link_rows(
    plates: Mapping[str, Nameplate],
    fitted: Mapping[tuple[str, str], Fit],
    dispatch: Fit,
    moved: Transfers,
    planes: Mapping[str, Mapping[str, str]],
) -> list[Row]:
    """Every accelerator, tier and operation; `planes` as in rules/exchange_planes.csv."""
    rows: list[Row] = []
    for name in plates:
        for operation in OPERATIONS:
            of_chip = {chip: fit for (chip, op), fit in fitted.items() if op == operation}
            head: Row = {"accelerator": name, "tier": "scaleup", "operation": operation}
            rows.append(head | _chip_cells(name, of_chip, moved, {"wire_frac": "link_scale"}))
        for operation in OPERATIONS:
            head = {"accelerator": name, "tier": "scaleout", "operation": operation}
            used = planes.get(name, {}) if operation == "all_to_all" else {}
            rows.append(head | _on_planes(_scaleout_cells(operation, dispatch), used))
    return rows


def tables(timings: Sequence[Path], folder: Path = TABLES) -> dict[str, list[Row]]:
    """All tables this room makes, by file name.

    Parameters
    ----------
    timings : kernel timing files
    folder : where accelerators.csv and transfers.csv are

    Returns
    -------
    rows by file name
    """
    plates = measured.read_nameplates(folder / "accelerators.csv")
    moved = read_transfers(folder / "transfers.csv")
    return {
        "efficiency_gemm.csv": gemm_rows(plates, fit_products(timings, plates), moved),
        "efficiency_attention.csv": attention_rows(plates, fit_cores(timings, plates), moved),
        "efficiency_stream.csv": stream_rows(plates),
        "links.csv": link_rows(
            plates,
            fit_links(timings, plates),
            fit_dispatch(timings, plates),
            moved,
            _by_accelerator(folder / "rules" / "exchange_planes.csv"),
        ),
    }


def fit_products(
    timings: Sequence[Path], plates: Mapping[str, Nameplate]
) -> dict[tuple[str, str], Fit]:
    """Product curves by (chip, precision)."""
    return {
        (chip, precision): fits.fit_gemm(
            rows,
            plates[chip].peak_flop_per_s[precision],
            plates[chip].hbm_bytes_per_s,
            (VALUE_BYTES[precision], VALUE_BYTES[precision], RESULT_BYTES),
        )
        for (chip, precision), rows in measured.read_products(timings).items()
        if precision in plates[chip].peak_flop_per_s
    }


def fit_cores(timings: Sequence[Path], plates: Mapping[str, Nameplate]) -> dict[str, Fit]:
    """Attention curves by chip."""
    return {
        chip: fits.fit_attention(
            rows, plates[chip].peak_flop_per_s["bf16"], plates[chip].hbm_bytes_per_s
        )
        for chip, rows in measured.read_cores(timings).items()
        if rows.is_causal.any()
    }


def fit_links(
    timings: Sequence[Path], plates: Mapping[str, Nameplate]
) -> dict[tuple[str, str], Fit]:
    """Scale-up curves by (chip, operation)."""
    return {
        (chip, operation): fits.fit_link(
            rows, plates[chip].scaleup_bytes_per_s, has_steps(operation)
        )
        for (chip, operation), rows in measured.read_messages(timings).items()
    }


def has_steps(operation: str) -> bool:
    """An operation goes round a ring; the others serve all peers at once."""
    return operation not in ("all_to_all", "send")


def fit_dispatch(timings: Sequence[Path], plates: Mapping[str, Nameplate]) -> Fit:
    """The scale-out curve of expert dispatch, from Hopper nodes with one 400G card per device."""
    hopper = ("H100-SXM", "H200-SXM")
    rows = measured.read_dispatches(timings, hopper)
    out_bytes_per_s = plates[hopper[0]].scaleout_bytes_per_s
    return fits.fit_link(
        rows, out_bytes_per_s, has_steps=False, is_pipelined=False, large_bytes=1e6
    )  # 256 tokens at most


def read_transfers(path: Path) -> Transfers:
    """Donors of chips without timings, by chip.

    Raises
    ------
    BadFile : a row has too many or too few cells, or a scale that is not a number
    """
    with path.open(newline="", encoding="utf-8") as file:
        return {
            row["accelerator"]: _read_transfer(row, f"{path} line {line}")
            for line, row in enumerate(csv.DictReader(file), start=2)
        }


def differences(made: Mapping[str, list[Row]], folder: Path) -> list[str]:
    """Where shipped tables differ from made ones by more than rounding, in words."""
    faults = []
    for file, rows in made.items():
        with (folder / file).open(newline="", encoding="utf-8") as handle:
            shipped = list(csv.DictReader(handle))
        wanted = [{k: _cell(v) for k, v in row.items()} for row in rows]
        if len(shipped) != len(wanted):
            faults.append(f"{file} has {len(shipped)} rows, the timings give {len(wanted)}")
        faults += [
            f"{file} line {line} {column}: has {had.get(column)}, the timings give {value}"
            for line, (had, row) in enumerate(zip(shipped, wanted, strict=False), start=2)
            for column, value in row.items()
            if not _same(had.get(column, ""), value)
        ]
    return faults


def write(made: Mapping[str, list[Row]], folder: Path) -> None:
    """Tables as CSV files."""
    for file, rows in made.items():
        with (folder / file).open("w", newline="", encoding="utf-8") as handle:
            writer = csv.DictWriter(handle, rows[0].keys(), lineterminator="\n")
            writer.writeheader()
            writer.writerows({k: _cell(v) for k, v in row.items()} for row in rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; 0 if done or equal, 2 if the shipped tables differ or a file is bad."""
    parser = argparse.ArgumentParser(
        prog="python -m planner.calibration.kernels", description=__doc__
    )
    parser.add_argument("timings", nargs="+", type=Path, help="kernel timing files")
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    parser.add_argument("--tables", type=Path, default=TABLES, help="folder of the tables")
    given = parser.parse_args(arguments)
    return write_or_check(
        lambda: tables(given.timings, given.tables), given.tables, only_check=given.check
    )


def write_or_check(
    make: Callable[[], Mapping[str, list[Row]]], folder: Path, *, only_check: bool
) -> int:
    """Write the tables made, or compare them with the shipped ones; faults go to stderr.

    Returns the exit code: 0 if done or equal, 2 if tables differ or a file is bad.
    """
    try:
        made = make()
        faults = differences(made, folder) if only_check else []
        if not only_check:
            write(made, folder)
    except PlanError as error:
        faults = list(error.faults)
    for fault in faults:
        print(fault, file=sys.stderr)
    return 2 if faults else 0


Transfers = Mapping[str, Transfer]


def _read_transfer(row: dict[str, str], where: str) -> Transfer:
    if None in row or None in row.values():
        raise BadFile(f"{where} has too many or too few cells; quote texts that hold a comma")
    try:
        scales = {k: float(v) for k, v in row.items() if k.endswith("_scale")}
    except ValueError as error:
        raise BadFile(f"{where}: {error}; give scales as numbers") from error
    origin = {name: row[name] for name in ("source", "as_of", "grade", "licence")}
    return Transfer(donor=row["donor"], scales=scales, **origin)


def _gemm_cells(
    name: str, precision: str, fitted: Mapping[tuple[str, str], Fit], moved: Transfers
) -> Row:
    """The curve of one chip and precision: its own, its nearest precision's, or a donor's."""
    near = (precision, *STANDS_IN.get(precision, ()))
    for candidate in near:
        if fit := fitted.get((name, candidate)):
            basis = "measured" if candidate == precision else f"transferred:{name}/{candidate}"
            return _fitted_cells(fit, basis)
    transfer = _transfer(name, moved)
    for candidate in near:
        if fit := fitted.get((transfer.donor, candidate)):
            scales = {"flop_frac_max": "flop_scale", "hbm_frac": "hbm_scale"}
            return _moved_cells(fit, f"{transfer.donor}/{candidate}", transfer, scales)
    raise BadFile(f"no curve for {name} in {precision}; name a donor that has one of {near}")


def _chip_cells(
    name: str, fitted: Mapping[str, Fit], moved: Transfers, scales: Mapping[str, str]
) -> Row:
    """The curve of one chip: its own or a donor's (a donor's donor if need be)."""
    if fit := fitted.get(name):
        return _fitted_cells(fit, "measured")
    transfer = _transfer(name, moved)
    donor = transfer.donor if transfer.donor in fitted else _transfer(transfer.donor, moved).donor
    return _moved_cells(fitted[donor], donor, transfer, scales)


def _fitted_cells(fit: Fit, basis: str) -> Row:
    grade = "measured" if basis == "measured" else "estimate"
    return _errors(fit.values, fit, 0.0, 0.0, basis) | _origin(TIMINGS, AS_OF, grade, APACHE)


def _moved_cells(fit: Fit, donor: str, transfer: Transfer, scales: Mapping[str, str]) -> Row:
    """A donor's curve, its shares scaled but never above one."""
    values = {
        name: min(1.0, value * transfer.scales[scales[name]]) if name in scales else value
        for name, value in fit.values.items()
    }
    cells = _errors(values, fit, EXTRA_MEDIAN_FRAC, EXTRA_P90_FRAC, f"transferred:{donor}")
    return cells | _origin(transfer.source, transfer.as_of, transfer.grade, transfer.licence)


def _errors(
    values: Mapping[str, float], fit: Fit, more_median: float, more_p90: float, basis: str
) -> Row:
    return {
        **values,
        "median_error_frac": fit.median_error_frac + more_median,
        "p90_error_frac": fit.p90_error_frac + more_p90,
        "basis": basis,
    }


def _scaleout_cells(operation: str, dispatch: Fit) -> Row:
    """Dispatch is measured; the ring operations are what NCCL and its makers say of a card."""
    if operation == "all_to_all":
        cells = _errors(dispatch.values, dispatch, 0.0, 0.0, "measured:H100-SXM,H200-SXM")
        return cells | _origin(TIMINGS, AS_OF, "measured", APACHE)
    step_s = 0.0 if operation == "send" else OUT_STEP_S
    cells = {"wire_frac": OUT_WIRE_FRAC, "base_s": OUT_BASE_S, "step_s": step_s}
    cells |= {"chunk_s": 0.0, "own_frac": 0.0}
    cells |= {"median_error_frac": 0.1, "p90_error_frac": 0.3, "basis": "published figures"}
    source = (
        "NVIDIA/nccl-tests#290 (46-48 GB/s per 400G card); NVIDIA/nccl src/graph/tuning.cc "
        "(hwLat NET, ring LL128); aiconfigurator h100_sxm.yaml p2p_latency"
    )
    return cells | _origin(source, "2025-03", "vendor", "single figures, cited")


def _on_planes(cells: Row, used: Mapping[str, str]) -> Row:
    """A curve on as much of a card's rate as the library reaches."""
    if not used:
        return cells
    frac = float(used["used_frac"])
    cells = cells | {
        "wire_frac": float(cells["wire_frac"]) * frac,
        "basis": "transferred:H100-SXM,H200-SXM",
    }
    return cells | _origin(used["source"], used["as_of"], "estimate", "single figures, cited")


def _by_accelerator(path: Path) -> dict[str, dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return {row["accelerator"]: row for row in csv.DictReader(file)}


def _after(cells: Row, name: str, more: Row) -> Row:
    """Cells with more of them after a named one."""
    keys = list(cells)
    cut = keys.index(name) + 1
    return {k: cells[k] for k in keys[:cut]} | more | {k: cells[k] for k in keys[cut:]}


def _origin(source: str, as_of: str, grade: str, licence: str) -> Row:
    return {"source": source, "as_of": as_of, "grade": grade, "licence": licence}


def _transfer(name: str, moved: Transfers) -> Transfer:
    if name not in moved:
        raise BadFile(f"{name} has no timings and no donor; add a row to transfers.csv")
    return moved[name]


def _cell(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.4g}"


def _same(had: str, wanted: str) -> bool:
    """Equal text, or numbers within the last digits of a table."""
    try:
        return abs(float(had) - float(wanted)) <= 2e-3 * abs(float(wanted))
    except ValueError:
        return had == wanted


if __name__ == "__main__":
    sys.exit(main())
