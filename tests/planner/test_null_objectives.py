"""Objectives that no plan has a figure for: told with the reason and what to do."""

import pytest
from small import DENSE, planner, study_of
from small_hardware import OPEN, STUDIES

from planner.runs.kinds import prepare
from planner.study.read import read_study
from planner.study.settings import with_settings
from planner.training.engine import catalogue_names
from simkernel.errors import BadStudy

BUY_OR_RENT = STUDIES / "buy_or_rent.toml"
SMALL = DENSE.replace(', "A100-80GB-SXM"', "").replace('"us-tx", "se", "cn-west"', '"us-tx"')


@pytest.mark.long
@pytest.mark.parametrize("acquire", ["on_demand", "spot", "reserved", "lease"])
def test_hardware_that_is_rented_has_no_worth_of_owning(acquire, tmp_path):
    """Nothing feasible, and a change that would not help, would be the answer to a fine study."""
    db = tmp_path / "planner.duckdb"
    assert planner("run", BUY_OR_RENT, "--db", db, "--json").code == 0
    hired = ("--set", f"costing.acquire={acquire}")
    for words in (("recost", "last"), ("run", BUY_OR_RENT)):
        answer = planner(*words, *hired, "--db", db, "--json")
        assert answer.code == 2
        for said in (
            *("objectives.minimise own_npv_usd", "objectives.maximise npv_usd"),
            f'nothing is owned with costing.acquire = "{acquire}"',
            *('e.g. minimise = ["usd"] with maximise = []', 'write acquire = "buy"'),
        ):
            assert said in answer.err
    assert planner("evaluate", BUY_OR_RENT, *hired).code == 2
    others = ("--set", "objectives.minimise=usd", "--set", "objectives.maximise=[]")
    assert planner("recost", "1", *hired, *others, "--db", db, "--json").code == 0


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (["costing.acquire=spot", "objectives.minimise=payback_months"], "nothing is owned"),
        (["costing.acquire=spot", "limits.payback_months=30"], "limits.payback_months is NULL"),
        (
            ["costing.rent_plan=reserved", "objectives.minimise=breakeven_utilisation_frac"],
            "is a reservation, which is paid whatever the use",
        ),
    ],
)
def test_what_is_null_whatever_the_plan_is_refused_before_the_sweep(settings, said):
    """Minutes of sweeping would end in an empty front."""
    study = with_settings(study_of(SMALL), settings, catalogue_names())
    with pytest.raises(BadStudy, match=said):
        prepare(study)


def test_the_rest_of_a_limit_needs_the_limit():
    """What a budget leaves over would be sought without a budget."""
    names = catalogue_names()
    rest = ["objectives.minimise=stranded_usd,usd"]
    with pytest.raises(BadStudy, match=r"stranded_usd is NULL.*capex_usd.*give capex_usd"):
        prepare(with_settings(read_study(BUY_OR_RENT, names), rest, names))
    budget = read_study(STUDIES / "buy_under_power.toml", names)  # its budgets are scenarios
    prepare(with_settings(budget, ["objectives.minimise=stranded_usd,stranded_w"], names))


def asked(*settings):
    return [word for one in settings for word in ("--set", one)]


@pytest.mark.long
def test_a_price_that_never_repays_names_the_objective_and_the_reason(tmp_path):
    """The plan shown as nearest would be said to break a limit that it keeps."""
    db, study = tmp_path / "planner.duckdb", tmp_path / "small.toml"
    study.write_text(SMALL)
    words = asked("costing.rent_usd_per_device_hour=0.05", "objectives.minimise=payback_months")
    assert planner("run", study, "--db", db, "--json").code == 0
    for command in (("run", study), ("recost", "1")):
        answer = planner(*command, *words, "--db", db, "--json")
        assert answer.code == 1
        (why,) = answer.document["nearest"]["why"]
        assert why.startswith("objective payback_months is NULL: ")
        assert "never repays" in why
        assert "give costing.rent_usd_per_device_hour" in why
        assert answer.document["nearest"]["plans"][0]["binding"] == "payback_months"
        text = planner(*command, *words, "--db", db).out
        assert why[:60] in " ".join(text.split())
        assert "keeps every limit and has no payback_months" in " ".join(text.split())


def test_chips_that_nobody_leases_are_said_to_have_no_price(tmp_path):
    """An empty answer without a reason sends a person back to a spreadsheet."""
    db, study = tmp_path / "planner.duckdb", tmp_path / "open.toml"
    study.write_text(OPEN)
    answer = planner("run", study, *asked("costing.acquire=lease"), "--db", db, "--json")
    assert answer.code == 3
    (why,) = answer.document["nearest"]["why"]
    assert "has a price to lease; give costing.rent_usd_per_device_hour" in why


@pytest.mark.long
def test_an_objective_that_some_options_lack_leaves_the_others_a_front(tmp_path):
    """One chip without a rent would empty the front of all."""
    db, study = tmp_path / "planner.duckdb", tmp_path / "open.toml"
    study.write_text(OPEN.replace('"GB200"', '"Ascend-910C"'))
    words = asked("objectives.maximise=npv_usd", "objectives.minimise=usd")
    answer = planner("run", study, *words, "--db", db, "--json")
    assert answer.code == 0
    assert {row["accelerator"] for row in answer.document["front"]} == {"H100-SXM"}


def test_a_way_of_renting_is_no_scenario():
    """A word would be asked for as a number."""
    with pytest.raises(BadStudy, match=r"scenarios.costing.rent_plan is no number of \[costing\]"):
        study_of(f'{OPEN}[scenarios.costing]\nrent_plan = ["spot"]\n')
