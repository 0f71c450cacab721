"""Keys of [costing] on plans of a study: each moves what it should, or is refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costdata import catalog
from costdata.tco import real_rate_frac
from planner.costing.notes import costing_notes
from planner.costing.second_pass import cost_plans, front_columns
from planner.costing.terms import terms_of
from planner.runs.total import joined
from planner.study.settings import with_settings
from planner.training.engine import catalogue_names
from simkernel.errors import BadStudy, MissingFact

ONE_SITE = ("costing.site=us-tx",)


@pytest.fixture(scope="module")
def priced(dense):
    """priced(*settings): the feasible plans of the small study under some costing."""
    plans = joined([each["rows"] for each in dense.alone if each["feasible"]])
    names, found = catalogue_names(), {}

    def cost(*given):
        if given not in found:
            study = with_settings(dense.engine.study, [*ONE_SITE, *given], names)
            found[given] = cost_plans(study, dense.engine.catalog, plans)
        return found[given]

    return cost


def year(costed, term):
    """A term of the yearly bill of every row."""
    return np.asarray(costed.ledgers["usd_per_year"].terms[term]) + 0.0 * costed.columns["usd"]


DEMAND = "costing.demand_usd_per_kw_month=10"
KEYS = {
    "minimum_billing_frac=0.9": ("usd", (DEMAND, "costing.contract_mw=9")),
    "contract_mw=9": ("usd", (DEMAND, "costing.minimum_billing_frac=0.9")),
    "minimum_take_frac=0.99": ("usd", ()),
    "colo_usd_per_kw_month=300": ("usd", ()),
    "facility_usd_per_w=12": ("usd", ()),
    "facility_kgco2e_per_w=2": ("kgco2e", ()),
    "insurance_frac=0.01": ("usd", ()),
    "power_oversubscription=1.2": ("provisioned_w", ()),
    "pue_curve={ fixed_frac = 0.06, proportional_frac = 0.3 }": ("facility_mwh", ()),
    "software_usd_per_device_year=4500": ("usd", ()),
    "tax_frac=0.26": ("usd", ()),
    "depreciation=straight_line": ("usd", ("costing.tax_frac=0.26",)),
    "facility_depreciation=macrs_7": (
        "usd",
        ("costing.tax_frac=0.26", "costing.facility_usd_per_w=12"),
    ),
    "credit_frac=0.3": ("usd", ("costing.tax_frac=0.26",)),
    "bonus_frac=0.4": ("usd", ("costing.tax_frac=0.26",)),
    "staff_usd_per_year=9e6": ("usd", ()),
    "network_life_years=2": ("usd", ()),
    "storage_life_years=2": ("usd", ()),
    "facility_life_years=40": ("usd", ("costing.facility_usd_per_w=12",)),
    "embodied_life_years=9": ("kgco2e", ()),
    "market_kgco2e_per_kwh=0.05": ("market_kgco2e", ()),
    "rent_usd_per_device_hour=9": ("breakeven_utilisation_frac", ()),
    "inflation_frac=0.04": ("usd", ("costing.money=real", "costing.inflation_frac=0.01")),
    "all_in_usd_per_device.H100-SXM=90000": ("capex_usd", ()),
}


@pytest.mark.parametrize("key", KEYS)
def test_no_key_is_dead(priced, key):
    """A price would be typed in and change nothing."""
    column, around = KEYS[key]
    before, after = priced(*around), priced(*around, f"costing.{key}")
    assert np.any(before.columns[column] != after.columns[column])
    if column in ("usd", "capex_usd", "breakeven_utilisation_frac"):
        np.testing.assert_array_equal(before.columns["kgco2e"], after.columns["kgco2e"])


def test_a_dearer_tonne_never_makes_a_dirtier_choice(priced):
    """A sweep of the carbon price would jump back to coal between two prices."""
    prices = (0.0, 20.0, 51.0, 100.0, 300.0, 1000.0)
    sweep = [priced(f"costing.carbon_usd_per_t={price}").columns for price in prices]
    chosen = [int(np.argmin(columns["usd"])) for columns in sweep]
    emitted = [sweep[0]["operational_kgco2e"][row] for row in chosen]
    assert all(after <= before for before, after in zip(emitted, emitted[1:], strict=False))
    for price, columns in zip(prices, sweep, strict=True):
        added = columns["usd"] - sweep[0]["usd"]
        wanted = columns["operational_kgco2e"] / 1000 * price
        np.testing.assert_allclose(added, wanted, rtol=1e-6, atol=1e-6)
        np.testing.assert_array_equal(columns["kgco2e"], sweep[0]["kgco2e"])


class TestDemand:
    def test_what_is_contracted_and_not_used_is_billed(self, priced):
        """A site that reserved 9 MW would pay for the 40 kW it uses."""
        costed = priced(DEMAND, "costing.contract_mw=9", "costing.minimum_billing_frac=0.8")
        np.testing.assert_allclose(year(costed, "demand"), 0.8 * 9000 * 12 * 10, rtol=1e-12)

    def test_a_past_peak_stays_on_the_bill(self, priced):
        """The months after a peak would be billed as if it had not been."""
        costed = priced(DEMAND, "costing.past_peak_mw=5", "costing.ratchet_frac=0.6")
        np.testing.assert_allclose(year(costed, "demand"), 0.6 * 5000 * 12 * 10, rtol=1e-12)

    def test_a_peak_above_contract_and_ratchet_is_billed_as_it_is(self, priced):
        """A floor would be read as a cap."""
        costed = priced(DEMAND, "costing.past_peak_mw=0.001", "costing.ratchet_frac=1")
        peak_kw = costed.columns["facility_peak_w"] / 1000
        np.testing.assert_allclose(year(costed, "demand"), peak_kw * 120, rtol=1e-12)

    def test_energy_contracted_and_not_taken_is_paid_and_emits_nothing(self, priced):
        """Take-or-pay would be free, or would emit carbon."""
        plain, taken = priced(), priced("costing.contract_mw=9", "costing.minimum_take_frac=0.5")
        price = catalog.load().site("us-tx").usd_per_kwh[1]
        together = year(taken, "energy") + year(taken, "energy_not_taken")
        np.testing.assert_allclose(together, 0.5 * 9000 * 8760 * price, rtol=1e-12)
        np.testing.assert_array_equal(taken.columns["kgco2e"], plain.columns["kgco2e"])
        assert not year(plain, "energy_not_taken").any()


class TestOwnOrRent:
    def test_at_the_break_even_use_rent_equals_the_cost_of_owning(self, priced):
        """A buyer would be told the wrong share of hours."""
        columns = priced("costing.rent_usd_per_device_hour=2.5").columns
        rent = 2.5 * 8760 * columns["devices"] * columns["breakeven_utilisation_frac"]
        np.testing.assert_allclose(rent, columns["usd_per_year"], rtol=1e-12)

    def test_payback_repays_the_price_out_of_what_renting_would_cost(self, priced):
        """The month of payback would be of another price."""
        costed = priced("costing.rent_usd_per_device_hour=4")
        columns = costed.columns
        paid = ("maintenance", "energy", "colocation", "staff", "demand", "energy_not_taken")
        running = sum(year(costed, name) for name in paid)
        rent = 4 * 8760 * columns["devices"]
        repaid = columns["payback_months"] / 12 * (rent - running)
        np.testing.assert_allclose(repaid, columns["capex_usd"], rtol=1e-9)
        assert np.all(columns["payback_discounted_months"] > columns["payback_months"])

    def test_a_price_that_is_never_repaid_is_null_with_a_reason(self, priced):
        """Never would be told as month 0, or as infinity in a JSON."""
        costed = priced("costing.rent_usd_per_device_hour=0.1")
        assert np.isnan(costed.columns["payback_months"]).all()
        assert "never repays" in costed.reasons["payback_months"]
        assert (costed.columns["breakeven_utilisation_frac"] > 1).all()

    def test_what_is_rented_has_no_payback(self, priced):
        """Renting would be compared with itself."""
        columns = priced("costing.acquire=on_demand").columns
        assert np.isnan(columns["breakeven_utilisation_frac"]).all()
        np.testing.assert_allclose(columns["usd"], columns["rent_usd"], rtol=1e-12)

    def test_a_lease_leaves_the_site_to_the_plan(self, priced):
        """A lease would bring its own electricity."""
        leased = priced("costing.acquire=lease", "costing.rent_usd_per_device_hour=1.5")
        assert year(leased, "energy").all()
        assert year(leased, "rent").all()
        assert not year(leased, "servers").any()
        unpriced = priced("costing.acquire=lease")
        assert not len(unpriced.is_front)
        assert unpriced.rejected["missing_fact"] > 0


class TestBands:
    def test_a_price_that_is_given_has_no_spread(self, priced):
        """A quote would be doubted by as much as a list price."""
        usd = [f"costing.all_in_usd_per_device.{n}=30000" for n in ("H100-SXM", "A100-80GB-SXM")]
        listed, quoted, half = priced().columns, priced(*usd).columns, priced(usd[0]).columns
        np.testing.assert_array_equal(quoted["capex_usd_low"], quoted["capex_usd"])
        np.testing.assert_array_equal(quoted["capex_usd_high"], quoted["capex_usd"])
        assert (listed["capex_usd_high"] > listed["capex_usd"]).all()
        is_quoted = half["accelerator"] == "H100-SXM"
        assert ((half["capex_usd_high"] == half["capex_usd"]) == is_quoted).all()

    def test_what_is_paid_at_a_given_price_spreads_as_its_time_does(self, priced):
        """The time of a run would be doubted less than the run, or its price more."""
        rent = ("costing.acquire=on_demand", "costing.rent_usd_per_device_hour=2")
        for quote in (["costing.all_in_usd_per_device.H100-SXM=30000"], rent):
            columns = priced(*quote).columns
            is_quoted = columns["accelerator"] == "H100-SXM"
            for end in ("low", "high"):
                spread = columns[f"usd_{end}"] / columns["usd"]
                time = columns[f"days_{end}"] / columns["days"]
                np.testing.assert_allclose(spread[is_quoted], time[is_quoted], rtol=1e-12)


class TestCarbon:
    def test_accountings_stand_beside_each_other_and_one_counts(self, priced):
        """Average and marginal would be mixed in one front."""
        average, marginal = priced(), priced("costing.carbon=location_marginal")
        for costed, own in ((average, "location_average"), (marginal, "location_marginal")):
            columns = costed.columns
            np.testing.assert_array_equal(columns["operational_kgco2e"], columns[f"{own}_kgco2e"])
            total = columns["operational_kgco2e"] + columns["embodied_kgco2e"]
            np.testing.assert_array_equal(columns["kgco2e"], total)
        for name in ("location_average_kgco2e", "location_marginal_kgco2e"):
            np.testing.assert_array_equal(average.columns[name], marginal.columns[name])

    def test_market_is_null_without_a_contract_and_a_number_with_one(self, priced):
        """A site without a contract would report 0 kg."""
        assert np.isnan(priced().columns["market_kgco2e"]).all()
        assert "no contract" in priced().reasons["market_kgco2e"]
        clean = priced("costing.market_kgco2e_per_kwh=0")
        assert (clean.columns["market_kgco2e"] == 0).all()
        assert "market_kgco2e" not in clean.reasons

    def test_a_carbon_price_moves_money_and_no_carbon(self, priced):
        """A price per tonne would be read per kilogram."""
        free, taxed = priced(), priced("costing.carbon_usd_per_t=100")
        paid = taxed.columns["usd"] - free.columns["usd"]
        np.testing.assert_allclose(paid, free.columns["operational_kgco2e"] / 10, rtol=1e-9)
        np.testing.assert_array_equal(free.columns["kgco2e"], taxed.columns["kgco2e"])

    def test_a_cap_on_carbon_is_kept_by_the_whole_front(self, priced):
        """A cap would be one more wish."""
        cap = float(np.median(priced().columns["kgco2e"]))
        capped = priced(f"limits.kgco2e={cap}")
        assert capped.rejected["kgco2e"] > 0
        assert (capped.columns["kgco2e"][capped.is_front] <= cap).all()


def test_a_power_budget_is_kept_by_every_plan_of_the_front(priced):
    """llm-d-planner#70: what a site can feed would be one more wish."""
    drawn = priced().columns["peak_facility_mw"]
    most = float(np.median(drawn))
    fed = priced(f"limits.peak_facility_mw={most}")
    assert fed.rejected["peak_facility_mw"] == int((drawn > most).sum()) > 0
    assert (fed.columns["peak_facility_mw"][fed.is_front] <= most).all()
    hot = priced(f"limits.peak_facility_mw={most}", "costing.pue=4")
    is_over = 4 * hot.columns["it_peak_w"] / 1e6 > most
    assert hot.rejected["peak_facility_mw"] == int(is_over.sum())
    assert hot.rejected["peak_facility_mw"] > fed.rejected["peak_facility_mw"]


