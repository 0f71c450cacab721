"""Money, carbon and water over a physical front: a second pass that simulates nothing.

Every plan is put at every site of the study; limits and objectives that need a price are applied
here. Re-costing a stored run calls the same function with another [costing] table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from costdata.bill import EmbodiedFactors, PlanRun, Prices, missing_price, plan_costs
from costdata.catalog import Catalog
from costdata.hardware_bill import HardwareBill
from costdata.quotes import site_terms
from costdata.terms import CostingTerms, refuse_bad_terms, yearly_shares
from planner.archive_columns import ledger_columns
from planner.bands import with_bands
from planner.evaluate import Limit
from planner.metrics import find_metric, is_at_least
from planner.pareto import nondominated, rounded_hash
from planner.purchase import rows_of
from planner.quoted import names_in, quotes_of
from planner.study import Study
from planner.study_parts import Costing
from simkernel.columns import Floats, Masks
from simkernel.errors import MissingFact
from simkernel.ledger import Ledger

HOURS_PER_DAY = 24.0
NEAREST_ROWS = 10
"""Plans told when nothing is feasible."""

OWN_TERMS = (
    "wacc_frac", "usd_per_kwh", "demand_usd_per_kw_month", "pue", "grid_kgco2e_per_kwh",
    "life_years", "residual_frac", "maintenance_frac", "utilisation_frac", "carbon_usd_per_t",
    "colo_usd_per_kw_month", "staff_usd_per_year",
)  # fmt: skip
"""Keys of [costing] that take the place of the catalogue's figure."""

INTENSITIES = {
    "location_average": "grid_average_kgco2e_per_kwh",
    "location_marginal": "grid_marginal_kgco2e_per_kwh",
    "market": "market_kgco2e_per_kwh",
}
"""Term of a site that each accounting multiplies energy by."""


@dataclass(frozen=True)
class Costed:
    """Plans at sites.

    Parameters
    ----------
    columns : axes, metrics (with bands), "site", "acquire" of every plan at every site, (m,)
    ledgers : "capex_usd", "usd_per_year", "usd", "embodied_kgco2e"
    is_front : rows on the Pareto front
    limits : the study's limits on these rows
    rejected : limit to rows it removed; "missing_fact" for plans nobody sells, or of which an
        objective is not known
    reasons : why a metric is NULL where it is
    """

    columns: dict[str, Any]
    ledgers: dict[str, Ledger]
    is_front: Masks
    limits: dict[str, Limit]
    rejected: dict[str, int]
    reasons: dict[str, str]

    @property
    def excess(self) -> Floats:
        """How far each limit is exceeded, 1 = 100% over, without bound if not known; (k, m)."""
        none = np.zeros((0, len(self.is_front)))
        over = [np.nan_to_num(limit.excess, nan=np.inf) for limit in self.limits.values()]
        return np.stack(over) if over else none

    @property
    def worst_excess(self) -> Floats:
        """Of the limit that is exceeded most, 0 where none is; (m,)."""
        return self.excess.max(axis=0, initial=0.0)


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
    sites = study.costing.site
    plan_rows = np.repeat(np.arange(len(plans["devices"])), len(sites))
    site_rows = np.tile(np.arange(len(sites)), len(plans["devices"]))
    rows = {name: np.asarray(column)[plan_rows] for name, column in plans.items()}
    terms_table = terms_of(study.costing, catalog)
    bill, quoted, made = _quoted(study.costing, catalog, rows)
    lacking = missing_price(quoted, terms_table.take(site_rows))
    is_priced = ~np.any(np.stack(list(lacking.values())), axis=0)
    kept = np.flatnonzero(is_priced)
    rejected = {"missing_fact": int((~is_priced).sum())}
    rows = {name: column[kept] for name, column in rows.items()}
    costs = plan_costs(
        bill.take(kept),
        _run(study, rows),
        quoted.take(kept),
        made.take(kept),
        terms_table.take(site_rows[kept]),
        yearly_shares(terms_table).take(site_rows[kept]),
        study.costing.carbon,
    )
    sites_of = np.array(sites, dtype=object)[site_rows[kept]]
    acquire = np.full(len(kept), study.costing.acquire, dtype=object)
    columns = {**rows, **costs.columns, "site": sites_of, "acquire": acquire}
    columns["unverified_facts"] = _unverified(catalog, columns)
    columns = with_bands(study.kind, columns)
    limits = limits_on(study, columns)
    is_allowed = np.ones(len(kept), dtype=bool)
    for name, limit in limits.items():
        broken = ~(limit.excess <= 0)
        if is_costed(name):
            rejected[name] = int(broken.sum())
        is_allowed &= ~broken
    rejected["missing_fact"] += int((is_allowed & ~_is_known(study, columns)).sum())
    ledgers = {ledger.name: ledger for ledger in costs.ledgers()}
    front = front_of(study, columns, is_allowed)
    return Costed(columns, ledgers, front, limits, rejected, dict(costs.reasons))


def is_costed(name: str) -> bool:
    """True for what the sweep does not know: money, carbon, the ends of bands."""
    return find_metric(name).stage == "costing" or name.endswith(("_low", "_high"))


