"""Costing of plans at sites: the published server hour, the laws, the refusals."""

import tomllib
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costdata import bill as costing
from costdata import tco
from costdata.bill import EmbodiedFactors, PlanRun, Prices, plan_costs
from costdata.hardware_bill import (
    FabricShapes,
    Support,
    UnitShapes,
    Watts,
    hardware_bill,
    it_w,
    provisioned_w,
)
from costdata.terms import (
    ACQUIRE,
    MAY_BE_UNKNOWN,
    CostingTerms,
    refuse_bad_terms,
    term_questions,
    yearly_shares,
)
from simkernel.errors import BadStudy, MissingFact, UnknownName

ANCHORS = tomllib.loads(
    (Path(__file__).parents[1] / "anchors" / "cost_carbon.toml").read_text("utf-8")
)
BARE = Support(0.0, 0.0, np.inf, 0.0)


def column(value, rows=1):
    return np.full(rows, float(value))


def servers(rows=1):
    return UnitShapes(column(8, rows), column(1, rows), column(8, rows), column(8, rows))


def racks(rows=1):
    return UnitShapes(column(72, rows), column(18, rows), column(4, rows), column(72, rows))


def fabric(rows=1, oversubscription=1.0):
    return FabricShapes(column(64, rows), column(oversubscription, rows))


def terms(**changed):
    plain = {
        "wacc_frac": 0.08,
        "it_life_years": 4,
        "network_life_years": 4,
        "facility_life_years": 14,
        "residual_frac": 0.2,
        "maintenance_frac": 0.05,
        "usd_per_kwh": 0.08,
        "demand_usd_per_kw_month": 0,
        "minimum_billing_frac": 0,
        "contract_w": 0,
        "past_peak_w": 0,
        "ratchet_frac": 0,
        "minimum_take_frac": 0,
        "colo_usd_per_kw_month": 184.06,
        "facility_usd_per_w": 0,
        "staff_usd_per_year": 0,
        "pue": 1.25,
        "grid_average_kgco2e_per_kwh": 0.4,
        "grid_marginal_kgco2e_per_kwh": 0.6,
        "market_kgco2e_per_kwh": np.nan,
        "carbon_usd_per_t": 0,
        "utilisation_frac": 1,
        "embodied_life_years": 4,
        "facility_kgco2e_per_w": 0,
        "wue_onsite_l_per_kwh": 0.2,
        "wue_offsite_l_per_kwh": 3.0,
        "headroom_frac": 0.1,
        "acquire_code": 0,
    }
    merged = plain | changed
    rows = max(np.size(v) for v in merged.values())
    full = {k: np.broadcast_to(np.asarray(v, float), (rows,)).copy() for k, v in merged.items()}
    full["acquire_code"] = full["acquire_code"].astype(int)
    return CostingTerms(**full)


def prices(rows=1, **changed):
    plain = {
        "unit_usd": 255237.04,
        "switch_usd": 36000,
        "port_links_usd": 2560,
        "nic_usd": 0,
        "storage_usd_per_pb": 10000,
        "head_node_usd": 20000,
        "rent_usd_per_device_hour": 2.5,
    }
    full = {k: column(v, rows) for k, v in (plain | changed).items()}
    return Prices(unit_is_estimate=np.zeros(rows, bool), **full)


def embodied(rows=1):
    return EmbodiedFactors(column(164, rows), column(5700, rows), column(1000, rows))


def run(rows=1, mean_w=1e6, peak_w=1.1e6, hours=1440.0, tokens=1e12):
    return PlanRun(
        column(mean_w, rows), column(peak_w, rows), column(hours, rows), column(tokens, rows)
    )


def cost(plan, t=None, p=None, r=None, accounting="location_average", e=None):
    t = terms() if t is None else t
    rows = len(plan)
    return plan_costs(
        plan,
        run(rows) if r is None else r,
        prices(rows) if p is None else p,
        embodied(rows) if e is None else e,
        t,
        yearly_shares(t),
        accounting,
    )


H100_128 = hardware_bill(column(1024), servers(), fabric(), BARE)