class TestMoney:
    def test_real_money_is_discounted_at_the_real_rate(self, priced, dense):
        """Dollars of today would carry the interest of dollars of then."""
        real = priced("costing.money=real", "costing.inflation_frac=0.03")
        rate = float(real_rate_frac(0.08, 0.03))
        same = priced(f"costing.wacc_frac={rate!r}")
        np.testing.assert_allclose(real.columns["usd"], same.columns["usd"], rtol=1e-12)

    def test_the_money_is_named(self, dense):
        """A reader could not tell nominal from real, discounted from not."""
        told = [
            costing_notes(with_settings(dense.engine.study, s), dense.engine.catalog, None)[
                "money"
            ]
            for s in ([], ["costing.money=real", "costing.inflation_frac=0.03"])
        ]
        assert told[0].startswith(
            "nominal US dollars; usd and usd_per_year carry interest at 0.08"
        )
        assert told[1].startswith("real US dollars")
        assert "0.03" in told[1]
        assert all("payback_months is not discounted" in words for words in told)

    def test_no_interest_is_the_price_over_the_life(self, priced):
        """A rate of 0 would divide by zero."""
        free = priced("costing.wacc_frac=0", "costing.residual_frac=0", "costing.life_years=4")
        wanted = np.asarray(free.ledgers["capex_usd"].terms["servers"]) / 4
        np.testing.assert_allclose(year(free, "servers"), wanted, rtol=1e-12)

    @settings(max_examples=20)
    @given(k=st.floats(0.01, 100))
    def test_every_price_of_a_study_times_k_is_k_times_the_bill(self, priced, k):
        """A price slider would not move the bill by its own share."""
        given_usd = {
            "all_in_usd_per_device.H100-SXM": 4e4, "all_in_usd_per_device.A100-80GB-SXM": 2e4,
            "usd_per_kwh": 0.08, "demand_usd_per_kw_month": 9, "colo_usd_per_kw_month": 150,
            "staff_usd_per_year": 1e5, "carbon_usd_per_t": 50, "rent_usd_per_device_hour": 0.4,
        }  # fmt: skip
        one, many = (
            priced(*[f"costing.{key}={usd * times!r}" for key, usd in given_usd.items()])
            for times in (1.0, k)
        )
        for name in ("usd", "usd_per_year", "capex_usd", "usd_per_device_hour", "usd_per_mtoken"):
            np.testing.assert_allclose(many.columns[name], k * one.columns[name], rtol=1e-11)
        for name in ("kgco2e", "water_l", "breakeven_utilisation_frac"):
            np.testing.assert_allclose(many.columns[name], one.columns[name], rtol=1e-11)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["costing.usd_per_kwh=-0.01"], "usd_per_kwh"),
        (["costing.price_usd.H100-SXM=0"], "H100-SXM"),
        (["costing.price_usd.H100-SXM=-3"], "H100-SXM"),
        (["costing.life_years=inf"], "life_years"),
        (["costing.wacc_frac=nan"], "wacc_frac"),
        (["costing.ratchet_frac=0.5"], "past peak"),
        (["costing.inflation_frac=0.02"], 'money = "real"'),
        (["costing.utilisation_frac=0"], "utilisation_frac"),
        (["costing.facility_usd_per_w=9", "costing.colo_usd_per_kw_month=9"], "set one of them"),
    ],
)
def test_what_cannot_mean_anything_is_refused(dense, given, said):
    """A negative or missing figure would be costed as if it were one."""
    with pytest.raises(BadStudy, match=said):
        terms_of(with_settings(dense.engine.study, given).costing, dense.engine.catalog)


