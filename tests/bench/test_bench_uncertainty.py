"""How long a front is drawn: 1,000 worlds of 1,000 plans."""

import time

import numpy as np
import pytest

from costdata import catalog as catalogue
from planner.archive.store import Archive
from planner.costing.recost import stored_study
from planner.runs.run import run_study
from planner.study.read import read_study
from planner.training.engine import catalogue_names, prepare
from planner.uncertainty.draws import drawn
from planner.uncertainty.plans import parts_of

pytestmark = pytest.mark.bench


def test_a_thousand_draws_of_a_thousand_plans(tmp_path, tell):
    """A reader would wait for odds that a slider changes."""
    archive = Archive(tmp_path / "planner.duckdb")
    study = read_study("studies/llama31_70b_training.toml", catalogue_names())
    done = run_study(prepare(study), archive)
    front = {n: np.ma.getdata(c) for n, c in archive.front(done.run).items()}
    rows = np.arange(1000) % len(front["plan"])
    front = {name: column[rows] for name, column in front.items()}
    parts = parts_of(stored_study(archive.run(done.run)), catalogue.load(None), front)
    started = time.perf_counter()
    found = drawn(parts, front, {"days": 1.0, "usd": 1.0, "kgco2e": 1.0}, 1000, seed=1)
    found.front_frac()
    seconds = time.perf_counter() - started
    tell("1,000 draws of 1,000 plans, odds of the front too", f"{seconds:.2f} s", "2 s")
    assert found.values["usd"].shape == (1000, 1000)
