"""Leave some published runs out, fit on the rest, predict what was left out.

Nearer to the error on runs never seen than that of the fit, and still below it: the form of the
model and the rules for unstated settings were chosen with all sources in sight. Folds are
independent and shared out over processes.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np

from planner.calibration.profile_fit import Problem, fit
from simkernel.columns import Floats, Masks

FOLD_STEPS = 3
"""Steps from the fit of all runs to that of a fold."""


@dataclass(frozen=True)
class Fold:
    """One fit: the runs left out (n,), and where it starts."""

    problem: Problem
    is_out: Masks
    start: Floats

    def residuals(self) -> Floats:
        """log(predicted / measured) of all runs, fitted on those that are not left out."""
        return fit(self.problem.without(self.is_out), self.start, FOLD_STEPS).residuals


def left_out_residuals(problem: Problem, groups: Sequence[str]) -> Floats:
    """log(predicted / measured) of every run, fitted without the runs of its group.

    Parameters
    ----------
    groups : (n,) what is left out together, such as the source of each run

    Returns
    -------
    (n,)
    """
    named = np.asarray(groups)
    start = fit(problem, problem.priors.shipped, FOLD_STEPS).logs
    folds = [Fold(problem, named == value, start) for value in np.unique(named)]
    found = np.zeros(len(named))
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for fold, residuals in zip(folds, pool.map(Fold.residuals, folds), strict=True):
            found[fold.is_out] = residuals[fold.is_out]
    return found
