"""Runs whose plans are replayed: two tiers with a front each, every replay paid for once."""

import json
from dataclasses import replace

import numpy as np
import pytest
from small import planner
from small_serve import chat, written

import planner.runs.work as running
import planner.search.replays as replays_room
import planner.search.tiers as tiers
from planner.archive.progress import REPLAYED
from planner.archive.store import Archive
from planner.documents import answers as commands
from planner.documents.front_text import run_text
from planner.evaluated import Replay
from planner.runs.kinds import prepare
from planner.runs.physics import PHYSICS
from planner.runs.run import run_study
from planner.search.choice import Budget

SOME = 5
SHORT = ("workload.chat.trace.duration_s=30", "workload.chat.peak_window_s=10")


@pytest.fixture(params=["sweep", "evolve", "sample"])
def driver(request):
    """All that look through a serving space, or ask for its replays."""
    return request.param


def ran(folder, driver, *settings, **options):
    """A run of the small study in a database of the folder."""
    asked = (f"search.driver={driver}", f"search.replay={SOME}")
    engine = prepare(chat(*SHORT, *asked, *settings))
    return run_study(engine, Archive(folder / "x.duckdb"), workers=1, **options)


def biased(engine, columns, accelerator):
    """A replay for tests of what is done with it: the closed form, off by chip."""
    found = PHYSICS["serve"].evaluate(engine, columns, accelerator)
    off = {"H100-SXM": 1.2, "L40S": 0.9}[accelerator]
    figures = {"ttft_s_p95": found.metrics["ttft_s_p95"] * off}
    told = {f"replayed_{name}": float(value[0]) for name, value in figures.items()}
    return Replay(replace(found, metrics={**found.metrics, **figures}), told)


@pytest.fixture
def watched(monkeypatch):
    """Design keys that are replayed, in order, by a replay of a millisecond."""
    seen = []
    quick = replace(PHYSICS["serve"], replay=biased)
    monkeypatch.setattr(replays_room, "physics_of", lambda study: quick)

    def replay_of(engine, desk, key, whole=replays_room.replay_of):
        seen.append(key)
        return whole(engine, desk, key)

    monkeypatch.setattr(replays_room, "replay_of", replay_of)
    return seen


@pytest.mark.long
def test_tiers_have_a_front_each_and_say_how_far_they_agree(driver, tmp_path, watched):
    """Replayed and computed latencies would be compared as if they were of one kind."""
    run = ran(tmp_path, driver)
    document = commands.show(tmp_path / "x.duckdb", run.run)
    tiers = document["tiers"]
    assert tiers["replayed"] == SOME == len(watched) == len(set(watched))
    assert {row["fidelity"] for row in document["front"]} == {"closed_form"}
    assert {row["fidelity"] for row in document["replayed"]} == {"replay"}
    assert {row["fidelity"] for row in tiers["front"]} == {"replay"}
    assert tiers["proposed_by"] == ("sample" if driver == "sample" else "guard band")
    assert set(tiers["agreement"]) == {"usd_per_mtoken_total", "ttft_s_p95", "kgco2e"}
    assert all(-1 <= tau <= 1 for tau in tiers["agreement"].values())
    counts, volumes = zip(*tiers["hypervolume"], strict=True)
    assert counts == tuple(range(1, SOME + 1))
    assert all(np.diff(volumes) >= -1e-12)
    by_plan = {row["plan"]: row for row in document["replayed"]}
    for row in tiers["front"]:
        own = by_plan[row["plan"]]
        assert row["ttft_s_p95"] == own["replayed_ttft_s_p95"]
        assert own["is_front"]
        assert row["site"] in own["front_sites"].split("; ")
    text = run_text(document)
    assert "front of the replayed plans alone" in text
    assert f"replayed {SOME} of " in text
    assert "Kendall" in text
    json.dumps(document, allow_nan=False)


@pytest.mark.long
def test_every_accelerator_is_replayed(tmp_path, watched):
    """A chip that the closed form wrongs would be out of the running for good."""
    document = commands.show(tmp_path / "x.duckdb", ran(tmp_path, "sweep").run)
    assert {row["accelerator"] for row in document["replayed"]} == {"H100-SXM", "L40S"}
    first = [row["best_in"] for row in document["replayed"]]
    assert first[:2] == ["usd_per_mtoken_total", "ttft_s_p95"]  # the cheapest emits least, too
    assert not any(first[2:])


@pytest.mark.long
def test_the_same_seed_replays_the_same_and_finds_the_same(driver, tmp_path, watched):
    """Nobody could check a front that was found by luck."""
    found = []
    for side in ("one", "other"):
        (tmp_path / side).mkdir()
        run = ran(tmp_path / side, driver, "study.seed=5")
        rows = Archive(tmp_path / side / "x.duckdb").sample(run.run)
        found.append((run.summary.front_hash, run.summary.tiers, rows["plan"].tolist()))
    assert found[0] == found[1]


