"""How much of the exact front a search finds with few evaluations, and what it costs beside them.

Hypervolume is of all plans evaluated, over that of the sweep's front, which reaches from 0 to 1;
measured from 1.1. Overhead is processor time outside physics and prices.
"""

import time
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from planner.costing.front import cost_front
from planner.costing.second_pass import objectives_of
from planner.pareto import hypervolume
from planner.runs.run import joined
from planner.search.drivers import make_driver
from planner.search.seam import Explored, explore
from planner.search.sweep import sweep
from planner.study.read import read_study
from planner.study.settings import with_settings
from planner.training.engine import catalogue_names, prepare

STUDY = Path(__file__).parents[2] / "studies" / "deepseek_v3_training.toml"
SEEDS = 8
MARKS = (1000, 5000)
NEVER_STILL = 10**9


@cache
def engine(driver, algorithm, seed):
    """The main job, at seven sites."""
    names = catalogue_names()
    settings = (f"search.driver={driver}", f"search.algorithm={algorithm}", f"study.seed={seed}")
    return prepare(with_settings(read_study(STUDY, names), settings, names))


@cache
def exact():
    """Objectives of the sweep's front, and the seconds it took."""
    made, started = engine("evolve", "nsga2", 1), time.perf_counter()
    fronts = [result.front for result in sweep(made, 2, lambda: False) if result.front]
    costed = cost_front(made.study, made.catalog, joined(fronts))
    points = objectives_of(made.study, costed.columns)[costed.is_front]
    return points, time.perf_counter() - started


def share(points):
    """Hypervolume over that of the exact front."""
    best, _ = exact()
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
    runs = [searched("evolve", algorithm, seed, MARKS) for seed in range(1, SEEDS + 1)]
    shares = np.array([found for found, _ in runs])
    overhead_s = float(np.median([spent for _, spent in runs]))
    for column, mark in enumerate(MARKS):
        words = f"{shares[:, column].mean():.4f} +- {shares[:, column].std():.4f}"
        tell(f"{algorithm}: hypervolume of {mark:,} evaluations, {SEEDS} seeds", words, ">= 0.99")
    tell(f"{algorithm}: overhead per evaluation", f"{overhead_s * 1e3:.2f} ms", "<= 2 ms")
    assert shares[:, -1].mean() >= 0.99
    assert overhead_s <= 2e-3


@pytest.mark.bench
def test_optuna_is_for_costly_plans(tell):
    """Its milliseconds would be most of a run whose plans cost microseconds."""
    shares, spent_s = searched("sample", "nsga2", 1, (400,))
    tell("sample: hypervolume of 400 evaluations, one seed", f"{shares[0]:.3f}", "")
    tell("sample: overhead per evaluation", f"{spent_s * 1e3:.1f} ms", "<= 100 ms")
    assert spent_s <= 0.1
