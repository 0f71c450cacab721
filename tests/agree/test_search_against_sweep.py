"""Drivers that look for the front against the sweep that sees every candidate."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from planner.archive.store import Archive
from planner.runs.kinds import prepare
from planner.runs.run import run_study
from planner.search.choice import Budget
from planner.search.legal import counted, layouts_of, random_codes, repaired
from planner.space.blocks import bills, blocks
from planner.space.plan_keys import broken_rules
from planner.study.read import read_study
from planner.study.settings import with_settings
from planner.training.engine import catalogue_names

STUDIES = Path(__file__).parents[2] / "studies"
SMALL = {
    "deepseek_v3_training": (
        'accelerator=["H100-SXM", "GB200", "Ascend-910C"]',
        *("devices=[2048, 4096]", "expert_parallel=[16, 64]", "tp=[1, 4]", "pp=[1, 4]"),
        'costing.site=["se", "us-tx"]',
    ),
    "llama31_70b_training": (
        *("devices=[3712, 4096]", "gbs=[1024, 1856, 2048]", 'costing.site=["se", "us-tx"]'),
    ),
    "serve_deepseek_wide_ep": ("max_batch=[64, 128]", "token_budget=4096"),
}
"""A few hundred or thousand candidates: small enough to evaluate all, by any driver."""


def made(name, *settings):
    """A shipped study with settings, ready to evaluate."""
    names = catalogue_names()
    study = read_study(STUDIES / f"{name}.toml", names)
    return prepare(with_settings(study, (*SMALL[name], *settings), names))


def front_of(engine, folder, budget=None):
    """The run of a study in a database of its own."""
    return run_study(engine, Archive(folder / "x.duckdb"), workers=1, budget=budget, replays=0)


@cache
def swept(name):
    """The exact front."""
    with TemporaryDirectory() as folder:
        return front_of(made(name), Path(folder))


@cache
def legal_keys(name):
    """Design keys of every candidate that can exist, by enumeration."""
    space = made(name).space
    found = [block.keys for bill in bills(space) for block in blocks(space, bill)]
    return frozenset(np.concatenate(found).tolist())


@pytest.mark.long
@pytest.mark.parametrize("algorithm", ["age_moea", "nsga2"])
@pytest.mark.parametrize("name", SMALL)
def test_evolution_with_enough_budget_finds_the_exact_front(name, algorithm, tmp_path):
    """A large space would be answered by a front that no budget can complete."""
    exact = swept(name)
    assert exact.summary.notes["search"].startswith("sweep: about")
    engine = made(name, "search.driver=evolve", f"search.algorithm={algorithm}")
    found = front_of(engine, tmp_path)
    assert found.state == "finished"
    assert found.summary.front_hash == exact.summary.front_hash
    assert found.summary.evaluated <= len(legal_keys(name))
    assert found.front["plan"].tolist() == exact.front["plan"].tolist()


@pytest.mark.long
@pytest.mark.parametrize("name", SMALL)
def test_the_same_seed_finds_the_same_archive(name, tmp_path):
    """Nobody could check a plan that was found by luck."""
    engine = made(name, "search.driver=evolve", "study.seed=7")
    runs = []
    for side in ("one", "other"):
        (tmp_path / side).mkdir()
        runs.append(front_of(engine, tmp_path / side, Budget(evaluations=400)))
    one, other = runs
    assert one.summary.front_hash == other.summary.front_hash
    assert one.summary.evaluated == other.summary.evaluated
    keys = [Archive(tmp_path / side / "x.duckdb").physical("last") for side in ("one", "other")]
    assert keys[0]["key"].tolist() == keys[1]["key"].tolist()


@pytest.mark.parametrize("name", SMALL)
def test_every_wish_becomes_a_plan_that_can_exist(name):
    """Crossover binds axes that depend on each other; what it makes would be priced as it is."""
    space = made(name).space
    layouts, rng = layouts_of(space), np.random.default_rng(3)
    wishes = random_codes(layouts, 300, rng)
    wishes[:, : len(space.bill_axes)] = rng.integers(
        0, [len(space.levels[axis]) for axis in space.bill_axes], (300, len(space.bill_axes))
    )
    codes, is_legal = repaired(layouts, wishes, rng)
    assert is_legal.mean() > 0.95  # the others are dropped, and drawn again by the driver
    assert not any(broken_rules(space, row) for row in codes[is_legal])
    again, _ = repaired(layouts, codes[is_legal], rng)
    assert np.array_equal(again, codes[is_legal])


@pytest.mark.parametrize("name", SMALL)
def test_the_size_of_a_space_is_estimated_without_listing_it(name):
    """The exact sweep would be chosen for a space that it can never finish, or the other way."""
    count = counted(layouts_of(made(name).space), np.random.default_rng(1), draws=4000)
    assert count.candidates == pytest.approx(len(legal_keys(name)), rel=5 * count.error_frac)
    assert count.error_frac < 0.1
