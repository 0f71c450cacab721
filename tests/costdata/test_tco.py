"""Money over time: laws that hold for any price, and a job worked by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costdata import tco

rates = st.floats(-0.2, 0.5)
lives = st.floats(0.5, 40)
prices = st.floats(-1e9, 1e9)


def test_money_without_interest_is_repaid_in_equal_parts():
    """A zero rate would divide by zero instead of giving 1/life."""
    assert tco.capital_recovery_frac(0.0, 4.0) == 0.25


@given(rates)
def test_an_endless_life_pays_interest_only(rate):
    """Land would never be paid for, or be paid for although its rate is zero or negative."""
    assert tco.capital_recovery_frac(rate, np.inf) == max(rate, 0.0)


@given(st.floats(1e-9, 1e-3), lives)
def test_a_tiny_rate_meets_the_zero_rate(rate, life):
    """The formula would lose its digits next to its own limit."""
    near = tco.capital_recovery_frac(rate, life)
    assert near == pytest.approx((1 / life) * (1 + rate * (life + 1) / 2), rel=1e-3)


@given(rates, st.integers(1, 30), prices)
def test_the_annuity_is_worth_the_overnight_cost(rate, life, capex):
    """Annualised and overnight cost would be two truths; the year's payment must lead back."""
    yearly = tco.annual_capital_usd(capex, 0.0, rate, float(life))
    back = tco.npv_usd([0.0] + [yearly] * life, rate)
    assert back == pytest.approx(capex, rel=1e-9, abs=1e-6)


@given(rates, lives, prices, prices, st.floats(-1e3, 1e3))
def test_capital_scales_exactly_with_the_price(rate, life, capex, residual, k):
    """Doubling every price would not double the cost."""
    once = tco.annual_capital_usd(capex, residual, rate, life)
    scaled = tco.annual_capital_usd(k * capex, k * residual, rate, life)
    assert scaled == pytest.approx(k * once, rel=1e-9, abs=1e-3)


def test_a_stage_built_today_is_the_static_result():
    """A purchase plan with one stage would differ from a plain purchase."""
    assert tco.npv_usd([5.0], 0.3) == 5.0
    assert tco.npv_usd([0.0, 110.0], 0.10) == pytest.approx(100.0)


def test_rows_of_a_table_are_valued_one_by_one():
    """Many plans at once would not be many plans one at a time."""
    cash = np.array([[-10.0, -20.0], [6.0, 1.0], [6.0, 30.0]])
    rate = np.array([0.1, 0.0])
    expected = [tco.npv_usd(cash[:, row], rate[row]) for row in range(2)]
    np.testing.assert_allclose(tco.npv_usd(cash, rate), expected, rtol=1e-14)


@given(rates, st.floats(-0.2, 0.5), st.integers(1, 40))
def test_a_growing_payment_is_the_sum_of_its_years(rate, growth, years):
    """The closed form would differ from adding the years up, above all at growth = rate."""
    x = (1 + growth) / (1 + rate)
    added = sum(x**year for year in range(1, years + 1))
    assert tco.present_worth_frac(rate, growth, years) == pytest.approx(added, rel=1e-9)
    late = tco.present_worth_frac(rate, growth, years, first_growth_year=2)
    assert late == pytest.approx(added / (1 + growth), rel=1e-9)


def test_growth_equal_to_the_rate_counts_the_years():
    """Zero over zero would be printed as a price."""
    assert tco.present_worth_frac(0.07, 0.07, 9.0) == 9.0


def test_real_and_nominal_rates_value_the_same_project_alike():
    """Inflation would create or destroy worth."""
    nominal, inflation = 0.08, 0.03
    real = tco.real_rate_frac(nominal, inflation)
    grown = [100.0 * (1 + inflation) ** year for year in range(5)]
    assert tco.npv_usd(grown, nominal) == pytest.approx(tco.npv_usd([100.0] * 5, real))


def test_tokens_that_come_later_are_worth_less():
    """Cost per token over years of growth would divide money of today by tokens of later."""
    cost, tokens = [100.0, 100.0, 100.0], [1.0, 2.0, 4.0]
    levelised = tco.levelised_usd(cost, tokens, 0.1)
    assert levelised == pytest.approx((100 + 100 / 1.1 + 100 / 1.21) / (1 + 2 / 1.1 + 4 / 1.21))
    assert levelised > 300 / 7


def test_tokens_of_one_kind_divide_by_that_kind():
    """The commonest error of token prices: dividing by all tokens and calling it output."""
    fleet_usd_per_hour = 20.0
    total = tco.usd_per_mtoken(fleet_usd_per_hour, 5000.0)
    output = tco.usd_per_mtoken(fleet_usd_per_hour, 1000.0)
    assert output == pytest.approx(5 * total)
    assert total == pytest.approx(20.0 / (5000 * 3600 / 1e6))


