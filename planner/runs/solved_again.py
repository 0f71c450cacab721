"""A purchase plan under other prices, limits or another calendar, without sweeping anew.

Plans of the workloads follow from physics, which the run has kept. What to buy follows from prices
too, so that is solved: the front is that of a fresh run, the plan of before is told beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from costdata import catalog as catalogue
from planner.archive.runs import RunRecord
from planner.archive.store import Archive
from planner.archive.stored_purchase import decided, swept_tables
from planner.costing.recost import (
    ended,
    refuse_simulation,
    root_of,
    still_on_front,
    stored_study,
)
from planner.fleet.options import workload_study
from planner.fleet.study import Before, prepare
from planner.runs.answer import Finished
from planner.runs.run import run_study
from planner.study.read import Study
from planner.study.settings import with_settings
from planner.training.engine import catalogue_names


def solved_again(archive: Archive, run: str, settings: Sequence[str] = ()) -> Finished:
    """A purchase run solved anew and stored as a run of its own, whose parent it is.

    Parameters
    ----------
    run : its id, number or "last"
    settings : as for --set: "costing.KEY=VALUE", "fleet.KEY=VALUE", "limits.METRIC=…"

    Raises
    ------
    UnknownName : no such run
    BadStudy : a run that has not ended; a setting that is wrong or would need a simulation
    BadFile : a run of an earlier version, which kept nothing of its sweeps
    """
    with archive.reading() as held:
        parent = held.run(run)
        ended(parent)
        before = stored_study(root_of(held, parent))
        catalog = catalogue.load(Path(before.tables) if before.tables else None)
        study = with_settings(stored_study(parent), settings, catalogue_names(catalog))
        refuse_simulation(before, study)
        swept, front = swept_before(held, parent, study), held.front(parent.run)
    plan = decided(front, 0, parent.run) if front else None
    engine: Any = prepare(study, catalog, Before(swept, plan))
    return run_study(engine, archive, parent=parent.run)


def swept_before(held: Archive, record: RunRecord, study: Study) -> dict[str, dict[str, Any]]:
    """What a run, or the one that it was solved anew from, has kept of its workloads' sweeps.

    Parameters
    ----------
    study : whose limits the plans keep

    Raises
    ------
    BadFile : a run of an earlier version, which kept nothing
    """
    root = root_of(held, record)
    before = stored_study(root)
    return {
        name: still_on_front(workload_study(before, name), workload_study(study, name), plans)
        for name, plans in swept_tables(held.sample(root.run), root.run, before.workloads).items()
    }
