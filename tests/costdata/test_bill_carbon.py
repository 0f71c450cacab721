"""Accountings of carbon side by side, and what is not known of them."""

import numpy as np
import pytest
from small_bill import (
    H100_128,
    cost,
    terms,
)

from simkernel.errors import MissingFact, UnknownName


class TestCarbonAccounting:
    def test_accountings_stand_side_by_side_and_one_counts(self):
        """Average and marginal would be mixed in one sum."""
        got = cost(H100_128, accounting="location_marginal")
        mwh = got.columns["facility_mwh"][0]
        assert got.operational["location_average"][0] == pytest.approx(400 * mwh)
        assert got.operational["location_marginal"][0] == pytest.approx(600 * mwh)
        assert got.columns["operational_kgco2e"][0] == got.operational["location_marginal"][0]

    def test_market_is_null_with_a_reason_without_a_contract(self):
        """A site without a contract would report 0 kg market-based."""
        got = cost(H100_128)
        assert np.isnan(got.operational["market"][0])
        assert "no contract" in got.reasons["market"]
        with pytest.raises(MissingFact, match="market intensity is not known in 1 rows"):
            cost(H100_128, accounting="market")
        clean = cost(H100_128, terms(market_kgco2e_per_kwh=0.0), accounting="market")
        assert clean.columns["operational_kgco2e"][0] == 0

    def test_unknown_water_is_null_with_a_reason(self):
        """A site without a figure would use no water."""
        got = cost(H100_128, terms(wue_offsite_l_per_kwh=np.nan))
        assert np.isnan(got.columns["water_l"][0])
        assert "no water use is known" in got.reasons["water_l"]

    def test_an_unknown_accounting_is_named(self):
        """A misspelt accounting would fall back to the average."""
        with pytest.raises(UnknownName, match="location_average"):
            cost(H100_128, accounting="location_avg")
