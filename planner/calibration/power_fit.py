"""Power curves fitted to metered serving runs; `power_transfer` moves them to other chips.

`python -m planner.calibration.power_fit serve_power.csv train_power.csv` writes power_curves.csv,
rules/power_bands.csv and the column `fitted` of rules/metered_engine.csv and node_hosts.csv. The
rows of the energy benchmark have no licence: they are read from the path given; only curves and
quantiles of errors are shipped.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from costdata import catalog as catalogue
from planner.bands import DENSE, EXPERTS
from planner.calibration.curves import Fit, robust_fit, rounded, summary
from planner.calibration.huber import Steps, huber_step
from planner.calibration.kernels import TABLES, Row, write_or_check
from planner.calibration.measured import read_nameplates
from planner.calibration.power_transfer import (
    SHAPE,
    SOURCE,
    limits_w,
    links_w,
    power_curve,
    power_rows,
    read_power_transfers,
    scaled_values,
)
from planner.validation.power_nodes import fit_hosts, read_hosts
from planner.validation.power_predict import (
    Metered,
    chosen_runs,
    figures,
    metered,
    shares_of,
)
from planner.validation.power_truth import (
    DEVICE_W,
    J_PER_TOKEN,
    NodeFigure,
    is_metered,
    is_node,
    is_run,
    metered_rows,
    node_of,
    run_of,
)
from planner.validation.rows import TruthRow, chosen, read_truth
from planner.validation.serving_predict import predicted
from planner.validation.serving_truth import OUTPUT
from simkernel.columns import Floats, Masks
from simkernel.errors import BadFile, PlanError
from simkernel.hardware import Columns, PowerCurve
from simkernel.power import device_w

LOW, HIGH = (5.0, 0.5, 5.0, 0.3), (2000.0, 1.0, 4000.0, 1.0)
"""Bounds of `power_transfer.SHAPE`. Clocks stay high between
kernels, so watts jump as soon as anything runs; the lower exponents keep that a curve."""

TRAINING_MEMORY_FRAC, TRAINING_COMPUTE_FRAC = 0.3, 0.27
"""Use of a device at which metered training draws its limit, H100 and B200 alike
(tests/anchors/training_power.toml): 4 x 70e9 flop for each of 25 M tokens in 30 and 11 minutes
on eight devices is 0.25 and 0.30 of the FP8 peak; memory use is an own estimate."""

TRAINING_RUNS = 30
"""Metered serving runs that the training node weighs as: serving rarely comes near the limit, and
a curve that misses it there provides too little power."""

BANDS = "rules/power_bands.csv"
ENGINE_PARAMETERS, NODE_HOSTS = "rules/metered_engine.csv", "rules/node_hosts.csv"

SCALE_LOG, FAR_LOG = 0.12, 0.15
"""Spread of a good prediction of tokens/s, and from where a row pulls with a constant force."""

STEPS, NUDGE_LOG, LARGEST_STEP_LOG = 8, 0.02, 0.5


@dataclass(frozen=True)
class Runs(Columns):
    """Metered serving runs of one chip; shape (n,). Utilisation over the whole run."""

    memory_frac: Floats
    compute_frac: Floats
    link_frac: Floats
    wires_frac: Floats
    watts: Floats


@dataclass(frozen=True)
class Fitted:
    """Parameters of the metered engine, logarithms (k,), and the curve of each chip."""

    logs: Floats
    fits: Mapping[str, Fit]
    curves: Mapping[str, PowerCurve]


def read_metered(rows: Sequence[TruthRow]) -> tuple[Metered, list[tuple[str, str]]]:
    """Runs of some rows, and the rows that are none with the reason."""
    catalog, cases, unsupported = catalogue.load(), [], []
    for row in metered_rows(rows):
        try:
            cases.append(run_of(row, catalog))
        except PlanError as error:
            unsupported.append((row.case_id, " ".join(error.faults)))
    return metered(cases, catalog), unsupported


def fit_all(runs: Metered, folder: Path = TABLES) -> Fitted:
    """Speed of the metered engine first, then the watts of each chip at the measured speed."""
    plates = read_nameplates(folder / "accelerators.csv")
    moved = read_power_transfers(folder / "power_transfers.csv")
    logs = fit_speed(runs)
    work, rate = runs.work(logs), runs.tokens_per_s
    fits, curves = {}, {}
    for chip in sorted(set(runs.accelerators)):
        mine = np.flatnonzero(np.asarray(runs.accelerators) == chip)
        limits = limits_w(plates[chip], moved[chip])
        seen = Runs(*shares_of(work.take(mine), rate[mine]), runs.watts[mine])
        link_w = links_w(plates[chip])
        fits[chip] = fit_power(seen, *limits, link_w, has_training=True)
        curves[chip] = power_curve(fits[chip].values, *limits, link_w)
    return Fitted(logs, fits, curves)


def fit_speed(runs: Metered) -> Floats:
    """Logarithms of the engine's parameters (k,): tokens/s, with normal priors.

    Iteratively reweighted least squares (Huber 1964), as planner.calibration.serving_fit.
    """
    priors, logs = runs.priors, runs.priors.centres.copy()
    steps = Steps(SCALE_LOG, FAR_LOG, NUDGE_LOG, LARGEST_STEP_LOG)

    def residuals(tried: Floats) -> Floats:
        rates = predicted(runs.blocks, runs.engine_of(tried), tried.shape[1])[OUTPUT]
        return np.asarray(np.log(rates / runs.tokens_per_s))

    for _ in range(STEPS):
        logs = logs - huber_step(residuals, logs, priors.centres, priors.spreads, 1.0, steps)
    return logs


def left_out(runs: Metered, groups: Sequence[str]) -> dict[str, Floats]:
    """Both metrics of every run, fitted without the runs of its group; (n,) each."""
    named = np.asarray(groups)
    found = {name: np.zeros(len(named)) for name in (DEVICE_W, J_PER_TOKEN)}
    for value in np.unique(named):
        is_out = named == value
        fitted = fit_all(chosen_runs(runs, ~is_out))
        part = chosen_runs(runs, is_out)
        curves = {chip: curve_of(chip, fitted) for chip in sorted(set(part.accelerators))}
        for name, values in figures(curves, part, part.work(fitted.logs)).items():
            found[name][is_out] = values
    return found


def curve_of(chip: str, fitted: Fitted, folder: Path = TABLES) -> PowerCurve:
    """The curve fitted on a chip, or one of another, scaled as for chips that nobody metered.

    Parameters
    ----------
    folder : of the tables with ratings and transfers
    """
    if chip in fitted.curves:
        return fitted.curves[chip]
    plates = read_nameplates(folder / "accelerators.csv")
    moved = read_power_transfers(folder / "power_transfers.csv")
    donor = min(fitted.fits)
    values = scaled_values(chip, donor, fitted.fits[donor], plates, moved)
    return power_curve(values, *limits_w(plates[chip], moved[chip]), links_w(plates[chip]))


def band_rows(runs: Metered) -> list[Row]:
    """90% bands of both metrics: measured over predicted, each run without its model."""
    found = left_out(runs, [case.model.name for case in runs.cases])
    is_moe: Masks = np.array([case.regime == EXPERTS for case in runs.cases])
    rows: list[Row] = []
    for metric, values in found.items():
        measured = np.array([case.measured[metric] for case in runs.cases])
        for regime, mine in ((DENSE, ~is_moe), (EXPERTS, is_moe)):
            if not mine.any():
                continue
            low, high = np.quantile((measured / values)[mine], (0.05, 0.95))
            row: Row = {"quantity": metric, "regime": regime}
            row |= {"low_frac": min(rounded(low), 1.0), "high_frac": max(rounded(high), 1.0)}
            row |= {"basis": f"leave one model out, {int(mine.sum())} runs", "source": SOURCE}
            rows.append(row | {"as_of": "2026-11", "grade": "measured", "licence": "MIT"})
    return rows


def fit_power(
    runs: Runs, context_w: float, cap_w: float, link_w: float = 0.0, *, has_training: bool = False
) -> Fit:
    """memory_w, memory_exponent, compute_w, compute_exponent of one chip.

    Parameters
    ----------
    runs : (n,)
    context_w : power with a context open and nothing running [W]
    cap_w : power limit [W]
    link_w : of links at full rate, which is not fitted [W]
    has_training : the curve also has to reach the limit where training does

    Returns
    -------
    Fit; errors over all runs
    """
    repeated = np.ones(TRAINING_RUNS * has_training)
    memory_frac = np.append(runs.memory_frac, TRAINING_MEMORY_FRAC * repeated)
    compute_frac = np.append(runs.compute_frac, TRAINING_COMPUTE_FRAC * repeated)
    link_frac = np.append(runs.link_frac, 0.0 * repeated)
    wires_frac = np.append(runs.wires_frac, 0.0 * repeated)
    metered_w = np.append(runs.watts, cap_w * repeated)

    def watts(x: Floats) -> Floats:
        curve = power_curve(dict(zip(SHAPE, x, strict=True)), context_w, cap_w, link_w)
        return device_w(curve, memory_frac, compute_frac, link_frac, wires_frac)

    starts = [(200.0, 0.6, 600.0, 0.5), (600.0, 0.6, 300.0, 0.4), (100.0, 0.9, 900.0, 0.3)]
    x = robust_fit(lambda x: np.log(watts(x) / metered_w), starts, LOW, HIGH)
    is_metered_run = np.arange(len(metered_w)) < len(runs)
    return summary(SHAPE, x, watts(x), metered_w, is_metered_run)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; 0 if done or equal, 2 if the shipped table differs or a file is bad."""
    parser = argparse.ArgumentParser(
        prog="python -m planner.calibration.power_fit", description=__doc__
    )
    parser.add_argument(
        "truth", type=Path, nargs="+", help="metered runs and nodes, as truth/serve_power.csv"
    )
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    parser.add_argument("--tables", type=Path, default=TABLES, help="folder of the tables")
    given = parser.parse_args(arguments)
    return write_or_check(
        lambda: tables(given.truth, given.tables), given.tables, only_check=given.check
    )


