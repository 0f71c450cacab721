"""How much of the exact front a search finds with few evaluations, and what it costs beside them.

The space is the main job with more batches and a power cap: over ten million candidates that can
exist. pymoo and Optuna stand beside ours as a person would use them, on `planner.problem`, with
their own defaults: one site an evaluation, and combinations that cannot exist count. Hypervolume
is of all plans evaluated, over that of the sweep's front, which reaches from 0 to 1; measured from
1.1. Overhead is processor time outside physics and prices.
"""

import time
from functools import cache
from pathlib import Path

import numpy as np
import optuna
import pytest
from pymoo.algorithms.moo.nsga2 import NSGA2
from pymoo.operators.crossover.sbx import SBX
from pymoo.operators.mutation.pm import PM
from pymoo.operators.repair.rounding import RoundingRepair
from pymoo.operators.sampling.rnd import IntegerRandomSampling
from pymoo.optimize import minimize

from planner.costing.front import cost_front
from planner.costing.second_pass import objectives_of
from planner.pareto import hypervolume
from planner.runs.total import joined
from planner.search.drivers import make_driver
from planner.search.problem import StudyProblem
from planner.search.seam import Explored, explore
from planner.search.sweep import sweep
from planner.study.read import read_study
from planner.study.settings import with_settings
from planner.training.engine import catalogue_names, prepare

STUDY = Path(__file__).parents[2] / "studies" / "deepseek_v3_training.toml"
LARGER = ("gbs=[3840, 5120, 7680, 15360]", "power_cap_frac=[0.8, 1.0]")
SEEDS = {"nsga2": 10, "age_moea": 3}
MARKS = (200, 1000, 5000)
NEVER_STILL = 10**9
OPTUNA_TRIALS = 1000
"""Its default sampler takes minutes for more."""


@cache
def engine(driver, algorithm, seed):
    """The main job at seven sites, made larger."""
    names = catalogue_names()
    settings = (
        *LARGER,
        f"search.driver={driver}",
        f"search.algorithm={algorithm}",
        f"study.seed={seed}",
    )
    return prepare(with_settings(read_study(STUDY, names), settings, names))


@cache
def exact():
    """Objectives of the sweep's front, the candidates there are, and the seconds it took."""
    made, started = engine("evolve", "nsga2", 1), time.perf_counter()
    fronts, candidates = [], 0
    for result in sweep(made, 2, lambda: False):
        candidates += result.evaluated + sum(result.skipped.values())
        fronts += [result.front] if result.front else []
    costed = cost_front(made.study, made.catalog, joined(fronts))
    points = objectives_of(made.study, costed.columns)[costed.is_front]
    return points, candidates, time.perf_counter() - started


def share(points):
    """Hypervolume over that of the exact front."""
    best, _, _ = exact()
    low, size = best.min(axis=0), np.ptp(best, axis=0)
    found, whole = (hypervolume((p - low) / size, 1.1) if len(p) else 0.0 for p in (points, best))
    return found / whole


def searched(driver, algorithm, seed, marks):
    """Share of hypervolume at each mark, and overhead per evaluation [s]."""
    made = engine(driver, algorithm, seed)
    explored, found = Explored(made), {}
    evaluated, physics_s, started = 0, 0.0, time.process_time()
    left = iter(marks)
    mark = next(left)
    rounds = explore(
        explored, make_driver(driver, made), lambda: evaluated >= marks[-1], NEVER_STILL
    )
    for result in rounds:
        evaluated, physics_s = evaluated + result.evaluated, physics_s + result.seconds
        if mark not in found and evaluated >= mark:
            found[mark] = share(explored.points)
            mark = next(left, mark)
    spent_s = time.process_time() - started - physics_s
    return [found[m] for m in marks], spent_s / evaluated


@pytest.mark.bench
@pytest.mark.parametrize("algorithm", ["nsga2", "age_moea"])
def test_evolution_finds_the_front_with_a_few_thousand_evaluations(algorithm, tell):
    """A space that no sweep can finish would be answered by a front far from the best."""
    _, candidates, seconds = exact()
    tell("candidates that can exist, swept in seconds", f"{candidates:,} in {seconds:.0f}", "")
    seeds = SEEDS[algorithm]
    runs = [searched("evolve", algorithm, seed, MARKS) for seed in range(1, seeds + 1)]
    shares = np.array([found for found, _ in runs])
    overhead_s = float(np.median([spent for _, spent in runs]))
    for column, mark in enumerate(MARKS):
        words = f"{shares[:, column].mean():.4f}, worst {shares[:, column].min():.4f}"
        tell(f"{algorithm}: hypervolume of {mark:,} evaluations, {seeds} seeds", words, "")
    tell(f"{algorithm}: overhead per evaluation", f"{overhead_s * 1e3:.2f} ms", "<= 1 ms")
    assert candidates >= 10_000_000
    assert MARKS[-1] <= 0.01 * candidates
    assert shares[:, -1].mean() >= 0.995
    assert overhead_s <= 1e-3


@pytest.mark.bench
def test_optuna_is_for_costly_plans(tell):
    """Its milliseconds would be most of a run whose plans cost microseconds."""
    shares, spent_s = searched("sample", "nsga2", 1, (400,))
    tell("sample: hypervolume of 400 evaluations, one seed", f"{shares[0]:.3f}", "")
    tell("sample: overhead per evaluation", f"{spent_s * 1e3:.1f} ms", "<= 100 ms")
    assert spent_s <= 0.1


class Watched:
    """A problem that keeps what was asked of it: objectives, one row an evaluation."""

    def __init__(self):
        self.problem = StudyProblem(engine("evolve", "nsga2", 1))
        self.rows, ask = [], self.problem.evaluate

        def evaluate(x):
            points, excess = ask(x)
            self.rows.append(np.where(excess[:, None] <= 0, points, np.nan))
            return points, excess

        self.problem.evaluate = evaluate

    def shares(self, marks):
        """Hypervolume share of what was feasible among the first so many."""
        rows = np.concatenate(self.rows)
        fit = [rows[:mark][np.isfinite(rows[:mark]).all(axis=1)] for mark in marks]
        return [share(points) for points in fit]


@pytest.mark.bench
def test_pymoo_and_optuna_with_their_defaults_stand_beside(tell):
    """A search of our own would be kept that others do as well."""
    watched = Watched()
    algorithm = NSGA2(
        sampling=IntegerRandomSampling(),
        crossover=SBX(vtype=float, repair=RoundingRepair()),
        mutation=PM(vtype=float, repair=RoundingRepair()),
    )
    minimize(watched.problem.pymoo(), algorithm, ("n_eval", MARKS[-1]), seed=1)
    for mark, found in zip(MARKS, watched.shares(MARKS), strict=True):
        tell(f"pymoo NSGA-II: hypervolume of {mark:,} evaluations", f"{found:.4f}", "")
    watched = Watched()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(directions=watched.problem.directions)
    study.optimize(watched.problem.optuna, n_trials=OPTUNA_TRIALS)
    marks = [mark for mark in MARKS if mark <= OPTUNA_TRIALS]
    for mark, found in zip(marks, watched.shares(marks), strict=True):
        name = type(study.sampler).__name__
        tell(f"Optuna {name}: hypervolume of {mark:,} trials", f"{found:.4f}", "")