def test_real_money_without_an_inflation_is_a_missing_fact(dense):
    """An inflation of 0 would be assumed in silence."""
    study = with_settings(dense.engine.study, ["costing.money=real"])
    with pytest.raises(MissingFact, match="inflation_frac"):
        terms_of(study.costing, dense.engine.catalog)


def test_what_is_not_known_is_null_on_the_front_and_never_nought(priced, dense):
    """A missing intensity or rent would be shown as free."""
    costed = priced()
    front = front_columns(dense.engine.study, costed)
    for name in costed.reasons:
        if name in front:
            values = np.asarray(front[name], float)
            assert np.isnan(values).any()
            assert not (values == 0).any()


FLAT = 'costing.sources=[{ name = "solar park", mw = MW, usd_per_kwh = 0.04, shape = "flat" }]'


class TestSupply:
    """Electricity by the hour, in tiers and under contract, from [costing] to the bill."""

    def test_a_price_for_half_the_hours_is_half_a_price(self, priced):
        """Hours of a tariff would be read and not billed."""
        base = ("costing.usd_per_kwh=0.06", "costing.bill_year=2027")
        hours = "costing.time_of_use=[{ from_hour = 0, to_hour = 12, usd_per_kwh = 0.10 }]"
        flat, split = priced("costing.usd_per_kwh=0.08"), priced(*base, hours)
        np.testing.assert_allclose(year(split, "energy"), year(flat, "energy"), rtol=1e-12)

    def test_a_contract_below_the_load_mixes_its_price_in(self, priced):
        """Flat 10 kW at 4 cents, the rest at 8, whatever the leap year."""
        plain = priced("costing.usd_per_kwh=0.08")
        own = priced(
            "costing.usd_per_kwh=0.08", "costing.bill_year=2028", FLAT.replace("MW", "0.01")
        )
        saved = year(plain, "energy") - year(own, "energy")
        np.testing.assert_allclose(saved, 10 * 8760 * (0.08 - 0.04), rtol=1e-6)

    def test_matching_leaves_the_residual_mix_for_the_rest(self, priced):
        """A contract of 10 kW would clean the whole site, or nothing."""
        base = ("costing.bill_year=2027", "costing.market_kgco2e_per_kwh=0.4")
        market = "costing.carbon=market"
        plain = priced("costing.market_kgco2e_per_kwh=0.4", market).columns
        own = priced(*base, market, FLAT.replace("MW", "0.01")).columns
        load_kwh = plain["facility_mwh"] * 1000
        hours = load_kwh / plain["facility_mean_w"] * 1000
        cleaned = plain["operational_kgco2e"] - own["operational_kgco2e"]
        np.testing.assert_allclose(cleaned, 10 * hours * 0.4, rtol=1e-6)
        np.testing.assert_array_equal(own["location_average_kgco2e"],
                                      plain["location_average_kgco2e"])  # fmt: skip

    def test_tiers_bill_the_month_of_the_plan(self, priced):
        """Each plan would pay the price of another one's use."""
        tiers = (
            "costing.energy_tiers=[{ up_to_kwh_per_month = 1000.0, usd_per_kwh = 1.0 }, "
            "{ usd_per_kwh = 0.0 }]"
        )
        costed = priced(tiers, "costing.bill_year=2027")
        np.testing.assert_allclose(year(costed, "energy"), 12 * 1000.0, rtol=1e-9)

    @pytest.mark.parametrize(
        ("given", "words"),
        [
            (("costing.bill_year=2027",), "changes nothing"),
            (("costing.time_of_use=[{ from_hour = 5, to_hour = 5, usd_per_kwh = 0.1 }]",
              "costing.bill_year=2027"), "no hours"),
            (("costing.energy_tiers=[{ up_to_kwh_per_month = 5.0, usd_per_kwh = 0.1 }]",
              "costing.bill_year=2027"), "has to rise"),
            (('costing.sources=[{ name = "a", mw = 1.0, usd_per_kwh = 0.1, shape = [0.5] }]',
              "costing.bill_year=2027"), "1 shares"),
        ],
    )  # fmt: skip
    def test_entries_that_mean_nothing_are_refused(self, priced, given, words):
        """Nonsense would be billed."""
        with pytest.raises(BadStudy, match=words):
            priced(*given)

    def test_the_year_and_what_is_guessed_are_told(self, dense):
        """A bill without currency, year and the origin of its shapes cannot be checked."""
        given = FLAT.replace("MW", "0.01").replace('"flat"', '"solar"')
        study = with_settings(
            dense.engine.study, [*ONE_SITE, "costing.bill_year=2027", given], catalogue_names()
        )
        note = costing_notes(study, dense.engine.catalog, None)["supply"]
        assert "on the calendar of 2027" in note
        assert "solar park is an estimate" in note
        assert "supply" not in costing_notes(dense.engine.study, dense.engine.catalog, None)

    def test_hours_without_a_calendar_are_a_missing_fact(self, priced):
        """A silent year would put the weekends somewhere."""
        with pytest.raises(MissingFact, match="bill_year"):
            priced("costing.time_of_use=[{ from_hour = 5, usd_per_kwh = 0.1 }]")


