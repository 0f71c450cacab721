"""Money, carbon and water over a physical front: a second pass that simulates nothing.

Every plan is put at every site of the study; limits and objectives that need a price are applied
here. Re-costing a stored run calls the same function with another [costing] table.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from costdata.bill import (
    EmbodiedFactors,
    PlanCosts,
    PlanRun,
    Prices,
    missing_price,
    plan_costs,
)
from costdata.catalog import Catalog
from costdata.hardware_bill import HardwareBill
from costdata.nulls import Nulls, of_rows, reasons_of_row, told
from costdata.quotes import TYPICAL, site_terms
from costdata.tco import real_rate_frac
from costdata.terms import CostingTerms, YearlyShares, refuse_bad_terms, yearly_shares
from planner.archive_columns import ledger_columns
from planner.bands import given_by, with_bands
from planner.evaluate import Limit
from planner.facts_given import chip_facts, planning_facts, site_facts
from planner.metrics import find_metric, is_at_least
from planner.null_objectives import UNKNOWN_OBJECTIVE, is_known_of
from planner.pareto import nondominated, rounded_hash
from planner.purchase import coded, idle_it_w, rows_of
from planner.quoted import Quotes, names_in, quotes_of
from planner.study import Study
from planner.study_parts import Costing
from simkernel.columns import Codes, Floats, Masks
from simkernel.errors import BadStudy, MissingFact
from simkernel.ledger import Ledger

HOURS_PER_DAY = 24.0

OWN_TERMS = (
    "wacc_frac", "usd_per_kwh", "demand_usd_per_kw_month", "pue", "grid_kgco2e_per_kwh",
    "life_years", "residual_frac", "maintenance_frac", "utilisation_frac", "carbon_usd_per_t",
    "colo_usd_per_kw_month", "staff_usd_per_year", "minimum_billing_frac", "ratchet_frac",
    "minimum_take_frac", "facility_usd_per_w", "facility_kgco2e_per_w", "network_life_years",
    "facility_life_years", "embodied_life_years", "market_kgco2e_per_kwh",
)  # fmt: skip
"""Keys of [costing] that take the place of the catalogue's figure."""

MW_TERMS = {"contract_mw": "contract_w", "past_peak_mw": "past_peak_w"}
"""Keys of [costing] in megawatts and the terms they set."""

W_PER_MW = 1e6

INTENSITIES = {
    "location_average": "grid_average_kgco2e_per_kwh",
    "location_marginal": "grid_marginal_kgco2e_per_kwh",
    "market": "market_kgco2e_per_kwh",
}
"""Term of a site that each accounting multiplies energy by."""

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


@dataclass(frozen=True)
class Desk:
    """All that the plans of a study are priced with, looked up once.

    Parameters
    ----------
    terms, shares : of every site, (s,)
    quotes : of every chip, (k,)
    chip_unverified, site_unverified : facts that nobody checked, (k,) and (s,)
    unverified : those of the planning figures
    """

    study: Study
    terms: CostingTerms
    shares: YearlyShares
    quotes: Quotes
    chip_unverified: Floats
    site_unverified: Floats
    unverified: float

    @property
    def chips(self) -> tuple[str, ...]:
        """Those that can be had on the study's terms."""
        chips = self.quotes.chips
        is_bought = bool(self.terms.is_bought.all())
        usd = chips.unit_usd if is_bought else chips.rent_usd_per_device_hour
        names = self.quotes.shelf.names
        return tuple(name for name, price in zip(names, usd, strict=True) if not np.isnan(price))

    @property
    def is_priced(self) -> Masks:
        """Chips of which the study gives the price of everything that is paid for them; (k,)."""
        if self.study.costing.acquire == "buy":
            return self.quotes.is_all_in
        is_given = self.study.costing.rent_usd_per_device_hour is not None
        return np.full(len(self.quotes.is_all_in), is_given and not self.terms.is_hosted.any())


