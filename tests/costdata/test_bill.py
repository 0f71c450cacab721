"""Costing of plans at sites: the published server hour, the laws, the edges."""

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_bill import (
    ANCHORS,
    BARE,
    H100_128,
    column,
    cost,
    fabric,
    prices,
    run,
    servers,
    terms,
)

from costdata import bill as costing
from costdata import tco
from costdata.hardware_bill import Support, hardware_bill


class TestAgainstPublished:
    def test_the_whole_bill_gives_the_published_server_hour(self):
        """128 H100 servers through the bill and by hand: 1.6957 $/GPU-h, and 2.4224 at 70 % where
        unsold hours draw as much as sold ones; at idle power they cost less."""
        anchor = ANCHORS["G2"]["values"]
        watts = 128 * 8400.0
        contract_w = 128 * 10200.0
        r = run(mean_w=watts, peak_w=contract_w / 1.1, idle_w=watts)
        whole = cost(H100_128, r=r).columns["usd_per_device_hour"][0]
        assert whole == pytest.approx(anchor["all_in_usd_per_device_hour"], rel=1e-6)
        sold = cost(H100_128, terms(utilisation_frac=0.7), r=r).columns["usd_per_device_hour"][0]
        assert sold == pytest.approx(anchor["all_in_sold_usd_per_device_hour"], rel=1e-6)
        resting = run(mean_w=watts, peak_w=contract_w / 1.1, idle_w=watts / 4)
        less = cost(H100_128, terms(utilisation_frac=0.7), r=resting)
        saved = 0.3 * 0.75 * 8.4 * 8760 * 1.25 * 0.08  # a server, a year
        got = sold - less.columns["usd_per_device_hour"][0]
        assert got == pytest.approx(saved / (8 * 8760 * 0.7), rel=1e-9)

    def test_each_difference_to_the_bare_server_is_a_term(self):
        """The gap between 1.20 and 1.70 $/GPU-h could not be explained."""
        values = ANCHORS["G2"]["values"]
        r = run(mean_w=128 * 8400.0, peak_w=128 * 10200.0 / 1.1)
        year = cost(H100_128, r=r).year.terms
        hours = 1024 * 8760.0
        assert year["energy"][0] / 128 == pytest.approx(values["energy_usd_per_year"])
        kept = (year["servers"] + year["network"] + year["energy"])[0] / hours
        assert kept == pytest.approx(values["less_residual_usd_per_device_hour"], rel=1e-6)
        colo_and_upkeep = (year["colocation"] + year["maintenance"])[0] / hours
        assert kept + colo_and_upkeep == pytest.approx(values["all_in_usd_per_device_hour"])

    def test_a_year_of_the_server_emits_what_the_worked_example_says(self):
        """8 H100 in PJM would not emit 28.03 t in operation and 1.40 t for their making."""
        one = hardware_bill(column(8), servers(), fabric(), BARE)
        t = terms(pue=1.2, grid_average_kgco2e_per_kwh=0.39677, embodied_life_years=5)
        r = run(mean_w=8400 * 0.8, peak_w=8400, hours=8760.0)
        got = cost(one, t, r=r)
        values = ANCHORS["G20"]["values"]
        operational = got.columns["operational_kgco2e"][0]
        assert operational == pytest.approx(values["operational_kgco2e_per_year"])
        assert got.embodied.total[0] == pytest.approx(values["embodied_kgco2e_per_year"])


