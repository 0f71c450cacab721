"""Logged runs by protocol: one efficiency of the engine, as shipped or fitted on which logs.

shipped replays at the engine's own figures. fitted fits one efficiency on all given logs,
one_factor:COLUMN,... one for every combination of values, and leave_one_out:COLUMN one for each
value on the logs of the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from costdata.catalog import Catalog
from planner.validation.request_replay import LoggedRun, logged_run
from planner.validation.rows import TruthRow
from planner.validation.serving_protocols import ServingPrediction
from planner.validation.training import Validation
from simkernel.errors import BadStudy, PlanError

FITTED_ON = ("tpot_s_mean", "tpot_s_p99", "ttft_s_p50", "ttft_s_p99")
PLAIN = {"tpot_s": "tpot_s_mean", "ttft_s": "ttft_s_p50"}
"""The statistic that a latency without one stands for: a backlog has no typical first token."""

LEAST_SLOWER, MOST_SLOWER, HALVINGS = 0.25, 4.0, 12
"""Where an efficiency is looked for, and how closely: within 0.1%."""


def predict(
    rows: Sequence[TruthRow], catalog: Catalog, name: str, columns: Sequence[str]
) -> Validation[ServingPrediction]:
    """Predictions of logs by a protocol, one for every statistic.

    Parameters
    ----------
    name, columns : of the protocol, "shipped", "fitted", "leave_one_out" or "one_factor"

    Raises
    ------
    BadStudy : nothing left to fit on
    """
    runs, unsupported = [], []
    for row in rows:
        try:
            runs.append(logged_run(row, catalog))
        except PlanError as error:
            unsupported.append((row.case_id, " ".join(error.faults)))
    groups = [" ".join(run.row.text(column) for column in columns) for run in runs]
    if name == "leave_one_out" and len(set(groups)) < 2:
        raise BadStudy("all logs have one value; give a log of another to fit an efficiency on")
    found = []
    for run, group in zip(runs, groups, strict=True):
        ours = [other for other, value in zip(runs, groups, strict=True) if value == group]
        others = [other for other in runs if other not in ours]
        fitted_on = {"shipped": [], "leave_one_out": others}.get(name, ours)
        found += _predictions(run, slower_of(fitted_on) if fitted_on else 1.0)
    return Validation(tuple(found), tuple(unsupported))


def slower_of(runs: Sequence[LoggedRun]) -> float:
    """By what every step has to be slower for the logs to come out in the mean of logarithms."""
    low, high = np.log(LEAST_SLOWER), np.log(MOST_SLOWER)
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if _bias(runs, np.exp(middle)) < 0 else (low, middle)
    return float(np.exp(0.5 * (low + high)))


def _bias(runs: Sequence[LoggedRun], slower: float) -> float:
    """Mean logarithm of predicted over measured; it grows with every step's time."""
    ratios = []
    for run in runs:
        measured, predicted = run.measured, run.predicted(slower)
        ratios += [predicted[name] / measured[name] for name in FITTED_ON]
    return float(np.mean(np.log(ratios)))


def _predictions(run: LoggedRun, slower: float) -> list[ServingPrediction]:
    measured, predicted = run.measured, run.predicted(slower)
    named = {**{name: name for name in measured}, **PLAIN}
    plan = {**run.plan, "devices": run.devices}
    return [
        ServingPrediction(_named(run, k), k, measured[v], predicted[v], False, plan)
        for k, v in named.items()
    ]


def _named(run: LoggedRun, metric: str) -> LoggedRun:
    """The log, named by the statistic."""
    return replace(run, row=TruthRow({**run.row.cells, "metric": metric}, run.row.where))
