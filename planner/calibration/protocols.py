"""Curves of two protocols for the links of a domain, fitted on measured collectives.

`python -m planner.calibration.protocols tests/truth/microbench.csv
tests/truth/microbench_shapes.csv` writes link_protocols.csv; with `--check` it compares it with
the shipped one instead. How far predictions lie from timings: planner.calibration.wire_errors.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from planner.calibration import measured
from planner.calibration.curves import Fit, Messages, robust_fit, summary
from planner.calibration.kernels import (
    APACHE,
    AS_OF,
    TABLES,
    TIMINGS,
    Row,
    write_or_check,
)
from simkernel.columns import Floats

LEAST_ROWS = 10
"""Six parameters ask for more points than that."""

MOST_ERROR_FRAC = 0.12
"""Median beyond which two protocols are not what was measured (PCIe without a switch): no row."""

NAMES = ("low_base_s", "low_frac", "high_base_s", "high_frac", "step_s", "own_frac")

STARTS = (
    (5e-6, 0.1, 2e-5, 0.8, 5e-7, 0.05),
    (1e-5, 0.3, 3e-5, 0.9, 5e-7, 0.05),
    (5e-6, 0.05, 1e-5, 0.8, 1e-7, 0.05),
)
LOW = (1e-7, 0.005, 1e-7, 0.05, 1e-9, 5e-4)
HIGH = (1e-4, 1.0, 2e-4, 1.0, 2e-5, 0.5)

PULL = 0.05
"""Weight of a weak pull to a usual ring hop, share of a flagged protocol and own copy, which few
rows leave open; own choice."""

USUAL = {1: 0.2, 4: 0.6e-6, 5: 0.05}
"""By place in NAMES: the hop is NVIDIA/nccl src/graph/tuning.cc hwLat NVLINK ring LL."""


def fit_protocols(rows: Messages, wire_bytes_per_s: float, has_steps: bool) -> Fit:
    """The two protocols of one chip and operation; errors over all sizes.

    Parameters
    ----------
    rows : (n,) measured
    wire_bytes_per_s : per device and direction [bytes/s]
    has_steps : False where all peers are served at once
    """

    def seconds(x: Floats) -> Floats:
        return _seconds(x, rows, wire_bytes_per_s, has_steps)

    def log_errors(x: Floats) -> Floats:
        pull = [PULL * np.log(x[place] / usual) for place, usual in USUAL.items()]
        return np.concatenate([np.log(seconds(x) / rows.seconds), pull])

    x = robust_fit(log_errors, STARTS, LOW, HIGH)
    x[4] *= has_steps
    return summary(NAMES, x, seconds(x), rows.seconds, np.ones(len(rows), bool))


def _seconds(x: Floats, rows: Messages, wire_bytes_per_s: float, has_steps: bool) -> Floats:
    """Times by parameters in the order of NAMES; (n,)."""
    moved = rows.wire_bytes + x[5] * rows.own_bytes
    low, high = (x[i] + moved / (wire_bytes_per_s * x[i + 1]) for i in (0, 2))
    return np.asarray(np.minimum(low, high) + x[4] * rows.steps * has_steps)


def left_out_errors(timings: Sequence[Path], folder: Path = TABLES) -> dict[str, Floats]:
    """|predicted / measured - 1| of every row by a fit that has not seen it, by chip."""
    plates = measured.read_nameplates(folder / "accelerators.csv")
    found: dict[str, list[float]] = defaultdict(list)
    for (chip, operation), rows in measured.read_messages(timings).items():
        if len(rows) <= LEAST_ROWS or operation == "send":
            continue
        wire, has_steps = plates[chip].scaleup_bytes_per_s, operation != "all_to_all"
        for place in range(len(rows)):
            others = np.flatnonzero(np.arange(len(rows)) != place)
            fit = fit_protocols(rows.take(others), wire, has_steps)
            x, one = np.array(list(fit.values.values())), rows.take(np.array([place]))
            found[chip].append(float(abs(_seconds(x, one, wire, has_steps) / one.seconds - 1)[0]))
    return {chip: np.array(errors) for chip, errors in found.items()}


def protocol_rows(timings: Sequence[Path], folder: Path = TABLES) -> list[Row]:
    """One row for every chip and operation with enough measurements."""
    plates = measured.read_nameplates(folder / "accelerators.csv")
    origin: Row = {"source": TIMINGS, "as_of": AS_OF, "grade": "measured", "licence": APACHE}
    rows: list[Row] = []
    for (chip, operation), found in sorted(measured.read_messages(timings).items()):
        if len(found) >= LEAST_ROWS and operation != "send":
            wire = plates[chip].scaleup_bytes_per_s
            fit = fit_protocols(found, wire, operation != "all_to_all")
            if fit.median_error_frac > MOST_ERROR_FRAC:
                continue
            head: Row = {"accelerator": chip, "operation": operation, **fit.values}
            head |= {"median_error_frac": fit.median_error_frac}
            head |= {"p90_error_frac": fit.p90_error_frac, "basis": "measured"}
            rows.append(head | origin)
    return rows


def tables(timings: Sequence[Path], folder: Path = TABLES) -> Mapping[str, list[Row]]:
    """The table this room makes, by file name."""
    return {"link_protocols.csv": protocol_rows(timings, folder)}


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; 0 if done or equal, 2 if the shipped table differs or a file is bad."""
    parser = argparse.ArgumentParser(
        prog="python -m planner.calibration.protocols", description=__doc__
    )
    parser.add_argument("timings", nargs="+", type=Path, help="kernel timing files")
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    parser.add_argument("--tables", type=Path, default=TABLES, help="folder of the tables")
    parser.add_argument("--left-out", action="store_true", help="errors of rows not fitted on")
    given = parser.parse_args(arguments)
    if given.left_out:
        for chip, errors in sorted(left_out_errors(given.timings, given.tables).items()):
            print(f"{chip:<22}{len(errors):>4} rows, median error {np.median(errors):6.1%}")
        return 0
    return write_or_check(
        lambda: tables(given.timings, given.tables), given.tables, only_check=given.check
    )


if __name__ == "__main__":
    raise SystemExit(main())
