"""A front on one scale: 0 at the best value of each objective on it, 1 at the worst.

Every objective is to be minimised. The rules of `methods` stand on this scale, so dollars and
tonnes weigh the same until somebody says otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simkernel.columns import Floats
from simkernel.errors import PlanError


@dataclass(frozen=True)
class Scaled:
    """Points of a front beside their range.

    Parameters
    ----------
    points : (n, k) objectives to minimise, in their units
    ideal, nadir : (k,) best and worst of each objective among the points
    """

    points: Floats
    ideal: Floats
    nadir: Floats

    @property
    def width(self) -> Floats:
        """Nadir less ideal; 1 for an objective in which all points are equal; (k,)."""
        width = self.nadir - self.ideal
        return np.where(width > 0, width, 1.0)

    @property
    def unit(self) -> Floats:
        """The points from 0 at the ideal to 1 at the nadir; (n, k)."""
        return np.asarray((self.points - self.ideal) / self.width)


def scaled(points: npt.ArrayLike) -> Scaled:
    """A front with its ideal and nadir.

    Parameters
    ----------
    points : (n, k) objectives to minimise; those of a front alone, since a dominated point would
        move the nadir and with it every choice (rank reversal)

    Raises
    ------
    PlanError : no point, or an objective that is not finite
    """
    table = np.asarray(points, dtype=float)
    if table.ndim != 2 or not table.size:
        raise PlanError(f"a front of shape {table.shape}; wanted (n, k) with at least one point")
    if not np.isfinite(table).all():
        raise PlanError("an objective is NaN or infinite; leave such plans out of the choice")
    return Scaled(table, table.min(axis=0), table.max(axis=0))


def shares(weights: npt.ArrayLike, objectives: int) -> Floats:
    """Weights as shares that add up to 1; (k,).

    Raises
    ------
    PlanError : another number of weights than objectives, one below 0, or all 0
    """
    given = np.asarray(weights, dtype=float)
    if given.shape != (objectives,) or not np.isfinite(given).all() or (given < 0).any():
        raise PlanError(f"weights {given.tolist()}; wanted {objectives} numbers, none below 0")
    if given.sum() <= 0:
        raise PlanError("all weights are 0; give at least one objective a weight above 0")
    return np.asarray(given / given.sum())
