"""Replaying what is worth it against replaying everything, with a replay that is off by chip.

The costly tier is the closed form times a bias of each chip, up to 30% either way, and times
scatter of each plan: as wrong as a model may be and still be used.
"""

from functools import cache

import numpy as np
import pytest
from test_search_against_sweep import made

from planner.pareto import hypervolume, nondominated
from planner.search.band import best_rows, guard_band, leading, promoted
from planner.search.legal import is_legal, layouts_of, neighbours
from planner.search.seam import Explored, Scores
from planner.search.tiers import BATCH, refine
from planner.space.blocks import bills, blocks, keys_of

SMALL = {
    "three chips": (),
    "large jobs": (
        'accelerator=["B200-SXM", "MI300X", "TPU-v5p"]',
        *("devices=[4096, 16384]", "tp=[1, 2, 8]", "zero_stage=1", "global_batch_sequences=15360"),
    ),
}
"""What differs from the small study of experts."""

BIAS_FRAC, SCATTER_FRAC = 0.3, 0.02


@cache
def whole(name):
    """Layouts, every candidate, a cheap tier, and the plans within its guard band."""
    engine = made("deepseek_v3_training", *SMALL[name])
    layouts, explored = layouts_of(engine.space), Explored(engine)
    parts = [b.codes for bill in bills(engine.space) for b in blocks(engine.space, bill) if len(b)]
    every = np.concatenate(parts)
    return layouts, every, explored, every[guard_band(layouts, every, explored.scores(every))]


def costly(name, seed, asked=None):
    """A replay: cheap scores, off by a factor of the chip and by one of the plan."""
    layouts, _, explored, _ = whole(name)
    space = layouts.space
    chips = len(space.levels["accelerator"])
    of_chips = 1 + np.random.default_rng(seed).uniform(-BIAS_FRAC, BIAS_FRAC, chips)

    def replay(codes):
        if asked is not None:
            asked.extend(keys_of(space, codes).tolist())
        told = explored.scores(codes)
        off = of_chips[codes[:, space.axes.index("accelerator")]]
        own = [np.random.default_rng([seed, int(k)]).normal(0, SCATTER_FRAC)
               for k in keys_of(space, codes)]  # fmt: skip
        factor = off * (1 + np.array(own))
        return Scores(told.points * factor[:, None, None], told.excess)

    return replay


def front_of(scores):
    """Unbeaten points of feasible rows."""
    points = scores.points[scores.excess <= 0]
    return points[nondominated(points)]


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", SMALL)
def test_a_twentieth_of_the_replays_finds_the_front(name, seed):
    """Replay of a space would cost twenty times more than it has to."""
    layouts, every, explored, kept = whole(name)
    replay = costly(name, seed)
    exact = front_of(replay(every))
    asked = []
    found = refine(
        layouts, kept, explored.scores, costly(name, seed, asked), most=len(every) // 20
    )
    low, size = exact.min(axis=0), np.maximum(np.ptp(exact, axis=0), 1e-12)
    share = [hypervolume((points - low) / size, 1.1) for points in (front_of(found.costly), exact)]
    assert share[0] >= 0.99 * share[1]
    assert len(asked) == len(set(asked)) == len(found) <= len(every) // 20
    assert found.ended


@pytest.mark.parametrize("name", SMALL)
def test_every_chip_has_its_chance(name):
    """A chip that the closed form wrongs would never be looked at again."""
    layouts, _, explored, kept = whole(name)
    told = explored.scores(kept)
    column = layouts.space.axes.index("accelerator")
    able = {
        int(row[column]) for row, fits in zip(kept, told.excess <= 0, strict=True) if fits.any()
    }
    first = leading(layouts, kept, told)
    assert {int(chip) for chip in kept[first][:, column]} >= able
    assert set(np.flatnonzero(best_rows(told))) <= set(promoted(layouts, kept, told).tolist())


def test_the_budget_is_kept_to_the_replay():
    """A night of replays would become a week."""
    layouts, _, explored, kept = whole("three chips")
    for most in (0, 1, BATCH + 3):
        asked = []
        replay = costly("three chips", 0, asked)
        found = refine(layouts, kept, explored.scores, replay, most)
        assert len(asked) == len(found) == most
        assert found.ended == "the budget is spent"


@pytest.mark.long
def test_agreement_of_the_tiers_is_told():
    """A closed form that ranks backwards would be trusted to choose what is replayed."""
    layouts, _, explored, kept = whole("three chips")
    same = refine(layouts, kept, explored.scores, explored.scores, 40)
    assert same.agreement == pytest.approx(np.ones(3))

    def backwards(codes):
        told = explored.scores(codes)
        return Scores(1 / told.points, told.excess)

    against = refine(layouts, kept, explored.scores, backwards, 40)
    assert against.agreement == pytest.approx(-np.ones(3))


@pytest.mark.parametrize("name", SMALL)
def test_neighbours_can_exist_and_differ_on_one_axis(name):
    """A replay would be spent on a plan that cannot be."""
    layouts, every, _, kept = whole(name)
    known = set(keys_of(layouts.space, every).tolist())
    found = neighbours(layouts, kept[:5])
    assert set(keys_of(layouts.space, found).tolist()) <= known
    apart = (found[:, None, :] != kept[None, :5, :]).sum(axis=2)
    assert (apart == 1).any(axis=1).all()
    assert is_legal(layouts, every[::7]).all()