@dataclass(frozen=True)
class Bought:
    """What the plans that are for sale make one buy, at any site; (p,), `plans` their places.

    `it_idle_w` is what all of it draws at rest.
    """

    plans: Codes
    chips: Codes
    bill: HardwareBill
    quoted: Prices
    made: EmbodiedFactors
    it_idle_w: Floats


@dataclass(frozen=True)
class PricedRows:
    """Plans at sites before anything is compared; (m,), plans first, sites within a plan.

    `plan_rows` and `site_rows` say where each row comes from; plans nobody sells are not among
    them. `is_priced` as of the desk.
    """

    plan_rows: Codes
    site_rows: Codes
    costs: PlanCosts
    unverified_facts: Floats
    is_priced: Masks


def desk_of(study: Study, catalog: Catalog, chips: Sequence[str]) -> Desk:
    """The desk of a study for some chips.

    Raises
    ------
    MissingFact : a term of a site is not known and not given
    BadStudy : a term that cannot mean anything
    """
    terms = terms_of(study.costing, catalog)
    sites = study.costing.site
    return Desk(
        study=study,
        terms=terms,
        shares=yearly_shares(terms),
        quotes=quotes_of(study.costing, catalog, chips),
        chip_unverified=np.array([_count(chip_facts(study, catalog, name)) for name in chips]),
        site_unverified=np.array([_count(site_facts(study, catalog, name)) for name in sites]),
        unverified=_count(planning_facts(study, catalog)),
    )


def price_rows(desk: Desk, plans: Mapping[str, Any]) -> PricedRows:
    """Cost, carbon and water of every plan at every site.

    Parameters
    ----------
    plans : as for `cost_plans`, chips of the desk
    """
    bought, sites = bought_by(desk, plans), len(desk.terms)
    rows = np.repeat(np.arange(len(bought.plans)), sites)
    site_rows = np.tile(np.arange(sites), len(bought.plans))
    plan_rows = bought.plans[rows]
    costs = plan_costs(
        bought.bill.take(rows),
        _run(desk.study, plans, plan_rows, bought.it_idle_w[rows]),
        bought.quoted.take(rows),
        bought.made.take(rows),
        desk.terms.take(site_rows),
        desk.shares.take(site_rows),
        desk.study.costing.carbon,
    )
    chips = bought.chips[rows]
    facts = desk.chip_unverified[chips] + desk.site_unverified[site_rows] + desk.unverified
    return PricedRows(plan_rows, site_rows, costs, facts, desk.is_priced[chips])


def price_at_site(
    desk: Desk, plans: Mapping[str, Any], bought: Bought, site: int
) -> dict[str, Floats]:
    """The same columns of costs for one site of the desk; (p,), one for each plan bought."""
    one = np.array([site])
    costs = plan_costs(
        bought.bill,
        _run(desk.study, plans, bought.plans, bought.it_idle_w),
        bought.quoted,
        bought.made,
        desk.terms.take(one),
        desk.shares.take(one),
        desk.study.costing.carbon,
    )
    facts = desk.chip_unverified[bought.chips] + desk.site_unverified[site] + desk.unverified
    return {**costs.columns, "unverified_facts": facts}


def bought_by(desk: Desk, plans: Mapping[str, Any]) -> Bought:
    """Counts and prices of the plans that can be had on the study's terms."""
    rows = rows_of(desk.quotes.shelf, plans)
    bill, quoted, made = desk.quotes.of(rows)
    lacking = missing_price(quoted, desk.terms.take(np.zeros(1, np.int64)))
    sold = np.flatnonzero(~np.any(np.stack(list(lacking.values())), axis=0))
    idle_w = idle_it_w(desk.quotes.shelf, rows, bill)[sold]
    chips = rows.accelerator[sold]
    return Bought(sold, chips, bill.take(sold), quoted.take(sold), made.take(sold), idle_w)


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
    columns = with_bands(study.kind, columns, given_by(study.pin), rows.is_priced)
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
    """Rows of the front with their ledgers, best in the first objective first; {} for none."""
    if not costed.is_front.any():
        return {}
    table = {**costed.columns, **ledger_columns(costed.ledgers.values())}
    picked = np.flatnonzero(costed.is_front)
    points = objectives_of(study, costed.columns)[picked]
    picked = picked[np.lexsort(points.T[::-1])]
    front = {name: np.asarray(column)[picked] for name, column in table.items()}
    return {**front, NULL_REASONS: costed.null_reasons(picked)}


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


