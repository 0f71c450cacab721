"""Fit the engines: one set of global parameters that makes published serving runs come out.

`python -m planner.calibration.serving_fit tests/truth/serve_sweeps.csv tests/truth/serve.csv`
writes engines.csv and the column `fitted` of rules/serving_parameters.csv; with `--check` it
compares them instead.

A parameter belongs to all engines, to one of them or to an architecture; none to a model, a
source or a row. Each starts from a prior with a reason; a spread of 0 fixes it there. Gauss-Newton
steps with a line search on the logarithms of predicted over measured figures. Which parameters
there are, and some priors, were chosen with the runs in sight.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np

from costdata import catalog as catalogue
from costdata.catalog import Catalog
from costdata.engines import ANY_ENGINE
from costdata.facts import ALL_ROWS
from planner.bands import DENSE, EXPERTS, regime_of_model
from planner.calibration.curves import rounded
from planner.calibration.huber import Steps, huber_step
from planner.calibration.kernels import TABLES, Row, write_or_check
from planner.calibration.profile_fit import Values
from planner.validation.rows import TruthRow, chosen, read_truth
from planner.validation.serving_predict import BASE_ENGINES, Block, EngineOf, blocks_of, predicted
from planner.validation.serving_truth import OUTPUT, TPOT, TTFT, Case, case_of, serving_rows
from simkernel.columns import Codes, Floats, Masks
from simkernel.errors import PlanError
from simkernel.serving_engine import Engine

PARAMETERS = "rules/serving_parameters.csv"
ENGINES_TABLE, BANDS_TABLE = "engines.csv", "serving_bands.csv"
TRUTH = "fitted: planner.calibration.serving_fit on tests/truth/serve_sweeps.csv and serve.csv"

SCALE_LOG = 0.08
"""Spread of a good prediction: errors of one run that no parameter should chase."""

FAR_LOG = 1.5 * SCALE_LOG
"""Beyond it a row pulls with a constant force (Huber 1964, Robust Estimation of a Location)."""

WEIGHTS = {TPOT: 1.0, TTFT: 0.35, OUTPUT: 0.5}
"""Time to first token holds what clients and start-ups add, offline throughput the whole run."""

STEPS, NUDGE_LOG, LARGEST_STEP_LOG = 16, 0.02, 0.5
SHORTER = (1.0, 0.5, 0.25, 0.1)
"""Shares of a step that are tried; the best is taken."""

SETTLED_FRAC = 1e-3
FOLD_STEPS = 6

FIGURES = tuple(f.name for f in fields(Engine))


@dataclass(frozen=True)
class Priors:
    """Names, prior logarithms and their spreads of the fitted parameters (k,); the fixed ones.

    `rows` are those of the table, for writing it again; `shipped` (k,) the fit in it.
    """

    names: tuple[str, ...]
    centres: Floats
    spreads: Floats
    shipped: Floats
    fixed: Mapping[str, float]
    rows: tuple[Row, ...]


def read_priors(folder: Path = TABLES) -> Priors:
    """The table of parameters."""
    with (folder / PARAMETERS).open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    free = [row for row in rows if float(row["spread_log"]) > 0]
    return Priors(
        names=tuple(row["parameter"] for row in free),
        centres=np.log([float(row["prior"]) for row in free]),
        spreads=np.array([float(row["spread_log"]) for row in free]),
        shipped=np.log([float(row["fitted"]) for row in free]),
        fixed={r["parameter"]: float(r["prior"]) for r in rows if float(r["spread_log"]) == 0},
        rows=tuple({**row} for row in rows),
    )


def engine_cells(
    values: Values, fixed: Mapping[str, float], engine: str, architecture: str
) -> dict[str, Floats]:
    """Figures of an engine on an architecture: what holds for all times what is its own."""
    scopes = dict.fromkeys((ALL, BASE_ENGINES.get(engine) or engine, engine, architecture))
    cells = {}
    for name in FIGURES:
        own = [fixed[f"{name}.{scope}"] for scope in scopes if f"{name}.{scope}" in fixed]
        cells[name] = np.asarray(values(name, *scopes) * float(np.prod(own)))
    return cells


ALL = "all"


@dataclass(frozen=True)
class Problem:
    """Cases in blocks and what was measured of them; everything a fit looks at.

    `at` (n,) is the case of each figure, `metrics` its name; `weights` (n,) are 0 where left out.
    """

    cases: tuple[Case, ...]
    blocks: tuple[Block, ...]
    at: Codes
    metrics: tuple[str, ...]
    measured: Floats
    weights: Floats
    priors: Priors

    def without(self, is_out: Masks) -> Problem:
        """The same with some figures left out."""
        return replace(self, weights=np.where(is_out, 0.0, self.weights))

    def engine_of(self, logs: Floats) -> EngineOf:
        """Engines of parameters (k,) or (k, sets)."""
        values = Values(self.priors.names, np.exp(logs))
        return lambda engine, chip: engine_cells(values, self.priors.fixed, engine, chip)

    def residuals(self, logs: Floats) -> Floats:
        """log(predicted / measured) of every figure; (sets, n) for parameters (k, sets)."""
        found = predicted(self.blocks, self.engine_of(logs), logs.shape[1])
        chosen_metric = [found[name][:, i] for name, i in zip(self.metrics, self.at, strict=True)]
        return np.log(np.stack(chosen_metric, axis=1) / self.measured)


def problem_of(cases: Sequence[Case], catalog: Catalog) -> Problem:
    """The fit of some cases."""
    listed = [(i, name, v) for i, case in enumerate(cases) for name, v in case.measured.items()]
    return Problem(
        cases=tuple(cases),
        blocks=blocks_of(cases, catalog),
        at=np.array([i for i, _, _ in listed], dtype=int),
        metrics=tuple(name for _, name, _ in listed),
        measured=np.array([value for _, _, value in listed]),
        weights=np.array([WEIGHTS[name] for _, name, _ in listed]),
        priors=read_priors(),
    )


def shipped_engine_of(catalog: Catalog) -> EngineOf:
    """Engines as engines.csv has them."""
    return lambda engine, architecture: {
        name: np.asarray(getattr(catalog.engine(engine, architecture), name)) for name in FIGURES
    }


def read_cases(
    rows: Sequence[TruthRow], catalog: Catalog
) -> tuple[list[Case], list[tuple[str, str]]]:
    """Cases of rows, and the rows that are none with the reason."""
    cases, unsupported = [], []
    for row in serving_rows(rows):
        try:
            cases.append(case_of(row, catalog))
        except PlanError as error:
            unsupported.append((row.case_id, " ".join(error.faults)))
    return cases, unsupported


def fit(problem: Problem, start: Floats | None = None, steps: int = STEPS) -> Floats:
    """Logarithms of the parameters of least weighted error, priors included; (k,)."""
    logs = problem.priors.centres if start is None else start
    for _ in range(steps):
        direction = _direction(problem, logs)
        tried = logs[:, None] - direction[:, None] * np.array([0.0, *SHORTER])
        losses = _losses(problem, tried)
        best = int(np.argmin(losses))
        logs = tried[:, best]
        if losses[0] - losses[best] < SETTLED_FRAC * losses[0]:
            break
    return logs


def left_out_residuals(problem: Problem, groups: Sequence[str]) -> Floats:
    """log(predicted / measured) of every figure, fitted without the figures of its group; (n,)."""
    named = np.asarray(groups)
    folds = [(problem, named == value) for value in np.unique(named)]
    found = np.zeros(len(named))
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for (_, is_out), residuals in zip(folds, pool.map(_fold, folds), strict=True):
            found[is_out] = residuals[is_out]
    return found


def _fold(fold: tuple[Problem, Masks]) -> Floats:
    """One fit without some figures, begun at the priors: nothing of them is in it."""
    problem, is_out = fold
    logs = fit(problem.without(is_out))
    return problem.residuals(logs[:, None])[0]


def _direction(problem: Problem, logs: Floats) -> Floats:
    """Where a step of iteratively reweighted least squares with normal priors goes."""
    priors = problem.priors
    steps = Steps(SCALE_LOG, FAR_LOG, NUDGE_LOG, LARGEST_STEP_LOG)
    return huber_step(
        problem.residuals, logs, priors.centres, priors.spreads, problem.weights, steps
    )


def _losses(problem: Problem, tried: Floats) -> Floats:
    """Huber loss of the figures and the priors' squares, of each column of parameters."""
    size = np.abs(problem.residuals(tried))
    near = np.where(size < FAR_LOG, 0.5 * size**2, FAR_LOG * (size - 0.5 * FAR_LOG))
    prior = (tried - problem.priors.centres[:, None]) / problem.priors.spreads[:, None]
    return (near @ problem.weights) / SCALE_LOG**2 + 0.5 * (prior**2).sum(axis=0)


