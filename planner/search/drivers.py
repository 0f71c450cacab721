"""A search by the name of its driver: the loop of the seam over what the study asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from planner.search.legal import layouts_of
from planner.search.seam import Driver, Explored, explore
from planner.search.sweep import BillResult
from planner.space.blocks import Ints
from planner.study.read import ALGORITHMS_OF
from planner.training.engine import Engine


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
    made = make_driver(driver, engine)
    yield from explore(explored or Explored(engine), made, is_stopped)


def make_driver(driver: str, engine: Engine, first: Ints | None = None) -> Driver:
    """A driver by name; pymoo and Optuna are loaded only where they are used.

    Parameters
    ----------
    first : (n, axes) plans that "sample" tries before any other
    """
    study, layouts = engine.study, layouts_of(engine.space)
    search, width = study.search, len(study.objectives.minimise + study.objectives.maximise)
    algorithm = search.algorithm or ALGORITHMS_OF[driver][0]
    if driver == "sample":
        from planner.search.sample import Sampling

        return Sampling(
            layouts,
            width,
            study.seed,
            sites=study.costing.site,
            algorithm=algorithm,
            population=search.population,
            first=first,
            journal=study.folder / search.journal if search.journal else None,
            name=study.name,
        )
    from planner.search.evolve import Evolution

    return Evolution(layouts, width, study.seed, algorithm, search.population)
