"""Which inputs the spread of a figure comes from: Morris screening and Sobol indices, by SALib.

Inputs are drawn independently from their distributions; the figure is that of one plan.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from planner.study.read import Study
from planner.uncertainty.figures import figures_of
from planner.uncertainty.inputs import Ends
from simkernel.columns import Floats

EDGE = 1e-4
"""Scores at 0 and 1 are infinite: probabilities stay this far from both."""

LEVELS = 6
"""Of Morris's grid."""


@dataclass(frozen=True)
class Index:
    """Of one input: share of the variance alone, and with all it interacts with [1]."""

    name: str
    alone_frac: float
    total_frac: float


@dataclass(frozen=True)
class Effect:
    """Of one input: mean size and spread of its elementary effects, in the unit of the figure."""

    name: str
    mean_size: float
    spread: float


def sobol(
    function: Callable[[Floats], Floats], names: Sequence[str], samples: int, seed: int
) -> list[Index]:
    """First-order and total Sobol indices of a function of independent uniform inputs.

    Parameters
    ----------
    function : (n, d) in [0, 1] to (n,)
    samples : a power of 2; the function is asked samples x (d + 2) times

    References
    ----------
    Saltelli et al., Computer Physics Communications 181, 2010, table 2.
    """
    from SALib.analyze import sobol as analysed
    from SALib.sample import sobol as sampled

    problem = {"num_vars": len(names), "names": list(names), "bounds": [[0.0, 1.0]] * len(names)}
    points = sampled.sample(problem, samples, calc_second_order=False, seed=seed)
    values = np.asarray(function(points))
    if np.ptp(values) == 0:
        return [Index(name, 0.0, 0.0) for name in names]
    found = analysed.analyze(problem, values, calc_second_order=False, seed=seed)
    pairs = zip(names, found["S1"], found["ST"], strict=True)
    return [Index(name, float(alone), float(total)) for name, alone, total in pairs]


def morris(
    function: Callable[[Floats], Floats], names: Sequence[str], trajectories: int, seed: int
) -> list[Effect]:
    """Elementary effects of a function of independent uniform inputs.

    Parameters
    ----------
    function : (n, d) in [0, 1] to (n,), asked trajectories x (d + 1) times

    References
    ----------
    Morris, Technometrics 33, 1991; mean sizes as Campolongo et al. 2007.
    """
    from SALib.analyze import morris as analysed
    from SALib.sample import morris as sampled

    problem = {"num_vars": len(names), "names": list(names), "bounds": [[0.0, 1.0]] * len(names)}
    points = sampled.sample(problem, trajectories, num_levels=LEVELS, seed=seed)
    values = np.asarray(function(points))
    found = analysed.analyze(problem, points, values, num_levels=LEVELS, seed=seed)
    pairs = zip(names, found["mu_star"], found["sigma"], strict=True)
    return [Effect(name, float(size), float(spread)) for name, size, spread in pairs]


def figure_of_inputs(
    ends: Ends, study: Study, metric: str, names: Sequence[str]
) -> Callable[[Floats], Floats]:
    """A figure of one plan as a function of the probabilities of its uncertain inputs."""
    score = np.vectorize(NormalDist().inv_cdf)

    def figure(points: Floats) -> Floats:
        inputs = ends.middle.take(np.zeros(len(points), dtype=np.int64))
        scores = score(np.clip(points, EDGE, 1.0 - EDGE))
        for i, name in enumerate(names):
            inputs = ends.at_scores(inputs, name, scores[:, [i]])
        return figures_of(inputs, study, (metric,))[metric]

    return figure