class TestLaws:
    @given(st.floats(0, 1e3))
    def test_all_prices_times_k_cost_k_times_as_much(self, k):
        """Doubling every price would not double the bill."""
        moneys = (
            "usd_per_kwh",
            "demand_usd_per_kw_month",
            "colo_usd_per_kw_month",
            "staff_usd_per_year",
            "carbon_usd_per_t",
        )
        t = terms(demand_usd_per_kw_month=7.45, staff_usd_per_year=2e5, carbon_usd_per_t=51)
        scaled_t = replace(t, **{n: k * getattr(t, n) for n in moneys})
        p = prices()
        scaled_p = replace(
            p,
            **{f.name: k * getattr(p, f.name) for f in fields(p) if "usd" in f.name},
        )
        once, scaled = cost(H100_128, t, p), cost(H100_128, scaled_t, scaled_p)
        for name in ("capex_usd", "usd_per_year", "usd", "usd_per_device_hour", "rent_usd"):
            assert scaled.columns[name][0] == pytest.approx(k * once.columns[name][0], rel=1e-12)
        assert scaled.columns["kgco2e"][0] == once.columns["kgco2e"][0]

    @given(st.floats(1, 1e9), st.floats(0.01, 1e5), st.floats(1, 3))
    def test_energy_is_power_times_time_in_both_scopes(self, watts, hours, pue):
        """PUE would be in one column and not in the other, or twice."""
        r = run(mean_w=watts, peak_w=watts, hours=hours)
        got = cost(H100_128, terms(pue=pue), r=r).columns
        assert got["it_mwh"][0] == pytest.approx(watts * hours / 1e6, rel=1e-12)
        metered_mwh = got["facility_mean_w"][0] * hours / 1e6
        assert got["facility_mwh"][0] == pytest.approx(metered_mwh, rel=1e-12)
        assert got["facility_mwh"][0] == pytest.approx(pue * got["it_mwh"][0], rel=1e-12)
        assert got["operational_kgco2e"][0] == pytest.approx(got["facility_mwh"][0] * 400)

    def test_every_total_is_the_sum_of_its_terms(self):
        """The explanation would not be the calculation."""
        got = cost(H100_128, terms(demand_usd_per_kw_month=7.45, carbon_usd_per_t=51))
        for ledger in got.ledgers():
            assert ledger.total[0] == pytest.approx(got.columns[ledger.name][0], rel=1e-12)

    def test_twice_the_time_costs_and_emits_twice(self):
        """The length of a run would have no effect."""
        one, two = cost(H100_128), cost(H100_128, r=run(hours=2880.0))
        for name in ("usd", "kgco2e", "facility_mwh", "water_l", "rent_usd"):
            assert two.columns[name][0] == pytest.approx(2 * one.columns[name][0], rel=1e-12)
        for name in ("capex_usd", "usd_per_year", "usd_per_device_hour"):
            assert two.columns[name][0] == one.columns[name][0]

    def test_a_run_costs_its_device_hours(self):
        """Run cost and $/device-hour would be two truths."""
        got = cost(H100_128, terms(utilisation_frac=0.6)).columns
        assert got["usd"][0] == pytest.approx(got["usd_per_device_hour"][0] * 1024 * 1440)

    def test_a_batch_is_its_rows_one_at_a_time(self):
        """Plans would leak into each other."""
        devices = np.array([8.0, 1000, 1024, 30000])
        t = terms(
            usd_per_kwh=[0.05, -0.01, 0.2, 0.08],
            pue=[1.1, 1.2, 1.5, 1.0],
            wacc_frac=[0, 0.1, 0.05, 0.2],
            acquire_code=[0, 1, 2, 3],
        )
        support = Support(0.03, 0.04, 50_677.0, 24.0)
        batch = hardware_bill(devices, servers(4), fabric(4), support)
        whole = cost(batch, t)
        for row in range(4):
            rows = np.array([row])
            alone = cost(batch.take(rows), t.take(rows))
            for name, values in whole.columns.items():
                same = pytest.approx(values[row], rel=1e-12, nan_ok=True)
                assert alone.columns[name][0] == same, name

    def test_permuting_plans_permutes_results(self):
        """The order of rows would matter."""
        order = np.array([2, 0, 1])
        plan = hardware_bill(np.array([8.0, 640, 4096]), servers(3), fabric(3), BARE)
        whole, mixed = cost(plan), cost(plan.take(order))
        for name, values in whole.columns.items():
            np.testing.assert_array_equal(values[order], mixed.columns[name])

    def test_price_and_carbon_come_from_one_site(self):
        """A plan would be run at the cheap site and emit at the clean one."""
        sites = terms(usd_per_kwh=[0.04, 0.12], grid_average_kgco2e_per_kwh=[0.7, 0.02])
        plan_code, site_code = costing.site_rows(plans=3, sites=2)
        plan = hardware_bill(np.array([8.0, 640, 4096]), servers(3), fabric(3), BARE)
        got = cost(plan.take(plan_code), sites.take(site_code))
        energy = got.year.terms["energy"] / got.columns["facility_mean_w"] / 8.76
        intensity = got.columns["operational_kgco2e"] / got.columns["facility_mwh"] / 1000
        np.testing.assert_allclose(energy, [0.04, 0.12] * 3)
        np.testing.assert_allclose(intensity, [0.7, 0.02] * 3)


