"""Metered power by protocol: as shipped, refitted, without what is scored, one factor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from costdata.catalog import Catalog
from planner.calibration.power_fit import fit_all, left_out, read_metered
from planner.validation.factors import one_factor
from planner.validation.power_nodes import fit_hosts, left_out_w, node_w, read_hosts
from planner.validation.power_predict import Metered, figures, shipped_curves
from planner.validation.power_truth import (
    NodeCase,
    NodeFigure,
    is_node,
    metered_rows,
    node_of,
)
from planner.validation.rows import TruthRow
from planner.validation.serving_protocols import ServingPrediction
from planner.validation.training import Validation, joined
from simkernel.columns import Floats
from simkernel.errors import BadStudy, PlanError

FEWEST_TO_FIT = 20
"""Runs below which global parameters say more about the priors than about the runs."""


@dataclass(frozen=True)
class NodePrediction:
    """Watts of a node, measured and predicted; as planner.validation.training.Prediction."""

    case: NodeCase
    metric: str
    measured: float
    predicted: float
    is_infeasible: bool = False
    plan: Mapping[str, float] = field(default_factory=dict)
    terms_s: Mapping[str, float] = field(default_factory=dict)

    @property
    def row(self) -> TruthRow:
        """The measurement."""
        return self.case.row

    @property
    def ratio(self) -> float:
        """Predicted over measured."""
        return self.predicted / self.measured


Metering = Validation[ServingPrediction | NodePrediction]


def predict(
    rows: Sequence[TruthRow], catalog: Catalog, name: str, columns: Sequence[str]
) -> Metering:
    """Predictions of metered rows by a protocol.

    Parameters
    ----------
    name, columns : of the protocol, "shipped", "fitted", "leave_one_out" or "one_factor"

    Raises
    ------
    BadStudy : too few runs to fit, or nothing left to fit on
    """
    rows = metered_rows(rows)
    nodes = tuple(row for row in rows if is_node(row))
    runs = tuple(row for row in rows if not is_node(row))
    parts = [_runs(runs, name, columns)] if runs else []
    parts += [_nodes(nodes, catalog, name, columns)] if nodes else []
    return parts[0] if len(parts) == 1 else joined(parts[0], parts[1])


def _runs(rows: Sequence[TruthRow], name: str, columns: Sequence[str]) -> Metering:
    runs, unsupported = read_metered(rows)
    if not runs.cases:
        return Validation((), tuple(unsupported))
    groups = _groups([case.row for case in runs.cases], name, columns)
    found = _run_figures(runs, name, groups)
    is_infeasible = runs.work(runs.priors.shipped).is_infeasible > 0
    predictions = [
        ServingPrediction(
            case, metric, case.measured[metric], float(values[i]), bool(is_infeasible[i]),
            {**case.plan, "devices": case.devices},
        )
        for metric, values in found.items()
        for i, case in enumerate(runs.cases)
    ]  # fmt: skip
    return Validation(tuple(predictions), tuple(unsupported))


def _run_figures(runs: Metered, name: str, groups: Sequence[str]) -> Mapping[str, Floats]:
    """Both metrics of every run by a protocol."""
    if name in ("fitted", "leave_one_out") and len(runs.cases) < FEWEST_TO_FIT:
        raise BadStudy(
            f"{len(runs.cases)} runs are too few to fit on; wanted {FEWEST_TO_FIT}; give more "
            "rows, or take --protocol shipped"
        )
    if name == "leave_one_out":
        return left_out(runs, groups)
    if name == "fitted":
        fitted = fit_all(runs)
        return figures(fitted.curves, runs, runs.work(fitted.logs))
    found = figures(shipped_curves(runs), runs, runs.work(runs.priors.shipped))
    if name == "shipped":
        return found
    return {metric: _factored(runs, metric, values, groups) for metric, values in found.items()}


def _factored(runs: Metered, metric: str, values: Floats, groups: Sequence[str]) -> Floats:
    measured = np.array([case.measured[metric] for case in runs.cases])
    return measured * np.exp(one_factor(np.log(values / measured), np.asarray(groups)))


def _nodes(
    rows: Sequence[TruthRow], catalog: Catalog, name: str, columns: Sequence[str]
) -> Metering:
    found: list[NodeFigure] = []
    unsupported: list[tuple[str, str]] = []
    for row in rows:
        try:
            found.append(node_of(row, catalog))
        except PlanError as error:
            unsupported.append((row.case_id, " ".join(error.faults)))
    if not found:
        return Validation((), tuple(unsupported))
    groups = _groups([figure.case.row for figure in found], name, columns)
    watts = _node_watts(found, catalog, name, groups)
    return Validation(
        tuple(
            NodePrediction(figure.case, figure.metric, figure.watts, float(w))
            for figure, w in zip(found, watts, strict=True)
        ),
        tuple(unsupported),
    )


def _node_watts(
    found: Sequence[NodeFigure], catalog: Catalog, name: str, groups: Sequence[str]
) -> Floats:
    """Watts of every node by a protocol."""
    hosts = read_hosts()
    if name == "leave_one_out":
        return left_out_w(found, catalog, hosts, groups)
    if name == "fitted":
        return node_w(found, catalog, fit_hosts(found, catalog, hosts))
    shipped = node_w(found, catalog, hosts.fitted_w)
    if name == "shipped":
        return shipped
    measured = np.array([figure.watts for figure in found])
    return measured * np.exp(one_factor(np.log(shipped / measured), np.asarray(groups)))


def _groups(rows: Sequence[TruthRow], name: str, columns: Sequence[str]) -> list[str]:
    """What a protocol leaves out, or gives a factor, together.

    Raises
    ------
    BadStudy : leaving one out leaves none
    """
    groups = [" ".join(row.text(column) for column in columns) for row in rows]
    if name == "leave_one_out" and len(set(groups)) < 2:
        raise BadStudy(f"all rows have one value ({groups[0]!r}); leaving it out leaves none")
    return groups
