"""Where the spread of one plan's figure comes from, input by input: screening and shares.

Morris's elementary effects say how far an input alone moves the figure, in its unit; Sobol's
indices say which share of its variance each input brings, alone and with what it acts upon.
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.study.read import Study
from planner.uncertainty.indices import Index, figure_of_inputs, morris, sobol
from planner.uncertainty.inputs import Ends

SAMPLES = 1024
"""Of Sobol's sequence: on the shipped studies twice as many move no share by 0.01."""

TRAJECTORIES = 40
"""Of Morris's grid."""

LOW, HIGH = 0.05, 0.95
"""Probabilities that the grid of Morris lies between: the ends of a 90% band."""


@dataclass(frozen=True)
class Source:
    """What one input does to the spread of one figure.

    Parameters
    ----------
    name : of the input
    alone_frac, total_frac : share of the variance alone, and with all it acts upon (Sobol), 0 to 1
        and the first never above the second; the first add up to 1 at most, the second to 1 at
        least, since what two inputs do together counts for both [1]
    mean_size, spread : of the elementary effects (Morris) as the input crosses its 90% band, in
        the unit of the figure
    """

    name: str
    alone_frac: float
    total_frac: float
    mean_size: float
    spread: float


def sources(ends: Ends, study: Study, metric: str, seed: int) -> list[Source]:
    """Every uncertain input that moves a figure of one row, the largest share first.

    Parameters
    ----------
    ends : of one row
    metric : of `figures_of`
    seed : the same seed asks the same points

    Returns
    -------
    [] where no input is uncertain

    References
    ----------
    As `indices.sobol` and `indices.morris`.
    """
    names = list(ends.uncertain())
    if not names:
        return []
    figure = figure_of_inputs(ends, study, metric, names)
    effects = {
        one.name: one
        for one in morris(lambda p: figure(LOW + (HIGH - LOW) * p), names, TRAJECTORIES, seed)
    }
    found = [
        Source(
            one.name,
            *_shares(one),
            effects[one.name].mean_size,
            effects[one.name].spread,
        )
        for one in sobol(figure, names, SAMPLES, seed)
    ]
    moving = [one for one in found if one.mean_size > 0]
    return sorted(moving, key=lambda one: (-one.total_frac, one.name))


def _shares(one: Index) -> tuple[float, float]:
    """Both shares of an input within what they can be: their estimates miss it by a little."""
    total = min(max(one.total_frac, 0.0), 1.0)
    return min(max(one.alone_frac, 0.0), total), total
