"""Terms of every site that a [costing] table comes to: its own figures, else the catalogue's."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from costdata.catalog import Catalog
from costdata.depreciation import DEPRECIATION
from costdata.ends import TYPICAL
from costdata.quotes import site_terms
from costdata.supply import Supply
from costdata.tco import real_rate_frac
from costdata.terms import CostingTerms, refuse_bad_terms
from planner.study.parts import Costing
from planner.study.supply import pue_terms, supply_of
from simkernel.errors import BadStudy, MissingFact

OWN_TERMS = (
    "wacc_frac", "usd_per_kwh", "demand_usd_per_kw_month", "pue", "grid_kgco2e_per_kwh",
    "life_years", "residual_frac", "maintenance_frac", "utilisation_frac", "carbon_usd_per_t",
    "colo_usd_per_kw_month", "staff_usd_per_year", "minimum_billing_frac", "ratchet_frac",
    "minimum_take_frac", "facility_usd_per_w", "facility_kgco2e_per_w", "network_life_years",
    "storage_life_years",
    "facility_life_years", "embodied_life_years", "market_kgco2e_per_kwh", "insurance_frac",
    "software_usd_per_device_year", "tax_frac", "credit_frac", "bonus_frac",
    "power_oversubscription",
)  # fmt: skip
"""Keys of [costing] that take the place of the catalogue's figure."""

MW_TERMS = {"contract_mw": "contract_w", "past_peak_mw": "past_peak_w"}
"""Keys of [costing] in megawatts and the terms they set."""

W_PER_MW = 1e6

WRITE_OFFS = ("depreciation", "facility_depreciation")
"""Keys of [costing] that name a way to write off."""

INTENSITIES = {
    "location_average": "grid_average_kgco2e_per_kwh",
    "location_marginal": "grid_marginal_kgco2e_per_kwh",
    "market": "market_kgco2e_per_kwh",
}
"""Term of a site that each accounting multiplies energy by."""


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
    supply_given(costing)
    _refuse_idle_write_offs(costing)
    own = {name: getattr(costing, name) for name in OWN_TERMS}
    own = {name: float(value) for name, value in own.items() if value is not None}
    if costing.grid_cfe_frac is not None:
        own["grid_clean_frac"] = float(costing.grid_cfe_frac)
    for name in WRITE_OFFS:
        if getattr(costing, name) is not None:
            own[f"{name}_code"] = DEPRECIATION.index(getattr(costing, name))
    if costing.pue_curve is not None:
        if costing.pue is not None:
            raise BadStudy("costing.pue and pue_curve both say the PUE; give one of them")
        own |= pue_terms(costing.pue_curve)
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


HOSTED = ("buy", "lease")
"""Ways to acquire that pay for their own electricity."""


def _refuse_idle_write_offs(costing: Costing) -> None:
    """A way to write off lowers a tax; without one it changes nothing."""
    given = [name for name in WRITE_OFFS if getattr(costing, name) is not None]
    if given and not costing.tax_frac:
        raise BadStudy(
            f"costing.{given[0]} changes nothing without a tax; give costing.tax_frac or remove it"
        )


def supply_given(costing: Costing) -> Supply | None:
    """Tariff by the hour and contracts of a study; None where it has none.

    Raises
    ------
    MissingFact, BadStudy : as `study_supply.supply_of`
    """
    supply = supply_of(
        None if _is_year_of_flat_prices(costing) else costing.bill_year,
        costing.time_of_use,
        costing.energy_tiers,
        costing.sources,
        costing.grid_cfe_by_hour,
    )
    if supply is not None and costing.acquire not in HOSTED:
        raise BadStudy(
            f'costing.acquire = "{costing.acquire}": whoever rents devices does not buy their '
            "electricity, so time_of_use, energy_tiers and sources change nothing; remove them, "
            f"or take acquire = {' or '.join(HOSTED)}"
        )
    if costing.sources and costing.minimum_take_frac:
        raise BadStudy(
            "costing.minimum_take_frac is of energy from the grid, which costing.sources replace: "
            "what is not taken is not known; give one of them"
        )
    return supply


def _is_year_of_flat_prices(costing: Costing) -> bool:
    """The year says of which money the study's own flat prices are, and no calendar is billed."""
    own = (costing.usd_per_kwh, costing.demand_usd_per_kw_month)
    is_by_calendar = costing.time_of_use or costing.energy_tiers or costing.sources
    return costing.acquire in HOSTED and any(own) and not is_by_calendar


def _in_money(costing: Costing, terms: CostingTerms) -> CostingTerms:
    """The terms with the discount rate of the money that amounts are in."""
    inflation = costing.inflation_frac
    if costing.money == "real" and costing.tax_frac:
        raise BadStudy(
            "write-offs are fixed in nominal dollars, so costing.tax_frac does not go with "
            'money = "real"; write money = "nominal"'
        )
    if costing.money == "nominal":
        if inflation is not None:
            raise BadStudy(
                'costing.inflation_frac changes nothing in nominal money; write money = "real"'
            )
        return terms
    if inflation is None:
        raise MissingFact("real money needs costing.inflation_frac, e.g. 0.02; give it")
    return replace(terms, wacc_frac=np.asarray(real_rate_frac(terms.wacc_frac, inflation)))
