"""Where plans get their prices: terms of every site and quotes of every chip, looked up once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from costdata.api_prices import ApiPrice, api_prices, api_usd
from costdata.bill import PlanCosts, PlanRun, plan_costs
from costdata.catalog import Catalog
from costdata.configs import model_facts
from costdata.hardware_bill import HardwareBill
from costdata.hardware_cost import EmbodiedFactors, Hardware, Prices, missing_price
from costdata.nulls import NO_COOLING
from costdata.supply import Supply
from costdata.terms import CostingTerms, YearlyShares, yearly_shares
from planner.costing.facts_given import chip_facts, fabric_facts, planning_facts, site_facts
from planner.costing.purchase import bill_of, coded, idle_it_w, on_one_fabric, rows_of
from planner.costing.quoted import Quotes, is_pooled, of_pool, quotes_of
from planner.costing.terms import supply_given, terms_of
from planner.study.pools import POOLS
from planner.study.read import Study
from simkernel.columns import Codes, Floats, Masks
from simkernel.errors import BadStudy
from simkernel.hardware import SCALEOUT_FABRICS

HOURS_PER_DAY = 24.0
NO_API = "no API list price of the model is known; give costing.api_usd_per_mtoken_input, _output"


@dataclass(frozen=True)
class Desk:
    """All that the plans of a study are priced with, looked up once.

    Parameters
    ----------
    terms, shares : of every site, (s,)
    quotes : of every chip, (k,)
    chip_unverified, site_unverified : facts that nobody checked, (k,) and (s,)
    fabric_unverified : the same of each of SCALEOUT_FABRICS
    unverified : those of the planning figures
    supply : tariff by the hour and contracts, None where the study has none
    api : list prices of the tokens that a service writes, or the study's own quote
    """

    study: Study
    terms: CostingTerms
    shares: YearlyShares
    quotes: Quotes
    chip_unverified: Floats
    site_unverified: Floats
    fabric_unverified: Floats
    unverified: float
    supply: Supply | None = None
    api: tuple[ApiPrice, ...] = ()

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

    `it_idle_w` is what all of it draws at rest; `fabrics` index SCALEOUT_FABRICS. `beside` is what
    a second pool buys, of the chips `other_chips`; (0,) where there is none.
    """

    plans: Codes
    chips: Codes
    fabrics: Codes
    bill: HardwareBill
    quoted: Prices
    made: EmbodiedFactors
    it_idle_w: Floats
    beside: tuple[Hardware, ...] = ()
    other_chips: Codes = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def unverified(self, each: Floats) -> Floats:
        """Facts of the chips of each plan that nobody checked, each chip's once; (p,)."""
        if not self.beside:
            return each[self.chips]
        others = np.where(self.other_chips == self.chips, 0.0, each[self.other_chips])
        return np.asarray(each[self.chips] + others)

    def priced(self, each: Masks) -> Masks:
        """Plans of whose chips all have something; (p,)."""
        own = each[self.chips]
        return np.asarray(own & each[self.other_chips]) if self.beside else own


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
        quotes=quotes_of(study.costing, catalog, chips, reliability=study.reliability),
        chip_unverified=np.array([_count(chip_facts(study, catalog, name)) for name in chips]),
        site_unverified=np.array([_count(site_facts(study, catalog, name)) for name in sites]),
        fabric_unverified=np.array(
            [_count(fabric_facts(catalog, name)) for name in SCALEOUT_FABRICS]
        ),
        unverified=_count(planning_facts(study, catalog)),
        supply=supply_given(study.costing),
        api=api_of(study, catalog),
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
        tuple(part.take(rows) for part in bought.beside),
    )
    share = _prompt_share(desk, plans, bought)[rows]
    costs.columns.update(_by_direction(desk, plans, plan_rows, costs.columns, share))
    is_unsaid = unsaid_cooling(plans)[plan_rows]
    if is_unsaid.any():
        costs.nulls["liquid_cooled"] = {NO_COOLING: is_unsaid}
    if desk.study.kind == "serve" and not desk.api:
        nobody = np.ones(len(rows), dtype=bool)
        costs.nulls.update({name: {NO_API: nobody} for name in ("api_usd", "api_over_own_frac")})
    facts = bought.unverified(desk.chip_unverified)[rows]
    facts = facts + desk.site_unverified[site_rows] + desk.unverified
    facts = facts + desk.fabric_unverified[bought.fabrics[rows]]
    return PricedRows(plan_rows, site_rows, costs, facts, bought.priced(desk.is_priced)[rows])


def unsaid_cooling(plans: Mapping[str, Any]) -> Masks:
    """Plans on chips whose cooling no table has; none in runs from before it was asked."""
    found = plans.get("liquid_cooled", np.zeros(len(plans["devices"])))
    return np.asarray(np.isnan(np.ma.filled(np.ma.asarray(found, float), np.nan)))


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
        bought.beside,
    )
    facts = bought.unverified(desk.chip_unverified) + desk.site_unverified[site] + desk.unverified
    facts = facts + desk.fabric_unverified[bought.fabrics]
    share = _prompt_share(desk, plans, bought)
    by_direction = _by_direction(desk, plans, bought.plans, costs.columns, share)
    return {**costs.columns, **by_direction, "unverified_facts": facts}


