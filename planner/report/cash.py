"""Owning against renting as money that moves year by year, over the life of the IT."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from costdata.own_or_rent import CAPITAL
from planner.uncertainty.inputs import Inputs
from simkernel.columns import Floats


@dataclass(frozen=True)
class Cash:
    """Money of a purchase, by the end of each year; year 0 is the day it is paid; (y,) [$].

    Parameters
    ----------
    years : 0 to the life
    paid : all that is paid up front, in year 0
    left : what the parts are worth at the end, in the last year
    running : running cost
    rent : rent that is not paid
    wacc_frac : interest per year
    """

    years: Floats
    paid: Floats
    left: Floats
    running: Floats
    rent: Floats
    wacc_frac: float

    @property
    def net(self) -> Floats:
        """What is left of each year."""
        return self.of_use + self.left

    @property
    def of_use(self) -> Floats:
        """The same without what is left at the end."""
        return np.asarray(self.rent - self.paid - self.running)

    @property
    def cumulative(self) -> Floats:
        """Sum of the years so far, not discounted."""
        return np.cumsum(self.net)

    @property
    def npv_usd(self) -> float:
        """Worth today of owning over renting."""
        return float((self.net / (1.0 + self.wacc_frac) ** self.years).sum())


def cash_of(one: Inputs) -> Cash | None:
    """The cash of one row; None where it buys nothing, or no rent is known.

    Parameters
    ----------
    one : of one row

    Notes
    -----
    Worth today is `npv_usd` of hardware studies. All capital is paid in year 0, as the figure
    paid up front has it, so that the sum without what is left meets zero after `payback_months`.
    What is left at the end is the residual value of the IT, with what parts that live longer are
    still worth, less what replacing shorter-lived ones has cost by then: the worth at which the
    years come to their yearly charges. A life that is not whole ends within its last year; what is
    earned in part of it is shared by time. Taxes stand in the yearly charge, not in these years:
    where a study has them there is no such table.
    """
    costs = one.costs()
    rent_usd = float(np.asarray(costs.rented.usd_per_year)[0])
    terms = one.terms
    life, wacc = float(terms.it_life_years[0]), float(terms.wacc_frac[0])
    if not bool(terms.is_bought[0]) or not rent_usd > 0 or float(terms.tax_frac[0]) > 0:
        return None
    capital = {n: float(np.asarray(v)[0]) for n, v in costs.capex.terms.items()}
    year = {n: float(np.asarray(v)[0]) for n, v in costs.year.terms.items()}
    years = np.append(np.arange(np.ceil(life)), life)
    share = np.append(0.0, np.diff(years))
    share = np.where(share > 0, _worth_share(share, years, wacc), 0.0)
    paid, left = np.zeros(len(years)), np.zeros(len(years))
    paid[0] = sum(capital.values())
    repaid = sum(year[name] for name in CAPITAL)
    worth_today = share / (1.0 + wacc) ** years
    left[-1] = (paid[0] - repaid * worth_today.sum()) * (1.0 + wacc) ** life
    running = sum(year.values()) - repaid
    return Cash(years, paid, left, running * share, rent_usd * share, wacc)


def _worth_share(share: Floats, years: Floats, wacc: float) -> Floats:
    """Share of a yearly payment that falls in a year: less than 1 in the part of a last one."""
    if wacc == 0:
        return share
    start = years - share
    worth = ((1.0 + wacc) ** -start - (1.0 + wacc) ** -years) / wacc
    return np.asarray(worth * (1.0 + wacc) ** years)
