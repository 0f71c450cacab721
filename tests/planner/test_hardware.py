"""Hardware alone: the jobs to their printed figures, counts under limits, worth, documents.

Figures of the jobs are computed by hand beside each test; nothing is taken from the code.
"""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest
from small import planner
from small_hardware import OPEN, STUDIES, job, rows_of, study_of

from costdata.nulls import NO_RENT
from planner.hardware.study import prepare, sweep
from planner.study.read import read_study
from planner.study.settings import with_settings
from planner.study.written import study_from_json, study_to_json
from planner.training.engine import catalogue_names
from simkernel.errors import BadStudy

HIRED = ("objectives.minimise=rent_npv_usd", "objectives.maximise=peak_flop_per_s")
"""What is compared where nothing is owned."""

JOBS = ("buy_under_power", "buy_or_rent", "power_capped_site", "where_to_build")


def four(value):
    """Four significant digits."""
    return float(f"{value:.3e}")


@pytest.fixture(scope="module")
def bought():
    """Buy under power: rows by budget and chip."""
    rows = job("buy_under_power")
    return {(row["limits_capex_usd"], row["accelerator"]): row for row in rows}


@pytest.mark.parametrize(
    ("budget", "chip", "units", "devices", "eflops", "it_kw", "binding"),
    [
        (200e6, "H100-SXM", 625, 5000, 4.945, 7012.5, "capex_usd"),
        (200e6, "GB200", 51, 3672, 9.18, 6732, "capex_usd"),
        (300e6, "H100-SXM", 713, 5704, 5.641256, 7999.86, "peak_facility_mw"),
        (300e6, "GB200", 60, 4320, 10.8, 7920, "peak_facility_mw"),
    ],
)
def test_servers_and_racks_under_megawatts_and_dollars_come_whole(
    bought, budget, chip, units, devices, eflops, it_kw, binding
):
    """10 MW / 1.25 / 1.1 = 7,272.7 kW of servers; 40k x 8 and 3.9M a piece: divide, round down."""
    row = bought[budget, chip]
    assert row["purchase_units"] == units
    assert row["devices"] == devices
    assert row["binding"] == binding
    assert row["peak_flop_per_s"] == pytest.approx(eflops * 1e18, rel=1e-12)
    assert row["it_peak_w"] == pytest.approx(it_kw * 1e3, rel=1e-12)


def test_speed_has_its_price_in_watts_and_dollars(bought):
    """kW/PF 1.42 vs 0.73 and $/PF 40.4k vs 21.7k: 1,402.5 W / 0.989 PF, 320,000 / 7.912 PF."""
    h100, gb200 = bought[200e6, "H100-SXM"], bought[200e6, "GB200"]
    assert four(h100["it_peak_w_per_pflop_per_s"]) == 1418
    assert four(gb200["it_peak_w_per_pflop_per_s"]) == 733.3
    assert four(h100["usd_per_pflop_per_s"]) == 40440
    assert four(gb200["usd_per_pflop_per_s"]) == 21670


def test_what_is_left_of_power_and_money_is_told(bought):
    """A buyer pays for megawatts that no whole rack can use."""
    row = bought[200e6, "H100-SXM"]
    assert row["stranded_usd"] == 0
    assert row["stranded_it_w"] == pytest.approx(987.5e3)
    assert row["stranded_w"] == pytest.approx(1.25 * 987.5e3)
    row = bought[200e6, "GB200"]
    assert row["stranded_usd"] == pytest.approx(1.1e6)


@pytest.mark.long
def test_more_money_and_more_power_are_worth_what_solving_again_gives(bought):
    """A slope would promise 31.25 servers for ten million, and something for a megawatt."""
    row = bought[200e6, "H100-SXM"]
    assert row["more_purchase_units_with_10_musd"] == 31
    assert row["more_purchase_units_with_1_mw"] == 0
    assert row["more_peak_flop_per_s_with_10_musd"] == pytest.approx(31 * 8 * 989e12)
    only = "accelerator=H100-SXM"
    (again,) = job("buy_under_power", only, "limits.capex_usd=210e6")
    assert again["purchase_units"] == 656
    (again,) = job("buy_under_power", only, "limits.capex_usd=200e6", "limits.peak_facility_mw=11")
    assert again["purchase_units"] == 625
    assert bought[300e6, "H100-SXM"]["more_purchase_units_with_1_mw"] == 784 - 713


