"""No row shows a NULL without the one reason of that row, wherever it is shown."""

from pathlib import Path

import pytest
from small import DENSE, planner

from costdata import nulls as why
from planner.hardware import nulls as hardware_nulls

STUDIES = Path(__file__).parents[2] / "studies"
WORDS = {
    text
    for room in (why, hardware_nulls)
    for name, text in vars(room).items()
    if name.isupper() and isinstance(text, str)
}

MIXED = """
[study]
name = "mixed"
kind = "hardware"
[axes]
accelerator = ["H100-SXM", "Ascend-910B"]
nodes = [2, 4]
[costing]
site = ["us-tx", "fr"]
"""
"""One chip that is rented out and one that nobody rents out."""


def assert_reasoned(rows):
    """Every None of every row has one of the known reasons, and nothing else has one."""
    for row in rows:
        missing = {name for name, value in row.items() if value is None}
        owners = {
            name
            if name in row["null_reasons"]
            else name.removesuffix("_low").removesuffix("_high")
            for name in missing
        }
        assert owners <= row["null_reasons"].keys() | {"over"}, row["plan"]
        assert row["null_reasons"].keys() <= missing
        assert set(row["null_reasons"].values()) <= WORDS


@pytest.mark.long
@pytest.mark.parametrize("acquire", ["buy", "reserved"])
@pytest.mark.parametrize("name", ["buy_or_rent", "buy_under_power", "power_capped_site"])
def test_every_null_of_a_purchase_has_its_reason(tmp_path, name, acquire):
    """A buyer would have to guess which of several causes is his."""
    asked = [f"costing.acquire={acquire}"]
    if acquire != "buy":
        asked += ["objectives.minimise=rent_npv_usd", "objectives.maximise=peak_flop_per_s"]
    words = [word for setting in asked for word in ("--set", setting)]
    words += ["--db", tmp_path / "x.duckdb", "--json"]
    document = planner("run", STUDIES / f"{name}.toml", *words).document
    assert document["options"]
    assert_reasoned([*document["options"], *document["front"]])
    owned = None if name == "buy_or_rent" else why.RESERVED  # its rent is the study's own
    for metric in ("breakeven_utilisation_frac", "npv_zero_utilisation_frac"):
        found = {row["null_reasons"].get(metric) for row in document["options"]}
        assert found == {owned if acquire == "buy" else why.NOT_OWNED}


@pytest.mark.long
@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (["costing.rent_plan=reserved", "costing.utilisation_frac=0.5"], why.RESERVED),
        (["costing.rent_usd_per_device_hour=0.02"], why.BELOW_ENERGY),
        (["costing.rent_usd_per_device_hour=0"], why.FREE_RENT),
    ],
)
def test_a_purchase_that_never_equals_a_rent_says_why(tmp_path, settings, words):
    """A use that cannot be reached would look like a rent that nobody knows."""
    asked = [word for setting in settings for word in ("--set", setting)]
    document = planner(
        "run", STUDIES / "buy_or_rent.toml", *asked, "--db", tmp_path / "x.duckdb", "--json"
    ).document
    assert_reasoned([*document["options"], *document["front"]])
    found = {r["null_reasons"].get("npv_zero_utilisation_frac") for r in document["options"]}
    assert found == {words}


@pytest.mark.long
@pytest.mark.parametrize("setting", ["", "on_demand"])
def test_every_null_of_a_training_plan_has_its_reason(tmp_path, setting):
    """The market-based carbon would be missing without a word."""
    study = tmp_path / "x.toml"
    study.write_text(DENSE)
    given = ("--set", f"costing.acquire={setting}") if setting else ()
    words = ("--workers", 1, "--db", tmp_path / "x.duckdb", "--json")
    document = planner("run", study, *given, *words).document
    assert document["front"]
    assert_reasoned(document["front"])
    assert document["front"][0]["null_reasons"]["market_kgco2e"] == why.NO_MARKET


@pytest.mark.long
def test_chips_of_one_run_have_reasons_of_their_own(tmp_path):
    """A chip with a rent would be told to have none."""
    study, words = tmp_path / "x.toml", ("--db", tmp_path / "x.duckdb", "--json")
    study.write_text(MIXED)
    document = planner("run", study, *words).document
    assert_reasoned(document["options"])
    found = {
        (row["accelerator"], row["null_reasons"].get("npv_usd")) for row in document["options"]
    }
    assert found == {("H100-SXM", None), ("Ascend-910B", why.NO_RENT)}
    assert document["notes"]["NULL npv_usd"] == f"{why.NO_RENT} (4 of 8 rows)"
    lacking = next(row for row in document["options"] if row["npv_usd"] is None)
    explained = planner("explain", "last", lacking["plan"], *words).document
    assert explained["null_reasons"]["npv_usd"] == why.NO_RENT
    text = planner("explain", "last", lacking["plan"], "--db", tmp_path / "x.duckdb").out
    assert f"NULL: {why.NO_RENT}" in text
    again = planner("recost", "last", "--set", "costing.rent_usd_per_device_hour=2", *words)
    assert all("npv_usd" not in row["null_reasons"] for row in again.document["options"])


def test_an_evaluated_option_says_why_a_figure_is_not_there():
    """A figure would be missing from a single answer without a word."""
    document = planner("evaluate", STUDIES / "buy_or_rent.toml", "--json").document
    assert document["null_reasons"]["stranded_w"] == hardware_nulls.NO_POWER_LIMIT
    missing = {name for name, value in document["metrics"].items() if value is None}
    assert missing == set(document["null_reasons"])
