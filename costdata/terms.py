"""The terms under which a plan is paid for, one row per site: interest, lives, tariff, carbon.

Every figure of a row belongs to one site: a plan takes a whole row, never a price from one site
and an intensity from another.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from costdata.depreciation import before_tax_frac, shield_frac, written_off_frac
from costdata.tco import capital_recovery_frac, present_frac
from simkernel.columns import Codes, Column, Floats, Masks
from simkernel.errors import BadStudy, MissingFact
from simkernel.hardware import Columns

ACQUIRE = ("buy", "lease", "reserved", "on_demand", "spot")
"""How hardware is had; `acquire_code` is the index.

lease: the rent covers servers, network, storage and their upkeep; site and energy are paid apart.
reserved, on_demand, spot: the rent covers everything; reserved is paid for unused hours too.
"""

CARBON = ("location_average", "location_marginal", "market")
"""Accountings; a study chooses one and a front never mixes them."""

MAY_BE_UNKNOWN = (
    "grid_marginal_kgco2e_per_kwh",
    "market_kgco2e_per_kwh",
    "wue_onsite_l_per_kwh",
    "wue_offsite_l_per_kwh",
    "pue_proportional_frac",
    "grid_clean_frac",
)
"""Terms that may be NaN: what follows from them is NULL, with a reason."""


@dataclass(frozen=True)
class CostingTerms(Columns):
    """Terms of each site; every field (s,), NaN only where `MAY_BE_UNKNOWN`.

    Parameters
    ----------
    wacc_frac : discount rate per year, nominal [1]
    it_life_years : servers, head nodes; network_life_years, storage_life_years,
        facility_life_years: each is bought again when its own life is over
    residual_frac : of IT and network price, received at the end of the life
    maintenance_frac : of gross IT and network price, per year
    insurance_frac : of everything paid up front, per year
    software_usd_per_device_year : licences and support, per device bought or leased
    tax_frac, credit_frac, bonus_frac : income tax, investment credit, share written off at once
    depreciation_code, facility_depreciation_code : index in depreciation.DEPRECIATION
    usd_per_kwh : at the meter; may be negative
    demand_usd_per_kw_month, minimum_billing_frac : demand charge and the least share of the
        contract that is billed
    contract_w : power contracted at the meter; 0 for the provisioned power of the plan
    past_peak_w, ratchet_frac : highest demand of the months before, at the meter, and the share
        of it that stays billed
    minimum_take_frac : least share of the contract's energy that is paid
    colo_usd_per_kw_month : per provisioned IT kW, electricity passed through
    facility_usd_per_w : own building, per provisioned IT W; 0 when colocated
    staff_usd_per_year : of the whole cluster
    pue : facility over IT power [1]
    pue_fixed_frac, pue_proportional_frac, pue_climate_frac : overhead at any load over the IT
        power provided, overhead that follows the IT load, and what the weather adds over a year;
        they take the place of `pue` where the second is known
    power_oversubscription : IT peak with its headroom over the power provided
    grid_average_kgco2e_per_kwh, grid_marginal_kgco2e_per_kwh : of the site's grid
    grid_clean_frac : yearly carbon-free share of the site's grid
    market_kgco2e_per_kwh : of the contract or residual mix; NaN without one
    carbon_usd_per_t : on operational carbon, per tonne
    utilisation_frac : share of the year's hours at work; runs pay for the rest, at idle power
    embodied_life_years : over which the carbon of making is spread
    facility_kgco2e_per_w : building and plant per provisioned IT W
    wue_onsite_l_per_kwh, wue_offsite_l_per_kwh : water per IT kWh and per meter kWh
    headroom_frac : reserved above the IT peak
    acquire_code : index in ACQUIRE
    """

    wacc_frac: Floats
    it_life_years: Floats
    network_life_years: Floats
    storage_life_years: Floats
    facility_life_years: Floats
    residual_frac: Floats
    maintenance_frac: Floats
    insurance_frac: Floats
    software_usd_per_device_year: Floats
    tax_frac: Floats
    credit_frac: Floats
    bonus_frac: Floats
    depreciation_code: Codes
    facility_depreciation_code: Codes
    usd_per_kwh: Floats
    demand_usd_per_kw_month: Floats
    minimum_billing_frac: Floats
    contract_w: Floats
    past_peak_w: Floats
    ratchet_frac: Floats
    minimum_take_frac: Floats
    colo_usd_per_kw_month: Floats
    facility_usd_per_w: Floats
    staff_usd_per_year: Floats
    pue: Floats
    pue_fixed_frac: Floats
    pue_proportional_frac: Floats
    pue_climate_frac: Floats
    power_oversubscription: Floats
    grid_average_kgco2e_per_kwh: Floats
    grid_marginal_kgco2e_per_kwh: Floats
    grid_clean_frac: Floats
    market_kgco2e_per_kwh: Floats
    carbon_usd_per_t: Floats
    utilisation_frac: Floats
    embodied_life_years: Floats
    facility_kgco2e_per_w: Floats
    wue_onsite_l_per_kwh: Floats
    wue_offsite_l_per_kwh: Floats
    headroom_frac: Floats
    acquire_code: Codes

    @property
    def is_bought(self) -> Masks:
        """Hardware is owned."""
        return self.acquire_code == ACQUIRE.index("buy")

    @property
    def is_hosted(self) -> Masks:
        """Electricity, space and staff are paid by the plan: bought or leased."""
        return self.acquire_code <= ACQUIRE.index("lease")

    @property
    def is_by_hour(self) -> Masks:
        """Rent is paid for hours used, idle hours are somebody else's: on demand or spot."""
        return self.acquire_code >= ACQUIRE.index("on_demand")

    @property
    def paid_frac(self) -> Floats:
        """Share of the paid hours that are used: 1 for rent by the hour."""
        return np.where(self.is_by_hour, 1.0, self.utilisation_frac)