def test_every_budget_has_a_front_of_its_own(bought):
    """A plan that needs the larger budget would be advised to who has the smaller."""
    assert not bought[200e6, "H100-SXM"]["is_front"]  # racks are faster for less
    assert bought[300e6, "H100-SXM"]["is_front"]
    assert all(row["is_front"] for (_, chip), row in bought.items() if chip == "GB200")


@pytest.fixture(scope="module")
def rented():
    """Buy or rent: rows by rent."""
    return {row["costing_rent_usd_per_device_hour"]: row for row in job("buy_or_rent")}


def test_owning_costs_what_is_computed_by_hand(rented):
    """40.96M + 3.357M x 2.48685 - 8.192M / 1.331 = 43.15M; x 0.402115 / 8.970M h = 1.934."""
    row = rented[2.5]
    assert row["capex_usd"] == pytest.approx(40.96e6)
    assert four(row["own_npv_usd"]) == 43.15e6
    assert four(row["rent_npv_usd"]) == 55.77e6
    assert four(row["npv_usd"]) == pytest.approx(12.62e6)
    assert four(row["usd_per_device_hour"]) == 1.934
    assert four(row["usd_per_device_hour_undiscounted"]) == 1.592
    energy = 1.43616e6 / 1e3 * 1.3 * 8760 * 0.08
    assert row["running_usd_per_year"] == pytest.approx(energy + 0.05 * 40.96e6)


@pytest.mark.parametrize(
    ("rent", "use", "months", "discounted", "words"),
    [
        (2.0, 96.7, 33.7, 40, "only with the residual"),
        (2.5, 77.4, 25.8, 29, "before the life ends"),
        (3.0, 64.5, 20.9, 23, "before the life ends"),
        (4.0, 48.4, 15.1, 17, "before the life ends"),
    ],
)
def test_every_rent_has_its_break_even_and_its_month(rented, rent, use, months, discounted, words):
    """A month that leaves interest out, or a use that is no share, would mislead a board."""
    row = rented[rent]
    assert round(100 * row["breakeven_utilisation_frac"], 1) == use
    assert round(row["payback_months"], 1) == months
    assert row["repaid_in_month"] == discounted
    assert row["repaid"] == words


def test_a_power_cap_feeds_more_servers_and_neither_beats_the_other():
    """4,166.7 kW / 10.2 = 408 and / 8.6 = 484; 484 x 0.9 = 435.6; capex follows the servers."""
    full, capped = sorted(job("power_capped_site"), key=lambda row: -row["power_cap_frac"])
    assert (full["nodes"], capped["nodes"]) == (408, 484)
    ratio = {name: capped[name] / full[name] for name in ("peak_flop_per_s", "capex_usd")}
    assert ratio["peak_flop_per_s"] == pytest.approx(435.6 / 408)  # +6.8 %
    assert ratio["capex_usd"] == pytest.approx(484 / 408)  # +18.6 %
    assert round(capped["usd_per_pflop_per_s"] / full["usd_per_pflop_per_s"] - 1, 3) == 0.111
    energy = [row["it_mean_w"] / row["peak_flop_per_s"] for row in (full, capped)]
    assert round(energy[1] / energy[0] - 1, 3) == -0.063
    assert full["is_front"]
    assert capped["is_front"]


@pytest.fixture(scope="module")
def built():
    """Where to build: every site at every price of carbon."""
    return job("where_to_build")


def test_a_price_of_carbon_never_makes_a_site_cheaper(built):
    """Each tonne would be an income."""
    for site in {row["site"] for row in built}:
        rows = sorted(
            (r["costing_carbon_usd_per_t"], r["usd"]) for r in built if r["site"] == site
        )
        assert all(a[1] < b[1] for a, b in zip(rows, rows[1:], strict=False)), site


def test_a_higher_price_of_carbon_never_moves_the_cluster_to_a_dirtier_site(built):
    """The cheapest site's carbon would rise with what is paid for it."""
    cheapest = {}
    for row in built:
        price = row["costing_carbon_usd_per_t"]
        cheapest[price] = min(row, cheapest.get(price, row), key=lambda r: r["usd"])
    carbon = [cheapest[price]["operational_kgco2e"] for price in sorted(cheapest)]
    assert all(a >= b for a, b in zip(carbon, carbon[1:], strict=False))


def test_a_carbon_price_costs_its_tonnes(built):
    """A price per tonne taken per kilogram would decide every site."""
    rows = {(r["site"], r["costing_carbon_usd_per_t"]): r for r in built}
    paid = rows["us-tx", 200]["usd"] - rows["us-tx", 0]["usd"]
    assert paid == pytest.approx(200 * rows["us-tx", 0]["operational_kgco2e"] / 1000)


