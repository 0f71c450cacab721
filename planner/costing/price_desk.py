"""Where plans get their prices: terms of every site and quotes of every chip, looked up once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

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
from costdata.supply import Supply
from costdata.terms import CostingTerms, YearlyShares, yearly_shares
from planner.costing.facts_given import chip_facts, planning_facts, site_facts
from planner.costing.purchase import coded, idle_it_w, rows_of
from planner.costing.quoted import Quotes, quotes_of
from planner.costing.terms import supply_given, terms_of
from planner.study.read import Study
from simkernel.columns import Codes, Floats, Masks

HOURS_PER_DAY = 24.0


@dataclass(frozen=True)
class Desk:
    """All that the plans of a study are priced with, looked up once.

    Parameters
    ----------
    terms, shares : of every site, (s,)
    quotes : of every chip, (k,)
    chip_unverified, site_unverified : facts that nobody checked, (k,) and (s,)
    unverified : those of the planning figures
    supply : tariff by the hour and contracts, None where the study has none
    """

    study: Study
    terms: CostingTerms
    shares: YearlyShares
    quotes: Quotes
    chip_unverified: Floats
    site_unverified: Floats
    unverified: float
    supply: Supply | None = None

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
        supply=supply_given(study.costing),
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
        run_of(desk.study, plans, plan_rows, bought.it_idle_w[rows]),
        bought.quoted.take(rows),
        bought.made.take(rows),
        desk.terms.take(site_rows),
        desk.shares.take(site_rows),
        desk.study.costing.carbon,
        desk.supply,
    )
    costs.columns.update(_by_direction(desk.study, plans, plan_rows, costs.columns))
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
        run_of(desk.study, plans, bought.plans, bought.it_idle_w),
        bought.quoted,
        bought.made,
        desk.terms.take(one),
        desk.shares.take(one),
        desk.study.costing.carbon,
        desk.supply,
    )
    facts = desk.chip_unverified[bought.chips] + desk.site_unverified[site] + desk.unverified
    by_direction = _by_direction(desk.study, plans, bought.plans, costs.columns)
    return {**costs.columns, **by_direction, "unverified_facts": facts}


def bought_by(desk: Desk, plans: Mapping[str, Any]) -> Bought:
    """Counts and prices of the plans that can be had on the study's terms."""
    rows = rows_of(desk.quotes.shelf, plans)
    bill, quoted, made = desk.quotes.of(rows)
    lacking = missing_price(quoted, desk.terms.take(np.zeros(1, np.int64)))
    sold = np.flatnonzero(~np.any(np.stack(list(lacking.values())), axis=0))
    idle_w = idle_it_w(desk.quotes.shelf, rows, bill)[sold]
    chips = rows.accelerator[sold]
    return Bought(sold, chips, bill.take(sold), quoted.take(sold), made.take(sold), idle_w)


def unverified(study: Study, catalog: Catalog, columns: Mapping[str, Any]) -> Floats:
    """How many facts each row rests on that nobody has checked in their source; (m,)."""
    found = np.full(len(columns["site"]), _count(planning_facts(study, catalog)))
    for key, facts in (("accelerator", chip_facts), ("site", site_facts)):
        names, code = coded(columns[key])
        found += np.array([_count(facts(study, catalog, name)) for name in names])[code]
    return found


def run_of(study: Study, plans: Mapping[str, Any], rows: Codes, it_idle_w: Floats) -> PlanRun:
    """Runs of some plans; at rest none draws more than at work, whatever watts a study pins."""
    it_mean_w = np.asarray(plans["it_mean_w"])[rows]
    return PlanRun(
        it_mean_w=it_mean_w,
        it_peak_w=np.asarray(plans["it_peak_w"])[rows],
        it_idle_w=np.minimum(it_idle_w, it_mean_w),
        hours=np.asarray(plans["days"])[rows] * HOURS_PER_DAY,
        tokens=_tokens(study, plans, rows),
    )


def _by_direction(
    study: Study, plans: Mapping[str, Any], rows: Codes, columns: Mapping[str, Floats]
) -> dict[str, Floats]:
    """Cost of prompts and of answers, shared out by the time that steps take for each.

    What stands idle is shared out alike, since it stands ready for both.
    """
    if study.kind != "serve":
        return {}
    usd, share = columns["usd"], np.asarray(plans["prompt_share_frac"])[rows]
    read, written = (np.asarray(plans[f"{n}_tokens"])[rows] / 1e6 for n in ("input", "output"))
    return {
        "usd_per_mtoken_input": usd * share / read,
        "usd_per_mtoken_output": usd * (1.0 - share) / written,
        "usd_per_mtoken_total": usd / (read + written),
    }


def _tokens(study: Study, plans: Mapping[str, Any], rows: Codes) -> Floats:
    """What the runs of some plans yield: tokens trained, or read and written over the period."""
    if study.kind == "train":
        return np.full(len(rows), study.training.tokens)
    return np.asarray(plans["input_tokens"] + plans["output_tokens"])[rows]


def _count(facts: Mapping[str, Any]) -> float:
    return float(sum(not fact.verified for fact in facts.values()))