def terms_of(costing: Costing, catalog: Catalog, end: int = TYPICAL) -> CostingTerms:
    """Terms of every site of the study: its own figures, else the catalogue's.

    Parameters
    ----------
    end : of the bands of the catalogue's figures

    Raises
    ------
    MissingFact, BadStudy : as `terms.refuse_bad_terms`
    """
    if costing.rent_plan is not None and costing.acquire != "buy":
        raise BadStudy(
            f"costing.rent_plan says what a purchase is compared with, but acquire = "
            f'"{costing.acquire}" buys nothing; remove it, or write acquire = "buy"'
        )
    own = {name: getattr(costing, name) for name in OWN_TERMS}
    own = {name: float(value) for name, value in own.items() if value is not None}
    for name, term in MW_TERMS.items():
        if getattr(costing, name) is not None:
            own[term] = float(getattr(costing, name)) * W_PER_MW
    terms = site_terms(catalog, costing.site, own, costing.acquire, costing.carbon, end).table
    terms = _in_money(costing, terms)
    refuse_bad_terms(terms)
    factor = getattr(terms, INTENSITIES[costing.carbon])
    unknown = [site for site, value in zip(costing.site, factor, strict=True) if np.isnan(value)]
    if unknown:
        key = "market_kgco2e_per_kwh" if costing.carbon == "market" else "grid_kgco2e_per_kwh"
        raise MissingFact(
            *(
                f"site {site} has no {costing.carbon} carbon intensity; give "
                f'costing.{key} or take carbon = "location_average"'
                for site in unknown
            )
        )
    return terms


def _in_money(costing: Costing, terms: CostingTerms) -> CostingTerms:
    """The terms with the discount rate of the money that amounts are in."""
    inflation = costing.inflation_frac
    if costing.money == "nominal":
        if inflation is not None:
            raise BadStudy(
                'costing.inflation_frac changes nothing in nominal money; write money = "real"'
            )
        return terms
    if inflation is None:
        raise MissingFact("real money needs costing.inflation_frac, e.g. 0.02; give it")
    return replace(terms, wacc_frac=np.asarray(real_rate_frac(terms.wacc_frac, inflation)))


def unverified(study: Study, catalog: Catalog, columns: Mapping[str, Any]) -> Floats:
    """How many facts each row rests on that nobody has checked in their source; (m,)."""
    found = np.full(len(columns["site"]), _count(planning_facts(study, catalog)))
    for key, facts in (("accelerator", chip_facts), ("site", site_facts)):
        names, code = coded(columns[key])
        found += np.array([_count(facts(study, catalog, name)) for name in names])[code]
    return found


def _run(study: Study, plans: Mapping[str, Any], rows: Codes, it_idle_w: Floats) -> PlanRun:
    """Runs of some plans; at rest none draws more than at work, whatever watts a study pins."""
    it_mean_w = np.asarray(plans["it_mean_w"])[rows]
    return PlanRun(
        it_mean_w=it_mean_w,
        it_peak_w=np.asarray(plans["it_peak_w"])[rows],
        it_idle_w=np.minimum(it_idle_w, it_mean_w),
        hours=np.asarray(plans["days"])[rows] * HOURS_PER_DAY,
        tokens=np.full(len(rows), study.training.tokens),
    )


def _count(facts: Mapping[str, Any]) -> float:
    return float(sum(not fact.verified for fact in facts.values()))
