"""What taxes do to the cost of capital: write-offs, credits, and the dollars before tax they need.

Costs stay in dollars before tax, so that energy, rent and prices keep their meaning: capital is
raised to what must be earned before tax to repay it after tax.
"""

from __future__ import annotations

import numpy as np

from costdata.tco import MACRS_5_YEAR_FRAC, present_frac, present_worth_frac
from simkernel.columns import Codes, Column, Floats

SCHEDULES = {
    "macrs_3": (0.3333, 0.4445, 0.1481, 0.0741),  # IRS Pub. 946 table A-1, half-year convention
    "macrs_5": MACRS_5_YEAR_FRAC,
    "macrs_7": (0.1429, 0.2449, 0.1749, 0.1249, 0.0893, 0.0892, 0.0893, 0.0446),  # table A-1
    "macrs_15": (  # IRS Pub. 946 table A-1
        0.05, 0.095, 0.0855, 0.077, 0.0693, 0.0623, 0.059, 0.059,
        0.0591, 0.059, 0.0591, 0.059, 0.0591, 0.059, 0.0591, 0.0295,
    ),
    "macrs_39": (0.01177, *(0.02564,) * 38, 0.01391),  # table A-7a, in service in July
}  # fmt: skip
"""Share written off at the end of years 1, 2, ..."""

STRAIGHT_LINE = "straight_line"
DEPRECIATION = (STRAIGHT_LINE, *SCHEDULES)
"""Ways to write off; a code is the index. Straight: the same share of every year of the life."""

CREDIT_BASIS_FRAC = 0.5
"""Of a credit by which the basis of the write-off falls (REopt.jl macrs_itc_reduction)."""


def written_off_frac(depreciation_code: Codes, rate_frac: Column, life_years: Column) -> Floats:
    """Worth today of writing off one dollar; (n,).

    Parameters
    ----------
    depreciation_code : (n,) index in DEPRECIATION
    rate_frac, life_years : (n,) or number; the life counts for straight lines only
    """
    straight = present_worth_frac(rate_frac, 0.0, life_years) / life_years
    worth = np.asarray(straight + 0.0 * depreciation_code, float)
    for code, name in enumerate(DEPRECIATION):
        if name in SCHEDULES and np.any(depreciation_code == code):
            shares_frac = np.array(SCHEDULES[name])
            years = np.arange(1.0, len(shares_frac) + 1.0)
            today = present_frac(np.asarray(rate_frac, float)[..., None], years)
            worth = np.where(depreciation_code == code, (shares_frac * today).sum(axis=-1), worth)
    return worth


def shield_frac(
    written_frac: Column,
    tax_frac: Column,
    rate_frac: Column,
    credit_frac: Column = 0.0,
    bonus_frac: Column = 0.0,
) -> Floats:
    """Worth today of the tax that a dollar of capital saves; (n,).

    Parameters
    ----------
    written_frac : (n,) of `written_off_frac`
    credit_frac, bonus_frac : investment credit, and share written off at once, both in year 1

    References
    ----------
    REopt.jl src/core/utils.jl `effective_cost`.
    """
    basis = 1.0 - CREDIT_BASIS_FRAC * np.asarray(credit_frac, float)
    first = (tax_frac * basis * bonus_frac + credit_frac) * present_frac(rate_frac, 1.0)
    return np.asarray(first + tax_frac * basis * (1.0 - np.asarray(bonus_frac)) * written_frac)


def before_tax_frac(shielded_frac: Column, tax_frac: Column) -> Floats:
    """Dollars before tax that repay a dollar of capital after tax; (n,).

    Notes
    -----
    (1 - shielded)/(1 - t): 1 without tax, and with a write-off at once at no discount. Running
    costs are deducted in full when paid, so before tax they stay as they are.

    References
    ----------
    NREL Annual Technology Baseline, "ProFinFactor": (1 - T PVD)/(1 - T).
    """
    return (1.0 - np.asarray(shielded_frac, float)) / (1.0 - np.asarray(tax_frac, float))