def tables(logs: Floats, priors: Priors) -> dict[str, list[Row]]:
    """Both tables of fitted logarithms, which are rounded first."""
    held = dict(zip(priors.names, (rounded(v) for v in np.exp(logs)), strict=True))
    values = Values(tuple(held), np.array(list(held.values())))
    engines = sorted(
        {n.split(".")[1] for n in (*priors.names, *priors.fixed)} - {ALL, *ARCHITECTURES}
    )
    rows = [
        _engine_row(values, priors.fixed, engine, scope)
        for engine in (*engines, ANY_ENGINE)
        for scope in (ALL_ROWS, *ARCHITECTURES)
    ]
    fitted = [
        {**r, "fitted": held.get(str(r["parameter"]), float(r["prior"]))} for r in priors.rows
    ]
    return {PARAMETERS: fitted, ENGINES_TABLE: rows}


def band_rows(problem: Problem, residuals: Floats) -> list[Row]:
    """90% bands of every metric and kind of model, from predictions of models left out.

    Parameters
    ----------
    residuals : (n,) log(predicted / measured), each fitted without its model
    """
    rows: list[Row] = []
    regimes = np.array([regime_of_model(problem.cases[i].model) for i in problem.at])
    metrics = np.array(problem.metrics)
    for metric in WEIGHTS:
        for regime in (DENSE, EXPERTS):
            mine = -residuals[(metrics == metric) & (regimes == regime)]
            low, high = np.exp(np.quantile(mine, (0.05, 0.95)))
            row: Row = {"quantity": metric, "regime": regime}
            row |= {"low_frac": min(float(low), 1.0), "high_frac": max(float(high), 1.0)}
            row |= {"basis": f"leave one model out, {len(mine)} figures", "source": TRUTH}
            rows.append(row | {"as_of": "2026-11", "grade": "estimate", "licence": "MIT"})
    return rows


