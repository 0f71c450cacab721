"""A purchase study from file to stored front: small, whole, and refused where it must be."""

import json
import re
import zipfile
from pathlib import Path

import pytest
from small import ROOT, planner

from planner.archive.store import Archive
from planner.documents.figures import human
from planner.fleet.study import prepare
from planner.study.read import read_study
from planner.training.engine import catalogue_names
from simkernel.errors import BadStudy

FLEET = (Path(__file__).parent / "grow.toml").read_text()


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """The study run once, with what the command said."""
    folder = tmp_path_factory.mktemp("fleet")
    study, db = folder / "grow.toml", folder / "p.duckdb"
    study.write_text(FLEET)
    answer = planner("run", study, "--db", db, "--json")
    assert answer.code == 0, answer.err
    return folder, db, answer.document


def test_the_document_is_json_alone_and_its_plans_trade_cost_for_carbon(stored):
    """A solver's banner would break a script, or a dearer plan emit more."""
    _, _, document = stored
    rows = sorted(document["front"], key=lambda row: row["own_npv_usd"])
    assert len(rows) == 2
    assert rows[0]["kgco2e"] > rows[1]["kgco2e"]
    assert all(row["npv_usd"] == row["rent_npv_usd"] - row["own_npv_usd"] for row in rows)


def test_nothing_is_bought_before_it_can_be_delivered_and_all_demand_is_served(stored):
    """Twenty weeks of lead time are a period, so the first is bridged by rent."""
    _, db, _ = stored
    found = planner("explain", "1", "1", "--db", db, "--json").document
    first, *rest = found["calendar"]
    assert not first["buy"]
    assert first["rent"]
    for period in (first, *rest):
        assert period["served"]["chat"] >= period["demand"]["chat"] * (1 - 1e-6)
    runs = [p["period"] for p in found["calendar"] if p["runs"]]
    assert runs
    assert max(runs) <= 2
    spent = sum(p["capex_usd"] for p in found["calendar"])
    assert spent == pytest.approx(found["metrics"]["capex_usd"], rel=1e-9)


def test_the_calendar_is_told_as_a_table(stored):
    """A buyer at a terminal would see JSON."""
    _, db, _ = stored
    text = planner("explain", "1", "1", "--db", db).out
    assert "calendar" in text
    assert "H100-SXM @" in text
    assert "renting everything" in text


def test_what_a_purchase_plan_has_no_form_for_is_said(stored):
    """A person would get an internal error for a report of a calendar."""
    folder, db, _ = stored
    for words in (
        ("export", "1", "1", "--to", "focus.csv"),
        ("explain", "1", "1", "--against", "2"),
    ):
        answer = planner(*words, "--db", db)
        assert answer.code == 2, words
        assert "purchase plan" in answer.err


@pytest.mark.long
def test_a_limit_that_leaves_no_plan_is_named(tmp_path):
    """A buyer would not know that the site's power is in the way."""
    study = tmp_path / "tight.toml"
    study.write_text(
        FLEET.replace("points = 2", "points = 1\nmay_rent = false\nlead_weeks = 0\n"
                      "site_mw = { us-tx = 0.01, se = 0.01 }").replace("lead_weeks = 20\n", "")
    )  # fmt: skip
    answer = planner("run", study, "--db", tmp_path / "p.duckdb", "--json")
    assert answer.code == 1
    assert set(answer.document["rejected"]) == {"power at us-tx", "power at se"}


@pytest.mark.long
def test_without_rent_there_is_a_plan_where_units_are_held_or_come_at_once(tmp_path):
    """Nothing to compare with would be taken for nothing to buy."""
    study = tmp_path / "own.toml"
    text = FLEET.replace("lead_weeks = 20", "lead_weeks = 0\nmay_rent = false")
    study.write_text(text.replace("points = 2", "points = 1"))
    answer = planner("run", study, "--db", tmp_path / "p.duckdb", "--json")
    assert answer.code == 0, answer.err
    (row,) = answer.document["front"]
    assert row["npv_usd"] is None
    assert row["own_npv_usd"] > 0
    study.write_text(study.read_text() + '\n[objectives]\nmaximise = ["npv_usd"]\n')
    asked = prepare(read_study(study, catalogue_names()))
    assert asked.study.objectives.minimise == ("own_npv_usd",)