class TestTaxes:
    def test_a_tax_raises_capital_and_leaves_energy_and_rent(self, priced):
        """Mixed bases, some before tax and some after, would turn buy against rent."""
        plain, taxed = priced(), priced("costing.tax_frac=0.26")
        assert np.all(year(taxed, "servers") > year(plain, "servers"))
        for term in ("energy", "maintenance", "staff", "colocation"):
            np.testing.assert_array_equal(year(taxed, term), year(plain, term))
        np.testing.assert_array_equal(taxed.columns["capex_usd"], plain.columns["capex_usd"])

    def test_insurance_and_software_are_rates_of_what_is_owned(self, priced):
        """1% of all that is paid up front; 4,500 a year for each device, spares included."""
        costed = priced("costing.insurance_frac=0.01", "costing.software_usd_per_device_year=4500")
        np.testing.assert_allclose(year(costed, "insurance"), 0.01 * costed.columns["capex_usd"])
        assert np.all(year(costed, "software") >= 4500 * costed.columns["devices"])

    @pytest.mark.parametrize(
        ("given", "words"),
        [
            (("costing.depreciation=macrs_5",), "changes nothing without a tax"),
            (("costing.bonus_frac=0.4",), "tax_frac is 0"),
            (("costing.tax_frac=0.2", "costing.money=real", "costing.inflation_frac=0.02"),
             "nominal dollars"),
        ],
    )  # fmt: skip
    def test_write_offs_without_a_tax_to_lower_are_refused(self, priced, given, words):
        """A credit would be read and change nothing, or in the wrong money."""
        with pytest.raises(BadStudy, match=words):
            priced(*given)


