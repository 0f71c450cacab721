"""How the front of a run grew, as the run keeps it and `show` tells it."""

import numpy as np
import pytest
from small import DENSE, engine_of, planner, with_lines

import planner.runs.work as running
from planner.archive.store import Archive
from planner.costing.second_pass import objectives_of
from planner.documents.answers import show
from planner.pareto import hypervolume
from planner.runs.run import run_study
from planner.search.choice import Budget

MANY = with_lines(
    DENSE,
    devices="devices = [32, 40, 48, 56, 64, 96, 128]",
    recompute='recompute = ["none", "selective", "full"]',
    zero_stage="zero_stage = [0, 1, 2, 3]",
)


@pytest.fixture(params=["sweep", "evolve"])
def engine(request, monkeypatch):
    """A study that is kept after every result, looked through by either driver."""
    monkeypatch.setattr(running, "FLUSH_S", 0.0)
    return engine_of(f'{MANY}\n[search]\ndriver = "{request.param}"\npopulation = 20\n')


def trace_of(db, run):
    """The lines of a run, and its reference point."""
    trace = show(db, run)["trace"]
    return trace["batches"], trace["reference"]


@pytest.mark.long
def test_the_trace_ends_at_the_front_that_is_stored(engine, tmp_path):
    """A person would stop a search that still grows, or wait for one that does not."""
    done = run_study(engine, Archive(tmp_path / "x.duckdb"), workers=1)
    batches, reference = trace_of(tmp_path / "x.duckdb", done.run)
    assert len(batches) > 1
    volumes = [line["hypervolume"] for line in batches]
    assert np.all(np.diff(volumes) >= 0)
    assert batches[-1]["evaluated"] == done.summary.evaluated
    assert list(reference) == list(engine.study.objectives.minimise)
    origin = np.array(list(reference.values()))
    points = objectives_of(engine.study, done.front)
    assert volumes[-1] == pytest.approx(hypervolume(points / origin - 1.0, 0.0), rel=1e-9)


@pytest.mark.long
def test_a_run_that_goes_on_measures_from_where_it_began(engine, tmp_path):
    """Two halves of a run could not be drawn as one curve."""
    archive = Archive(tmp_path / "x.duckdb")
    first = run_study(engine, archive, workers=1, budget=Budget(60))
    before, reference = trace_of(archive.path, first.run)
    last = run_study(engine, archive, workers=1, is_resumed=True)
    after, same = trace_of(archive.path, last.run)
    assert same == reference
    assert after[: len(before) - 1] == before[:-1]
    assert all(a["seconds"] <= b["seconds"] for a, b in zip(after, after[1:], strict=False))


@pytest.mark.long
def test_show_tells_how_the_front_grew_and_from_where(engine, tmp_path):
    """A number without its reference point compares with nothing."""
    db = tmp_path / "x.duckdb"
    run_study(engine, Archive(db), workers=1)
    out = planner("show", "last", "--db", db).out
    assert "how the front grew, measured from days" in " ".join(out.split())
    assert "100.00%" in out
