"""How predictions are made to be scored: as shipped, refitted, or fitted without what is scored.

shipped predicts with the tables of the repository. fitted refits the profiles on the given rows.
leave_one_out:COLUMN refits without each value of a column in turn. one_factor:COLUMN,... fits one
factor of speed for every combination of values: what no such factor explains is left. kernels
predicts serving rows by the engines' timed kernels alone: nothing in it was fitted to a run.
Memory figures depend on no fitted parameter and stay as shipped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from costdata.catalog import Catalog
from planner.calibration.profile_fit import fit, problem_of
from planner.validation import power_protocols, request_protocols, serving_protocols
from planner.validation.factors import one_factor
from planner.validation.held_out import left_out_residuals
from planner.validation.power_truth import is_metered, metered_rows
from planner.validation.request_logs import is_log
from planner.validation.rows import TruthRow
from planner.validation.serving_truth import is_serving, serving_rows
from planner.validation.training import Prediction, Validation, joined, validate
from simkernel.columns import Floats
from simkernel.errors import BadStudy

SHIPPED, FITTED, LEAVE_ONE_OUT, ONE_FACTOR = "shipped", "fitted", "leave_one_out", "one_factor"
KERNELS = "kernels"
FEWEST_TO_FIT = 20
"""Runs below which global parameters say more about the priors than about the runs."""


def predict(rows: Sequence[TruthRow], catalog: Catalog, protocol: str) -> Validation[Any]:
    """Predictions of some rows by a protocol.

    Raises
    ------
    BadStudy : no such protocol, a column that no row has, too few runs to fit, or nothing left
        to fit on
    """
    name, columns = _parsed(protocol, rows)
    if name == KERNELS and not all(is_serving(row) for row in rows):
        raise BadStudy(
            f"--protocol {KERNELS} is of serving rows alone; give files of those, or take shipped"
        )
    logs = tuple(row for row in rows if is_log(row))
    if logs and len(logs) < len(rows):
        others = predict(tuple(r for r in rows if not is_log(r)), catalog, protocol)
        return joined(others, predict(logs, catalog, protocol))
    if logs:
        return request_protocols.predict(logs, catalog, name, columns)
    metered = tuple(row for row in rows if is_metered(row))
    if metered and len(metered) < len(rows):
        rest = predict(tuple(r for r in rows if not is_metered(r)), catalog, protocol)
        return joined(rest, predict(metered, catalog, protocol))
    if metered:
        return power_protocols.predict(metered, catalog, name, columns)
    serving = tuple(row for row in rows if is_serving(row))
    if serving and len(serving) < len(rows):
        trained = predict(tuple(r for r in rows if not is_serving(r)), catalog, protocol)
        return joined(trained, predict(serving, catalog, protocol))
    if serving:
        return serving_protocols.predict(serving, catalog, name, columns)
    shipped = validate(rows, catalog)
    if name == SHIPPED:
        return shipped
    runs = [i for i, p in enumerate(shipped.predictions) if p.metric == "throughput"]
    speeds = [shipped.predictions[i] for i in runs]
    groups = [" ".join(p.row.text(column) for column in columns) for p in speeds]
    residuals = _residuals(name, speeds, groups, catalog)
    found = list(shipped.predictions)
    for i, residual in zip(runs, residuals, strict=True):
        found[i] = replace(
            found[i], predicted=found[i].measured * float(np.exp(residual)), terms_s={}
        )
    return replace(shipped, predictions=tuple(found))


def _parsed(protocol: str, rows: Sequence[TruthRow]) -> tuple[str, tuple[str, ...]]:
    """The protocol's name and columns."""
    name, _, listed = protocol.partition(":")
    columns = tuple(filter(None, listed.split(",")))
    wanted = {SHIPPED: 0, KERNELS: 0, FITTED: 0, LEAVE_ONE_OUT: 1, ONE_FACTOR: None}
    if (
        name not in wanted
        or wanted[name] not in (len(columns), None)
        or (name == ONE_FACTOR and not columns)
    ):
        raise BadStudy(
            f"--protocol {protocol}: wanted shipped, kernels, fitted, leave_one_out:COLUMN or "
            "one_factor:COLUMN,…"
        )
    known = serving_rows(tuple(r for r in rows if not is_metered(r)))
    known += metered_rows([r for r in rows if is_metered(r)])
    strange = [c for c in columns if not any(c in row.cells for row in known)]
    if strange:
        raise BadStudy(f"--protocol {protocol}: no row has the column {', '.join(strange)}")
    return name, columns


def _residuals(
    name: str, runs: Sequence[Prediction], groups: Sequence[str], catalog: Catalog
) -> Floats:
    """log(predicted / measured) of every run by a protocol that fits."""
    if name == ONE_FACTOR:
        return one_factor(np.log([p.ratio for p in runs]), np.asarray(groups))
    if len(runs) < FEWEST_TO_FIT:
        raise BadStudy(
            f"{len(runs)} runs are too few to fit on; wanted {FEWEST_TO_FIT}; give more rows, or "
            "take --protocol shipped"
        )
    problem = problem_of(runs, catalog)
    if name == FITTED:
        return fit(problem).residuals
    if len(set(groups)) < 2:
        raise BadStudy(f"all runs have one value ({groups[0]!r}); leaving it out leaves none")
    return left_out_residuals(problem, groups)