def tables(truth: Sequence[Path], folder: Path) -> dict[str, list[Row]]:
    """The tables this module makes, by file name; `folder` holds the tables they are made from."""
    plates = read_nameplates(folder / "accelerators.csv")
    moved = read_power_transfers(folder / "power_transfers.csv")
    found = metered_rows([row for row in chosen(read_truth(truth), []) if is_metered(row)])
    runs, _ = read_metered([row for row in found if is_run(row)])
    nodes = [figure for row in found if is_node(row) for figure in _node(row)]
    if not runs.cases or not nodes:
        named = " ".join(str(path) for path in truth)
        raise BadFile(
            f"{named}: {len(runs.cases)} metered runs and {len(nodes)} nodes; "
            "give files like truth/serve_power.csv and truth/train_power.csv"
        )
    fitted, hosts = fit_all(runs, folder), read_hosts()
    host_w = fit_hosts(nodes, catalogue.load(), hosts)
    return {
        "power_curves.csv": power_rows(plates, fitted.fits, moved, float(host_w[1])),
        ENGINE_PARAMETERS: _with_fitted(runs.priors.rows, np.exp(fitted.logs)),
        NODE_HOSTS: _with_fitted(hosts.rows, host_w),
        BANDS: band_rows(runs),
    }


def _with_fitted(rows: Sequence[Mapping[str, str]], values: Floats) -> list[Row]:
    """Rows of a table of parameters with what was fitted."""
    return [
        {**row, "fitted": rounded(float(value))} for row, value in zip(rows, values, strict=True)
    ]


def _node(row: TruthRow) -> list[NodeFigure]:
    """The figure of a row of a node, or none."""
    try:
        return [node_of(row, catalogue.load())]
    except PlanError:
        return []


if __name__ == "__main__":
    sys.exit(main())
