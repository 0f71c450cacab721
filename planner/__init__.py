"""From a study file to a Pareto front: study, space, search, archive, command."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from planner.search.problem import StudyProblem

__all__ = ["problem"]


def problem(study: str | Path, *settings: str) -> StudyProblem:
    """A study as a problem for pymoo or Optuna, over the planner's own evaluation.

    Parameters
    ----------
    study : a study file (TOML)
    settings : as the command takes them with --set, e.g. "devices=[512, 1024]"

    Raises
    ------
    BadStudy, BadFile : as for the command
    """
    from planner.search.problem import problem_of  # this name alone loads nothing else

    return problem_of(study, settings)
