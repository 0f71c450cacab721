"""How the front of a run grew: the hypervolume of what was found, after every batch.

It is measured in the objectives of the study at all its sites, from a reference point that the
first feasible batch sets and the run keeps: a tenth beyond the worst plan of that batch's front.
Scenarios, and metrics that only replay knows, are not in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from planner.costing.front import site_scores
from planner.costing.price_desk import Desk, desk_of
from planner.pareto import hypervolume, nondominated
from planner.runs.physics import PHYSICS
from simkernel.columns import Floats

BEYOND_FRAC = 0.1
"""How far the reference lies beyond the first front: its own corners must count."""


@dataclass
class Trace:
    """The front of a run as far as it is known, for its hypervolume alone.

    Parameters
    ----------
    engine : the study
    reference : where it is measured from, () until a plan is feasible; (k,)
    before_s : seconds that the run this one goes on with had taken
    points : objectives of the unbeaten plans at their sites, (m, k), all to be minimised
    """

    engine: Any
    reference: tuple[float, ...] = ()
    before_s: float = 0.0
    points: Floats = field(default_factory=lambda: np.empty((0, 0)))

    @cached_property
    def desk(self) -> Desk:
        """Prices of every chip of the space."""
        chips = [str(name) for name in self.engine.space.chips]
        return desk_of(self.engine.study, self.engine.catalog, chips)

    def add(self, fronts: Iterable[Mapping[str, Any]]) -> None:
        """Plans that have entered the physical front."""
        if self.engine.study.kind not in PHYSICS:
            return
        for table in fronts:
            scores = site_scores(self.desk, table)
            new = scores.points[(scores.excess <= 0) & np.isfinite(scores.points).all(axis=-1)]
            if len(new):
                every = np.concatenate([self.points, new]) if len(self.points) else new
                self.points = every[nondominated(every)]
        if not self.reference and len(self.points):
            worst = self.points.max(axis=0)
            self.reference = tuple((worst + BEYOND_FRAC * np.abs(worst)).tolist())

    def told(self, evaluated: int, seconds: float) -> dict[str, Any]:
        """The line of a batch.

        Returns
        -------
        evaluated, seconds, reference and hypervolume: the volume between the front and the
        reference, each objective in sizes of its reference; 0 while nothing is feasible
        """
        volume = 0.0
        if self.reference:
            origin = np.array(self.reference)
            size = np.where(origin == 0, 1.0, np.abs(origin))
            volume = hypervolume((self.points - origin) / size, 0.0)
        return {
            "evaluated": evaluated,
            "seconds": self.before_s + seconds,
            "hypervolume": volume,
            "reference": list(self.reference),
        }


def gone_on(
    engine: Any, lines: Sequence[Mapping[str, Any]], fronts: Iterable[Mapping[str, Any]]
) -> Trace:
    """The trace of a run that goes on with another.

    Parameters
    ----------
    lines : what the batches of the other told, none for a run that begins
    fronts : tables of its physical front
    """
    if not lines:
        return Trace(engine)
    found = Trace(engine, tuple(lines[-1]["reference"]), float(lines[-1]["seconds"]))
    found.add(fronts)
    return found


def trace_document(
    objectives: Mapping[str, Sequence[str]], lines: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """What `show` tells of it; maximised objectives have their own sign again.

    Parameters
    ----------
    objectives : of the study, "minimise" and "maximise"
    lines : as `Trace.told`, in order
    """
    least, most = objectives.get("minimise", ()), objectives.get("maximise", ())
    reference = lines[-1]["reference"] if lines else []
    signs = [1.0] * len(least) + [-1.0] * len(most)
    return {
        "reference": {
            name: sign * value
            for name, sign, value in zip((*least, *most), signs, reference, strict=False)
        },
        "batches": [
            {name: line[name] for name in ("evaluated", "seconds", "hypervolume")}
            for line in lines
        ],
    }