@pytest.mark.parametrize("chip", ["H100-SXM", "GB200", "Ascend-910C"])
@pytest.mark.parametrize("budget", [20e6, 50e6, 333e6])
def test_the_count_found_fits_and_one_more_does_not(chip, budget):
    """A step of the fabric, or a rounding, would leave a rack unbought or a budget broken."""
    settings = [f"accelerator={chip}", f"limits.capex_usd={budget}"]
    (row,) = rows_of(with_settings(study_of(OPEN), settings, catalogue_names()))
    counts = [row["supernodes"], row["supernodes"] + 1]
    given = with_settings(
        study_of(OPEN),
        [f"accelerator={chip}", f"supernodes={json.dumps([int(c) for c in counts])}",
         f"supernode_devices={row['supernode_devices']}", "limits.capex_usd=1e12"],
        catalogue_names(),
    )  # fmt: skip
    spent = [other["capex_usd"] for other in rows_of(given)]
    assert spent[0] == pytest.approx(row["capex_usd"])
    assert spent[0] <= budget < spent[1]


def test_a_budget_of_whole_units_is_spent_whole():
    """The order of a sum would cost a buyer one server of thirty."""
    text = OPEN.replace("50e6", "9.6e6").replace(
        'site = "us-tx"', 'site = "us-tx"\nall_in_usd_per_unit = { "H100-SXM" = 0.32e6 }'
    )
    rows = {row["accelerator"]: row for row in rows_of(study_of(text))}
    assert rows["H100-SXM"]["purchase_units"] == 30


def test_an_open_count_needs_an_end():
    """The search would run to the largest fabric and call it an answer."""
    with pytest.raises(BadStudy, match=r'"most" without a limit'):
        prepare(study_of(OPEN.replace("capex_usd = 50e6", "usd_per_device_hour = 3")))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("capex_usd = 50e6", "resident_bytes = 1e9", "not computed for hardware alone"),
        ("[costing]", "scaleup_gbytes_per_s = 100\n[costing]", "changes nothing"),
        ("capex_usd = 50e6", "capex_usd = 50e6\n[pin]\nunit_w = 1", "out of bounds"),
        ("capex_usd = 50e6", "capex_usd = 50e6\n[pin]\nmfu_frac = 0.4", "no quantity"),
        (
            "capex_usd = 50e6",
            "capex_usd = 50e6\n[scenarios.limits]\ncapex_usd = [1e6]",
            "given beside its scenarios",
        ),
        (
            "capex_usd = 50e6",
            "capex_usd = 50e6\n[scenarios.costing]\npue = [0.5]",
            "greater than or equal to 1",
        ),
    ],
)  # fmt: skip
def test_what_means_nothing_for_hardware_is_refused(old, new, words):
    """A knob without effect would be turned in good faith."""
    with pytest.raises(BadStudy, match=words):
        prepare(study_of(OPEN.replace(old, new)))


def test_the_other_kinds_have_no_open_count():
    """A training study would be swept over the word most."""
    text = OPEN.replace('"hardware"', '"train"').replace("supernodes", "devices")
    with pytest.raises(BadStudy, match="axes.devices = 'most'"):
        study_of(text)


@pytest.mark.parametrize("name", JOBS)
def test_a_stored_study_reads_back_as_it_was(name):
    """A run could not be explained, or priced anew, once its file had changed."""
    study = read_study(STUDIES / f"{name}.toml", catalogue_names())
    again = study_from_json(study_to_json(study))
    assert again.scenarios == study.scenarios
    assert again.pin == study.pin
    assert again.costing == study.costing


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """The first job through the command: run, show, explain, evaluate."""
    folder = tmp_path_factory.mktemp("hardware")
    db, study = folder / "planner.duckdb", STUDIES / "buy_under_power.toml"
    ran = planner("run", study, "--db", db, "--json")
    return {
        "run": ran,
        "show": planner("show", "last", "--db", db, "--json"),
        "explain": planner("explain", "last", "1", "--db", db, "--json"),
        "words": planner("show", "last", "--db", db),
        "db": db,
    }