def front_columns(study: Study, costed: Costed) -> dict[str, Any]:
    """Rows of the front with their ledgers, best in the first objective first; {} for none."""
    if not costed.is_front.any():
        return {}
    table = {**costed.columns, **ledger_columns(costed.ledgers.values())}
    picked = np.flatnonzero(costed.is_front)
    wanted = [np.asarray(table[name], float)[picked] for name in study.objectives.minimise]
    wanted += [-np.asarray(table[name], float)[picked] for name in study.objectives.maximise]
    picked = picked[np.lexsort(wanted[::-1])]
    return {name: np.asarray(column)[picked] for name, column in table.items()}


def front_hash(study: Study, front: Mapping[str, Any]) -> str:
    """A name for the answer: the same for the same objectives of the same rows in any order."""
    names = (*study.objectives.minimise, *study.objectives.maximise)
    points = np.stack([front[n] for n in names], axis=1) if front else np.empty((0, 1))
    return rounded_hash(points)


def nearest_costed(costed: Costed) -> dict[str, Any]:
    """Plans that physics allows and price, carbon or a band forbids, the least over first."""
    if not len(costed.is_front) or not costed.limits:
        return {}
    names = np.array(list(costed.limits), dtype=object)
    over = {"worst_excess": costed.worst_excess, "binding": names[costed.excess.argmax(axis=0)]}
    return least_over({**costed.columns, **over})


def least_over(table: Mapping[str, Any]) -> dict[str, Any]:
    """The few rows of a table that exceed a limit least, one dictionary each."""
    best = np.argsort(table["worst_excess"], kind="stable")[:NEAREST_ROWS]
    shown = [n for n in table if "[" not in n]
    return {"plans": [{name: _plain(table[name][i]) for name in shown} for i in best]}


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
    wanted = [np.asarray(columns[name], float) for name in study.objectives.minimise]
    wanted += [-np.asarray(columns[name], float) for name in study.objectives.maximise]
    allowed = np.flatnonzero(is_allowed & _is_known(study, columns))
    mask = np.zeros(len(is_allowed), dtype=bool)
    if len(allowed):
        points = np.stack(wanted, axis=1)[allowed]
        mask[allowed[nondominated(points)]] = True
    return mask


def terms_of(costing: Costing, catalog: Catalog) -> CostingTerms:
    """Terms of every site of the study: its own figures, else the catalogue's.

    Raises
    ------
    MissingFact, BadStudy : as `terms.refuse_bad_terms`
    """
    own = {name: getattr(costing, name) for name in OWN_TERMS}
    own = {name: float(value) for name, value in own.items() if value is not None}
    terms = site_terms(catalog, costing.site, own, costing.acquire, costing.carbon).table
    refuse_bad_terms(terms)
    factor = getattr(terms, INTENSITIES[costing.carbon])
    unknown = [site for site, value in zip(costing.site, factor, strict=True) if np.isnan(value)]
    if unknown:
        raise MissingFact(
            *(
                f"site {site} has no {costing.carbon} carbon intensity; give "
                'costing.grid_kgco2e_per_kwh or take carbon = "location_average"'
                for site in unknown
            )
        )
    return terms


def _is_known(study: Study, columns: Mapping[str, Any]) -> Masks:
    """Rows of which every objective is a number."""
    wanted = (*study.objectives.minimise, *study.objectives.maximise)
    values = np.stack([np.asarray(columns[name], float) for name in wanted])
    return np.asarray(np.isfinite(values).all(axis=0))


def _quoted(
    costing: Costing, catalog: Catalog, plans: Mapping[str, Any]
) -> tuple[HardwareBill, Prices, EmbodiedFactors]:
    """Counts, prices and carbon of making of every row."""
    quotes = quotes_of(costing, catalog, names_in(plans))
    return quotes.of(rows_of(quotes.shelf, plans))


def _run(study: Study, rows: Mapping[str, Any]) -> PlanRun:
    return PlanRun(
        it_mean_w=rows["it_mean_w"],
        it_peak_w=rows["it_peak_w"],
        hours=rows["days"] * HOURS_PER_DAY,
        tokens=np.full(len(rows["days"]), study.training.tokens),
    )


def _unverified(catalog: Catalog, columns: Mapping[str, Any]) -> Floats:
    """Facts each row rests on that nobody has checked in their source; (m,)."""
    names = [np.asarray(columns[key], dtype=str) for key in ("accelerator", "site")]
    chips = {name: _count(catalog.facts_for(name)) for name in np.unique(names[0])}
    sites = {name: _count(catalog.facts_for_site(name)) for name in np.unique(names[1])}
    always = _count(catalog.planning_facts())
    return np.array([always + chips[a] + sites[s] for a, s in zip(*names, strict=True)])


def _plain(value: Any) -> Any:
    """A NumPy value as Python's own; what is not a number becomes None."""
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and not np.isfinite(value) else value


def _count(facts: Mapping[str, Any]) -> float:
    return float(sum(not fact.verified for fact in facts.values()))
