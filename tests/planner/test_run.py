"""A run from file to front: one document, the same answer every time, nothing lost or mixed."""

import json
import os

import duckdb
import numpy as np
import pytest
from small import DENSE, MOE, planner, with_lines

from costdata import catalog
from planner import bands
from planner.archive import door as archive_door
from planner.archive.store import Archive
from planner.costing.second_pass import cost_plans
from planner.metrics import is_at_least, metric_names, metrics_of
from planner.runs.run import ALONE_CANDIDATES, run_study, workers_for
from planner.runs.total import joined
from planner.search import workforce
from planner.study.read import study_from_text
from planner.study.settings import with_settings
from planner.study.written import study_from_json
from planner.training.engine import catalogue_names

KEYS = {
    "run", "study", "candidates", "physical_front", "front", "rejected", "seconds",
    "evaluated_per_s_per_core", "front_hash",
}  # fmt: skip
CHECKED = ("days", "usd", "kgco2e", "facility_mwh", "it_mean_w", "capex_usd")


def test_a_run_prints_one_document_with_the_keys_of_the_contract(workspace):
    """Scripts of users would break."""
    for document in workspace.documents:
        assert set(document) >= KEYS
        assert set(document["candidates"]) == {"enumerated", "masked", "skipped", "evaluated"}
        for row in document["front"]:
            assert {"plan", "site", "accelerator", "devices", "tensor_parallel"} <= set(row)
            assert {"days", "usd", "kgco2e", "mfu_frac", "days_low", "days_high"} <= set(row)


def test_enumerated_is_masked_plus_evaluated(workspace):
    """Candidates would vanish without being told."""
    counts = workspace.documents[0]["candidates"]
    assert counts["enumerated"] == sum(counts["masked"].values()) + counts["evaluated"] == 128


def test_every_row_of_the_front_keeps_the_limits(workspace):
    """A plan that misses the date would be sold as one that meets it."""
    for row in workspace.documents[0]["front"]:
        assert row["days"] <= 90
        assert row["headroom_bytes"] >= 0
        assert row["global_batch_sequences"] * 8192 <= 15_360 * 4_096


def test_one_process_or_two_give_the_same_front(workspace):
    """The hash would name the machine, not the answer."""
    one, two = workspace.documents
    assert one["front_hash"] == two["front_hash"]
    assert one["front"] == two["front"]
    assert one["run"] != two["run"]
    for key in ("candidates", "physical_front", "rejected"):
        assert one[key] == two[key]


@pytest.mark.long
def test_a_small_study_is_swept_without_another_process(workspace, tmp_path, monkeypatch):
    """Loading processes would take longer than the sweep they share."""
    monkeypatch.setattr(workforce, "ProcessPoolExecutor", None)
    answer = planner("run", workspace.study, "--db", tmp_path / "x.duckdb", "--json")
    assert answer.document["front_hash"] == workspace.documents[0]["front_hash"]
    assert workers_for(ALONE_CANDIDATES) == 1
    assert workers_for(ALONE_CANDIDATES + 1) == len(os.sched_getaffinity(0))


@pytest.mark.long
def test_a_small_run_opens_the_file_three_times(workspace, tmp_path, monkeypatch):
    """To begin, to store the answer, to read it back: an opening costs 13 ms of a processor."""
    opened = []

    def connect(path, **how):
        opened.append(how["read_only"])
        return given(path, **how)

    given = duckdb.connect
    monkeypatch.setattr(archive_door.duckdb, "connect", connect)
    answer = planner("run", workspace.study, "--db", tmp_path / "x.duckdb", "--json")
    assert answer.document["front"]
    assert opened == [False, False, True]


def test_the_hash_follows_the_answer_not_the_order_of_the_study(workspace, tmp_path):
    """The same study written in another order would look like another answer."""
    text = with_lines(
        DENSE,
        accelerator='accelerator = ["A100-80GB-SXM", "H100-SXM"]',
        devices="devices = [64, 32]",
        micro_batch_sequences="micro_batch_sequences = [2, 1]",
    )
    text = text.replace('"us-tx", "se", "cn-west"', '"cn-west", "us-tx", "se"')
    study = tmp_path / "other.toml"
    study.write_text(text)
    document = planner("run", study, "--db", workspace.db, "--workers", 1, "--json").document
    assert document["front_hash"] == workspace.documents[0]["front_hash"]


