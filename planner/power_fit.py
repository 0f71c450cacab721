"""Power curves fitted to metered serving runs, and transferred to chips nobody metered.

`python -m planner.power_fit serve_power.csv` writes power_curves.csv. The rows of the energy
benchmark have no licence: they are read from the path given, only the curves are shipped.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from planner.calibrate import TABLES, Row, write_or_check
from planner.fits import Fit, robust_fit, summary
from planner.measured import Nameplate, read_nameplates
from simkernel.columns import Floats
from simkernel.errors import BadFile
from simkernel.hardware import Columns, PowerCurve
from simkernel.power import device_w

METERED = {"H100": "H100-SXM", "B200": "B200-SXM"}
"""Labels of the power file and ours; other labels there are other parts or other limits."""

WEIGHT_BYTES = {"bfloat16": 2.0, "fp8": 1.0, "mxfp4": 0.5 + 1 / 32}  # one scale byte per 32 values
PRECISION = {"bfloat16": "bf16", "fp8": "fp8", "mxfp4": "mxfp4"}

LOW, HIGH = (1.0, 0.5, 1.0, 0.3), (900.0, 1.0, 2000.0, 1.0)
"""Bounds of memory_w, memory_exponent, compute_w, compute_exponent. Prompts and caches are not
in the utilisations, which bends the fit towards steps at zero load; the lower exponents keep it
a curve. At or above a third of peak both chips draw their cap, whatever the exponents."""

CONTEXT_EXTRA_W = 46.0  # middle of +26..66 W once a context exists (arXiv 2605.23918)
IDLE_OF_TDP = 0.12  # between H100 (0.10) and B200 (0.14) in accelerators.csv

SOURCE = "ML.ENERGY benchmark v3, H100 and B200 runs (fitted curve only; weights-only bytes)"


@dataclass(frozen=True)
class Runs(Columns):
    """Metered serving runs of one chip; shape (n,). Utilisation over the whole run."""

    memory_frac: Floats
    compute_frac: Floats
    watts: Floats


@dataclass(frozen=True)
class PowerTransfer:
    """Whose curve a chip takes, and its share of the host."""

    donor: str
    assumed_tdp_w: float | None
    host_idle_w: float
    host_span_w: float
    source: str
    as_of: str
    grade: str
    licence: str


def read_runs(path: Path, plates: Mapping[str, Nameplate]) -> dict[str, Runs]:
    """Utilisation and watts per device by chip, rows with use=yes.

    Bytes are the weights a step touches (all of a dense model; of experts, those that a batch
    of random tokens meets), flop 2 x active parameters x output tokens.

    Raises
    ------
    BadFile : unreadable, or without the columns of truth/serve_power.csv
    """
    found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in METERED.values()}
    try:
        with path.open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                if row["use"] == "yes" and row["gpu"] in METERED:
                    chip = METERED[row["gpu"]]
                    found[chip].append(_run(row, plates[chip]))
    except (OSError, KeyError, ValueError) as error:
        raise BadFile(f"{path}: {error}; wanted a file like truth/serve_power.csv") from error
    return {chip: Runs(*np.array(rows).T) for chip, rows in found.items() if rows}


def fit_power(runs: Runs, context_w: float, cap_w: float) -> Fit:
    """memory_w, memory_exponent, compute_w, compute_exponent of one chip.

    Parameters
    ----------
    runs : (n,)
    context_w : power with a context open and nothing running [W]
    cap_w : power limit [W]

    Returns
    -------
    Fit; errors over all runs
    """

    def watts(x: Floats) -> Floats:
        curve = _curve(x, context_w, cap_w)
        return device_w(curve, runs.memory_frac, runs.compute_frac)

    starts = [(300.0, 0.6, 500.0, 0.5), (600.0, 0.6, 300.0, 0.4), (200.0, 0.6, 900.0, 0.4)]
    x = robust_fit(lambda x: np.log(watts(x) / runs.watts), starts, LOW, HIGH)
    names = ("memory_w", "memory_exponent", "compute_w", "compute_exponent")
    return summary(names, x, watts(x), runs.watts, np.ones(len(runs), dtype=bool))


def power_rows(
    plates: Mapping[str, Nameplate],
    fitted: Mapping[str, Fit],
    moved: Mapping[str, PowerTransfer],
) -> list[Row]:
    """One row for every accelerator: its own curve or a donor's, scaled to its power limit."""
    return [{"accelerator": name, **_cells(name, plates, fitted, moved)} for name in plates]