@dataclass(frozen=True)
class YearlyShares(Columns):
    """What a dollar of each asset class costs a year; (s,), 0 where nothing is owned."""

    it_frac: Floats
    network_frac: Floats
    facility_frac: Floats
    storage_frac: Floats


def yearly_shares(terms: CostingTerms) -> YearlyShares:
    """Capital recovery of each class net of its discounted residual; buildings keep none.

    With taxes a dollar of capital counts as what must be earned before tax to repay it; a residual
    is written off by then, so that its tax cancels.
    """

    def share(life_years: Floats, residual_frac: Column, code: Codes) -> Floats:
        written_off = written_off_frac(code, terms.wacc_frac, life_years)
        shield = shield_frac(
            written_off, terms.tax_frac, terms.wacc_frac, terms.credit_frac, terms.bonus_frac
        )
        net = before_tax_frac(shield, terms.tax_frac)
        net = net - residual_frac * present_frac(terms.wacc_frac, life_years)
        return np.asarray(capital_recovery_frac(terms.wacc_frac, life_years) * net)

    return YearlyShares(
        share(terms.it_life_years, terms.residual_frac, terms.depreciation_code),
        share(terms.network_life_years, terms.residual_frac, terms.depreciation_code),
        share(terms.facility_life_years, 0.0, terms.facility_depreciation_code),
        share(terms.storage_life_years, terms.residual_frac, terms.depreciation_code),
    )


def refuse_bad_terms(terms: CostingTerms) -> None:
    """Every missing figure, then every impossible one, each kind in one error.

    Raises
    ------
    MissingFact : a figure that must be known is NaN; it is never taken as 0
    BadStudy : a figure that cannot mean anything
    """
    missing = [
        f"{f.name} is not known for {int(np.isnan(column).sum())} of {len(terms)} sites; "
        f"give costing.{f.name}"
        for f in fields(terms)
        for column in (np.asarray(getattr(terms, f.name), float),)
        if f.name not in MAY_BE_UNKNOWN and np.isnan(column).any()
    ]
    if missing:
        raise MissingFact(*missing)
    faults = [text for is_bad, text in _rules(terms) if np.any(is_bad)]
    if faults:
        raise BadStudy(*faults)