def test_show_gives_the_document_of_the_run(workspace):
    """The answer would change when looked at again."""
    first = workspace.documents[0]
    for name in (first["run"], first["run"][:5], "1"):
        assert planner("show", name, "--db", workspace.db, "--json").document == first
    text = planner("show", "1", "--db", workspace.db).out
    assert first["run"] in text
    assert "128 candidates" in text


def test_runs_lists_both_and_diff_finds_no_difference(workspace):
    """A person would not find the run, or see differences where there are none."""
    listed = planner("runs", "--db", workspace.db, "--json").document["runs"]
    assert [entry["run"] for entry in listed[:2]] == [d["run"] for d in workspace.documents]
    assert {entry["state"] for entry in listed} == {"finished"}
    same = planner("diff", "1", "2", "--db", workspace.db, "--json").document
    assert same["same"] == len(workspace.documents[0]["front"])
    assert not any(same[key] for key in ("study", "inputs", "facts", "counts", "rejections"))
    assert not any(same[key] for key in ("only_left", "only_right", "changed"))


def beaten(points):
    """True where another point is nowhere worse and somewhere better; every pair is compared."""
    no_worse = np.all(points[:, None, :] <= points[None, :, :], axis=2)
    better = np.any(points[:, None, :] < points[None, :, :], axis=2)
    return np.any(no_worse & better, axis=0)


def least(columns, names):
    """Points of a table that no other point beats, each once, in order."""
    points = np.stack([np.asarray(columns[name], float) for name in names], axis=1)
    return np.unique(points[~beaten(points)], axis=0)


def test_the_front_is_that_of_all_candidates_at_all_sites(workspace, dense):
    """A cheaper or cleaner plan would be lost between physics and money."""
    feasible = joined([a["rows"] for a in dense.alone if a["feasible"]])
    costed = cost_plans(dense.engine.study, dense.engine.catalog, feasible)
    names = dense.engine.study.objectives.minimise
    front = workspace.documents[0]["front"]
    shown = np.array(sorted([row[name] for name in names] for row in front))
    np.testing.assert_allclose(shown, least(costed.columns, names), rtol=1e-9)


@pytest.mark.parametrize(
    "names",
    [
        ("usd", "water_l", "kgco2e"),
        ("capex_usd", "days"),
        ("facility_mwh", "usd_per_year"),
        ("peak_facility_mw", "device_hours", "embodied_kgco2e"),
        ("usd_per_device_hour", "operational_kgco2e_high", "days_high"),
    ],
)
def test_any_costs_have_their_front_inside_the_physical_one(workspace, dense, names):
    """Pricing a stored run anew would miss plans that were thrown away."""
    feasible = joined([a["rows"] for a in dense.alone if a["feasible"]])
    physical = Archive(workspace.db).physical("1")
    assert len(physical["plan"]) < len(feasible["plan"])
    everywhere, inside = (
        cost_plans(dense.engine.study, dense.engine.catalog, plans).columns
        for plans in (feasible, physical)
    )
    np.testing.assert_allclose(least(inside, names), least(everywhere, names), rtol=1e-9)


def test_money_and_carbon_of_a_row_come_from_one_site(workspace):
    """A plan would take its price from one site and its carbon from another."""
    front = workspace.documents[0]["front"]
    assert len({row["site"] for row in front}) > 1
    archive = Archive(workspace.db)
    physical = archive.physical("1")
    text = study_from_text(DENSE, "x", workspace.folder, catalogue_names())
    for row in front:
        (at,) = np.flatnonzero(np.asarray(physical["plan"]) == row["plan"])
        one = {name: np.asarray(column)[[at]] for name, column in physical.items()}
        names = catalogue_names()
        study = with_settings(text, [f"costing.site={row['site']}"], names)
        costed = cost_plans(study, catalog.load(), one)
        assert costed.columns["site"].tolist() == [row["site"]]
        for name in CHECKED:
            assert row[name] == pytest.approx(float(costed.columns[name][0]), rel=1e-12)


