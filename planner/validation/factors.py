"""One factor per group of rows: what a user's own measurement corrects, and what it leaves."""

from __future__ import annotations

import numpy as np

from simkernel.columns import Floats


def one_factor(residuals: Floats, groups: Floats) -> Floats:
    """What is left after one factor per group: the middle residual of each taken away."""
    found = residuals.copy()
    for value in np.unique(groups):
        mine = groups == value
        found[mine] -= np.median(residuals[mine])
    return found
