"""Taxes on capital against REopt's worked example and cash flows after tax, year by year."""

import numpy as np
import pytest
from small_bill import BARE, column, cost, fabric, hardware_bill, servers, terms

from costdata.depreciation import (
    DEPRECIATION,
    SCHEDULES,
    before_tax_frac,
    shield_frac,
    written_off_frac,
)
from costdata.tco import effective_capex_usd, npv_usd

MACRS_5, STRAIGHT = DEPRECIATION.index("macrs_5"), DEPRECIATION.index("straight_line")


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_writes_off_everything_once(name):
    """A share too many would be a subsidy (IRS Pub. 946, table A-1)."""
    assert sum(SCHEDULES[name]) == pytest.approx(1.0, abs=1e-9)
    assert len(SCHEDULES[name]) == int(name.split("_")[1]) + 1


def test_the_shield_is_that_of_reopt():
    """cost_carbon G17: 22.03 of 100 dollars at a tax of 26% and 6.24% (REopt effective_cost)."""
    written_off = written_off_frac(np.array([MACRS_5]), 0.0624, 4.0)
    assert shield_frac(written_off, 0.26, 0.0624)[0] == pytest.approx(0.22034623, rel=1e-6)
    for credit, bonus in ((0.3, 0.0), (0.0, 0.4), (0.3, 0.6)):
        ours = 1.0 - shield_frac(written_off, 0.26, 0.0624, credit, bonus)
        theirs = effective_capex_usd(1.0, 0.26, 0.0624, credit, bonus)
        assert ours[0] == pytest.approx(float(theirs), rel=1e-12)


def test_straight_lines_are_a_level_payment():
    """A quarter a year for four years at no interest is worth the whole."""
    code = np.array([STRAIGHT, STRAIGHT])
    worth = written_off_frac(code, np.array([0.0, 0.08]), 4.0)
    by_hand = npv_usd([0, 0.25, 0.25, 0.25, 0.25], 0.08)
    assert worth == pytest.approx([1.0, float(by_hand)])


def test_before_tax_dollars_repay_capital_after_tax():
    """The levelised payment, taxed each year with its write-offs, has to be worth the price."""
    tax, rate, life = 0.26, 0.08, 6.0
    written_off = written_off_frac(np.array([MACRS_5]), rate, life)
    share = before_tax_frac(shield_frac(written_off, tax, rate), tax)[0]
    payment = share * rate / (1 - (1 + rate) ** -life)
    cash = [-1.0] + [payment * (1 - tax) + tax * s for s in SCHEDULES["macrs_5"]]
    assert float(npv_usd(cash, rate)) == pytest.approx(0.0, abs=1e-12)


def test_no_tax_changes_nothing_and_a_residual_stays_what_it_is():
    """Every bill without taxes would move, or a resale be taxed twice."""
    plan = hardware_bill(column(1024), servers(), fabric(), BARE)
    plain = cost(plan)
    coded = cost(plan, terms(depreciation_code=0, facility_depreciation_code=1))
    np.testing.assert_array_equal(plain.year.total, coded.year.total)
    taxed = [cost(plan, terms(tax_frac=0.26, residual_frac=r)).year.total for r in (0.0, 0.2)]
    free = [cost(plan, terms(residual_frac=r)).year.total for r in (0.0, 0.2)]
    assert taxed[0] - taxed[1] == pytest.approx(free[0] - free[1])


def test_a_bare_shell_is_written_off_more_slowly_than_its_plant():
    """39 years of a building would save as much tax today as 15 of its plant."""
    assert sum(SCHEDULES["macrs_39"]) == pytest.approx(1.0, abs=1e-9)
    codes = np.array([DEPRECIATION.index(name) for name in ("macrs_5", "macrs_15", "macrs_39")])
    worth = written_off_frac(codes, 0.08, 14.0)
    assert worth[0] > worth[1] > worth[2] > 0
