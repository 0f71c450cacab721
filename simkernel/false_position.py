"""Where rising functions cross zero, for every candidate at once, in a fixed number of steps."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from simkernel.columns import Floats, Masks

LEAST = 1e-30
"""What a function is taken to be at an end that lies on the wrong side: the root is that end."""


def crossing(
    function: Callable[[Floats], Floats],
    low: Floats,
    high: Floats,
    under: Floats,
    over: Floats,
    steps: int,
) -> tuple[Floats, Floats, Masks]:
    """The last guess, the highest point known to lie below zero, and whether the guess is above.

    Parameters
    ----------
    function : of (n,) points, rising
    low, high : (n,) between which it crosses zero
    under, over : (n,) its values there
    steps : evaluations

    References
    ----------
    Dowell and Jarratt, BIT 11 (1971) 168: false position that halves the end that stays.
    """
    middle, is_over = high, over > 0.0
    under, over = np.minimum(under, -LEAST), np.maximum(over, LEAST)
    last = np.zeros(low.shape)
    for _ in range(steps):
        middle = high - over * (high - low) / (over - under)
        found = function(middle)
        is_over = found > 0.0
        under = np.where(is_over & (last > 0.0), 0.5 * under, under)
        over = np.where(~is_over & (last < 0.0), 0.5 * over, over)
        low, under = np.where(is_over, low, middle), np.where(is_over, under, found)
        high, over = np.where(is_over, middle, high), np.where(is_over, found, over)
        last = np.where(is_over, 1.0, -1.0)
    return middle, low, is_over
