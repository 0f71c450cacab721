"""Tile curves of chips fitted to timed products, with the error on shapes that were left out.

python -m planner.calibration.tile_fit TIMINGS… prints the rows of costdata/tables/tile_curves.csv.
A family of shapes is one weight: the same inner and columns, whatever the rows.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from costdata.facts import TABLES
from planner.calibration.curves import LARGE_ROWS, SMALL_WEIGHT, Products, robust_fit
from planner.calibration.measured import read_nameplates, read_products
from simkernel.columns import Floats
from simkernel.hardware import PRECISION_BYTES, PRECISIONS
from simkernel.tiles import TileRates, tiled_s
from simkernel.timed_over_curves import RESULT_BYTES

CORES = {
    "A100-80G-SXM": 108, "H100-SXM": 132, "H200-SXM": 132, "B200-SXM": 148, "GB200": 148,
}  # fmt: skip
"""Streaming multiprocessors that a chip is sold with (NVIDIA A100 and H100 white papers; Blackwell
as `deviceQuery` reports it: aiconfigurator systems/b200_sxm.yaml)."""

NAMES = ("loop_frac", "cache_frac", "fill_s", "hbm_frac", "floor_s")
USUAL = np.array([0.8, 2.5, 1e-6, 0.8, 5e-6])
"""Where rows leave a parameter open: own choice, near what kernels of these chips reach."""

PULL = 0.03
LOW, HIGH = (0.05, 0.3, 1e-8, 0.1, 1e-7), (1.0, 20.0, 2e-5, 1.0, 4e-5)

STARTS = tuple(USUAL * np.array([frac, 1.0, 1.0, 1.0, 1.0]) for frac in (0.7, 1.0))


def product_s(
    x: Floats, measured: Products, cores: float, peak: float, hbm: float, width: float
) -> Floats:
    """Seconds of products by the tile curve with parameters `NAMES`; (n,).

    Parameters
    ----------
    peak, hbm : rates of the chip [flop/s], [bytes/s]
    width : of one input value [bytes]
    """
    rates = TileRates(cores, cores / (peak * x[0]), cores / (hbm * x[1]), x[2])
    rows, inner, columns = measured.rows, measured.inner, measured.columns
    value_bytes = (width, width, RESULT_BYTES)
    moved = inner * (rows + columns) * width + rows * columns * RESULT_BYTES
    busy_s = tiled_s(rates, (rows, inner, columns), value_bytes, 1.0)
    return np.asarray(np.maximum(busy_s, moved / (hbm * x[3])) + x[4])


def fit_tiles(
    measured: Products, cores: float, peak: float, hbm: float, width: float,
    starts: Sequence[Floats] = STARTS,
) -> Floats:  # fmt: skip
    """Parameters `NAMES` of one chip and precision; (5,).

    Parameters
    ----------
    measured : (n,) timed products
    """
    weight = np.where(measured.rows >= LARGE_ROWS, 1.0, SMALL_WEIGHT)

    def log_errors(x: Floats) -> Floats:
        log_frac = np.log(product_s(x, measured, cores, peak, hbm, width) / measured.seconds)
        return np.concatenate([weight * log_frac, PULL * np.log(x / USUAL)])

    return robust_fit(log_errors, [tuple(start) for start in starts], LOW, HIGH)


def left_out_errors(
    measured: Products, fitted: Floats, cores: float, peak: float, hbm: float, width: float
) -> Floats:
    """|predicted / timed - 1| of every product by a fit to those of other weights; (n,)."""
    weights = np.stack([measured.inner, measured.columns], axis=1)
    _, families = np.unique(weights, axis=0, return_inverse=True)
    families, errors = families.reshape(-1), np.zeros(len(measured))
    for family in np.unique(families):
        here, others = np.flatnonzero(families == family), np.flatnonzero(families != family)
        x = fit_tiles(measured.take(others), cores, peak, hbm, width, [fitted])
        mine = measured.take(here)
        predicted = product_s(x, mine, cores, peak, hbm, width)
        errors[here] = np.abs(predicted / mine.seconds - 1.0)
    return errors


def tile_rows(timings: Sequence[Path], folder: Path = TABLES) -> list[dict[str, str]]:
    """Rows of tile_curves.csv: a chip and precision each."""
    plates, rows = read_nameplates(folder / "accelerators.csv"), []
    for (chip, precision), measured in read_products(timings).items():
        peak = plates[chip].peak_flop_per_s.get(precision)
        if chip not in CORES or peak is None:
            continue
        width = PRECISION_BYTES[PRECISIONS.index(precision)]
        about = (float(CORES[chip]), peak, plates[chip].hbm_bytes_per_s, width)
        x = fit_tiles(measured, *about)
        errors = np.abs(product_s(x, measured, *about) / measured.seconds - 1.0)
        left = left_out_errors(measured, x, *about)
        rows.append(
            {
                "accelerator": chip,
                "precision": precision,
                "cores": f"{CORES[chip]}",
                **{name: f"{value:.4g}" for name, value in zip(NAMES, x, strict=True)},
                "median_error_frac": f"{np.median(errors):.4g}",
                "p90_error_frac": f"{np.quantile(errors, 0.9):.4g}",
                "family_median_error_frac": f"{np.median(left):.4g}",
                "family_p90_error_frac": f"{np.quantile(left, 0.9):.4g}",
                "source": "ai-dynamo/aiconfigurator systems/data, tests/truth/README.md",
                "as_of": "2026-08",
                "grade": "measured",
                "licence": "Apache-2.0",
            }
        )
    return rows


def main() -> None:
    """Print the rows of a fit to the files named."""
    rows = tile_rows([Path(name) for name in sys.argv[1:]])
    writer = csv.DictWriter(sys.stdout, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)


if __name__ == "__main__":
    main()