def read_power_transfers(path: Path) -> dict[str, PowerTransfer]:
    """Donors and host shares by chip."""
    with path.open(newline="", encoding="utf-8") as file:
        return {
            row["accelerator"]: PowerTransfer(
                donor=row["donor"],
                assumed_tdp_w=float(row["assumed_tdp_w"]) if row["assumed_tdp_w"] else None,
                host_idle_w=float(row["host_idle_w"]),
                host_span_w=float(row["host_span_w"]),
                source=row["source"],
                as_of=row["as_of"],
                grade=row["grade"],
                licence=row["licence"],
            )
            for row in csv.DictReader(file)
        }


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; 0 if done or equal, 2 if the shipped table differs or a file is bad."""
    parser = argparse.ArgumentParser(prog="python -m planner.power_fit", description=__doc__)
    parser.add_argument("runs", type=Path, help="metered runs, as truth/serve_power.csv")
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    parser.add_argument("--tables", type=Path, default=TABLES, help="folder of the tables")
    given = parser.parse_args(arguments)
    return write_or_check(
        lambda: tables(given.runs, given.tables), given.tables, only_check=given.check
    )


def tables(runs: Path, folder: Path) -> dict[str, list[Row]]:
    """The table this module makes, by file name; `folder` holds the tables it is made from."""
    plates = read_nameplates(folder / "accelerators.csv")
    moved = read_power_transfers(folder / "power_transfers.csv")
    fitted = {
        chip: fit_power(metered, *_limits(plates[chip], moved[chip]))
        for chip, metered in read_runs(runs, plates).items()
    }
    return {"power_curves.csv": power_rows(plates, fitted, moved)}


def _cells(
    name: str,
    plates: Mapping[str, Nameplate],
    fitted: Mapping[str, Fit],
    moved: Mapping[str, PowerTransfer],
) -> Row:
    """The curve of one chip; a transferred one keeps its shape between context and limit."""
    if name not in moved:
        raise BadFile(f"{name} has no power donor; add a row to power_transfers.csv")
    own, donor = moved[name], moved[name].donor
    context_w, cap_w = _limits(plates[name], own)
    donor_context_w, donor_cap_w = _limits(plates[donor], moved[donor])
    scale = (cap_w - context_w) / (donor_cap_w - donor_context_w)
    fit, is_own = fitted[donor], name == donor
    return {
        "idle_w": _idle_w(plates[name], cap_w),
        "context_w": context_w,
        "memory_w": fit.values["memory_w"] * scale,
        "memory_exponent": fit.values["memory_exponent"],
        "compute_w": fit.values["compute_w"] * scale,
        "compute_exponent": fit.values["compute_exponent"],
        "communication_w": 0.0,  # no row has communication alone to tell it from
        "cap_w": cap_w,
        "host_idle_w": own.host_idle_w,
        "host_span_w": own.host_span_w,
        "median_error_frac": fit.median_error_frac + (0.0 if is_own else 0.1),
        "p90_error_frac": fit.p90_error_frac + (0.0 if is_own else 0.15),
        "basis": "measured" if is_own else f"transferred:{donor}",
        "source": f"{SOURCE}; host: {own.source}",
        "as_of": own.as_of,
        "grade": own.grade,
        "licence": own.licence,
    }


def _run(row: Mapping[str, str], plate: Nameplate) -> tuple[float, float, float]:
    """Memory and arithmetic utilisation and watts per device of one metered run."""
    precision = row["weight_precision"]
    active, total = float(row["active_params_b"]) * 1e9, float(row["total_params_b"]) * 1e9
    devices, replicas = float(row["n_gpu"]), float(row["dp"] or 1)
    batch, rate = float(row["avg_batch"]), float(row["tok_s"])
    met_frac = 1 - (1 - active / total) ** (batch / replicas) if active < total else 1.0
    steps_per_s = rate / batch
    touched = total * WEIGHT_BYTES[precision] * met_frac * replicas / devices
    peaks = plate.peak_flop_per_s
    peak = peaks.get(PRECISION[precision], peaks["bf16"])
    return (
        min(touched * steps_per_s / plate.hbm_bytes_per_s, 1.0),
        2 * active * rate / devices / peak,
        float(row["power_w_per_gpu"]),
    )


def _curve(x: Floats, context_w: float, cap_w: float) -> PowerCurve:
    zero = np.zeros(1)
    return PowerCurve(
        idle_w=zero,
        context_w=np.array([context_w]),
        memory_w=x[[0]],
        memory_exponent=x[[1]],
        compute_w=x[[2]],
        compute_exponent=x[[3]],
        communication_w=zero,
        cap_w=np.array([cap_w]),
        host_idle_w=zero,
        host_span_w=zero,
    )


def _limits(plate: Nameplate, transfer: PowerTransfer) -> tuple[float, float]:
    """Power with a context open, and the limit [W]."""
    cap_w = plate.tdp_w or transfer.assumed_tdp_w
    if cap_w is None:
        raise BadFile(f"{plate.name} has no tdp_w; give assumed_tdp_w in power_transfers.csv")
    return plate.context_w or _idle_w(plate, cap_w) + CONTEXT_EXTRA_W * cap_w / 700.0, cap_w


def _idle_w(plate: Nameplate, cap_w: float) -> float:
    return plate.idle_w or IDLE_OF_TDP * cap_w


if __name__ == "__main__":
    sys.exit(main())