class TestEdges:
    def test_money_without_interest_and_without_end(self):
        """A zero rate or an endless life would divide by zero."""
        free = cost(H100_128, terms(wacc_frac=0.0, residual_frac=0.0))
        assert free.year.terms["servers"][0] == pytest.approx(128 * 255237.04 / 4)
        land = cost(H100_128, terms(it_life_years=np.inf, residual_frac=0.5))
        assert land.year.terms["servers"][0] == pytest.approx(0.08 * 128 * 255237.04)

    def test_electricity_that_pays_lowers_the_bill(self):
        """A negative price would be clipped to 0."""
        got = cost(H100_128, terms(usd_per_kwh=-0.02))
        assert got.year.terms["energy"][0] == pytest.approx(-0.02 * 1e3 * 8760 * 1.25)

    def test_the_minimum_bill_is_demand_not_energy(self):
        """A site that reserves 12 MW and peaks at 10 would pay for 10 only."""
        t = terms(demand_usd_per_kw_month=7.45, minimum_billing_frac=1.0)
        got = cost(H100_128, t)
        assert got.year.terms["demand"][0] == pytest.approx(1.1 * 1.1e3 * 1.25 * 12 * 7.45)

    def test_own_building_is_spread_over_its_own_life(self):
        """A hall would be written off with the servers."""
        t = terms(colo_usd_per_kw_month=0, facility_usd_per_w=11.6)
        got = cost(H100_128, t)
        facility = 11.6 * 1.1 * 1.1e6
        assert got.capex.terms["facility"][0] == pytest.approx(facility)
        share = tco.capital_recovery_frac(0.08, 14.0)
        assert got.year.terms["facility"][0] == pytest.approx(facility * share)

    def test_carbon_is_priced_per_tonne_of_operation(self):
        """51 $/t would be 51 $/kg."""
        got = cost(H100_128, terms(carbon_usd_per_t=51.0))
        tonnes = 1e3 * 8760 * 1.25 * 0.4 / 1e3
        assert got.year.terms["carbon_price"][0] == pytest.approx(51 * tonnes)

    def test_cost_per_token_counts_every_device_deployed(self):
        """Spares, stranded devices and switches would be free per token."""
        spared = hardware_bill(column(1024), servers(), fabric(), Support(0, 0, 50_677.0, 24.0))
        bare, full = cost(H100_128).columns, cost(spared).columns
        assert full["usd_per_mtoken"][0] > bare["usd_per_mtoken"][0]
        assert full["usd_per_mtoken"][0] == pytest.approx(full["usd"][0] / 1e6)

    def test_tenants_of_a_cluster_sum_to_the_cluster(self):
        """Embodied carbon of a part would not be its share by devices, slices included."""
        whole = cost(H100_128).embodied.total[0]
        parts = [whole * devices / 1024 for devices in (0.25, 7.75, 1016.0)]
        assert sum(parts) == pytest.approx(whole)
        assert parts[0] * 32 == pytest.approx(whole * 8 / 1024)
