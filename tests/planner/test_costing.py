"""Money and carbon over a physical front: one site a row, nothing unknown taken for zero."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small import DENSE, planner, study_of, with_lines

from costdata import catalog
from planner.costing import cost_plans, front_of, limits_on, terms_of
from planner.engine import catalogue_names
from planner.run import joined
from planner.study_set import with_settings
from simkernel.errors import MissingFact

CATALOG = catalog.load()


@pytest.fixture(scope="module")
def plans(dense):
    """The physical front of the small study, as columns."""
    return joined([result.front for result in dense.results if result.front])


def with_set(*settings_given):
    """The small study with some keys replaced."""
    return with_settings(study_of(DENSE), settings_given, catalogue_names())


def costed(plans, *settings_given):
    """Plans under the small study with some keys replaced."""
    return cost_plans(with_set(*settings_given), CATALOG, plans)


def test_every_plan_stands_at_every_site_once(plans):
    """A site would be forgotten, or a plan priced twice."""
    found = costed(plans)
    pairs = list(zip(found.columns["plan"], found.columns["site"], strict=True))
    assert len(pairs) == len(set(pairs)) == 3 * len(plans["plan"])
    assert set(found.columns["site"]) == {"us-tx", "se", "cn-west"}


@pytest.mark.parametrize("accounting", ["location_average", "location_marginal"])
def test_a_row_has_every_term_of_its_own_site(plans, accounting):
    """A plan would take its price from one site and its carbon from another."""
    names = ("us-tx", "se", "fr")
    chosen = f"costing.carbon={accounting}"
    together = costed(plans, f"costing.site={','.join(names)}", chosen)
    for place, name in enumerate(names):
        apart = costed(plans, f"costing.site={name}", chosen)
        for column, values in apart.columns.items():
            np.testing.assert_array_equal(together.columns[column][place::3], values)
        for ledger, expected in apart.ledgers.items():
            total = np.asarray(together.ledgers[ledger].total)[place::3]
            np.testing.assert_array_equal(total, expected.total)
    terms = terms_of(with_set(f"costing.site={','.join(names)}", chosen).costing, CATALOG)
    kwh = together.columns["facility_mwh"] * 1e3
    factor = "grid_average" if accounting == "location_average" else "grid_marginal"
    intensity = np.tile(getattr(terms, f"{factor}_kgco2e_per_kwh"), len(plans["plan"]))
    expected = kwh * intensity
    np.testing.assert_allclose(together.columns["operational_kgco2e"], expected, rtol=1e-12)


def test_plans_in_another_order_cost_the_same(plans):
    """A cost would belong to a place in the table, not to a plan."""
    order = np.random.default_rng(3).permutation(len(plans["plan"]))
    mixed = costed({name: column[order] for name, column in plans.items()}, "costing.site=se")
    first = costed(plans, "costing.site=se")
    for name, values in first.columns.items():
        np.testing.assert_array_equal(mixed.columns[name], np.asarray(values)[order])
    assert mixed.is_front.sum() == first.is_front.sum()


@settings(max_examples=25, deadline=None)
@given(st.floats(0.01, 100.0))
def test_a_price_times_k_is_k_times_the_bill(plans, factor):
    """Twice the price of a chip would not be twice the bill for chips."""
    chips = ("H100-SXM", "A100-80G-SXM")

    def shares(scale):
        prices = [f"costing.price_usd.{chip}={20_000 * scale}" for chip in chips]
        found = costed(plans, "costing.site=se", *prices)
        return found.ledgers["capex_usd"].terms, found.columns

    (zero, _), (one, before), (scaled, after) = shares(1e-9), shares(1.0), shares(factor)
    for term in ("servers", "spares"):
        grown = np.asarray(scaled[term]) - np.asarray(zero[term])
        expected = factor * (np.asarray(one[term]) - np.asarray(zero[term]))
        np.testing.assert_allclose(grown, expected, rtol=1e-6, atol=1e-3)
    for name in ("days", "kgco2e", "facility_mwh", "it_mean_w"):
        np.testing.assert_array_equal(before[name], after[name])
    moved = after["capex_usd"] > before["capex_usd"]
    assert np.all(moved == (factor > 1)) or factor == 1.0


@settings(max_examples=25, deadline=None)
@given(st.floats(1.0, 3.0), st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_pue_is_used_once_and_tariffs_are_linear(plans, pue, usd_per_kwh, kgco2e_per_kwh):
    """PUE would be in power and energy both, or a price would be counted per month."""
    found = costed(
        plans,
        "costing.site=se",
        f"costing.pue={pue}",
        f"costing.usd_per_kwh={usd_per_kwh}",
        f"costing.grid_kgco2e_per_kwh={kgco2e_per_kwh}",
    )
    columns = found.columns
    hours = columns["days"] * 24
    it_mwh = columns["it_mean_w"] * hours / 1e6
    np.testing.assert_allclose(columns["it_mwh"], it_mwh, rtol=1e-12)
    np.testing.assert_allclose(columns["facility_mwh"], pue * it_mwh, rtol=1e-12)
    np.testing.assert_allclose(columns["facility_mean_w"], pue * columns["it_mean_w"], rtol=1e-12)
    np.testing.assert_allclose(columns["facility_peak_w"], pue * columns["it_peak_w"], rtol=1e-12)
    carbon = 1e3 * pue * it_mwh * kgco2e_per_kwh
    np.testing.assert_allclose(columns["operational_kgco2e"], carbon, rtol=1e-12, atol=1e-12)
    energy = np.asarray(found.ledgers["usd"].terms["energy"])
    utilisation = terms_of(with_set("costing.site=se").costing, CATALOG).utilisation_frac[0]
    usd = 1e3 * pue * it_mwh * usd_per_kwh / utilisation
    np.testing.assert_allclose(energy, usd, rtol=1e-12, atol=1e-12)


def test_ledgers_sum_to_their_columns(plans):
    """The parts of a cost would not be the cost."""
    found = costed(plans)
    for name, ledger in found.ledgers.items():
        parts = sum(np.asarray(term) + 0.0 for term in ledger.terms.values())
        np.testing.assert_allclose(found.columns[name], parts, rtol=1e-9)


def test_hardware_that_nobody_sells_on_these_terms_is_counted(plans, tmp_path):
    """What has no price would be free, and win."""
    rented = {**plans, "accelerator": np.full(len(plans["plan"]), "Ascend-910C", dtype=object)}
    rented["supernode_devices"] = np.full(len(plans["plan"]), 384)
    rented["used_per_domain"] = np.full(len(plans["plan"]), 384)
    found = costed(rented, "costing.acquire=spot")
    assert found.rejected["missing_fact"] == 3 * len(plans["plan"])
    assert len(found.is_front) == 0
    study = tmp_path / "x.toml"
    text = with_lines(DENSE, accelerator='accelerator = "Ascend-910C"', days="")
    text = text.replace("supernode_devices = 8", 'supernode_devices = "offered"')
    study.write_text(text.replace("[limits]", 'acquire = "spot"\n[limits]'))
    answer = planner("run", study, "--db", tmp_path / "x.duckdb", "--workers", 1, "--json")
    assert answer.code == 1
    assert answer.document["rejected"]["missing_fact"] == 3 * answer.document["physical_front"] > 0
    answer = planner("evaluate", study, "--json")
    assert answer.code == 1
    (line,) = answer.document["violations"]
    assert (line["limit"], line["unit"]) == ("missing_fact", "price to spot")
    assert "usd" not in answer.document["metrics"]


def test_an_objective_that_is_not_known_is_counted_not_zero(plans):
    """A site of which nobody knows the water would be the driest (codecarbon#1316)."""
    wet = with_settings(
        study_of(DENSE + '[objectives]\nminimise = ["water_l", "usd"]\n'),
        ["costing.site=se,sg"],
        catalogue_names(),
    )
    found = cost_plans(wet, CATALOG, plans)
    unknown = np.isnan(found.columns["water_l"])
    assert set(found.columns["site"][unknown]) == {"sg"}
    assert set(found.columns["site"][found.is_front]) == {"se"}
    assert found.rejected["missing_fact"] == unknown.sum() == len(plans["plan"])
    assert "water" in found.reasons["water_l"]
    limited = costed(plans, "costing.site=sg", "limits.water_l=1e12")
    assert limited.rejected["water_l"] == len(plans["plan"])
    assert not limited.is_front.any()
    assert np.all(np.isinf(limited.worst_excess) | (limited.worst_excess > 1e300))


def test_an_unknown_figure_is_told_as_such(tmp_path):
    """The text would end in a traceback where the figure should stand."""
    study = tmp_path / "x.toml"
    study.write_text(
        with_lines(DENSE, days="water_l = 1e12").replace('"us-tx", "se", "cn-west"', '"sg"')
    )
    words = ("--set", "devices=64", "--set", "recompute=selective")
    answer = planner("evaluate", study, *words)
    assert answer.code == 1
    assert "infeasible: water_l: has NULL, limit " in answer.out
    document = planner("evaluate", study, *words, "--json").document
    assert document["violations"][0]["have"] is None
    run = planner("run", study, "--db", tmp_path / "x.duckdb", "--workers", 1)
    assert run.code == 1
    assert "beyond water_l" in run.out


def test_a_term_that_a_site_lacks_is_named_with_the_site():
    """A person would not know which of the sites to give a figure for."""
    with pytest.raises(MissingFact) as caught:
        terms_of(with_set("costing.site=vn,se,qa", "costing.carbon=location_marginal").costing,
                 CATALOG)  # fmt: skip
    assert len(caught.value.faults) == 2
    assert [fault.split()[1] for fault in caught.value.faults] == ["vn", "qa"]
    assert "costing.grid_kgco2e_per_kwh" in caught.value.faults[0]
    given_it = with_set("costing.site=vn", "costing.carbon=market",
                        "costing.grid_kgco2e_per_kwh=0.1")  # fmt: skip
    assert terms_of(given_it.costing, CATALOG).market_kgco2e_per_kwh.tolist() == [0.1]


def test_limits_of_both_directions_are_judged_the_right_way_round(plans):
    """A speed limit would be taken for a speed cap."""
    study = with_set("limits.tokens_per_s=1e5", "limits.usd=1e5", "limits.days=1e9")
    columns = cost_plans(study, CATALOG, plans).columns
    limits = limits_on(study, columns)
    np.testing.assert_array_equal(limits["tokens_per_s"].excess > 0, columns["tokens_per_s"] < 1e5)
    np.testing.assert_array_equal(limits["usd"].excess > 0, columns["usd"] > 1e5)
    assert limits["usd"].unit == "USD"


def test_of_equal_rows_the_first_stays_and_forbidden_rows_do_not_count(plans):
    """A plan would be shown twice, or beaten by one that is not allowed."""
    study = with_set("costing.site=se")
    columns = cost_plans(study, CATALOG, plans).columns
    twice = {name: np.concatenate([column, column]) for name, column in columns.items()}
    count = len(columns["days"])
    everyone = front_of(study, twice, np.ones(2 * count, bool))
    assert not everyone[count:].any()
    best = int(np.flatnonzero(everyone)[0])
    allowed = np.ones(2 * count, bool)
    allowed[[best, best + count]] = False
    without = front_of(study, twice, allowed)
    assert not without[best]
    assert without.any()