def test_orders_have_dates_where_the_first_day_is_given(tmp_path):
    """A date that is none would be written into an order."""
    study = tmp_path / "dated.toml"
    study.write_text(FLEET.replace("points = 2", 'first_day = "2027-02-30"'))
    with pytest.raises(BadStudy, match="no day of the calendar"):
        read_study(study, catalogue_names())


def test_faults_of_the_calendar_are_told_together_with_their_lines(tmp_path):
    """A person would mend one line, and meet the next fault."""
    study = tmp_path / "bad.toml"
    text = FLEET.replace("due = 2", "due = 9").replace(
        "points = 2", "budget_usd_per_period = [1e6]\nsite_mw = { us-xx = 3.0 }"
    )
    study.write_text(text + "\n[fleet.demand.code]\nlevel = 2.0\n")
    with pytest.raises(BadStudy) as caught:
        read_study(study, catalogue_names())
    told = "\n".join(caught.value.faults)
    for words in ("period 9 does not come", "1 budgets for 3 periods", "us-xx", "workload.code"):
        assert words in told
    assert all("bad.toml:" in fault for fault in caught.value.faults)


def test_what_has_no_effect_or_no_meaning_in_a_calendar_is_refused(tmp_path):
    """A demand, a ramp or a future that nothing follows from would be taken for planned."""
    study = tmp_path / "idle.toml"
    text = FLEET.replace("due = 2", "due = 2\nlevel = 3.0").replace(
        "growth_frac_per_year = 1.0",
        "stop_hours = 1.0\nramp = { from_period = 2, until_period = 1, to = 3.0 }",
    )
    half = '\n[[fleet.branches]]\nname = "up"\nperiod = 1\nchance = 0.5\n'
    text = text.replace("points = 2", "available = { H100-SXM = 3 }")
    study.write_text(text + half + half + "demand = { pretrain = 2.0 }\n")
    with pytest.raises(BadStudy) as caught:
        read_study(study, catalogue_names())
    told = "\n".join(caught.value.faults)
    wanted = ("a training run has no level", "a stream has no stop_hours", "begins in 2",
              "two branches of period 1 are called up", "pretrain is a training run",
              "period 3 does not come")  # fmt: skip
    for words in wanted:
        assert words in told
    assert len(caught.value.faults) == len(wanted)


def test_a_calendar_in_another_kind_of_study_is_refused(tmp_path):
    """A table without effect would be taken for a plan."""
    study = tmp_path / "train.toml"
    study.write_text(FLEET.replace('kind = "fleet"', 'kind = "hardware"'))
    with pytest.raises(BadStudy, match="plans no purchases"):
        read_study(study, catalogue_names())


def test_the_stored_calendar_is_what_the_command_showed(stored):
    """The archive would hold another plan than was read."""
    _, db, _ = stored
    front = Archive(db).front("1")
    periods = json.loads(str(front["calendar"][0]))["periods"]
    shown = planner("explain", "1", "1", "--db", db, "--json").document["calendar"]
    assert shown == periods


def test_a_limit_that_no_purchase_plan_keeps_is_refused(tmp_path):
    """A buyer would be shown a plan beyond a limit that the study names."""
    study = tmp_path / "limited.toml"
    study.write_text(
        FLEET + "\n[limits]\nown_npv_usd = 1.0\nusd = 1.0\n\n[targets]\nkgco2e = 1.0\n"
    )
    answer = planner("run", study, "--db", tmp_path / "p.duckdb")
    assert answer.code == 2
    for words in ("limits.own_npv_usd", "limits.usd", "have no targets"):
        assert words in answer.err
    assert answer.err.count("limited.toml:") == 3


@pytest.mark.long
def test_a_tonne_costs_what_two_runs_differ_by(tmp_path):
    """A price of carbon would be told that nobody who asks again can find."""
    study, db = tmp_path / "capped.toml", tmp_path / "p.duckdb"
    study.write_text(FLEET.replace("points = 2", "points = 1\ngap_frac = 1e-7"))

    def best(kgco2e):
        answer = planner("run", study, "--set", f"limits.kgco2e={kgco2e}", "--db", db, "--json")
        assert answer.code == 0, answer.err
        (row,) = answer.document["front"]
        assert row["kgco2e"] <= kgco2e * (1 + 1e-6)
        return row

    wide = best(100e3)
    narrow = best(wide["kgco2e"] - 500.0)  # half a tonne less than what was best uses
    more = best(wide["kgco2e"] + 500.0)
    costs = narrow["own_npv_usd"] - more["own_npv_usd"]
    assert costs > 1000.0
    told = planner("explain", "2", "1", "--db", db, "--json").document["worth_of_more"]
    assert told["+1 t CO2e in all"]["worth"] == pytest.approx(costs, rel=1e-6)
    text = planner("explain", "2", "1", "--db", db).out
    assert f"+1 t CO2e in all: {human(round(costs, 2), 'USD')}" in text


