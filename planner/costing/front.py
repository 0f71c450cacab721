"""The front among plans at sites, in blocks that stay in a processor's cache.

Equal to costing every row and comparing all of them, but only what is compared is computed for
every row; the columns and ledgers that a person reads are made for the rows that remain.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from costdata.catalog import Catalog
from planner.bands import GAP_HIGH, GAP_LOW, given_by, regime_of, with_bands
from planner.costing.price_desk import Bought, Desk, bought_by, desk_of, price_at_site
from planner.costing.quoted import names_in
from planner.costing.second_pass import (
    Costed,
    cost_at,
    is_costed,
    judged,
    limits_on,
    objectives_of,
    worst_excess,
)
from planner.costing.targets import is_ranked_by_targets, with_targets
from planner.explain.nearest import NEAREST_ROWS
from planner.metrics import find_metric
from planner.pareto import nondominated
from planner.study.pools import POOLS
from planner.study.read import Study
from simkernel.columns import Codes, Floats

BLOCK_ROWS = 16384
"""Measured: hundred columns of a block fit in a second-level cache; fewer rows cost more calls."""

NEEDED = ("devices", "supernode_devices", "used_per_domain", "oversubscription", "scaleout_fabric",
          "accelerator", "scaleup_topology", "scaleup_gbytes_per_s", "chassis_devices",
          "days", "it_mean_w", "it_peak_w")  # fmt: skip
"""Columns of a plan that its price follows from."""

OF_SERVICE = ("input_tokens", "output_tokens", "prompt_share_frac")
"""Further columns that the price of a token follows from."""

BESIDE = {
    "resident_bytes", "devices", "validated", "operational_kgco2e", "embodied_kgco2e",
    GAP_LOW, GAP_HIGH,
}  # fmt: skip
"""Columns that limits and bands need beside what is compared."""


@dataclass
class _Found:
    """What the blocks so far came to; a row is plan x sites + site."""

    rejected: Counter[str] = field(default_factory=Counter)
    rows: Codes = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    points: Floats = field(default_factory=lambda: np.empty((0, 0)))
    nearest: Codes = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    nearest_over: Floats = field(default_factory=lambda: np.zeros(0))


def cost_front(study: Study, catalog: Catalog, plans: Mapping[str, Any]) -> Costed:
    """The rows of `cost_plans` that are on the front; where there is none, those nearest to it.

    Parameters
    ----------
    plans : as for `cost_plans`; (n,)

    Raises
    ------
    MissingFact, BadStudy : as `cost_plans`
    """
    desk = desk_of(study, catalog, names_in(plans))
    sites = len(study.costing.site)
    found = _Found()
    used = {name: np.asarray(plans[name]) for name in _used(study, plans)}
    for start in range(0, len(plans["devices"]), BLOCK_ROWS):
        block = {name: column[start : start + BLOCK_ROWS] for name, column in used.items()}
        _add_block(desk, found, start, block)
    rows = np.sort(found.rows if len(found.rows) else found.nearest)
    few = np.unique(rows // sites)
    picked = {name: np.asarray(column)[few] for name, column in plans.items()}
    whole = cost_at(desk, picked)
    at = np.searchsorted(few, rows // sites) * sites + rows % sites
    is_front = np.full(len(rows), len(found.rows) > 0)
    return replace(whole.take(at, is_front, dict(found.rejected)), chips=desk.chips)


@dataclass(frozen=True)
class SiteScores:
    """What a search compares of some plans: every plan at every site.

    Parameters
    ----------
    points : (n, sites, k) objectives, to be minimised; infinite where one is not known
    excess : (n, sites) of the limit of costing that is exceeded most, 0 where none is, infinite
        where the plan has no price
    """

    points: Floats
    excess: Floats


def site_scores(desk: Desk, plans: Mapping[str, Any]) -> SiteScores:
    """Objectives of plans at every site, as `cost_front` compares them.

    Parameters
    ----------
    plans : as for `cost_plans`, chips of the desk; (n,)
    """
    study, sites = desk.study, len(desk.terms)
    block = {name: np.asarray(plans[name]) for name in _used(study, plans)}
    count, compared = len(block["devices"]), study.objectives
    width = len(compared.minimise) + len(compared.maximise)
    points, excess = np.full((count, sites, width), np.inf), np.full((count, sites), np.inf)
    bought = bought_by(desk, block)
    for site in range(sites):
        columns = _columns_at(desk, block, bought, site)
        limits = {n: limit for n, limit in limits_on(study, columns).items() if is_costed(n)}
        found = objectives_of(study, columns)
        is_known = np.all(np.isfinite(found), axis=1, keepdims=True)
        points[bought.plans, site] = np.where(is_known, found, np.inf)
        over = worst_excess(limits, len(bought.plans))
        excess[bought.plans, site] = np.where(is_known[:, 0], over, np.inf)
    return SiteScores(points, excess)


def _used(study: Study, plans: Mapping[str, Any]) -> list[str]:
    """Columns of the plans that prices, limits or objectives are made of."""
    owners = [find_metric(name).name for name in _compared(study)]
    if "headroom_bytes" in owners:
        owners.append("resident_bytes")
    needed = [*NEEDED, *(OF_SERVICE if study.kind == "serve" else ())]
    needed += [f"{pool}.{name}" for pool in POOLS for name in NEEDED]
    return [name for name in dict.fromkeys([*needed, *owners]) if name in plans]


def _compared(study: Study) -> tuple[str, ...]:
    wanted = study.objectives
    wished = study.targets if is_ranked_by_targets(study) else ()
    return (*study.limits, *wished, *wanted.minimise, *wanted.maximise)


def _add_block(desk: Desk, found: _Found, first: int, block: Mapping[str, Any]) -> None:
    """Price a block of plans at one site after the other; its best rows meet the front."""
    sites = len(desk.terms)
    bought = bought_by(desk, block)
    found.rejected["missing_fact"] += (len(block["devices"]) - len(bought.plans)) * sites
    for site in range(sites):
        rows = (first + bought.plans) * sites + site
        _add_rows(desk.study, found, rows, _columns_at(desk, block, bought, site))


def _columns_at(
    desk: Desk, block: Mapping[str, Any], bought: Bought, site: int
) -> Mapping[str, Any]:
    """What limits and objectives are made of, of the plans that can be had, at one site."""
    study = desk.study
    owners = {find_metric(name).name for name in _compared(study)} | BESIDE
    own = {name: column[bought.plans] for name, column in block.items() if name in owners}
    priced = price_at_site(desk, block, bought, site)
    columns = {**own, **{n: c for n, c in priced.items() if n in owners}}
    is_priced = bought.priced(desk.is_priced)
    columns = with_bands(study.kind, columns, given_by(study.pin), is_priced, regime_of(study))
    return with_targets(study, columns) if is_ranked_by_targets(study) else columns


def _add_rows(study: Study, found: _Found, rows: Codes, columns: Mapping[str, Any]) -> None:
    """Count what each limit removes, and keep what may be on the front, or near it."""
    limits = limits_on(study, columns)
    is_allowed, rejected = judged(study, columns, limits)
    found.rejected.update(rejected)
    allowed = np.flatnonzero(is_allowed)
    if len(allowed):
        _meet(found, rows[allowed], objectives_of(study, columns)[allowed])
    elif not len(found.rows):
        _remember(found, rows, worst_excess(limits, len(rows)))


def _meet(found: _Found, rows: Codes, points: Floats) -> None:
    """What stays of the front and of new rows; of equals the one of the lowest row."""
    best = nondominated(points)
    rows, points = rows[best], points[best]
    if len(found.rows):
        rows = np.concatenate([found.rows, rows])
        points = np.concatenate([found.points, points])
        order = np.argsort(rows)
        order = order[nondominated(points[order])]
        rows, points = rows[order], points[order]
    found.rows, found.points = rows, points


def _remember(found: _Found, rows: Codes, over: Floats) -> None:
    """The rows that exceed a limit least, until one is feasible."""
    rows = np.concatenate([found.nearest, rows])
    over = np.concatenate([found.nearest_over, over])
    best = np.lexsort((rows, over))[:NEAREST_ROWS]
    found.nearest, found.nearest_over = rows[best], over[best]
