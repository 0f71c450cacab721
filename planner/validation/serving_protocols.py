"""Serving measurements by protocol: as shipped, refitted, without what is scored, one factor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Protocol

import numpy as np

from costdata.catalog import Catalog
from planner.calibration.serving_fit import (
    Problem,
    fit,
    left_out_residuals,
    problem_of,
    read_cases,
    shipped_engine_of,
)
from planner.validation.factors import one_factor
from planner.validation.rows import TruthRow
from planner.validation.serving_predict import predicted
from planner.validation.serving_truth import Decisions
from planner.validation.training import Validation
from simkernel.columns import Floats
from simkernel.errors import BadStudy
from simkernel.serving_engine import Engine

FEWEST_TO_FIT = 20
"""Figures below which global parameters say more about the priors than about the runs."""


class Measured(Protocol):
    """What was measured: a configuration, or a log of its requests."""

    @property
    def row(self) -> TruthRow:
        """The measurement."""
        ...

    @property
    def kind(self) -> str:
        """How it was served."""
        ...

    @property
    def regime(self) -> str:
        """Whose error the model has."""
        ...


@dataclass(frozen=True)
class ServingPrediction:
    """One metric of one configuration, measured and predicted, as Prediction of training."""

    case: Measured
    metric: str
    measured: float
    predicted: float
    is_infeasible: bool
    plan: Decisions

    @property
    def row(self) -> TruthRow:
        """The measurement."""
        return self.case.row

    @property
    def ratio(self) -> float:
        """Predicted over measured."""
        return self.predicted / self.measured

    @property
    def terms_s(self) -> dict[str, float]:
        """None: a mean over many steps has no one ledger."""
        return {}


def predict(
    rows: Sequence[TruthRow], catalog: Catalog, name: str, columns: Sequence[str]
) -> Validation[ServingPrediction]:
    """Predictions of serving rows by a protocol, one for every metric of a row.

    Parameters
    ----------
    name, columns : of the protocol, "shipped", "kernels", "fitted", "leave_one_out" or
        "one_factor"

    Raises
    ------
    BadStudy : too few figures to fit, or nothing left to fit on
    """
    cases, unsupported = read_cases(rows, catalog)
    if not cases:
        return Validation((), tuple(unsupported))
    problem = problem_of(cases, catalog)
    engine_of = _kernels_alone if name == "kernels" else shipped_engine_of(catalog)
    found = predicted(problem.blocks, engine_of)
    shipped = np.array(
        [found[metric][0, i] for metric, i in zip(problem.metrics, problem.at, strict=True)]
    )
    values = shipped * np.exp(_corrections(problem, shipped, name, columns))
    is_infeasible = found["is_infeasible"][0] > 0
    return Validation(
        tuple(
            _prediction(problem, n, float(value), bool(is_infeasible[problem.at[n]]))
            for n, value in enumerate(values)
        ),
        tuple(unsupported),
    )


def _kernels_alone(engine: str, architecture: str) -> Mapping[str, Floats]:
    """Isolated kernels that follow each other without a gap: the defaults of an engine."""
    return {name: np.asarray(value) for name, value in asdict(Engine()).items()}


def _corrections(problem: Problem, shipped: Floats, name: str, columns: Sequence[str]) -> Floats:
    """Logarithm of a protocol's prediction over the shipped one; (n,)."""
    residuals = np.log(shipped / problem.measured)
    if name in ("shipped", "kernels"):
        return np.zeros(len(shipped))
    texts = [problem.cases[i].row.text for i in problem.at]
    groups = [" ".join(text(column) for column in columns) for text in texts]
    if name == "one_factor":
        keyed = [f"{m} {g}" for m, g in zip(problem.metrics, groups, strict=True)]
        return one_factor(residuals, np.asarray(keyed)) - residuals
    if len(residuals) < FEWEST_TO_FIT:
        raise BadStudy(
            f"{len(residuals)} figures are too few to fit on; wanted {FEWEST_TO_FIT}; give more "
            "rows, or take --protocol shipped"
        )
    if name == "fitted":
        return problem.residuals(fit(problem)[:, None])[0] - residuals
    if len(set(groups)) < 2:
        raise BadStudy(f"all rows have one value ({groups[0]!r}); leaving it out leaves none")
    return left_out_residuals(problem, groups) - residuals


def _prediction(problem: Problem, n: int, value: float, is_infeasible: bool) -> ServingPrediction:
    case = problem.cases[problem.at[n]]
    return ServingPrediction(
        case=case,
        metric=problem.metrics[n],
        measured=float(problem.measured[n]),
        predicted=value,
        is_infeasible=is_infeasible,
        plan={**case.plan, "devices": case.devices},
    )
