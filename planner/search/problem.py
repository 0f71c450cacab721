"""A study for people who have an optimiser of their own: pymoo's Problem, Optuna's objective.

One decision per axis that has several levels, and the site; the evaluation is that of the sweep,
and what was evaluated is remembered. A combination that cannot exist is a violation, not an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from costdata import catalog as catalogue
from planner.runs.kinds import kind_of, prepare
from planner.search.legal import is_legal, layouts_of, repaired
from planner.search.seam import Explored
from planner.space.blocks import Ints, keys_of
from planner.space.plan_keys import plan_name
from planner.study.read import read_study, tables_named_in
from planner.study.settings import with_settings
from planner.training.engine import catalogue_names
from simkernel.columns import Floats
from simkernel.errors import BadStudy

if TYPE_CHECKING:
    import optuna
    from pymoo.core.problem import Problem
    from pymoo.core.repair import Repair

SITE = "site"
VIOLATION = "violation"

CANNOT_EXIST = 1e3
"""Violation of a combination that no rule allows: far beyond any limit that a plan may break."""

NO_FIGURE = 1e30
"""Objective of what has none: finite, since optimisers refuse the infinite."""

MOST_WAITING = 64
"""Tables of evaluated plans that are held before they meet the front."""


class StudyProblem:
    """A study over which any optimiser can search.

    Parameters
    ----------
    engine : the prepared study, of a kind that can be searched
    """

    def __init__(self, engine: Any) -> None:
        self.engine, self.layouts = engine, layouts_of(engine.space)
        self.explored = Explored(engine)
        wanted, levels = engine.study.objectives, engine.space.levels
        self.objectives = (*wanted.minimise, *wanted.maximise)
        """Names, those to be minimised first."""
        self.directions = ["minimize"] * len(wanted.minimise) + ["maximize"] * len(wanted.maximise)
        """As Optuna's create_study takes them."""
        varied = {name: levels[name] for name in engine.space.axes if len(levels[name]) > 1}
        self.choices: dict[str, Sequence[Any]] = {**varied, SITE: engine.study.costing.site}
        """Decisions in the order of a row of X: name to its levels."""

    def __deepcopy__(self, memo: dict[int, Any]) -> StudyProblem:
        """Itself: optimisers copy their problem, and what was evaluated is known to all copies."""
        return self

    def evaluate(self, x: Any) -> tuple[Floats, Floats]:
        """Objectives, all to be minimised, and violations.

        Parameters
        ----------
        x : (n, decisions) places of levels, whole numbers in the order of `choices`

        Returns
        -------
        (n, objectives), and (n,) that are at most 0 where every limit is kept
        """
        codes, sites = self._codes(x)
        points = np.full((len(codes), len(self.objectives)), NO_FIGURE)
        excess = np.full(len(codes), CANNOT_EXIST)
        rows = np.flatnonzero(is_legal(self.layouts, codes))
        if len(rows):
            scores = self.explored.scores(codes[rows])
            at = (np.arange(len(rows)), sites[rows])
            found = scores.points[at]
            points[rows] = np.where(np.isfinite(found), found, NO_FIGURE)
            excess[rows] = np.minimum(scores.excess[at], CANNOT_EXIST)
        if len(self.explored.waiting) > MOST_WAITING:
            self.explored.settled()
        return points, excess

    def plans(self, x: Any) -> list[dict[str, Any]]:
        """Rows of X as a person reads them: plan, site, choices, objectives, violation."""
        points, excess = self.evaluate(x)
        codes, sites = self._codes(x)
        signs = np.array([1.0 if way == "minimize" else -1.0 for way in self.directions])
        keys = keys_of(self.engine.space, codes)
        return [
            {
                "plan": plan_name(int(key)),
                SITE: self.choices[SITE][site],
                **self._named(row),
                **dict(zip(self.objectives, (signs * point).tolist(), strict=True)),
                VIOLATION: max(float(over), 0.0),
            }
            for key, site, row, point, over in zip(keys, sites, codes, points, excess, strict=True)
        ]

    def repaired(self, x: Any, seed: int = 0) -> Any:
        """Rows of X with the nearest combination that can exist in the place of each."""
        codes, sites = self._codes(x)
        found, _ = repaired(self.layouts, codes, np.random.default_rng(seed))
        at = [self.engine.space.axes.index(name) for name in self._varied]
        return np.column_stack([found[:, at], sites])

    def pymoo(self) -> Problem:
        """A vectorised Problem of integer variables with one constraint."""
        from planner.search.pymoo_problem import PymooProblem

        return PymooProblem(self)

    def pymoo_repair(self) -> Repair:
        """For an algorithm's `repair`: children become the nearest plans that can exist."""
        from planner.search.pymoo_problem import PymooRepair

        return PymooRepair(self)

    def optuna(self, trial: optuna.trial.Trial) -> tuple[float, ...]:
        """An objective: for `study.optimize`, of a study with `directions`."""
        chosen = [
            list(levels).index(trial.suggest_categorical(name, list(levels)))
            for name, levels in self.choices.items()
        ]
        points, excess = self.evaluate([chosen])
        trial.set_constraint(VIOLATION, float(max(excess[0], 0.0)))
        signs = [1.0 if way == "minimize" else -1.0 for way in self.directions]
        return tuple(float(s * p) for s, p in zip(signs, points[0], strict=True))

    def of_trial(self, parameters: Mapping[str, Any]) -> list[int]:
        """A row of X from a trial's parameters."""
        return [list(levels).index(parameters[name]) for name, levels in self.choices.items()]

    @property
    def _varied(self) -> list[str]:
        return [name for name in self.choices if name != SITE]

    def _codes(self, x: Any) -> tuple[Ints, Any]:
        """Level codes (n, axes) and sites (n,) of rows of X."""
        rows = np.rint(np.atleast_2d(np.asarray(x, dtype=float))).astype(np.int32)
        if rows.shape[1] != len(self.choices):
            raise BadStudy(
                f"rows of X have {rows.shape[1]} columns; wanted {len(self.choices)}: "
                f"{', '.join(self.choices)}"
            )
        codes = np.zeros((len(rows), len(self.engine.space.axes)), dtype=np.int32)
        for column, name in enumerate(self._varied):
            codes[:, self.engine.space.axes.index(name)] = rows[:, column]
        return codes, rows[:, -1]

    def _named(self, row: Ints) -> dict[str, Any]:
        """Levels of the axes that vary."""
        space = self.engine.space
        return {n: space.levels[n][int(row[space.axes.index(n)])] for n in self._varied}


def problem_of(path: str | Path, settings: Sequence[str] = ()) -> StudyProblem:
    """The problem of a study file; raises as `planner.problem`."""
    tables = tables_named_in(str(path))
    names = catalogue_names(catalogue.load(tables if tables and tables.is_dir() else None))
    study = read_study(path, names)
    study = with_settings(study, settings, names) if settings else study
    if not kind_of(study).is_searchable:
        raise BadStudy(
            f'a study of kind = "{study.kind}" is swept in this version; run it with the command'
        )
    return StudyProblem(prepare(study))