def test_one_team_is_paid_whatever_is_bought(stored):
    """Every server would bring a team of its own."""
    _, db, _ = stored
    calendar = planner("explain", "1", "1", "--db", db, "--json").document["calendar"]
    assert calendar[0]["running_usd"] == pytest.approx(90_000, rel=1e-9)


def test_devices_are_all_chips_that_are_there_at_once(stored):
    """A fleet of 8 chips would be told as one device, or one that is rented as none."""
    _, db, document = stored
    for row in document["front"]:
        found = planner("explain", "1", row["plan"], "--db", db, "--json").document
        there = [sum(p["owned"].values()) + sum(p["rent"].values()) for p in found["calendar"]]
        assert row["devices"] == 8 * max(there)
        assert "on_demand" in row["acquire"]


@pytest.mark.long
def test_the_report_of_a_purchase_plan_says_what_to_order(stored):
    """Management would be shown a training run's report, or none."""
    folder, db, _ = stored
    told = planner("report", "1", "--to", folder / "a.html", "--db", db, "--json")
    assert told.code == 0, told.err
    assert "worth today" in told.document["decision"]
    text = (folder / "a.html").read_text()
    for words in ("Order list", "Beside other ways", "rent everything", "are spent by the end"):
        assert words in text
    told = planner("report", "1", "--to", folder / "z.html", "--db", db, "--lang", "zh", "--json")
    assert "现值成本" in told.document["decision"]
    assert "订单清单" in (folder / "z.html").read_text()


@pytest.mark.long
def test_what_is_ordered_is_listed_to_the_last_item(stored):
    """A buyer would order servers without their switches, or other money than the plan has."""
    folder, db, _ = stored
    plan = planner("explain", "1", "1", "--db", db, "--json").document
    rows = planner("export", "1", "1", "--to", "bom", "--db", db, "--json").document["rows"]
    bought = [order for order in plan["orders"] if order["usd"]]
    assert sum(row["usd"] for row in rows) == pytest.approx(sum(o["usd"] for o in bought))
    assert {"servers", "switches", "links"} <= {row["item"] for row in rows}
    servers = [row for row in rows if row["item"] == "servers"]
    assert [row["quantity"] for row in servers] == [order["units"] for order in bought]
    assert all(row["quantity"] * row["unit_usd"] == pytest.approx(row["usd"]) for row in rows)
    told = planner("report", "1", "--to", folder / "a.xlsx", "--db", db, "--json")
    assert told.code == 0, told.err
    with zipfile.ZipFile(folder / "a.xlsx") as book:
        names = re.findall(r'<sheet name="([^"]+)"', book.read("xl/workbook.xml").decode())
        orders = book.read("xl/worksheets/sheet2.xml").decode()
    assert names[:4] == ["decision", "orders", "materials", "calendar"]
    assert orders.count("<row ") == len(plan["orders"]) + 2
    assert f"SUM(N2:N{len(plan['orders']) + 1})" in orders


def test_the_cheapest_row_is_the_cheapest_and_each_row_is_cleaner_than_the_last(stored):
    """A front would hold plans that others beat."""
    _, db, document = stored
    rows = sorted(document["front"], key=lambda row: row["own_npv_usd"])
    assert all(a["kgco2e"] > b["kgco2e"] for a, b in zip(rows, rows[1:], strict=False))
    found = planner("explain", "1", rows[0]["plan"], "--db", db, "--json").document
    assert found["gap_frac"] <= 0.005
    assert found["bound"] <= rows[0]["own_npv_usd"] * (1 + 1e-6)
    assert found["metrics"]["payback_months"] is None or found["metrics"]["payback_months"] >= 0


def test_hardware_alone_has_nothing_to_replay():
    """A person would wait for a replay of servers without work."""
    found = planner("replay", ROOT / "studies" / "buy_in_one_period.toml")
    assert found.code == 2
    assert "without workloads" in found.err


def test_the_rent_that_is_told_is_the_one_that_is_paid(stored):
    """A buyer would hold the price of a reservation against a bridge by the hour."""
    _, _, document = stored
    assert "on_demand" in document["notes"]["price H100-SXM"]
    assert "reserved" not in document["notes"]["price H100-SXM"]
