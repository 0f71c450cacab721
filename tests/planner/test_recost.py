"""A stored run priced anew: the front of a fresh run, without simulating."""

import shutil

import numpy as np
import pytest
from small import DENSE, planner, study_of
from small_hardware import OPEN

from planner.archive.store import Archive
from planner.costing import front as costed_front
from planner.costing.recost import recost, repriced
from planner.costing.second_pass import cost_plans, front_columns, front_hash
from planner.documents.answers import explain
from planner.explain.nearest import nearest_costed
from planner.runs.answer import run_start
from planner.runs.total import joined
from planner.search.sweep import sweep
from planner.study.settings import with_settings
from planner.training.engine import catalogue_names, prepare
from simkernel.errors import BadStudy, MissingFact, UnknownName

OF_ONE_RUN = {"run", "parent", "seconds", "evaluated_per_s_per_core", "notes", "trace"}
"""Keys in which a run priced anew may differ from a fresh one."""

COSTINGS = {
    "price": ["costing.price_usd.H100-SXM=25000"],
    "two_prices": ["costing.price_usd.H100-SXM=15000", "costing.price_usd.A100-80GB-SXM=40000"],
    "tariff": ["costing.usd_per_kwh=0.31", "costing.demand_usd_per_kw_month=12"],
    "interest": ["costing.wacc_frac=0.0", "costing.life_years=3"],
    "sites": ["costing.site=se,jp-tokyo"],
    "carbon": ["costing.carbon_usd_per_t=190", "costing.embodied=act"],
    "marginal": ["costing.carbon=location_marginal", "costing.site=us-tx,us-va"],
    "rented": ["costing.acquire=on_demand"],
    "use": ["costing.utilisation_frac=0.4", "costing.maintenance_frac=0.1"],
    "building": ["costing.pue=1.05", "costing.residual_frac=0"],
    "cap": ["limits.kgco2e=200000", "limits.usd=9e6"],
    "objectives": ["objectives.minimise=usd_per_mtoken,peak_facility_mw,embodied_kgco2e"],
    "bands": ["objectives.minimise=days_high,usd_high", "limits.usd_high=2e7"],
    "quoted": ["costing.all_in_usd_per_device.H100-SXM=40000", "objectives.minimise=usd_high"],
    "tighter": ["limits.days=60", "limits.devices=32"],
}


ALIKE = [f"costing.{key}" for key in (
    "usd_per_kwh=0.05", "pue=1.2", "grid_kgco2e_per_kwh=0.3", "colo_usd_per_kw_month=100",
)]  # fmt: skip
"""All sites cost and emit the same."""


@pytest.fixture(scope="module")
def stored(workspace, tmp_path_factory):
    """A database of one's own with the small study swept."""
    path = tmp_path_factory.mktemp("stored") / "planner.duckdb"
    shutil.copy(workspace.db, path)
    return Archive(path)


def sets(settings):
    return [word for setting in settings for word in ("--set", setting)]


def fresh(settings):
    """The study with some settings, swept and costed from the beginning."""
    engine = prepare(with_settings(study_of(DENSE), settings, catalogue_names()))
    plans = joined([r.front for r in sweep(engine, 1, lambda: False) if r.front])
    order = np.argsort(plans["key"], kind="stable")
    return cost_plans(engine.study, engine.catalog, {n: c[order] for n, c in plans.items()})


@pytest.mark.parametrize("settings", COSTINGS.values(), ids=COSTINGS)
def test_pricing_anew_is_sweeping_afresh(stored, settings):
    """A price moved on a stored run would give another front than the same study run again."""
    again, wanted = repriced(stored, "1", settings), fresh(settings)
    ours, theirs = front_columns(again.study, again.costed), front_columns(again.study, wanted)
    assert list(theirs) == list(ours)
    assert len(ours["plan"]) > 0
    for name, column in theirs.items():
        np.testing.assert_array_equal(ours[name], column, err_msg=name)
    assert {n: c for n, c in again.costed.rejected.items() if c} == {
        n: c for n, c in wanted.rejected.items() if c
    }
    assert front_hash(again.study, ours) == front_hash(again.study, theirs)


