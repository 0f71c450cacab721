"""What lies beside a front: plans that the sweep kept and that money or a limit put off it.

Candidates that physics removed are counted in the archive and not kept, so they are not here.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from costdata import catalog as catalogue
from planner.archive.store import Archive
from planner.costing.recost import in_order, root_of, stored_study
from planner.runs.kinds import kind_of

OVER = "over_frac"
"""Column that says how far the worst limit is exceeded: 0 for a plan that keeps them all."""


def beside(archive: Archive, run: str, most: int) -> Mapping[str, Any]:
    """Plans at sites beside the front of a run, evenly spread over those stored.

    Parameters
    ----------
    run : its id, number or "last"
    most : rows at most

    Returns
    -------
    columns as on a front, ledgers left out, and OVER; (n,) with n <= most, {} where nothing is
    kept beside the front

    Raises
    ------
    MissingFact : a site lacks a term of costing
    """
    with archive.reading() as held:
        record = held.run(run)
        root = root_of(held, record)
        study = stored_study(record)
        sites = max(len(study.costing.site), 1)
        few = most // sites if record.start.kind != "fleet" else 0
        plans = in_order(held.physical_thinned(root.run, few)) if few else {}
        front = held.front(record.run)
    if not len(plans.get("plan", ())):
        return {}
    costed = kind_of(study).price(study, catalogue.load(_overlay(study.tables)), plans)
    columns = {name: np.asarray(column) for name, column in costed.columns.items()}
    is_beside = np.ones(len(costed.is_front), dtype=bool)
    if len(front.get("plan", ())):
        is_beside = ~np.isin(_places(columns), _places(front))
    rows = np.flatnonzero(is_beside)
    found = {name: column[rows] for name, column in columns.items()}
    return {**found, OVER: np.maximum(costed.worst_excess[rows], 0.0)}


def _overlay(tables: str) -> Path | None:
    return Path(tables) if tables else None


def _places(columns: Mapping[str, Any]) -> Any:
    """Plan, site and scenario of every row in one word; (n,)."""
    names = [name for name in ("plan", "site", "scenario") if name in columns]
    found = np.full(len(columns["plan"]), "")
    for name in names:
        found = np.char.add(np.char.add(found, " @ "), np.asarray(columns[name]).astype(str))
    return found
