"""How uneven a step is: loads of experts and delays of domains, drawn with a seed.

Two things differ between devices that do the same: how many tokens their experts get, and how
late their scale-up domain comes. Both are distributions here, where the closed form has a figure
for each. What is drawn belongs to a seed and to nothing else: the same seed gives the same step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simkernel.columns import Floats

FINITE_DRAWS = np.pi / np.sqrt(12.0)
"""Deviation of the largest of many normal deviates, times sqrt(ln n) and over their own.

The largest of n has a Gumbel distribution of scale sigma / sqrt(2 ln n), whose deviation is
pi / sqrt(6) of it (Gumbel 1958, Statistics of Extremes, 5.2).
"""


@dataclass(frozen=True)
class Unevenness:
    """What is drawn of a plan.

    Parameters
    ----------
    load_low_frac, load_typical_frac, load_high_frac : load of the busiest expert rank over what
        passes were made with: ends and mode of a triangular distribution
    batch_frac : deviation of that load between micro-batches in one layer, from finite draws
    spread_frac : mean delay of a scale-up domain over its step time
    slowest_frac : how much longer the slowest device of every stage takes, where that is given and
        not drawn; below 0 where it is drawn
    together : scale-up domains that keep step within a stage: those of one pipeline, or of all
        pipelines that exchange with each other between experts
    classes : sets of pipelines that do not wait for each other before gradients are reduced
    """

    load_low_frac: float
    load_typical_frac: float
    load_high_frac: float
    batch_frac: float
    spread_frac: float
    slowest_frac: float
    together: int
    classes: int


@dataclass(frozen=True)
class Draw:
    """One step's unevenness.

    Parameters
    ----------
    load_frac : (stages, batches) load of the busiest expert rank over what passes were made with,
        less one
    slower_frac : (classes, devices) how much longer the slowest domain of a stage takes, over the
        mean one
    """

    load_frac: Floats
    slower_frac: Floats


def drawn(
    uneven: Unevenness, expert_layers: Floats, devices: int, batches: int, seed: int
) -> Draw:
    """Loads of every stage and micro-batch, and speeds of every class and stage.

    Parameters
    ----------
    expert_layers : (stages,) layers with experts
    devices : along a pipeline
    batches : micro-batches
    seed : of the draw

    Notes
    -----
    A layer's router likes some experts better all step long; between micro-batches its loads
    differ by the luck of finite draws. A stage meets the mean of its layers. Of domains that keep
    step only the slowest counts; delays are exponential, as in closed form (see simkernel.train).
    """
    rng = np.random.default_rng(seed)
    load = np.array([_loads(uneven, int(layers), batches, rng) for layers in expert_layers])
    if uneven.slowest_frac >= 0.0:
        return Draw(load, np.full((1, devices), uneven.slowest_frac))
    late = rng.exponential(1.0, (uneven.classes, devices, uneven.together)).max(axis=2)
    return Draw(load, uneven.spread_frac * (late - 1.0))


def _loads(uneven: Unevenness, layers: int, batches: int, rng: np.random.Generator) -> Floats:
    """Mean load over the layers of a stage, in every micro-batch, less one; (batches,)."""
    if layers == 0:
        return np.zeros(batches)
    low, typical, high = uneven.load_low_frac, uneven.load_typical_frac, uneven.load_high_frac
    liked = rng.triangular(low, typical, high, layers) if high > low else np.full(layers, typical)
    luck = rng.normal(0.0, uneven.batch_frac / np.sqrt(layers), batches)
    return np.asarray(liked.mean() * (1.0 + luck) - 1.0)