def test_a_run_answers_with_the_front_and_every_option(answers):
    """What ends each option would have to be guessed from what is on the front."""
    document = answers["run"].document
    assert answers["run"].code == 0
    assert {"run", "candidates", "physical_front", "front", "rejected", "front_hash"} <= set(
        document
    )
    assert len(document["front"]) == 3
    assert len(document["options"]) == 4
    lost = [row for row in document["options"] if not row["is_front"]]
    assert [(row["accelerator"], row["binding"]) for row in lost] == [("H100-SXM", "capex_usd")]
    assert document["notes"]["basis"].startswith("npv_usd, own_npv_usd")
    assert document["notes"]["money"].startswith("nominal US dollars")
    assert "taxes" in document["notes"]["not_included"]
    assert answers["show"].document["front"] == document["front"]
    assert "options, * on the front" in answers["words"].out


def test_explaining_an_option_adds_up(answers):
    """The explanation would be another calculation."""
    document = answers["explain"].document
    assert answers["explain"].code == 0
    for name in ("capex_usd", "usd_per_year", "usd"):
        terms = document["ledgers"][name]["terms"]
        assert sum(terms.values()) == pytest.approx(document["metrics"][name])
    first = answers["run"].document["front"][0]
    assert document["metrics"]["capex_usd"] == pytest.approx(first["capex_usd"])
    assert {line["axis"] for line in document["one_change"]} >= {"accelerator"}


@pytest.mark.long
def test_one_option_is_evaluated_with_its_count():
    """A buyer asks whether this many fit, and how many would."""
    study = STUDIES / "buy_under_power.toml"
    fits = planner("evaluate", study, "--set", "nodes=625", "--json")
    assert fits.code == 0
    assert fits.document["feasible"]
    assert fits.document["taken"]["accelerator"] == "H100-SXM"
    over = planner("evaluate", study, "--set", "nodes=640", "--json")
    assert over.code == 1
    assert [v["limit"] for v in over.document["violations"]] == ["capex_usd"]
    assert over.document["nearest"]["axis"] == "nodes"
    assert over.document["nearest"]["to"] == 625
    assert planner("evaluate", study, "--set", "nodes=640").code == 1


@pytest.mark.long
def test_a_budget_for_no_unit_names_what_forbids_it(tmp_path):
    """An empty front without a reason sends a person back to a spreadsheet."""
    study = STUDIES / "buy_under_power.toml"
    words = ("--set", "limits.capex_usd=100000", "--db", tmp_path / "none.duckdb", "--json")
    answer = planner("run", study, *words)
    assert answer.code == 1
    assert answer.document["front"] == []
    assert answer.document["rejected"]["capex_usd"] == 2
    assert answer.document["nearest"]["plans"][0]["binding"] == "capex_usd"


@pytest.mark.long
def test_a_stored_purchase_priced_anew_is_bought_afresh(answers):
    """Dearer servers would still be counted at the old price."""
    price = "costing.all_in_usd_per_device.H100-SXM=50000"
    again = planner("recost", "last", "--set", price, "--db", answers["db"], "--json").document
    fresh = {
        (row["limits_capex_usd"], row["accelerator"]): row["purchase_units"]
        for row in job("buy_under_power", price)
    }
    priced = {
        (row["limits_capex_usd"], row["accelerator"]): row["purchase_units"]
        for row in again["options"]
    }
    assert priced == fresh
    assert fresh[200e6, "H100-SXM"] == 500


def test_renting_hardware_pays_nothing_up_front():
    """A rented cluster would be written off as if it were owned."""
    settings = ["costing.acquire=reserved", "costing.rent_usd_per_device_hour=2.5", *HIRED]
    (row,) = job("buy_or_rent", *settings)
    assert row["capex_usd"] == 0
    assert row["usd_per_year"] == pytest.approx(2.5 * 1024 * 8760)
    assert np.isnan(row["own_npv_usd"])
    assert row["repaid"] is None


def test_hardware_that_nobody_rents_out_is_counted(tmp_path):
    """What has no price would be free, or end in a traceback."""
    study = tmp_path / "x.toml"
    study.write_text(
        OPEN.replace("[costing]", '[costing]\nacquire = "spot"')
        .replace("GB200", "Ascend-910C")
        .replace('"H100-SXM", ', "")
    )
    answer = planner("run", study, "--db", tmp_path / "x.duckdb", "--json")
    assert answer.code == 3
    assert answer.document["rejected"] == {"missing_fact": 1}
    answer = planner("evaluate", study, "--json")
    assert answer.code == 3
    assert answer.document["violations"][0]["unit"] == "price to spot"
    assert planner("evaluate", study).code == 3