_NO_SHARE = (
    "residual, minimum billing, minimum take, ratchet, credit or bonus is no share from 0 to 1"
)


def _rules(terms: CostingTerms) -> list[tuple[Masks, str]]:
    lives = np.stack(
        [terms.it_life_years, terms.network_life_years, terms.facility_life_years,
         terms.embodied_life_years, terms.storage_life_years]
    )  # fmt: skip
    shares = np.stack(
        [terms.residual_frac, terms.minimum_billing_frac, terms.ratchet_frac,
         terms.minimum_take_frac, terms.credit_frac, terms.bonus_frac]
    )  # fmt: skip
    never_negative = (
        "maintenance_frac", "insurance_frac", "software_usd_per_device_year",
        "demand_usd_per_kw_month", "colo_usd_per_kw_month",
        "facility_usd_per_w", "staff_usd_per_year", "carbon_usd_per_t", "headroom_frac",
        "grid_average_kgco2e_per_kwh", "facility_kgco2e_per_w", "wue_onsite_l_per_kwh",
        "wue_offsite_l_per_kwh", "contract_w", "past_peak_w",
        "pue_fixed_frac", "pue_proportional_frac", "pue_climate_frac",
    )  # fmt: skip
    used = terms.utilisation_frac
    return [
        (terms.wacc_frac <= -1.0, "wacc_frac is -1 or less; give a rate above -1"),
        (lives <= 0.0, "a life is 0 years or less; give years above 0"),
        ((shares < 0.0) | (shares > 1.0), _NO_SHARE),
        ((used <= 0.0) | (used > 1.0), "utilisation_frac is not in (0, 1]; give a share in use"),
        (
            (terms.tax_frac < 0.0) | (terms.tax_frac >= 1.0),
            "tax_frac is not in [0, 1); give a share of income",
        ),
        (
            (terms.tax_frac == 0.0) & ((terms.bonus_frac > 0.0) | (terms.credit_frac > 0.0)),
            "a credit or a bonus write-off lowers a tax, but tax_frac is 0; give tax_frac",
        ),
        (
            terms.power_oversubscription < 1.0,
            "power_oversubscription is below 1; give 1 or more, or more headroom",
        ),
        (terms.pue < 1.0, "pue is below 1; facility energy includes IT energy"),
        (
            (terms.colo_usd_per_kw_month > 0) & (terms.facility_usd_per_w > 0),
            "colocation and an own building are both priced; set one of them to 0",
        ),
        (
            (terms.ratchet_frac > 0) != (terms.past_peak_w > 0),
            "a ratchet needs a past peak and a past peak a ratchet; give both or none",
        ),
        (
            (terms.minimum_take_frac > 0) & (terms.usd_per_kwh < 0),
            "a minimum take of electricity that pays for being used would be a gift; drop one",
        ),
        *((getattr(terms, n) < 0.0, f"{n} is negative; give 0 or more") for n in never_negative),
    ]


def term_questions(terms: CostingTerms) -> tuple[str, ...]:
    """What a careful reader would ask about these terms; none of it is an error."""
    asked = (
        (
            terms.embodied_life_years != terms.it_life_years,
            "carbon of making is spread over another life than the price: is that meant?",
        ),
        (
            terms.facility_kgco2e_per_w == 0.0,
            "no carbon of the building is known: embodied carbon is IT only",
        ),
        (terms.usd_per_kwh < 0.0, "electricity pays for being used: is the price in $/kWh right?"),
        (terms.usd_per_kwh > 1.0, "electricity above 1 $/kWh: is the price in $/kWh right?"),
    )
    return tuple(question for mask, question in asked if np.any(mask))
