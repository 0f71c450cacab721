"""A search by the name of its driver: the loop of the seam over what the study asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from planner.engine import Engine
from planner.search.legal import Layouts, layouts_of
from planner.search.seam import Driver, Explored, explore
from planner.search.sweep import BillResult
from planner.study import ALGORITHMS_OF
from planner.study_parts import Search


def searched(
    engine: Engine, driver: str, is_stopped: Callable[[], bool], explored: Explored | None = None
) -> Iterator[BillResult]:
    """What a driver finds, round by round.

    Parameters
    ----------
    driver : "evolve" or "sample"
    is_stopped : asked before every round
    explored : what is known already; None for nothing
    """
    layouts = layouts_of(engine.space)
    made = make_driver(driver, layouts, engine.study.search, _width(engine), engine.study.seed)
    yield from explore(explored or Explored(engine), made, is_stopped)


def make_driver(driver: str, layouts: Layouts, search: Search, width: int, seed: int) -> Driver:
    """A driver by name; pymoo and Optuna are loaded only where they are used."""
    algorithm = search.algorithm or ALGORITHMS_OF[driver][0]
    from planner.search.evolve import Evolution

    return Evolution(layouts, width, seed, algorithm, search.population)


def _width(engine: Engine) -> int:
    wanted = engine.study.objectives
    return len(wanted.minimise) + len(wanted.maximise)
