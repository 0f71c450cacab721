"""One input at a time to both of its ends: which of them the answer hangs on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planner.study.read import Study
from planner.uncertainty.figures import figures_of
from planner.uncertainty.inputs import MOVED, Ends


@dataclass(frozen=True)
class Swing:
    """What one input does to one figure.

    Parameters
    ----------
    name : of the input
    low_frac, high_frac : its ends over its middle, of the figure of it that moves most
    at_low, at_high : the figure with the input at its low and at its high end
    """

    name: str
    low_frac: float
    high_frac: float
    at_low: float
    at_high: float

    @property
    def width(self) -> float:
        """How far the figure swings."""
        return abs(self.at_high - self.at_low)


def tornado(ends: Ends, study: Study, metric: str) -> list[Swing]:
    """Swings of a metric of one row, the widest first; inputs that do not move it left out.

    Parameters
    ----------
    ends : of one row
    metric : of `figures_of`
    """
    found = []
    for name in ends.uncertain():
        low, high = (float(figures_of(one, study)[metric][0]) for one in ends.moved(name))
        if low != high and np.isfinite([low, high]).all():
            found.append(Swing(name, *reach(ends, name), low, high))
    return sorted(found, key=lambda swing: -swing.width)


def reach(ends: Ends, name: str) -> tuple[float, float]:
    """Ends of an input over its middle: of its figure with the widest band."""
    moved = MOVED[name]
    found = [(1.0, 1.0)]
    for n in moved.names:
        low, middle, high = (
            float(end.cell(moved, n)[0]) for end in (ends.low, ends.middle, ends.high)
        )
        if middle > 0:
            found.append((low / middle, high / middle))
    return max(found, key=lambda pair: pair[1] - pair[0])
