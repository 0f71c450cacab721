"""Which plan to take when it is not known how things turn out: regret, mean, tail, share of wins.

A table has a plan in each row and a way things may turn out in each column: a named scenario or a
draw. Every figure is to be minimised; NaN stands for a plan that cannot be had there.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from planner.decide.scaled import shares
from simkernel.columns import Floats
from simkernel.errors import PlanError


def regret(table: npt.ArrayLike) -> Floats:
    """What each plan costs beyond the best plan of each scenario; (n, s), infinite where NaN.

    References
    ----------
    Savage, Journal of the American Statistical Association 46, 1951.
    """
    values = _table(table)
    return np.asarray(np.where(np.isnan(values), np.inf, values - np.nanmin(values, axis=0)))


def worst_regret(table: npt.ArrayLike) -> Floats:
    """The largest regret of each plan; the least is the choice (minimax regret); (n,)."""
    return np.asarray(regret(table).max(axis=1))


def mean(table: npt.ArrayLike, weights: npt.ArrayLike | None = None) -> Floats:
    """Expected figure of each plan; infinite where it cannot be had in some scenario; (n,).

    Parameters
    ----------
    weights : (s,) of the scenarios; None for alike
    """
    values = np.nan_to_num(_table(table), nan=np.inf)
    alike = np.ones(values.shape[1])
    share = shares(alike if weights is None else weights, len(alike))
    return np.asarray(values[:, share > 0] @ share[share > 0])


def tail_mean(table: npt.ArrayLike, tail_frac: float) -> Floats:
    """Mean of the worst share of a plan's scenarios (CVaR); (n,).

    Parameters
    ----------
    tail_frac : share of scenarios in the tail, above 0; 1 gives the mean

    Notes
    -----
    The scenario at the edge counts with the part of it that lies in the tail, so the figure does
    not jump with the number of scenarios.

    References
    ----------
    Rockafellar and Uryasev, Journal of Risk 2, 2000, eq. 7.
    """
    if not 0 < tail_frac <= 1:
        raise PlanError(f"tail of {tail_frac:g}; wanted a share above 0 and up to 1")
    values = -np.sort(-np.nan_to_num(_table(table), nan=np.inf), axis=1)
    count = tail_frac * values.shape[1]
    inside = np.clip(count - np.arange(values.shape[1]), 0.0, 1.0)
    counted = np.where(inside > 0, values, 0.0)
    return np.asarray((counted * inside).sum(axis=1) / count)


def win_frac(table: npt.ArrayLike) -> Floats:
    """Share of scenarios in which a plan is the best, ties shared out; (n,), adds up to 1."""
    values = np.nan_to_num(_table(table), nan=np.inf)
    is_best = values == values.min(axis=0)
    return np.asarray((is_best / is_best.sum(axis=0)).mean(axis=1))


def beats_frac(one: npt.ArrayLike, other: npt.ArrayLike) -> float:
    """Share of the same draws in which one figure is below another; ties count half."""
    a, b = np.asarray(one, float), np.asarray(other, float)
    return float(np.mean((a < b) + 0.5 * (a == b)))


def _table(table: npt.ArrayLike) -> Floats:
    values = np.asarray(table, dtype=float)
    if values.ndim != 2 or not values.size:
        raise PlanError(f"a table of shape {values.shape}; wanted plans by scenarios")
    if np.isnan(values).all(axis=0).any():
        raise PlanError("in a scenario no plan can be had; leave it out, or give it prices")
    return values