def test_both_pools_of_a_split_fleet_stay_in_the_denominator():
    """Two prefill workers of 8 and one decode worker of 4 cost 20 devices, not 6."""
    per_device_hour = 2.0
    assert tco.usd_per_mtoken(20 * per_device_hour, 1000.0) == pytest.approx(
        20 / 6 * tco.usd_per_mtoken(6 * per_device_hour, 1000.0)
    )


class TestBuyOrRent:
    """1,024 H100 for three years at $40k each, 1.436 MW, PUE 1.3, $0.08/kWh, upkeep 5 %."""

    capex = 1024 * 40_000.0
    rate, years, devices = 0.10, 3, 1024
    own = 1.436e3 * 8760 * 1.3 * 0.08 + 0.05 * capex
    rents = np.array([2.0, 2.5, 3.0, 4.0])

    def cash(self):
        last = self.own - 0.2 * self.capex
        return [self.capex] + [self.own] * (self.years - 1) + [last]

    def test_owning_costs_43_15_million_of_today(self):
        """The purchase case would not match its own spreadsheet."""
        assert tco.npv_usd(self.cash(), self.rate) == pytest.approx(43.15e6, abs=0.01e6)

    def test_levelised_cost_is_named_discounted_or_not(self):
        """$1.934 discounted and $1.592 undiscounted would be confused."""
        hours = [0.0] + [self.devices * 8760.0] * self.years
        assert tco.levelised_usd(self.cash(), hours, self.rate) == pytest.approx(1.934, abs=5e-4)
        assert tco.levelised_usd(self.cash(), hours, 0.0) == pytest.approx(1.592, abs=5e-4)

    def test_break_even_use_for_each_rent(self):
        """The share of hours above which owning wins would be wrong."""
        own = tco.npv_usd(self.cash(), self.rate) / (
            self.devices * 8760 * tco.present_worth_frac(self.rate, 0.0, self.years)
        )
        frac = tco.breakeven_utilisation_frac(own, self.rents)
        np.testing.assert_allclose(frac, [0.967, 0.774, 0.645, 0.484], atol=5e-4)

    def test_reserved_rent_costs_55_77_million_of_today(self):
        """The alternative would be valued by another rule than the purchase."""
        rent = 2.5 * self.devices * 8760 * tco.present_worth_frac(self.rate, 0.0, self.years)
        assert rent == pytest.approx(55.77e6, abs=0.01e6)

    def test_payback_in_months(self):
        """The month in which the purchase has paid for itself would be wrong."""
        saving = (self.rents * self.devices * 8760 - self.own) / 12
        plain = tco.payback_months(self.capex, saving)
        np.testing.assert_allclose(plain, [33.7, 25.8, 20.9, 15.1], atol=0.05)
        discounted = np.ceil(tco.payback_months(self.capex, saving, self.rate))
        np.testing.assert_array_equal(discounted, [40, 29, 23, 17])


def test_a_purchase_that_saves_nothing_never_pays_back():
    """No saving would read as an instant or negative payback."""
    saving = np.array([-1.0, 0.0, 10.0])
    np.testing.assert_array_equal(tco.payback_months(100.0, saving), [np.inf, np.inf, 10.0])
    assert tco.payback_months(1000.0, 1.0, 0.10) == np.inf


def test_a_leap_year_sells_more_hours():
    """8,784 hours would be billed as 8,760."""
    common = tco.usd_per_device_hour(8784.0, 1.0)
    leap = tco.usd_per_device_hour(8784.0, 1.0, hours_per_year=8784.0)
    assert (common, leap) == (pytest.approx(8784 / 8760), 1.0)


def test_credit_and_bonus_follow_the_tax_rules():
    """The investment credit would lower the tax twice."""
    full = tco.effective_capex_usd(100.0, 0.26, 0.0, credit_frac=0.3, bonus_frac=1.0)
    assert full == pytest.approx(100 - 30 - 0.26 * 85)
    assert tco.effective_capex_usd(100.0, 0.0, 0.0624) == 100.0


UNKNOWN_IN = {
    "capital_recovery": lambda x: tco.capital_recovery_frac(x, 4.0),
    "life": lambda x: tco.capital_recovery_frac(0.0, x),
    "endless": lambda x: tco.capital_recovery_frac(x, np.inf),
    "present": lambda x: tco.present_frac(x, np.inf),
    "worth": lambda x: tco.present_worth_frac(x, 0.0, 4.0),
    "worth_life": lambda x: tco.present_worth_frac(0.0, 0.0, x),
    "capital": lambda x: tco.annual_capital_usd(x, 0.0, 0.1, 4.0),
    "npv": lambda x: tco.npv_usd([1.0, x], 0.1),
    "payback": lambda x: tco.payback_months(x, 1.0),
    "payback_saving": lambda x: tco.payback_months(1.0, x),
    "payback_rate": lambda x: tco.payback_months(1.0, 1.0, x),
    "effective": lambda x: tco.effective_capex_usd(100.0, x, 0.1),
}


@pytest.mark.parametrize("name", UNKNOWN_IN)
def test_an_unknown_never_becomes_a_number(name):
    """A missing price would count as 0 or as a fallback."""
    assert np.isnan(UNKNOWN_IN[name](np.nan))