@pytest.mark.long
def test_an_objective_without_a_figure_is_counted_apart_from_a_price(tmp_path):
    """What has a price would be called unsold, or be gone without a reason."""
    study = tmp_path / "x.toml"
    study.write_text(
        OPEN.replace('"H100-SXM", "GB200"', '"Ascend-910B"')
        + '[objectives]\nmaximise = ["npv_usd"]\n'
    )
    answer = planner("run", study, "--db", tmp_path / "x.duckdb", "--json")
    assert answer.code == 1
    document = answer.document
    options = document["options"]
    assert document["rejected"]["unknown_objective"] == sum(not row["over"] for row in options) > 0
    assert {row["null_reasons"]["npv_usd"] for row in options} == {NO_RENT}


def test_a_rented_count_without_an_end_in_money_ends_at_the_fabric():
    """A budget for hardware that nobody buys would end in a traceback past the third layer."""
    study = with_settings(study_of(OPEN), ["costing.acquire=reserved"], catalogue_names())
    rows = rows_of(study)
    assert {row["binding"] for row in rows} == {"fabric_tiers"}
    assert all(row["capex_usd"] == 0 and row["fabric_tiers"] == 3 for row in rows)


@pytest.mark.long
def test_a_cap_below_what_a_chip_draws_idle_is_no_option():
    """A chip that does nothing would be offered, at an infinite price of its speed."""
    settings = ["accelerator=all", "power_cap_frac=[0.3, 1]"]
    study = with_settings(study_of(OPEN), settings, catalogue_names())
    engine = prepare(study)
    masked = sum((result.masked for result in sweep(engine, 1, lambda: False)), Counter())
    assert masked["cap_above_floor"] > 0
    assert all(row["peak_flop_per_s"] > 0 for row in rows_of(study))


@pytest.mark.parametrize(
    ("pins", "words"),
    [
        ('unit_w."H100-SXM" = 5000', r"pin.unit_w.H100-SXM = 5,000 W .*8 H100-SXM .* are 5,600 W"),
        ("unit_w = 5599", r"pin.unit_w = 5,599 W .* are 5,600 W.*pin.unit_other_w"),
        ("unit_w = 10", r"pin.unit_w = 10 W .* are 5,600 W"),
        ("unit_w = 5600\ndevice_peak_w = 800", r"pin.device_peak_w of 800 W are 6,400 W"),
    ],
)
def test_a_unit_that_draws_less_than_its_chips_is_refused(pins, words):
    """Hosts would give back power, and a site would hold more servers than its meter."""
    text = OPEN.replace('"H100-SXM", "GB200"', '"H100-SXM"') + f"[pin]\n{pins}\n"
    with pytest.raises(BadStudy, match=words):
        prepare(study_of(text))


def test_a_power_cap_does_not_make_a_small_unit_right():
    """The watts of a unit are at full power: the capped host would be 5,000 - 5,600 watts."""
    text = OPEN.replace('["H100-SXM", "GB200"]', '"H100-SXM"\npower_cap_frac = 0.7')
    with pytest.raises(BadStudy, match="uncapped"):
        prepare(study_of(text + "[pin]\nunit_w = 5000\n"))


@pytest.mark.parametrize(
    ("pins", "host_w"),
    [
        ("unit_w = 5600", 0.0),
        ("unit_w = 5000\nunit_other_w = 900", 900.0),
        ("unit_w = 5000\ndevice_peak_w = 600", 200.0),
    ],
)
def test_a_unit_that_leaves_its_host_power_is_taken(pins, host_w):
    """A true figure would be refused, or the host would not be what is left of it."""
    text = OPEN.replace('"H100-SXM", "GB200"', '"H100-SXM"') + f"[pin]\n{pins}\n"
    (row,) = rows_of(study_of(text + "network_overhead_frac = 0\n"))
    chips_w = row["devices"] * row["device_peak_w"]
    hosts_w = row["it_peak_w"] - chips_w
    assert hosts_w / row["purchase_units"] == pytest.approx(host_w, abs=1e-6)


@pytest.mark.long
def test_nearest_options_name_their_scenario(tmp_path):
    """One option would be told once a scenario, with nothing to tell the lines apart."""
    study = tmp_path / "x.toml"
    study.write_text(
        OPEN.replace('"most"', "16").replace("[limits]\ncapex_usd = 50e6", "")
        + "[scenarios.limits]\ncapex_usd = [1e6, 2e6]\n"
    )
    answer = planner("run", study, "--db", tmp_path / "x.duckdb")
    assert answer.code == 1, answer.err
    lines = [line for line in answer.out.splitlines() if "nearest: " in line]
    assert len(set(lines)) == len(lines) > 1
    assert any(" where capex_usd = 2,000,000 on " in line for line in lines)