ARCHITECTURES = ("blackwell",)
"""Architectures that some parameter has a value of its own for."""


def _engine_row(values: Values, fixed: Mapping[str, float], engine: str, scope: str) -> Row:
    row: Row = {"engine": engine, "architecture": scope}
    cells = engine_cells(values, fixed, engine, scope)
    return (
        row
        | {name: rounded(float(value)) for name, value in cells.items()}
        | {
            "source": TRUTH,
            "as_of": "2026-11",
            "grade": "estimate",
            "licence": "MIT",
        }
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; 0 if done or equal, 2 if the shipped tables differ or a file is bad."""
    parser = argparse.ArgumentParser(
        prog="python -m planner.calibration.serving_fit", description=__doc__
    )
    parser.add_argument("truth", nargs="+", type=Path, help="files of serving measurements")
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    given = parser.parse_args(arguments)

    def make() -> dict[str, list[Row]]:
        cases, _ = read_cases(chosen(read_truth(given.truth), []), catalogue.load())
        problem = problem_of(cases, catalogue.load())
        models = [problem.cases[i].model.name for i in problem.at]
        bands = {BANDS_TABLE: band_rows(problem, left_out_residuals(problem, models))}
        return tables(fit(problem), problem.priors) | bands

    return write_or_check(make, TABLES, only_check=given.check)


if __name__ == "__main__":
    sys.exit(main())
