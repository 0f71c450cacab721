"""Which points no other point beats: exact, whole or in chunks, per group; and a name for a front.

Every objective is to be minimised. Only comparisons are used, never sums or distances, so an
objective in dollars and one in gigawatts weigh the same. The room knows no plan and no unit.
"""

from __future__ import annotations

import hashlib

import moocore
import numpy as np
import numpy.typing as npt

from simkernel.columns import Floats, Masks
from simkernel.errors import PlanError

FIRST_EPSILON = 1 / 512
"""Closest that two points of a thinned front may lie, doubled until few enough are left."""

COMPARED_BITS = 32
"""Bits of a number that are compared (a part in 4e9): the order of a sum makes no difference."""

HASHED_DIGITS = 9
"""Significant digits that enter a front's hash: below the noise of reordered sums (1e-12)."""


def nondominated(points: npt.ArrayLike) -> Masks:
    """True where no other point is at least as good in all objectives and better in one.

    Parameters
    ----------
    points : (n, k) objectives to minimise, numbers of any kind, k >= 1

    Returns
    -------
    (n,) mask; of points that are equal to `COMPARED_BITS` only the first stays

    Raises
    ------
    PlanError : an objective that is NaN or infinite, or points that are not a table

    References
    ----------
    Kung, Luccio and Preparata, J. ACM 22(4), 1975: the O(n log^(k-2) n) sweep in moocore.
    """
    rows = compared(points)
    if len(rows) == 0:
        return np.zeros(0, dtype=np.bool_)
    return np.asarray(moocore.is_nondominated(rows, keep_weakly=False), dtype=np.bool_)


def compared(points: npt.ArrayLike) -> Floats:
    """Points to as many bits as are compared, so that no noise of a sum decides between twins.

    Rounding keeps order: what is no better before is no better after. Two plans that are worth
    the same differ in the last bit by where in a block they were evaluated; without this, chance
    would say which of them is shown.

    Parameters
    ----------
    points : (n, k) objectives

    Raises
    ------
    PlanError : as `nondominated`
    """
    cut = 52 - COMPARED_BITS
    bits = _finite(points).view(np.int64)
    return ((bits + (1 << (cut - 1))) & -(1 << cut)).view(np.float64)


def merge(front: npt.ArrayLike, block: npt.ArrayLike) -> tuple[Masks, Masks]:
    """What stays of a running front and of a new block when the two meet.

    Folding blocks one after another gives the front of all points together, because a point
    that is beaten once is beaten for good.

    Parameters
    ----------
    front : (m, k) points kept so far
    block : (n, k) new points; a copy of a kept point does not enter

    Returns
    -------
    (m,) and (n,) masks of what stays
    """
    old, new = _finite(front), _finite(block)
    if len(old) == 0:
        return np.zeros(0, dtype=np.bool_), nondominated(new)
    stays = nondominated(np.concatenate([old, new]))
    return stays[: len(old)], stays[len(old) :]


def nondominated_by(groups: npt.ArrayLike, points: npt.ArrayLike) -> Masks:
    """The same mask, where points are compared only inside their own group.

    Parameters
    ----------
    groups : (n,) group of each point, e.g. the code of its hardware bill
    points : (n, k) objectives to minimise

    Returns
    -------
    (n,) mask; the first of equal points of one group stays
    """
    rows = _finite(points)
    codes = np.asarray(groups)
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order])) + 1
    stays = np.zeros(len(rows), dtype=np.bool_)
    for members in np.split(order, starts):
        stays[members] = nondominated(rows[members])
    return stays


def hypervolume(points: npt.ArrayLike, reference: float) -> float:
    """Volume that points dominate, up to the same reference in every objective.

    Parameters
    ----------
    points : (n, k) objectives to minimise, in sizes of their own; those beyond the reference in
        any objective do not count, nor do copies
    reference : a number of any kind: whole numbers are taken as they are meant (optuna#2421)
    """
    rows = _finite(points) if np.size(points) else np.zeros((0, 1))
    rows = rows[np.all(rows < reference, axis=1)]
    if not len(rows):
        return 0.0
    best = rows[nondominated(rows)]
    return float(moocore.hypervolume(best, ref=np.full(rows.shape[1], float(reference))))


def thinned(points: npt.ArrayLike, most: int) -> tuple[Masks, float]:
    """A few points that stand for all, to be looked at; nothing is decided on them.

    Parameters
    ----------
    points : (n, k), the most interesting first
    most : points to keep, at least 1

    Returns
    -------
    (n,) mask, and the epsilon: every point left out lies within this share of the extent, in
    every objective, of one that is kept

    References
    ----------
    Laumanns et al., Evol. Comput. 10(3), 2002, for the idea of an epsilon between kept points.
    """
    rows = _finite(points)
    extent = np.ptp(rows, axis=0) if len(rows) else np.ones(rows.shape[1])
    scaled, epsilon = rows / np.where(extent > 0, extent, 1.0), 0.0
    is_kept = np.ones(len(rows), dtype=np.bool_)
    while is_kept.sum() > most:
        epsilon = 2 * epsilon or FIRST_EPSILON
        is_kept = _apart(scaled, epsilon)
    return is_kept, epsilon


def _apart(scaled: Floats, epsilon: float) -> Masks:
    """Points taken one by one where none taken before is near in every objective."""
    is_kept = np.zeros(len(scaled), dtype=np.bool_)
    for row, point in enumerate(scaled):
        near = np.abs(scaled[is_kept] - point) <= epsilon
        is_kept[row] = not near.all(axis=1).any()
    return is_kept


def rounded_hash(rows: npt.ArrayLike) -> str:
    """A name for a set of rows: the same for any order, other for any other front.

    Parameters
    ----------
    rows : (n, k) numbers, rounded here to `HASHED_DIGITS` significant digits

    Returns
    -------
    16 hexadecimal digits of a SHA-256

    Notes
    -----
    A value within 1e-12 of a rounding edge may fall on either side on another machine.
    """
    table = _finite(rows)
    lines = sorted(",".join(f"{x:.{HASHED_DIGITS - 1}e}" for x in row) for row in table + 0.0)
    return hashlib.sha256("\n".join([f"{table.shape[1]}", *lines]).encode()).hexdigest()[:16]


def _finite(points: npt.ArrayLike) -> Floats:
    """A C-ordered (n, k) table of finite float64."""
    rows = np.ascontiguousarray(points, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[1] == 0:
        raise PlanError(
            f"objectives have the shape {rows.shape}; a table (points, objectives) is wanted"
        )
    faulty = ~np.isfinite(rows)
    if faulty.any():
        columns = np.flatnonzero(faulty.any(axis=0)).tolist()
        raise PlanError(
            f"{int(faulty.any(axis=1).sum())} of {len(rows)} points are NaN or infinite in "
            f"objective {columns}; a point without a value is left out before the front"
        )
    return rows
