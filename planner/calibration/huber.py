"""One step of a robust fit of logarithms with normal priors, for whoever fits by residuals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from simkernel.columns import Column, Floats


@dataclass(frozen=True)
class Steps:
    """How residuals are weighed and how far a step goes; all in logarithms.

    Parameters
    ----------
    scale_log : of one residual beside the priors
    far_log : beyond it a residual pulls no harder
    nudge_log, largest_step_log : of a parameter, for its slope and in one step
    """

    scale_log: float
    far_log: float
    nudge_log: float
    largest_step_log: float


def huber_step(
    residuals_of: Callable[[Floats], Floats],
    logs: Floats,
    centres: Floats,
    spreads: Floats,
    weights: Column,
    steps: Steps,
) -> Floats:
    """What to take off the logarithms of some parameters; (k,).

    Parameters
    ----------
    residuals_of : (k, sets) logarithms of parameters to (sets, n) residuals
    logs, centres, spreads : (k,) now, and of the priors
    weights : (n,) of the residuals, or one number

    References
    ----------
    Huber, Annals of Mathematical Statistics 35(1), 1964, by iteratively reweighted least squares.
    """
    count = len(logs)
    found = residuals_of(logs[:, None] + steps.nudge_log * np.eye(count, count + 1, 1))
    residuals, slopes = found[0], (found[1:] - found[0]).T / steps.nudge_log
    far = np.maximum(1.0, np.abs(residuals) / steps.far_log)
    pull = (weights / far / steps.scale_log**2)[:, None] * slopes
    prior = 1.0 / spreads**2
    force = pull.T @ residuals + prior * (logs - centres)
    step = np.linalg.solve(slopes.T @ pull + np.diag(prior), force)
    return np.clip(step, -steps.largest_step_log, steps.largest_step_log)
