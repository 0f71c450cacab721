"""Runs that were stopped or killed, and went on."""

import json
import os
import signal
from dataclasses import replace

import numpy as np
import pytest
from small import DENSE, ended, engine_of, planner, planner_process, with_lines

import planner.runs.work as running
from planner.archive.store import Archive
from planner.runs.physics import PHYSICS
from planner.runs.run import run_study
from planner.search.choice import Budget
from simkernel.errors import PlanError

MANY = with_lines(
    DENSE,
    devices="devices = [32, 40, 48, 56, 64, 72, 80, 96, 112, 128, 144, 160]",
    micro_batch_sequences="micro_batch_sequences = [1, 2, 4]",
    global_batch_sequences="global_batch_sequences = [256, 320, 384, 480, 512, 768, 1024]",
    recompute='recompute = ["none", "selective", "full"]',
    zero_stage="zero_stage = [0, 1, 2, 3]",
    pipeline_parallel="pipeline_parallel = [1, 2, 4, 8]",
)
"""Twenty-four bills, some thousand candidates: seconds of a sweep."""

FEW = with_lines(
    MANY,
    devices="devices = [32, 48, 64, 96, 128, 160]",
    micro_batch_sequences="micro_batch_sequences = [1, 2]",
    global_batch_sequences="global_batch_sequences = [256, 512]",
    zero_stage="zero_stage = [1, 3]",
)
"""Twelve bills, some hundred candidates: seconds of evolution, which spreads its rounds."""

NEVER = {"days": "days = 0.01"}
"""A limit that no candidate keeps."""

STUDY_OF = {"sweep": MANY, "evolve": FEW, "sample": FEW}

KEPT_AT_ONCE = """
import planner.runs.run as run, planner.runs.work as work
work.FLUSH_S = 0.0
found = run._results
def told(*given):
    for result in found(*given):
        print("result", flush=True, file=__import__("sys").stderr)
        yield result
run._results = told
"""
"""Every result that can be is kept before the next one comes."""


@pytest.fixture(params=["sweep", "evolve"])
def driver(request):
    """Both ways to look."""
    return request.param


def study_of(driver, **lines):
    """The study of a driver, with other lines."""
    text = with_lines(STUDY_OF[driver], **lines)
    return f'{text}\n[search]\ndriver = "{driver}"\npopulation = 40\n'


def run_of(driver, db, options=None, **lines):
    """A run in a database."""
    return run_study(
        engine_of(study_of(driver, **lines)), Archive(db), workers=1, **(options or {})
    )


def is_whole(db, run):
    """Every candidate of the run is kept once, as far as the archive shows."""
    keys = Archive(db).physical(run)["key"]
    told, _ = Archive(db).evaluations(run)
    return len(set(keys.tolist())) == len(keys) and len(set(told.tolist())) == len(told)


def same_answer(one, other):
    """The same front out of the same counts."""
    assert one.summary.front_hash == other.summary.front_hash
    assert one.summary.evaluated == other.summary.evaluated
    assert one.summary.masked == other.summary.masked
    assert one.summary.rejected == other.summary.rejected
    assert one.summary.physical_front == other.summary.physical_front
    assert (
        one.front.get("plan", np.zeros(0)).tolist()
        == other.front.get("plan", np.zeros(0)).tolist()
    )


@pytest.mark.long
def test_a_run_in_three_parts_ends_like_one(driver, tmp_path, monkeypatch):
    """The hours before a stop would be lost, or counted twice."""
    whole = run_of(driver, tmp_path / "whole.duckdb")
    monkeypatch.setattr(running, "FLUSH_S", 0.0)
    db, more = tmp_path / "parts.duckdb", {"sweep": 6000, "evolve": 600}[driver]
    budgets = (Budget(400), Budget(more), Budget())
    parts = [run_of(driver, db, {"budget": budget, "is_resumed": True}) for budget in budgets]
    assert [part.state for part in parts] == ["stopped", "stopped", "finished"]
    assert parts[0].summary.evaluated < parts[1].summary.evaluated < whole.summary.evaluated
    assert is_whole(db, parts[-1].run)
    same_answer(parts[-1], whole)
    assert f"of run {parts[1].run} were kept" in parts[-1].summary.notes["resumed"]