def bought_by(desk: Desk, plans: Mapping[str, Any]) -> Bought:
    """Counts and prices of the plans that can be had on the study's terms."""
    if is_pooled(plans):
        return _bought_in_pools(desk, plans)
    rows = rows_of(desk.quotes.shelf, plans)
    bill, quoted, made = desk.quotes.of(rows)
    lacking = missing_price(quoted, desk.terms.take(np.zeros(1, np.int64)))
    sold = np.flatnonzero(~np.any(np.stack(list(lacking.values())), axis=0))
    idle_w = idle_it_w(desk.quotes.shelf, rows, bill)[sold]
    chips = rows.accelerator[sold]
    fabrics = rows.fabric_code[sold]
    return Bought(
        sold, chips, fabrics, bill.take(sold), quoted.take(sold), made.take(sold), idle_w
    )


def _bought_in_pools(desk: Desk, plans: Mapping[str, Any]) -> Bought:
    """The same of plans that buy pool by pool, on one fabric that joins all hosts."""
    shelf = desk.quotes.shelf
    rows = [rows_of(shelf, of_pool(plans, pool)) for pool in POOLS]
    bills = [bill_of(shelf, row) for row in rows]
    hosts = np.asarray(sum(bill.hosts for bill in bills))
    parts = []
    for row, own in zip(rows, bills, strict=True):
        bill, code = on_one_fabric(shelf, row, own, hosts), row.accelerator
        quoted = desk.quotes.priced(bill, code)
        parts.append(Hardware(bill, quoted, desk.quotes.making(row)))
    one = desk.terms.take(np.zeros(1, np.int64))
    lacking = [mask for part in parts for mask in missing_price(part.prices, one).values()]
    sold = np.flatnonzero(~np.any(np.stack(lacking), axis=0))
    idle_w = sum(idle_it_w(shelf, row, p.bill) for row, p in zip(rows, parts, strict=True))
    first, *others = (part.take(sold) for part in parts)
    return Bought(
        plans=sold,
        chips=rows[0].accelerator[sold],
        fabrics=rows[0].fabric_code[sold],
        bill=first.bill,
        quoted=first.prices,
        made=first.embodied,
        it_idle_w=np.asarray(idle_w)[sold],
        beside=tuple(others),
        other_chips=rows[1].accelerator[sold],
    )


def _prompt_share(desk: Desk, plans: Mapping[str, Any], bought: Bought) -> Floats:
    """Of the cost of each plan bought, what its prompts are charged; (p,).

    By the time of steps; of pools by what the units of each cost, all bought or all rented.
    Nothing where there are no prompts.
    """
    if "prompt_share_frac" not in plans:
        return np.zeros(len(bought.plans))
    if not bought.beside:
        return np.asarray(plans["prompt_share_frac"])[bought.plans]
    is_bought = bool(desk.terms.is_bought[0])
    own, other = (
        bill.purchase_units
        * (
            quoted.unit_usd
            if is_bought
            else quoted.rent_usd_per_device_hour * bill.devices_per_unit
        )
        for bill, quoted in (
            (bought.bill, bought.quoted),
            *((part.bill, part.prices) for part in bought.beside),
        )
    )
    return np.asarray(own / (own + other))


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


def api_of(study: Study, catalog: Catalog) -> tuple[ApiPrice, ...]:
    """What others ask for the model's tokens: the study's own quote, else dated list prices."""
    if study.kind != "serve":
        return ()
    model = study.serving.model
    quoted = (study.costing.api_usd_per_mtoken_input, study.costing.api_usd_per_mtoken_output)
    if quoted[0] is not None and quoted[1] is not None:
        return (ApiPrice("the study's own quote", model, quoted[0], quoted[1], "now"),)
    if quoted != (None, None):
        raise BadStudy(
            "costing.api_usd_per_mtoken_input and _output make one quote; give both or none"
        )
    return (
        ()
        if model.endswith(".json")
        else api_prices(catalog.tables["api_prices"], model_facts(model).slug)
    )


def _by_direction(
    desk: Desk,
    plans: Mapping[str, Any],
    rows: Codes,
    columns: Mapping[str, Floats],
    share: Floats,
) -> dict[str, Floats]:
    """Cost and carbon of prompts and answers, shared out by the time that steps take for each.

    What stands idle is shared out alike, since it stands ready for both. Beside it the same tokens
    at API prices.
    """
    if desk.study.kind != "serve":
        return {}
    usd, kgco2e = columns["usd"], columns["kgco2e"]
    read, written = (np.asarray(plans[f"{n}_tokens"])[rows] / 1e6 for n in ("input", "output"))
    bought_usd = api_usd(desk.api, read, written)
    return {
        "api_usd": bought_usd,
        "api_over_own_frac": bought_usd / usd,
        "kgco2e_per_mtoken_input": kgco2e * share / read,
        "kgco2e_per_mtoken_output": kgco2e * (1.0 - share) / written,
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