def test_energy_is_power_times_time_inside_and_at_the_meter(workspace):
    """PUE would be on the energy and not on the power, or on neither (codecarbon#1320)."""
    for row in workspace.documents[0]["front"]:
        hours = row["days"] * 24
        site = catalog.load().site(row["site"])
        pue = row["facility_mean_w"] / row["it_mean_w"]
        assert pue == pytest.approx(site.pue[1], rel=1e-12)
        assert row["it_mwh"] == pytest.approx(row["it_mean_w"] * hours / 1e6, rel=1e-12)
        assert row["facility_mwh"] == pytest.approx(
            row["facility_mean_w"] * hours / 1e6, rel=1e-12
        )
        assert row["facility_peak_w"] == pytest.approx(row["it_peak_w"] * pue, rel=1e-12)
        assert row["peak_facility_mw"] == pytest.approx(row["facility_peak_w"] / 1e6, rel=1e-12)
        carbon = row["facility_mwh"] * 1e3 * site.grid_average_kgco2e_per_kwh
        assert row["operational_kgco2e"] == pytest.approx(carbon, rel=1e-9)


def test_totals_hang_together(workspace):
    """The same quantity would have two values in one row."""
    for row in workspace.documents[0]["front"]:
        assert row["device_hours"] == pytest.approx(row["days"] * 24 * row["devices"], rel=1e-12)
        assert row["kgco2e"] == pytest.approx(row["operational_kgco2e"] + row["embodied_kgco2e"])
        assert row["usd_per_mtoken"] == pytest.approx(row["usd"] / 1e6, rel=1e-12)
        assert row["kgco2e_per_mtoken"] == pytest.approx(row["kgco2e"] / 1e6, rel=1e-12)
        wanted = row["step_s"] * 1e12 / (row["global_batch_sequences"] * 8192)
        assert row["days"] == pytest.approx(wanted / row["goodput_frac"] / 86_400, rel=1e-12)
        assert (
            row["data_parallel"] * row["tensor_parallel"] * row["pipeline_parallel"]
            == (row["devices"])
        )


def test_every_metric_of_the_contract_is_in_every_row(workspace):
    """A metric could be limited or optimised by name but not be there."""
    for row in workspace.documents[0]["front"]:
        assert set(metric_names("train")) <= set(row)
        for metric in metrics_of("train"):
            if metric.is_predicted:
                low, high = row[f"{metric.name}_low"], row[f"{metric.name}_high"]
                assert low <= row[metric.name] <= high


@pytest.fixture
def limited(tmp_path):
    """A function that evaluates one candidate with some metrics limited and maximised."""
    text = with_lines(DENSE, devices="devices = 64", accelerator='accelerator = "H100-SXM"')
    text = text.replace("[costing]", "[costing]\nrent_usd_per_device_hour = 2.5")
    study = tmp_path / "x.toml"

    def evaluated(names):
        limits = "\n".join(f"{name} = 0.5" for name in names)
        wanted = f"[objectives]\nmaximise = {json.dumps(list(names))}\n"
        study.write_text(with_lines(text, days=limits) + wanted)
        return planner("evaluate", study, "--json")

    return evaluated


@pytest.mark.long
def test_every_metric_can_be_limited_and_optimised(limited):
    """A limit by name would end in a traceback, or be ignored."""
    document = limited(metric_names("train")).document
    broken = {line["limit"] for line in document["violations"]}
    for name in metric_names("train"):
        value = document["metrics"][name]
        assert (name in broken) == (value < 0.5 if is_at_least(name) else value > 0.5), name