@pytest.mark.long
def test_no_plan_is_evaluated_twice(driver, tmp_path, monkeypatch):
    """A replay of an hour would be paid for again after every stop."""
    import planner.search.seam as seam
    import planner.search.sweep as sweep

    seen = []

    train = PHYSICS["train"]

    def watched(asked, columns, accelerator, evaluate=train.evaluate):
        rows = zip(*(np.asarray(columns[name]).tolist() for name in sorted(columns)), strict=True)
        seen.extend((accelerator, row) for row in rows)
        return evaluate(asked, columns, accelerator)

    for room in (sweep, seam):
        monkeypatch.setattr(room, "physics_of", lambda study: replace(train, evaluate=watched))
    first = run_of(driver, tmp_path / "x.duckdb", {"budget": Budget(500)})
    last = run_of(driver, tmp_path / "x.duckdb", {"is_resumed": True})
    assert first.state == "stopped"
    assert len(seen) == last.summary.evaluated
    assert len({repr(row) for row in seen}) == len(seen)


@pytest.mark.long
@pytest.mark.parametrize("name", ["sweep", "evolve", "sample"])
def test_a_stop_from_elsewhere_ends_every_driver(name, tmp_path, monkeypatch):
    """A person would have to kill a search, and could not see what it found."""
    archive = Archive(tmp_path / "x.duckdb")
    monkeypatch.setattr(running, "FLUSH_S", 0.0)
    asked = []

    def ask(done, bills, evaluated, front):
        if not asked:
            asked.append(archive.runs()[-1].run)
            archive.tell(asked[0], "stop_asked", {})

    done = run_study(engine_of(study_of(name)), archive, workers=1, progress=ask)
    assert done.state == "stopped"
    assert done.run == asked[0]
    assert 0 < done.summary.evaluated < 5000


@pytest.mark.long
def test_a_run_without_a_feasible_plan_goes_on(driver, tmp_path, monkeypatch):
    """The least-violating plans of the first part would be forgotten."""
    whole = run_of(driver, tmp_path / "whole.duckdb", **NEVER)
    monkeypatch.setattr(running, "FLUSH_S", 0.0)
    run_of(driver, tmp_path / "x.duckdb", {"budget": Budget(400)}, **NEVER)
    last = run_of(driver, tmp_path / "x.duckdb", {"is_resumed": True}, **NEVER)
    same_answer(last, whole)
    nearest, expected = (r.summary.nearest["plans"] for r in (last, whole))
    assert [row["plan"] for row in nearest] == [row["plan"] for row in expected]
    assert len(nearest) == 10


@pytest.mark.long
def test_a_killed_run_goes_on(driver, tmp_path):
    """A machine that went down in the night would have worked for nothing.

    In the middle; other moments by the bench of kills.
    """
    (tmp_path / "x.toml").write_text(study_of(driver))
    whole = run_of(driver, tmp_path / "whole.duckdb")
    process = planner_process(
        tmp_path, "run", "x.toml", "--workers", 1, "--json", before=KEPT_AT_ONCE
    )
    for _ in range(9):
        assert process.stderr.readline().startswith("result")
    os.killpg(process.pid, signal.SIGKILL)
    ended(process)
    db = tmp_path / "planner.duckdb"
    states = [entry["state"] for entry in planner("runs", "--db", db, "--json").document["runs"]]
    assert states == ["interrupted"]
    answer = planner("run", tmp_path / "x.toml", "--db", db, "--workers", 1, "--resume", "--json")
    assert answer.code == 0
    document = json.loads(answer.out)
    assert document["front_hash"] == whole.summary.front_hash
    assert document["candidates"]["evaluated"] == whole.summary.evaluated
    assert document["rejected"] == dict(whole.summary.rejected)
    assert is_whole(db, document["run"])


@pytest.mark.long
def test_a_run_that_finished_is_not_gone_on_with(tmp_path):
    """A script that always says --resume would add nothing for ever."""
    first = run_of("sweep", tmp_path / "x.duckdb")
    second = run_of("sweep", tmp_path / "x.duckdb", {"is_resumed": True})
    assert "resumed" not in second.summary.notes
    same_answer(first, second)


@pytest.mark.long
def test_a_run_of_other_inputs_is_not_gone_on_with(tmp_path):
    """Plans of another study would be on the front."""
    run_of("sweep", tmp_path / "x.duckdb", {"budget": Budget(400)})
    options = {"is_resumed": True}
    other = run_of("sweep", tmp_path / "x.duckdb", options, days="days = 45")
    assert "resumed" not in other.summary.notes


@pytest.mark.long
def test_a_run_that_still_runs_is_not_gone_on_with(tmp_path):
    """Two processes would write one run."""
    db = tmp_path / "x.duckdb"
    done = run_of("sweep", db, {"budget": Budget(400)})
    archive = Archive(db)
    archive.begin_run(archive.run(done.run).start)
    with pytest.raises(PlanError, match="still runs .* planner stop"):
        run_of("sweep", db, {"is_resumed": True})