class TestHardwareBill:
    def test_devices_come_in_whole_units_and_the_rest_is_stranded(self):
        """1,000 devices in racks of 72 would be 13.9 racks."""
        plan = hardware_bill(column(1000), racks(), fabric(), BARE)
        assert plan.purchase_units[0] == 14
        assert plan.stranded_devices[0] == 8

    def test_working_stranded_and_spare_devices_are_all_that_is_bought(self):
        """A device would be paid twice or by nobody."""
        support = Support(0.0, 0.0, 50_677.0, 240.0)
        plan = hardware_bill(np.array([1000.0, 5000, 20000]), racks(3), fabric(3), support)
        bought = (plan.purchase_units + plan.spare_units) * 72
        together = plan.devices_working + plan.stranded_devices + plan.spare_devices
        np.testing.assert_array_equal(bought, together)
        assert (plan.spare_units > 0).all()

    def test_stranded_hosts_stand_in_for_spares(self):
        """A rack would be bought as a spare while enough of another stands idle."""
        support = Support(0.0, 0.0, 50_677.0, 24.0)
        one_down = hardware_bill(column(1000), racks(), fabric(), support)
        assert one_down.stranded_devices[0] == 8
        assert one_down.spare_units[0] == 0
        full = hardware_bill(column(1008), racks(), fabric(), support)
        assert full.spare_units[0] == 1

    def test_no_repair_time_buys_no_spares(self):
        """Spares would be bought for hardware that is never away."""
        plan = hardware_bill(column(16384), servers(), fabric(), Support(0, 0, 50_677.0, 0.0))
        assert plan.spare_units[0] == 0

    def test_spares_of_the_llama_3_cluster(self):
        """16,384 GPUs with one failure in 50,677 h and a day of repair: 8 servers."""
        plan = hardware_bill(column(16384), servers(), fabric(), Support(0, 0, 50_677.0, 24.0))
        assert plan.spare_units[0] == 8

    def test_the_network_wires_every_host_spares_included(self):
        """A spare would stand by unplugged."""
        plan = hardware_bill(column(1024), servers(), fabric(), BARE)
        assert (plan.switches[0], plan.ports[0], plan.links[0]) == (48, 1024, 2048)
        spared = hardware_bill(column(1024), servers(), fabric(), Support(0, 0, 50_677.0, 24.0))
        assert spared.ports[0] == 1032

    def test_too_many_hosts_for_three_layers_show_as_a_fourth(self):
        """A caller could not tell a fabric that cannot be wired from one that can."""
        plan = hardware_bill(column(1_048_576), servers(), fabric(), BARE)
        assert (plan.tiers[0], plan.switches[0]) == (4, np.inf)

    def test_watts_follow_what_each_device_does(self):
        """Stranded devices would draw nothing, or as much as working ones."""
        plan = hardware_bill(column(1000), racks(), fabric(), Support(0.01, 0.04, np.inf, 0.0))
        each = Watts(*(column(x) for x in (1000, 1200, 100, 900, 24, 650, 500)))
        mean = it_w(plan, each, each.working_mean_w)
        assert mean.terms["working"][0] == 1e6
        assert mean.terms["stranded"][0] == 800
        assert mean.terms["storage"][0] == 6500
        assert mean.terms["head_nodes"][0] == 11 * 500
        peak = it_w(plan, each, each.working_peak_w)
        assert peak.total[0] - mean.total[0] == pytest.approx(200_000)
        assert provisioned_w(peak.total, 0.1)[0] == pytest.approx(1.1 * peak.total[0])


class TestAgainstPublished:
    def test_the_whole_bill_gives_the_published_server_hour(self):
        """128 H100 servers through the bill and by hand: 1.6957 $/GPU-h, and 2.4224 at 70 %."""
        anchor = ANCHORS["G2"]["values"]
        watts = 128 * 8400.0
        contract_w = 128 * 10200.0
        r = run(mean_w=watts, peak_w=contract_w / 1.1)
        whole = cost(H100_128, r=r).columns["usd_per_device_hour"][0]
        assert whole == pytest.approx(anchor["all_in_usd_per_device_hour"], rel=1e-6)
        sold = cost(H100_128, terms(utilisation_frac=0.7), r=r).columns["usd_per_device_hour"][0]
        assert sold == pytest.approx(anchor["all_in_sold_usd_per_device_hour"], rel=1e-6)

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
    @settings(deadline=None)  # a machine at work is no fault
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

    @settings(deadline=None)  # a machine at work is no fault
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