def test_a_limit_on_a_band_that_nobody_knows_is_refused(limited, monkeypatch):
    """A sweep would run, and end in a traceback where the limit is applied."""
    monkeypatch.setattr(bands, "bands", lambda regime="dense": {})
    answer = limited(["days_high", "days"])
    assert answer.code == 2
    assert "limits.days_high is not computed in this version" in answer.err
    assert "objectives.maximise days_high is not computed" in answer.err
    assert answer.err.count("error: ") == 2


@pytest.mark.long
def test_a_price_that_is_not_known_is_counted(tmp_path):
    """Plans that nobody sells would vanish, or be free."""
    text = with_lines(DENSE, accelerator='accelerator = ["H100-SXM", "Ascend-910C"]')
    text = text.replace("[limits]", 'acquire = "spot"\n[limits]').replace("days = 90", "")
    study = tmp_path / "x.toml"
    study.write_text(text)
    answer = planner("run", study, "--db", tmp_path / "x.duckdb", "--workers", 1, "--json")
    assert answer.code == 0
    document = answer.document
    assert document["rejected"]["missing_fact"] > 0
    assert {row["accelerator"] for row in document["front"]} == {"H100-SXM"}
    assert {row["capex_usd"] for row in document["front"]} == {0.0}


@pytest.mark.long
def test_a_budget_of_candidates_ends_the_sweep_and_keeps_what_is_done(workspace, tmp_path):
    """A run on a budget would go on, or be thrown away."""
    db = tmp_path / "x.duckdb"
    words = ("run", workspace.study, "--db", db, "--workers", 1, "--json")
    document = planner(*words, "--budget", 10).document
    whole = workspace.documents[0]["candidates"]["evaluated"]
    assert 10 <= document["candidates"]["evaluated"] < whole
    assert document["front"]
    assert planner("runs", "--db", db, "--json").document["runs"][0]["state"] == "stopped"


@pytest.mark.long
def test_the_seed_and_settings_of_the_command_line_are_stored(workspace):
    """The archive would not know what was run."""
    answer = planner(
        "run", workspace.study, "--db", workspace.db, "--workers", 1, "--seed", 7,
        "--set", "devices=32", "--set", "costing.site=se", "--json",
    )  # fmt: skip
    record = Archive(workspace.db).run(answer.document["run"])
    assert record.start.seed == 7
    assert record.start.resolved["axes"]["devices"] == [32]
    assert {row["site"] for row in answer.document["front"]} == {"se"}
    again = study_from_json(json.dumps({**record.start.resolved, "text": record.start.study_text}))
    assert again.seed == 7
    assert again.text == DENSE


def test_facts_and_limits_are_kept_with_the_run(workspace):
    """A result could not be checked once the tables have changed."""
    archive = Archive(workspace.db)
    names = {fact["name"] for fact in archive.facts("1")}
    assert {f"{chip}.accelerators.memory_bytes" for chip in ("H100-SXM", "A100-80G-SXM")} <= names
    assert any(name.startswith("se.") for name in names)
    assert any(name.startswith("defaults.") for name in names)
    assert {row["reason"] for row in archive.rejections("1")} >= {"memory", "days"}
    physical = archive.physical("1")
    assert len(physical["plan"]) == workspace.documents[0]["physical_front"]


@pytest.mark.long
def test_a_study_of_experts_runs(moe, tmp_path):
    """Expert groups would be lost on the way to the front."""
    study = tmp_path / "moe.toml"
    study.write_text(MOE)
    answer = planner("run", study, "--db", tmp_path / "x.duckdb", "--workers", 1, "--json")
    assert answer.code == 0
    assert {row["expert_parallel"] for row in answer.document["front"]} <= {8, 16}


@pytest.mark.long
def test_progress_is_told_after_every_bill(dense, tmp_path):
    """A person would look at a bar that does not move."""
    told = []
    done = run_study(
        dense.engine, Archive(tmp_path / "x.duckdb"), 1, lambda *figures: told.append(figures)
    )
    assert [line[:2] for line in told] == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert told[-1][2:] == (done.summary.evaluated, done.summary.physical_front)
    assert done.state == "finished"
