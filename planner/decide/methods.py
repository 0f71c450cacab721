"""Rules that pick one plan of a front: weighted sum, aspiration point, TOPSIS, knee.

Each takes a `Scaled` front and gives one figure per plan of which the least, or the largest, is
the choice; the formula stands in its docstring and is shown beside the choice. Equal figures go to
the first plan.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from planner.decide.scaled import Scaled, shares
from simkernel.columns import Floats
from simkernel.errors import PlanError

TIE_FRAC = 1e-4
"""Weight of the sum beside the maximum in `aspiration`: decides between equal maxima only."""


def weighted_sum(front: Scaled, weights: npt.ArrayLike) -> Floats:
    """Weighted mean of the scaled objectives; the least is the choice; (n,) [1].

    Notes
    -----
    sum_i w_i f_i with weights that add up to 1. Never picks a plan from a dent of the front, since
    a straight line touches its hull only.
    """
    return np.asarray(front.unit @ shares(weights, front.unit.shape[1]))


def aspiration(front: Scaled, wanted: npt.ArrayLike, weights: npt.ArrayLike) -> Floats:
    """How far a plan stays behind what was wanted; the least is the choice; (n,) [1].

    Parameters
    ----------
    wanted : (k,) the value hoped for in each objective, in its unit; need not be reachable
    weights : (k,) how much a miss counts

    Notes
    -----
    max_i w_i (f_i - z_i) + 1e-4 sum_i w_i (f_i - z_i) on the scaled front: the augmented Chebyshev
    distance, which reaches plans in dents too. Below 0 everything wanted is met, and more.

    References
    ----------
    Steuer and Choo, Mathematical Programming 26, 1983, eq. 2.1; Wierzbicki 1980 (achievement).
    """
    point = np.asarray(wanted, dtype=float)
    if point.shape != front.ideal.shape or not np.isfinite(point).all():
        raise PlanError(
            f"aspiration point {point.tolist()}; wanted {len(front.ideal)} finite numbers"
        )
    share = shares(weights, len(front.ideal))
    miss = share * (front.unit - (point - front.ideal) / front.width)
    return np.asarray(miss.max(axis=1) + TIE_FRAC * miss.sum(axis=1))


def topsis(front: Scaled, weights: npt.ArrayLike) -> Floats:
    """Closeness to the best values, 1 at the ideal; the largest is the choice; (n,) [1].

    Notes
    -----
    t = w f / |f| per objective, d+ and d- the Euclidean distances from the best and the worst
    values, C = d- / (d+ + d-). A front of one plan, or of equal ones, gets 1.

    References
    ----------
    Hwang and Yoon, Multiple Attribute Decision Making, 1981: steps 1 to 6.
    """
    length = np.sqrt((front.points**2).sum(axis=0))
    table = front.points / np.where(length > 0, length, 1.0) * shares(weights, len(length))
    from_best = np.linalg.norm(table - table.min(axis=0), axis=1)
    from_worst = np.linalg.norm(table - table.max(axis=0), axis=1)
    whole = from_best + from_worst
    return np.asarray(np.where(whole > 0, from_worst / np.where(whole > 0, whole, 1.0), 1.0))


def knee(front: Scaled) -> Floats:
    """How far a plan bulges below the plane through the extremes; the largest is the choice.

    Returns
    -------
    (n,) signed distance on the scaled front [1]; 0 or less everywhere where there is no knee

    Notes
    -----
    (1 - sum_i f_i) / sqrt(k), which is the distance to the plane through the points that are worst
    in one objective and best in the others; the same plan as the least sum of scaled objectives.

    References
    ----------
    Das, Structural Optimization 18, 1999; Chiu, Yen and Juan, arXiv 1705.01705 (equivalence).
    """
    k = front.unit.shape[1]
    return np.asarray((1.0 - front.unit.sum(axis=1)) / np.sqrt(k))
