"""A study in pymoo's own words: a Problem, and a Repair for what cannot exist."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from pymoo.core.problem import Problem
from pymoo.core.repair import Repair

if TYPE_CHECKING:
    from planner.search.problem import StudyProblem


class PymooProblem(Problem):  # type: ignore[misc]  # pymoo ships no types
    """Integer variables, one per decision, and the violation as the one constraint."""

    def __init__(self, owner: StudyProblem) -> None:
        self.owner = owner
        counts = np.array([len(levels) for levels in owner.choices.values()])
        super().__init__(
            n_var=len(counts),
            n_obj=len(owner.objectives),
            n_ieq_constr=1,
            xl=np.zeros(len(counts), dtype=int),
            xu=counts - 1,
            vtype=int,
        )

    def _evaluate(self, x: Any, out: dict[str, Any], *args: Any, **kwargs: Any) -> None:
        points, excess = self.owner.evaluate(x)
        out["F"], out["G"] = points, excess[:, None]


class PymooRepair(Repair):  # type: ignore[misc]
    """Rows of X as the nearest plans that can exist."""

    def __init__(self, owner: StudyProblem) -> None:
        super().__init__()
        self.owner = owner

    def _do(self, problem: Any, x: Any, **kwargs: Any) -> Any:
        return self.owner.repaired(x)