class TestRefusals:
    @pytest.mark.parametrize("name", [f.name for f in fields(CostingTerms)])
    def test_an_unknown_term_is_refused_by_name(self, name):
        """A missing tariff, life or intensity would be 0."""
        t = terms()
        if name in ("acquire_code", *MAY_BE_UNKNOWN):
            return
        with pytest.raises(MissingFact, match=rf"{name} is not known for 1 of 1 sites"):
            refuse_bad_terms(replace(t, **{name: column(np.nan)}))

    def test_all_impossible_terms_are_told_at_once(self):
        """A user would mend one fault per run."""
        bad = terms(pue=0.9, it_life_years=0, residual_frac=1.5, staff_usd_per_year=-1)
        with pytest.raises(BadStudy) as caught:
            refuse_bad_terms(bad)
        assert len(caught.value.faults) == 4

    def test_colocation_and_an_own_building_are_not_both_paid(self):
        """Space would be paid twice."""
        with pytest.raises(BadStudy, match="set one of them to 0"):
            refuse_bad_terms(terms(facility_usd_per_w=10.0))

    def test_good_terms_pass(self):
        """The door would refuse everyone."""
        refuse_bad_terms(terms(usd_per_kwh=-0.01, wacc_frac=0.0))

    def test_every_missing_fact_of_a_plan_is_told_at_once(self):
        """A missing price would count as free, a missing rating as no power."""
        with pytest.raises(MissingFact) as caught:
            cost(H100_128, p=prices(unit_usd=np.nan, switch_usd=np.nan), r=run(mean_w=np.nan))
        told = "\n".join(caught.value.faults)
        assert len(caught.value.faults) == 3
        assert "unit_usd" in told
        assert "switch_usd" in told
        assert "it_mean_w" in told

    def test_rows_without_a_price_can_be_counted_and_left_out(self):
        """One chip without a price would stop a study of forty."""
        t = terms(acquire_code=[0, 0, 3])
        p = replace(prices(3), unit_usd=np.array([1.0, np.nan, np.nan]))
        masks = costing.missing_price(p, t)
        np.testing.assert_array_equal(masks["unit_usd"], [False, True, False])
        assert not masks["rent_usd_per_device_hour"].any()

    def test_negative_hardware_prices_and_empty_runs_are_refused(self):
        """A server that pays to be bought, a token price by division by zero."""
        with pytest.raises(BadStudy, match="unit_usd is negative"):
            cost(H100_128, p=prices(unit_usd=-1.0))
        with pytest.raises(BadStudy, match="yields no tokens"):
            cost(H100_128, r=run(tokens=0.0))

    def test_a_study_without_tokens_has_no_token_price(self):
        """$/Mtoken of a hardware study would be 0 or infinite."""
        got = cost(H100_128, r=run(tokens=np.nan))
        assert np.isnan(got.columns["usd_per_mtoken"][0])
        assert got.reasons["usd_per_mtoken"] == "the study yields no tokens"


def test_odd_terms_and_prices_are_asked_about_not_refused():
    """A rent per month read as per hour, or two lives for one machine, would pass in silence."""
    asked = term_questions(terms(embodied_life_years=6))
    assert any("another life" in question for question in asked)
    assert any("building" in question for question in asked)
    assert any("-hour" in q for q in costing.price_questions(prices(rent_usd_per_device_hour=690)))
    assert costing.price_questions(prices(rent_usd_per_device_hour=0.95)) == ()


def test_a_rack_whose_groups_work_64_of_72_is_bought_by_its_64():
    """512 devices in groups of 64 take 8 racks and strand 64 devices; 7.1 racks do not exist."""
    shapes = UnitShapes(column(72, 1), column(18, 1), column(4, 1), column(64, 1))
    bought = hardware_bill(column(4096, 1), shapes, fabric(1), BARE)
    assert bought.purchase_units.tolist() == [64]
    assert bought.stranded_devices.tolist() == [64 * 8]
