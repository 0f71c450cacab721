"""A year of hardware that works for a share of its hours and stands idle for the rest.

Dollars, megawatt-hours, carbon and water all rest on the energy of this year. Who uses the other
hours of a machine rented by the hour is not known here: they are not the renter's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from costdata import energy_bill
from costdata.tco import HOURS_PER_YEAR
from costdata.terms import CostingTerms
from simkernel.columns import Floats


@dataclass(frozen=True)
class YearKwh:
    """Energy of a year at the meter; (m,).

    Parameters
    ----------
    work_kwh, rest_kwh : of a year that is all work, and of one that is all rest [kWh]
    used_frac, idle_frac : shares of the year at work, and idle on the account of the plan
    least_kwh : paid even where it is not taken [kWh]
    """

    work_kwh: Floats
    rest_kwh: Floats
    used_frac: Floats
    idle_frac: Floats
    least_kwh: Floats

    @cached_property
    def working(self) -> Floats:
        """In hours at work [kWh]."""
        return self.work_kwh * self.used_frac

    @cached_property
    def idle(self) -> Floats:
        """In hours that are paid for and not used [kWh]."""
        return self.rest_kwh * self.idle_frac

    @cached_property
    def total(self) -> Floats:
        """What the meter reads after the year [kWh]."""
        return self.working + self.idle

    @property
    def not_taken(self) -> Floats:
        """Paid for and not taken [kWh]."""
        return (
            np.asarray(energy_bill.take_or_pay_kwh(self.total, self.least_kwh, 1.0)) - self.total
        )


def year_kwh(
    it_mean_w: Floats, it_idle_w: Floats, reserved_w: Floats, terms: CostingTerms
) -> YearKwh:
    """Energy of a year at the use u of the terms.

    Parameters
    ----------
    it_mean_w : (m,) IT power while at work [W]
    it_idle_w : (m,) IT power while everything is on and at rest [W]
    reserved_w : (m,) IT power provided for, which is contracted where the terms name no contract

    Notes
    -----
    (mean x u + idle x (1 - u)) x PUE x 8,760 h, a rule chosen here: idle hours are neither free
    nor as dear as work. PUE is taken to be the same in both. The idle hours of machines rented by
    the hour are somebody else's.
    """
    work_kwh, rest_kwh = (_meter_kwh(watts, terms) for watts in (it_mean_w, it_idle_w))
    contract_kwh = energy_bill.energy_kwh(contract_w(reserved_w, terms), HOURS_PER_YEAR)
    used = terms.utilisation_frac
    idle = np.where(terms.is_by_hour, 0.0, 1.0 - used)
    return YearKwh(work_kwh, rest_kwh, used, idle, terms.minimum_take_frac * contract_kwh)


def provided_it_w(it_peak_w: Floats, it_mean_w: Floats, terms: CostingTerms) -> Floats:
    """IT power to provide: the peak with its headroom, or less where power is oversold; (m,).

    Notes
    -----
    Never below the mean. Less than the peak holds only where peaks do not come together, or a cap
    keeps them down (Patel et al., POLCA, 2023: 30% more servers under one budget in inference).
    """
    peak_w = it_peak_w * (1.0 + terms.headroom_frac) / terms.power_oversubscription
    return np.asarray(np.maximum(peak_w, it_mean_w))


def terms_at_load(
    terms: CostingTerms, it_mean_w: Floats, it_idle_w: Floats, provided_w: Floats
) -> CostingTerms:
    """Terms with the PUE of the load over a year, where they have a curve; (m,).

    Notes
    -----
    The load is the mean of work and rest at the use given, over the IT power provided. The same
    PUE stands at the peak, where it would be lower: facility peaks are on the safe side.
    """
    used = terms.utilisation_frac
    load_w = it_mean_w * used + it_idle_w * (1.0 - used)
    is_curve = ~np.isnan(terms.pue_proportional_frac)
    load_frac = np.where(load_w > 0, load_w / provided_w, 1.0)
    at_load = energy_bill.pue_at_load_frac(
        load_frac, terms.pue_fixed_frac, np.where(is_curve, terms.pue_proportional_frac, 0.0)
    )
    return replace(terms, pue=np.where(is_curve, at_load + terms.pue_climate_frac, terms.pue))


def contract_w(reserved_w: Floats, terms: CostingTerms) -> Floats:
    """Power contracted at the meter: the terms' own, else what is provided for; (m,)."""
    provided_w = energy_bill.facility_w(reserved_w, terms.pue)
    return np.where(terms.contract_w > 0, terms.contract_w, provided_w)


def share_of_years(hours: Floats, terms: CostingTerms) -> Floats:
    """Years that hours at work stand for: a run pays its share of the hours that nobody uses."""
    return np.asarray(hours / (HOURS_PER_YEAR * terms.utilisation_frac))


def _meter_kwh(it_w: Floats, terms: CostingTerms) -> Floats:
    """A year at one IT power, at the meter."""
    return np.asarray(
        energy_bill.energy_kwh(energy_bill.facility_w(it_w, terms.pue), HOURS_PER_YEAR)
    )