@pytest.mark.long
def test_the_command_gives_the_document_of_a_fresh_run(stored, tmp_path):
    """A script could not tell what was priced anew from what was run, or not read it at all."""
    settings = sets([*COSTINGS["price"], *COSTINGS["cap"]])
    study = tmp_path / "small.toml"
    study.write_text(DENSE)
    again = planner("recost", "1", *settings, "--db", stored.path, "--json")
    database = ("--db", tmp_path / "fresh.duckdb")
    anew = planner("run", study, *settings, *database, "--workers", 1, "--json")
    assert again.code == anew.code == 0
    ours, theirs = again.document, anew.document
    assert ours["parent"].startswith("r0001-")
    assert ours["parent"] != ours["run"]
    assert set(ours) == {*theirs, "parent"}
    for key in set(theirs) - OF_ONE_RUN:
        assert ours[key] == theirs[key], key
    notes = [{k: v for k, v in d["notes"].items() if k not in ("priced", "sweep_s")}
             for d in (ours, theirs)]  # fmt: skip
    assert notes[0] == notes[1]


@pytest.mark.parametrize("rows", [1, 7, 64, 100_000])
@pytest.mark.parametrize(
    "settings", [(), ["limits.usd=1.5e7"], ["limits.usd=1", "limits.days=1"], ALIKE]
)
def test_blocks_of_any_size_give_one_front(dense, monkeypatch, rows, settings):
    """The front, or the plans nearest to it, would depend on the size of a cache."""
    monkeypatch.setattr(costed_front, "BLOCK_ROWS", rows)
    plans = joined([each["rows"] for each in dense.alone if each["feasible"]])
    study = with_settings(dense.engine.study, settings, catalogue_names())
    ours = costed_front.cost_front(study, dense.engine.catalog, plans)
    theirs = cost_plans(study, dense.engine.catalog, plans)
    wanted = front_columns(study, theirs)
    for name, column in front_columns(study, ours).items():
        np.testing.assert_array_equal(column, wanted[name], err_msg=name)
    assert ours.is_front.sum() == theirs.is_front.sum()
    if not wanted:
        assert nearest_costed(study, ours) == nearest_costed(study, theirs)
    assert {n: c for n, c in ours.rejected.items() if c} == {
        n: c for n, c in theirs.rejected.items() if c
    }
    assert ours.chips == theirs.chips == ("A100-80G-SXM", "H100-SXM")


@pytest.mark.long
def test_show_explain_diff_and_another_price_work_on_a_priced_run(stored):
    """What was priced anew could be looked at once and never again."""
    before = stored.front("1")
    first = recost(stored, "1", ["costing.usd_per_kwh=0.5"])
    second = recost(stored, first.run, ["costing.wacc_frac=0.2"])
    both = repriced(stored, "1", ["costing.usd_per_kwh=0.5", "costing.wacc_frac=0.2"])
    np.testing.assert_array_equal(
        second.front["usd"], front_columns(both.study, both.costed)["usd"]
    )
    assert stored.run(second.run).start.parent == first.run
    shown = planner("show", second.run, "--db", stored.path).out
    assert f"of run {first.run} priced anew in" in shown
    why = explain(stored.path, second.run, "1")
    assert why["metrics"]["usd"] == pytest.approx(second.front["usd"][0], rel=1e-12)
    changed = planner("diff", "1", first.run, "--db", stored.path, "--json").document
    assert "costing.usd_per_kwh" in str(changed["study"])
    for name, column in stored.front("1").items():
        np.testing.assert_array_equal(column, before[name])


def test_nothing_feasible_names_the_limit_and_the_nearest_plans(stored):
    """A budget nobody can keep would give an empty answer without a reason."""
    answer = planner("recost", "1", "--set", "limits.usd=1", "--db", stored.path, "--json")
    assert answer.code == 1
    assert answer.document["rejected"]["usd"] == answer.document["physical_front"] * 3
    assert answer.document["nearest"]["plans"][0]["binding"] == "usd"


