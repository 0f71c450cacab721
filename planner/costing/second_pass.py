"""Money, carbon and water over a physical front: a second pass that simulates nothing.

Every plan is put at every site of the study; limits and objectives that need a price are applied
here. Re-costing a stored run calls the same function with another [costing] table.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from costdata.catalog import Catalog
from costdata.nulls import Nulls, of_rows, reasons_of_row, told
from planner.archive.columns import ledger_columns
from planner.bands import given_by, regime_of, with_bands
from planner.costing.null_objectives import UNKNOWN_OBJECTIVE, is_known_of
from planner.costing.price_desk import Desk, desk_of, price_rows
from planner.costing.quoted import names_in
from planner.costing.targets import with_targets
from planner.evaluated import Limit
from planner.metrics import find_metric, is_at_least
from planner.pareto import compared, nondominated, rounded_hash
from planner.study.read import Study
from simkernel.columns import Codes, Floats, Masks
from simkernel.ledger import Ledger

NULL_REASONS = "null_reasons"
"""Column of stored rows: JSON from metric to why it is NULL."""


@dataclass(frozen=True)
class Costed:
    """Plans at sites.

    Parameters
    ----------
    columns : axes, metrics (with bands), "site", "acquire" of every plan at every site, (m,)
    ledgers : "capex_usd", "usd_per_year", "usd", "embodied_kgco2e"
    is_front : rows on the Pareto front
    limits : the study's limits on these rows
    rejected : limit to rows it removed; "missing_fact" for plans nobody sells on the study's
        terms, UNKNOWN_OBJECTIVE for those of which an objective is NULL
    nulls : why metrics are NULL, by row
    chips : those of the plans that can be had on the study's terms
    """

    columns: dict[str, Any]
    ledgers: dict[str, Ledger]
    is_front: Masks
    limits: dict[str, Limit]
    rejected: dict[str, int]
    nulls: Nulls
    chips: tuple[str, ...] = ()

    @property
    def excess(self) -> Floats:
        """How far each limit is exceeded, 1 = 100% over, without bound if not known; (k, m)."""
        return excess_of(self.limits, len(self.is_front))

    def null_reasons(self, rows: Codes) -> npt.NDArray[np.object_]:
        """Why figures of some rows are NULL, as JSON from metric to reason."""
        words = [json.dumps(reasons_of_row(self.nulls, int(row))) for row in rows]
        return np.array(words, dtype=object)

    @property
    def reasons(self) -> dict[str, str]:
        """Metric to why it is NULL, over all rows."""
        return told(self.nulls)

    @property
    def worst_excess(self) -> Floats:
        """Of the limit that is exceeded most, 0 where none is; (m,)."""
        return worst_excess(self.limits, len(self.is_front))

    def take(self, rows: Codes, is_front: Masks, rejected: dict[str, int]) -> Costed:
        """Some rows, of which others have said what is on the front and what was removed."""
        columns = {name: np.asarray(column)[rows] for name, column in self.columns.items()}
        ledgers = {name: ledger.take(rows) for name, ledger in self.ledgers.items()}
        limits = {
            name: replace(limit, have=limit.have[rows], need=limit.need[rows])
            for name, limit in self.limits.items()
        }
        return replace(
            self,
            columns=columns,
            ledgers=ledgers,
            is_front=is_front,
            limits=limits,
            rejected=rejected,
            nulls=of_rows(self.nulls, rows),
        )


def cost_plans(study: Study, catalog: Catalog, plans: Mapping[str, Any]) -> Costed:
    """Cost, carbon and water of every plan at every site, and the front among them.

    Parameters
    ----------
    plans : columns of a physical front: axes by value, physical metrics, "used_per_domain"; (n,)

    Raises
    ------
    MissingFact : a term of a site is not known and not given
    BadStudy : a term that cannot mean anything
    """
    return cost_at(desk_of(study, catalog, names_in(plans)), plans)


def cost_at(desk: Desk, plans: Mapping[str, Any]) -> Costed:
    """The same of plans on chips that the desk has quotes for; there may be no plan."""
    study, rows = desk.study, price_rows(desk, plans)
    columns = {name: np.asarray(column)[rows.plan_rows] for name, column in plans.items()}
    columns |= rows.costs.columns
    columns["site"] = np.array(study.costing.site, dtype=object)[rows.site_rows]
    columns["acquire"] = np.full(len(rows.site_rows), study.costing.acquire, dtype=object)
    columns["unverified_facts"] = rows.unverified_facts
    columns = with_bands(
        study.kind, columns, given_by(study.pin), rows.is_priced, regime_of(study)
    )
    columns = with_targets(study, columns)
    limits = limits_on(study, columns)
    is_allowed, rejected = judged(study, columns, limits)
    rejected["missing_fact"] = len(plans["devices"]) * len(study.costing.site) - len(is_allowed)
    ledgers = {ledger.name: ledger for ledger in rows.costs.ledgers()}
    front = front_of(study, columns, is_allowed)
    nulls = {name: why for name, why in rows.costs.nulls.items() if name in columns}
    return Costed(columns, ledgers, front, limits, rejected, nulls, desk.chips)


def judged(
    study: Study, columns: Mapping[str, Any], limits: Mapping[str, Limit]
) -> tuple[Masks, dict[str, int]]:
    """Rows that keep every limit and have every objective, and how many each reason removed."""
    rejected: dict[str, int] = {}
    is_allowed = np.ones(len(columns["devices"]), dtype=bool)
    for name, limit in limits.items():
        broken = ~(limit.excess <= 0)
        if is_costed(name):
            rejected[name] = int(broken.sum())
        is_allowed &= ~broken
    is_known = is_known_of(study, columns)
    rejected[UNKNOWN_OBJECTIVE] = int((is_allowed & ~is_known).sum())
    return is_allowed & is_known, rejected


def excess_of(limits: Mapping[str, Limit], rows: int) -> Floats:
    """How far each limit is exceeded, without bound if not known; (k, rows)."""
    over = [np.nan_to_num(limit.excess, nan=np.inf) for limit in limits.values()]
    return np.stack(over) if over else np.zeros((0, rows))


def worst_excess(limits: Mapping[str, Limit], rows: int) -> Floats:
    """Of the limit that is exceeded most, 0 where none is; (rows,)."""
    return excess_of(limits, rows).max(axis=0, initial=0.0)


def objectives_of(study: Study, columns: Mapping[str, Any]) -> Floats:
    """What a front compares, all to be minimised; (m, k)."""
    wanted = [np.asarray(columns[name], float) for name in study.objectives.minimise]
    wanted += [-np.asarray(columns[name], float) for name in study.objectives.maximise]
    return np.stack(wanted, axis=1)


def is_costed(name: str) -> bool:
    """True for what the sweep does not know: money, carbon, the ends of bands."""
    return find_metric(name).stage == "costing" or name.endswith(("_low", "_high"))


def front_columns(study: Study, costed: Costed) -> dict[str, Any]:
    """Rows of the front with their ledgers, best in the first objective first; {} for none.

    Of plans that are equal in every objective but for rounding, none is on a front but the first.
    """
    if not costed.is_front.any():
        return {}
    table = all_columns(costed)
    picked = np.flatnonzero(costed.is_front)
    points = compared(objectives_of(study, costed.columns)[picked])
    picked = picked[np.lexsort(points.T[::-1])]
    return {name: column[picked] for name, column in table.items()}


def all_columns(costed: Costed) -> dict[str, Any]:
    """Every row with its ledgers and why figures are NULL, as the archive has them."""
    table = {**costed.columns, **ledger_columns(costed.ledgers.values())}
    return {
        **{name: np.asarray(column) for name, column in table.items()},
        NULL_REASONS: costed.null_reasons(np.arange(len(costed.is_front))),
    }


def front_hash(study: Study, front: Mapping[str, Any]) -> str:
    """A name for the answer: the same for the same objectives of the same rows in any order."""
    names = (*study.objectives.minimise, *study.objectives.maximise)
    points = np.stack([front[n] for n in names], axis=1) if front else np.empty((0, 1))
    return rounded_hash(points)


def limits_on(study: Study, columns: Mapping[str, Any]) -> dict[str, Limit]:
    """Every limit of the study on costed rows."""
    return {
        name: Limit(
            np.asarray(columns[name], float),
            np.full(len(columns["devices"]), bound),
            find_metric(name).unit,
            is_at_least(name),
        )
        for name, bound in study.limits.items()
    }


def front_of(study: Study, columns: Mapping[str, Any], is_allowed: Masks) -> Masks:
    """Rows that no allowed row beats in the study's objectives."""
    points = objectives_of(study, columns)
    allowed = np.flatnonzero(is_allowed & is_known_of(study, columns))
    mask = np.zeros(len(is_allowed), dtype=bool)
    if len(allowed):
        mask[allowed[nondominated(points[allowed])]] = True
    return mask