CURVE = "costing.pue_curve={ fixed_frac = 0.06, proportional_frac = 0.12MORE }"


class TestLoadAndWeather:
    def test_pue_is_that_of_the_load(self, priced):
        """cost_carbon G13: 1.12 + 0.06 over the load; a half-empty hall at 1.18 would be cheap."""
        columns = priced(CURVE.replace("MORE", "")).columns
        load = columns["it_mean_w"] / columns["provisioned_w"]
        pue = columns["facility_mean_w"] / columns["it_mean_w"]
        np.testing.assert_allclose(pue, 1.12 + 0.06 / load, rtol=1e-12)
        np.testing.assert_allclose(
            columns["facility_mwh"], columns["it_mean_w"] * pue * columns["days"] * 24 / 1e6
        )

    def test_four_warm_months_add_their_share(self, priced):
        """Four months 6 K above the start of compressors at 1% a kelvin: 0.02 over the year."""
        months = [24.0] * 4 + [10.0] * 8
        warm = CURVE.replace("MORE", f", frac_per_k = 0.01, wet_bulb_c = {months}")
        plain, hot = (priced(c).columns for c in (CURVE.replace("MORE", ""), warm))
        more = (hot["facility_mean_w"] - plain["facility_mean_w"]) / plain["it_mean_w"]
        np.testing.assert_allclose(more, 0.02, rtol=1e-9)

    def test_oversold_power_is_provided_once_but_never_below_the_mean(self, priced):
        """A supply below the mean would trip in the first minute."""
        plain, tight, absurd = (
            priced(*given).columns
            for given in ((), ("costing.power_oversubscription=1.05",),
                          ("costing.power_oversubscription=3",))
        )  # fmt: skip
        wanted = np.maximum(plain["provisioned_w"] / 1.05, plain["it_mean_w"])
        np.testing.assert_allclose(tight["provisioned_w"], wanted)
        np.testing.assert_allclose(absurd["provisioned_w"], plain["it_mean_w"])
        np.testing.assert_array_equal(absurd["it_peak_w"], plain["it_peak_w"])

    def test_two_pues_or_half_a_climate_are_refused(self, priced):
        """One of two figures would be ignored without a word."""
        with pytest.raises(BadStudy, match="give one of them"):
            priced(CURVE.replace("MORE", ""), "costing.pue=1.3")
        with pytest.raises(BadStudy, match="give both or none"):
            priced(CURVE.replace("MORE", ", frac_per_k = 0.01"))


def test_carbon_is_told_by_scope(dense):
    """Rented carbon would be reported as the tenant's own electricity."""
    for acquire, words in (("buy", "is scope 2"), ("on_demand", "scope 3, category 1")):
        given = [*ONE_SITE, f"costing.acquire={acquire}"]
        study = with_settings(dense.engine.study, given, catalogue_names())
        assert words in costing_notes(study, dense.engine.catalog, None)["scopes"]