def test_plans_that_nobody_sells_are_counted(stored):
    """A lease that nobody offers would end in a traceback, or in a front of free plans."""
    found = repriced(stored, "1", ["costing.acquire=lease"])
    assert found.costed.rejected["missing_fact"] == found.rows > 0
    assert front_columns(found.study, found.costed) == {}
    assert found.costed.chips == ()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (["tp=4", "pin.goodput_frac=0.5"], ("axes.tensor_parallel", "pin.goodput_frac")),
        (["workload.main.tokens=2e12"], ("workload.main", "planner run")),
        (["limits.days=120"], ("limits.days was 90", "tighter")),
        (["limits.mfu_frac=0.3"], ("limits.mfu_frac", "swept without it")),
        (["objectives.maximise=mfu_frac"], ("best plans in mfu_frac", "planner run")),
        (["limits.headroom_bytes_low=1e9"], ("best plans in headroom_bytes",)),
        (["costing.usd_per_khw=1"], ("usd_per_kwh",)),
        (["costing.wacc_frac=8"], ("wacc_frac",)),
    ],
)
def test_what_needs_a_simulation_or_is_no_key_is_refused(stored, settings, said):
    """A front that lacks plans would be sold as the front."""
    with pytest.raises(BadStudy) as caught:
        repriced(stored, "1", settings)
    for words in said:
        assert words in str(caught.value)


def test_a_run_that_is_not_there_or_lacks_a_fact_says_so(stored):
    """Exit codes 2 and 3 would be mixed up."""
    with pytest.raises(UnknownName):
        repriced(stored, "77", ())
    with pytest.raises(MissingFact, match="market"):
        repriced(stored, "1", ["costing.carbon=market"])


def test_a_run_without_a_whole_front_is_refused(tmp_path):
    """Half a sweep would be priced as the whole of it."""
    archive = Archive(tmp_path / "planner.duckdb")
    engine = prepare(study_of(DENSE))
    run = archive.begin_run(run_start(engine.study, engine.catalog))
    with pytest.raises(BadStudy, match="not ended well"):
        repriced(archive, run, ())


@pytest.mark.long
@pytest.mark.parametrize(
    ("count", "settings"),
    [
        ('supernodes = "most"', ["objectives.minimise=usd", "objectives.maximise=[]"]),
        ('supernodes = "most"', ["limits.peak_flop_per_s=1e18"]),
        ('supernodes = "most"', ["limits.it_peak_w=8e6", "limits.capex_usd=200e6"]),
        ("supernodes = [4, 16, 32]", ["objectives.minimise=it_mean_w"]),
        ("supernodes = [4, 16, 32]", ["limits.it_peak_w=1e6"]),
    ],
)
def test_hardware_compared_or_limited_otherwise_is_a_fresh_run(tmp_path, count, settings):
    """A traceback, or a front without what a larger limit now allows."""
    study, db = tmp_path / "x.toml", tmp_path / "x.duckdb"
    study.write_text(
        OPEN.replace('supernodes = "most"', count).replace("[limits]", "[limits]\nit_peak_w = 4e6")
        + '[objectives]\nmaximise = ["peak_flop_per_s"]\nminimise = ["capex_usd"]\n'
    )
    assert planner("run", study, "--db", db, "--json").code == 0
    again = planner("recost", "1", *sets(settings), "--db", db, "--json")
    anew = planner("run", study, *sets(settings), "--db", db, "--json")
    assert again.code == anew.code == 0, again.err
    assert again.document["front"] == anew.document["front"] != []
    assert again.document["options"] == anew.document["options"]


@pytest.mark.long
def test_hardware_that_a_limit_of_watts_removed_needs_a_fresh_run(tmp_path):
    """A front would lack the larger clusters that the new limit allows."""
    study, db = tmp_path / "x.toml", tmp_path / "x.duckdb"
    study.write_text(
        OPEN.replace('"most"', "[4, 16]").replace("[limits]", "[limits]\nit_peak_w = 1e6")
    )
    assert planner("run", study, "--db", db, "--json").code == 0
    answer = planner("recost", "1", "--set", "limits.it_peak_w=8e6", "--db", db)
    assert answer.code == 2
    assert "plans beyond it were not kept" in answer.err


@pytest.mark.long
def test_a_price_under_an_all_in_price_ends_with_the_key_to_set(tmp_path):
    """`run` and `recost` would answer a question about prices with the old prices."""
    study, db = tmp_path / "x.toml", tmp_path / "x.duckdb"
    study.write_text(
        OPEN.replace("[limits]", 'all_in_usd_per_device = {"H100-SXM" = 4e4}\n[limits]')
    )
    price = ("--set", "costing.price_usd.H100-SXM=25000", "--db", db)
    assert planner("run", study, "--db", db, "--workers", 1).code == 0
    for answer in (planner("run", study, *price), planner("recost", "1", *price)):
        assert answer.code == 2
        assert "set costing.all_in_usd_per_device.H100-SXM" in " ".join(answer.err.split())
