"""What is bought, leased, reserved or rented by the hour: each pays what it should."""

from dataclasses import replace

import numpy as np
import pytest
from small_bill import (
    H100_128,
    column,
    cost,
    prices,
    terms,
)

from costdata.terms import ACQUIRE


class TestAcquire:
    def code(self, name):
        return terms(acquire_code=ACQUIRE.index(name))

    def test_rent_by_the_hour_is_hours_times_price(self):
        """0.95 $ per GPU-hour would be divided by the hours of a month."""
        t = replace(self.code("on_demand"), utilisation_frac=column(0.5))
        got = cost(H100_128, t, prices(rent_usd_per_device_hour=0.95))
        assert got.columns["usd"][0] == pytest.approx(0.95 * 1024 * 1440)
        assert got.columns["usd_per_device_hour"][0] == pytest.approx(0.95)
        assert got.columns["capex_usd"][0] == 0

    def test_reserved_hours_are_paid_used_or_not(self):
        """A three-year reservation would cost nothing while idle."""
        t = replace(self.code("reserved"), utilisation_frac=column(0.5))
        got = cost(H100_128, t)
        assert got.columns["usd_per_device_hour"][0] == pytest.approx(2 * 2.5)

    def test_a_lease_pays_rent_and_the_site(self):
        """Leased servers would run on free electricity, or be upkept twice."""
        year = cost(H100_128, self.code("lease")).year.terms
        assert year["rent"][0] > 0
        assert year["energy"][0] > 0
        assert year["colocation"][0] > 0
        assert year["servers"][0] == year["maintenance"][0] == 0

    def test_rented_machines_still_emit(self):
        """Carbon would vanish by renting."""
        rented, owned = cost(H100_128, self.code("spot")), cost(H100_128)
        assert rented.columns["kgco2e"][0] == owned.columns["kgco2e"][0] > 0

    def test_renting_needs_no_purchase_price(self):
        """A chip that is only rented out could not be planned with."""
        got = cost(H100_128, self.code("on_demand"), prices(unit_usd=np.nan))
        assert got.columns["usd"][0] == pytest.approx(2.5 * 1024 * 1440)

    def test_the_alternative_stands_beside_the_purchase(self):
        """Buying could not be compared with renting the same units."""
        got = cost(H100_128)
        assert got.columns["rent_usd"][0] == pytest.approx(2.5 * 1024 * 1440)
        alone = cost(H100_128, p=prices(rent_usd_per_device_hour=np.nan))
        assert np.isnan(alone.columns["rent_usd"][0])
        assert alone.reasons["rent_usd"] == "no rent is known for the accelerator"