@pytest.mark.long
def test_a_run_that_is_ended_among_its_replays_goes_on(driver, tmp_path, monkeypatch, watched):
    """Hours of replays would be paid for again."""
    monkeypatch.setattr(running, "FLUSH_S", 0.0)
    (tmp_path / "whole").mkdir()
    whole = ran(tmp_path / "whole", driver)
    watched.clear()
    archive = Archive(tmp_path / "x.duckdb")

    def asked(held, run):
        return len(watched) == 2

    with monkeypatch.context() as during:
        during.setattr(running, "_is_stop_asked", asked)
        first = ran(tmp_path, driver)
    assert first.state == "stopped"
    assert len(watched) == 2
    last = ran(tmp_path, driver, is_resumed=True)
    assert last.state == "finished"
    assert len(watched) == len(set(watched)) == SOME
    assert last.summary.tiers == whole.summary.tiers
    assert last.summary.front_hash == whole.summary.front_hash
    assert last.summary.evaluated == whole.summary.evaluated
    told = [e.payload for e in archive.run(last.run).events if e.name == REPLAYED]
    assert sum(map(len, told)) == SOME


@pytest.mark.long
def test_replays_by_several_processes_are_those_of_one(tmp_path, monkeypatch):
    """A front would hang on how many cores a machine has."""
    monkeypatch.setattr(replays_room, "BEGIN_S", 0.0)
    engine = prepare(chat(*SHORT, "search.replay=8"))
    found = []
    for workers in (1, 2):
        archive = Archive(tmp_path / f"{workers}.duckdb")
        run = run_study(engine, archive, workers=workers)
        rows = archive.sample(run.run)
        found.append((run.summary.front_hash, run.summary.tiers, rows["plan"].tolist()))
    assert found[0] == found[1]
    assert found[0][1]["replayed"] == 8


@pytest.mark.long
def test_the_closed_form_evaluates_nothing_for_the_replays(tmp_path, monkeypatch, watched):
    """Every candidate near the front would be paid for twice after a sweep that saw them all."""
    counted, serve = [], PHYSICS["serve"]

    def evaluate(engine, columns, accelerator):
        counted.append(len(columns["devices"]))
        return serve.evaluate(engine, columns, accelerator)

    told = replace(serve, evaluate=evaluate)
    for room in ("planner.search.sweep", "planner.search.seam"):
        monkeypatch.setattr(f"{room}.physics_of", lambda study: told)
    run = ran(tmp_path, "sweep")
    assert sum(counted) == run.summary.evaluated == 24


@pytest.mark.long
def test_neighbours_of_the_replayed_front_are_looked_at_and_not_counted_again(
    tmp_path, monkeypatch, watched
):
    """A plan that the closed form wrongs by more than the band would never be replayed."""
    near = []

    def neighbours(layouts, codes, whole=tiers.neighbours):
        near.append(whole(layouts, codes))
        return near[-1]

    monkeypatch.setattr(tiers, "neighbours", neighbours)
    run = ran(tmp_path, "sweep", "search.replay=16")
    said = run.summary.tiers
    assert near
    assert len(watched) == said["replayed"] <= 16
    assert run.summary.evaluated == 24


@pytest.mark.long
def test_a_plan_whose_bounds_break_gets_the_fleet_that_keeps_them(tmp_path):
    """A fleet sized by a formula would be sold although its replay misses what was asked for."""
    tight = ("workload.chat.slo.ttft_s_p95=0.11", "workload.chat.peak_utilisation_frac=1.0",
             "accelerator=H100-SXM", "tp=1")  # fmt: skip
    document = commands.show(tmp_path / "x.duckdb", ran(tmp_path, "sweep", *tight).run)
    grown = [r for r in document["replayed"] if r["needed_replicas"] > r["replicas"]]
    assert grown
    for row in document["replayed"]:
        if row["is_front"]:
            assert not row["broken"]
            assert row["replayed_ttft_s_p95_high"] <= 0.11
    lines = {row["plan"]: row for row in document["tiers"]["front"]}
    for row in grown:
        if row["is_front"]:
            assert lines[row["plan"]]["devices"] == row["needed_devices"]


def test_a_spent_budget_of_seconds_replays_nothing(tmp_path):
    """A run of a minute would take an hour."""
    run = ran(tmp_path, "sweep", budget=Budget(seconds=0))
    assert (run.state, run.summary.tiers) == ("stopped", {})


@pytest.mark.long
def test_replays_of_a_study_that_has_none_are_refused(tmp_path):
    """A number of replays would be asked for and silently not made."""
    path = written(tmp_path)
    answer = planner("run", path, "--db", tmp_path / "x.duckdb", "--replay", 0, "--json")
    assert answer.code == 0
    assert "tiers" not in answer.document
    hardware = tmp_path / "h.toml"
    hardware.write_text(
        '[study]\nname = "h"\nkind = "hardware"\n[axes]\naccelerator = "H100-SXM"\n'
        "nodes = [1, 2]\n[search]\nreplay = 5\n"
    )
    answer = planner("run", hardware, "--db", tmp_path / "x.duckdb")
    assert answer.code == 2
    assert "nothing to replay" in answer.err
