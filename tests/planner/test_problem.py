"""A study for pymoo and Optuna: the same evaluation, and examples that run as they are written."""

import os
import re
import subprocess
import sys

import numpy as np
import optuna
import pytest
from small import DENSE, ROOT

import planner as floor
from planner.archive.store import Archive
from planner.costing.second_pass import objectives_of
from planner.runs.run import run_study
from simkernel.errors import BadStudy

EXAMPLES = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "SEARCH.md").read_text(), re.S)


@pytest.fixture
def problem(tmp_path):
    """The small study, as a file would give it."""
    (tmp_path / "x.toml").write_text(DENSE)
    return floor.problem(tmp_path / "x.toml")


def every_row(problem):
    """All of X."""
    counts = [len(levels) for levels in problem.choices.values()]
    return np.indices(counts).reshape(len(counts), -1).T


@pytest.mark.long
@pytest.mark.parametrize("example", EXAMPLES, ids=["pymoo", "optuna"])
def test_the_documented_example_runs(example):
    """A person who copies it would be left with a traceback."""
    words = [sys.executable, "-W", "ignore", "-c", example]
    done = subprocess.run(
        words,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "p" in done.stdout


@pytest.mark.long
def test_a_problem_holds_the_front_of_the_command(problem, tmp_path):
    """An own optimiser would be asked another question than the planner answers."""
    points, excess = problem.evaluate(every_row(problem))
    feasible = points[excess <= 0]
    done = run_study(problem.engine, Archive(tmp_path / "x.duckdb"), workers=1)
    for row in objectives_of(problem.engine.study, done.front):
        assert np.isclose(feasible, row, rtol=1e-12).all(axis=1).any()
        assert not ((feasible <= row * (1 - 1e-9)).all(axis=1)).any()


@pytest.mark.long
def test_pymoo_and_optuna_are_told_the_same(problem):
    """Two optimisers could not be compared on one study."""
    rows = every_row(problem)[::7]
    out = {}
    problem.pymoo()._evaluate(rows, out)
    study = optuna.create_study(directions=problem.directions)
    for row, point, over in zip(rows, out["F"], out["G"], strict=True):
        names = dict(zip(problem.choices, row, strict=True))
        study.enqueue_trial({name: problem.choices[name][at] for name, at in names.items()})
        trial = study.ask()
        assert problem.optuna(trial) == tuple(point)
        assert problem.of_trial(trial.params) == row.tolist()
        assert problem.plans(row)[0]["violation"] == max(over[0], 0.0)


def test_what_cannot_exist_is_a_violation_and_is_repaired(problem):
    """An optimiser would be stopped by the first combination that does not divide."""
    odd = floor.problem(ROOT / "studies" / "llama31_70b_training.toml")
    rng = np.random.default_rng(1)
    counts = [len(levels) for levels in odd.choices.values()]
    rows = rng.integers(0, counts, (40, len(counts)))
    _, before = odd.evaluate(rows)
    _, after = odd.evaluate(odd.repaired(rows))
    assert (after == 1e3).mean() < 0.1 < (before == 1e3).mean()
    with pytest.raises(BadStudy, match="columns; wanted"):
        problem.evaluate([[0, 1]])


def test_a_kind_that_is_only_swept_is_refused():
    """Rows of a purchase would be taken for plans of a job."""
    with pytest.raises(BadStudy, match="is swept in this version"):
        floor.problem(ROOT / "studies" / "buy_under_power.toml")


def test_the_name_of_the_floor_loads_nothing():
    """The command would take a second to say what it can do."""
    said = (
        "import sys, planner; print([m for m in ('numpy', 'pymoo', 'optuna') if m in sys.modules])"
    )
    words = [sys.executable, "-c", said]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    assert subprocess.run(words, env=env, capture_output=True, text=True).stdout.strip() == "[]"
