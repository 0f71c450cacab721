"""Speed of pricing a physical front anew: plans at sites per second, front included."""

import time
from pathlib import Path

import numpy as np
import pytest

from planner.costing.front import cost_front
from planner.runs.total import joined
from planner.search.sweep import sweep
from planner.study.read import read_study
from planner.study.settings import with_settings
from planner.training.engine import catalogue_names, prepare

STUDY = Path(__file__).parents[2] / "studies" / "deepseek_v3_training.toml"
SITES = "us-tx,us-va,us-ca,se,no,fr,de,cn-west,jp-tokyo,sg"
WANTED_ROWS_PER_S = 1_000_000


@pytest.fixture(scope="module")
def engine():
    """A shipped study at ten sites, narrowed to two bills."""
    narrow = ["devices=2048", "accelerator=B200-SXM,B300-SXM", f"costing.site={SITES}"]
    return prepare(with_settings(read_study(STUDY, catalogue_names()), narrow, catalogue_names()))


@pytest.fixture(scope="module")
def plans(engine):
    """A hundred thousand plans around those of the study's front, bill by bill."""
    small = joined([r.front for r in sweep(engine, 1, lambda: False) if r.front])
    rows = np.sort(np.arange(100_000) % len(small["plan"]))
    rng = np.random.default_rng(0)
    many = {name: np.asarray(column)[rows] for name, column in small.items()}
    for name in ("days", "it_mean_w", "it_peak_w"):
        many[name] = many[name] * rng.uniform(1.0, 1.5, len(rows))
    return many


@pytest.mark.bench
@pytest.mark.benchmark(timer=time.process_time)
@pytest.mark.parametrize("sites", [10, 1])
def test_a_million_plans_at_sites_are_compared_in_a_second(benchmark, tell, engine, plans, sites):
    """A price could not be moved over a large front without waiting."""
    few = ",".join(SITES.split(",")[:sites])
    study = with_settings(engine.study, [f"costing.site={few}"], catalogue_names())
    many = {name: np.tile(column, 10 // sites) for name, column in plans.items()}
    found = benchmark.pedantic(
        cost_front, (study, engine.catalog, many), rounds=5, warmup_rounds=1
    )
    assert found.is_front.all()
    rate = 1_000_000 / benchmark.stats["min"]
    tell(f"plans compared per second and core, {sites} sites", f"{rate:,.0f}", ">= 1,000,000")
    assert rate >= WANTED_ROWS_PER_S
