"""Make the bands of speed from runs that were left out of the fit, and of what follows from speed.

`planner validate tests/truth/train.csv --protocol leave_one_out:source_group --rows
tests/truth/left_out.csv` predicts every published run without its source; `python -m
planner.validation.measured_bands tests/truth/left_out.csv` turns what that missed into rows of
bands.csv, or compares them with the shipped ones (`--check`). Independent errors are joined as
logarithms.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from planner.bands import DENSE, EXPERTS, TABLE, Band, joined
from planner.validation.units import MEMORY
from simkernel.columns import Floats
from simkernel.errors import BadFile, PlanError

Cells = dict[str, str]

GOODPUT: Band = (0.96, 1.04)  # worked example of arXiv 2410.18124: goodput known within 4%
CHIP_PRICE: Band = (0.75, 1.33)  # a third, as low and high prices in accelerators.csv
GRID: Band = (0.85, 1.15)  # yearly means of one grid, regions.csv
WATER: Band = (0.75, 1.33)  # a third, water per kWh of site and station, regions.csv
FOOTPRINT: Band = (0.5, 2.0)  # 2.6 times between methods, cloud-carbon-footprint#919

RATES = ("tokens_per_s", "tokens_per_s_per_device", "model_flop_per_s_per_device", "mfu_frac")
SOURCE = "planner validate tests/truth/train.csv --protocol leave_one_out:source_group"
NEEDED = ("metric", "regime", "source_group", "ratio")


def speed_bands(step: Band, shipped: Mapping[str, Band]) -> dict[str, tuple[Band, str, str]]:
    """Band, basis and source of every quantity that follows from the time of a step.

    Parameters
    ----------
    step : measured over predicted seconds, 5% and 95% quantiles
    shipped : the other bands of the table, by quantity

    Returns
    -------
    quantity to (low, high), what it rests on, where that was read
    """
    rate = (1.0 / step[1], 1.0 / step[0])
    days = joined(step, GOODPUT)
    energy = joined(days, shipped["facility_mean_w"])
    grid, body = joined(energy, GRID), joined(days, FOOTPRINT)
    as_days = "days joined as independent logarithms with "
    as_energy = "facility_mwh joined as independent logarithms with "
    return {
        "step_s": (step, "measured: 5% and 95% quantiles, sources of equal weight", SOURCE),
        **{name: (rate, "inverse of step_s", "step_s") for name in RATES},
        "days": (days, "step_s joined as independent logarithms with goodput to 4%", "step_s"),
        "device_hours": (days, "as days", "days"),
        "facility_mwh": (energy, f"{as_days}facility_mean_w", "days; facility_mean_w"),
        "usd": (
            joined(days, CHIP_PRICE),
            f"{as_days}prices of chips to a third; time counts in full",
            "days; accelerators.csv low and high prices",
        ),
        "operational_kgco2e": (
            grid, f"{as_energy}yearly grid intensity to 15%", "facility_mwh; regions.csv",
        ),
        "embodied_kgco2e": (
            body,
            f"{as_days}footprints of one card, 2.6 times apart between methods",
            "days; embodied.csv; cloud-carbon-footprint#919",
        ),
        "kgco2e": (
            (min(grid[0], body[0]), max(grid[1], body[1])),
            "wider of the two parts: any mix of them lies inside",
            "operational_kgco2e; embodied_kgco2e",
        ),
        "water_l": (
            joined(energy, WATER),
            f"{as_energy}site and source water to a third",
            "facility_mwh; regions.csv",
        ),
    }  # fmt: skip


def step_band(ratios: Floats, sources: Sequence[str]) -> Band:
    """5% and 95% quantiles of measured over predicted step seconds.

    Parameters
    ----------
    ratios : (n,) predicted over measured speed of runs that the fit did not see
    sources : (n,) source of each

    Notes
    -----
    Every source weighs the same, however many runs it published: the next source is one more
    draw among sources (Dunn, Wasserman and Ramdas 2018, Distribution-free prediction sets for
    two-layer hierarchical models, arXiv 1809.07441).
    """
    named, counts = np.unique(sources, return_counts=True)
    weights = 1.0 / counts[np.searchsorted(named, sources)]
    order = np.argsort(ratios)
    ranks = np.cumsum(weights[order]) - 0.5 * weights[order]
    low, high = np.interp([0.05, 0.95], ranks / weights.sum(), ratios[order])
    return float(low), float(high)


def measured_rows(left_out: Path, table: Path = TABLE) -> list[Cells]:
    """The whole table of bands with those of speed as measured; widened to two digits.

    Parameters
    ----------
    left_out : what `planner validate --rows` wrote of runs that were left out

    Raises
    ------
    BadFile : a file that holds no such rows
    """
    runs, rows = _read_runs(left_out), _table(table)
    shipped = {r["quantity"]: (float(r["low_frac"]), float(r["high_frac"])) for r in rows}
    made = {}
    for regime in (DENSE, EXPERTS):
        own = [run for run in runs if run["regime"] == regime]
        ratios = np.array([float(run["ratio"]) for run in own])
        made[regime] = speed_bands(step_band(ratios, [r["source_group"] for r in own]), shipped)
    return [_row(row, made.get(row["regime"], {})) for row in rows]


def _read_runs(path: Path) -> list[Cells]:
    try:
        rows = [row for row in _table(path) if row.get("metric") not in (None, *MEMORY)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadFile(f"{path} cannot be read: {error}") from error
    lacking = [name for name in NEEDED if not rows or name not in rows[0]]
    if lacking or {row["regime"] for row in rows} != {DENSE, EXPERTS}:
        why = f"lacks {', '.join(lacking)}" if lacking else "has not both regimes"
        raise BadFile(f"{path} {why}; make it with {SOURCE} --rows {path}")
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; 0 if done or equal, 2 if the shipped bands differ or a file is bad."""
    parser = argparse.ArgumentParser(
        prog="python -m planner.validation.measured_bands", description=__doc__
    )
    parser.add_argument("left_out", type=Path, help="rows that planner validate wrote")
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    given = parser.parse_args(arguments)
    try:
        rows = measured_rows(given.left_out)
    except PlanError as error:
        print("\n".join(error.faults), file=sys.stderr)
        return 2
    if given.check:
        faults = differences(_table(TABLE), rows)
        print("\n".join(faults), file=sys.stderr)
        return 2 if faults else 0
    with TABLE.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return 0


def differences(shipped: Sequence[Cells], made: Sequence[Cells]) -> list[str]:
    """Where the shipped table differs from the measured one, in words."""
    return [
        f"bands.csv {was['quantity']} {was['regime']}: {name} {was[name]}, measured {row[name]}"
        for was, row in zip(shipped, made, strict=True)
        for name in ("low_frac", "high_frac")
        if float(was[name]) != float(row[name])
    ]


def _table(path: Path) -> list[Cells]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _row(row: Cells, made: Mapping[str, tuple[Band, str, str]]) -> Cells:
    """A row with its measured band, rounded outwards; other rows as they are."""
    if row["quantity"] not in made:
        return row
    (low, high), basis, source = made[row["quantity"]]
    return row | {
        "low_frac": f"{math.floor(low * 100) / 100:g}",
        "high_frac": f"{math.ceil(high * 100) / 100:g}",
        "basis": basis,
        "source": source,
        "as_of": "2026-11",
        "grade": "measured" if row["quantity"] in ("step_s", *RATES) else "estimate",
    }


if __name__ == "__main__":
    sys.exit(main())
