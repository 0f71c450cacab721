"""What the tiers differ by, learned from replays, and which plan is replayed next."""

import math

import numpy as np
import pytest
from small_serve import chat

from planner.costing.front import SiteScores as Scores
from planner.pareto import hypervolume, nondominated
from planner.runs.kinds import prepare
from planner.search.gain import picked
from planner.search.gap import Expected, learned, normal_cdf
from planner.search.legal import layouts_of
from planner.search.likeness import Alike
from planner.space.blocks import bills, blocks

SHORT = ("workload.chat.trace.duration_s=30", "workload.chat.peak_window_s=10")


@pytest.fixture(scope="module")
def space():
    """Layouts and every candidate of the small study."""
    engine = prepare(chat(*SHORT))
    parts = [b.codes for bill in bills(engine.space) for b in blocks(engine.space, bill) if len(b)]
    return layouts_of(engine.space), np.concatenate(parts)


def told(codes, seed=1):
    """Two objectives at two sites, all of them feasible."""
    points = np.random.default_rng(seed).uniform(1, 2, (len(codes), 2, 2))
    return Scores(points, np.zeros((len(codes), 2)))


def off(codes, cheap, factors):
    """The same, with the second objective off by a factor of the chip."""
    points = cheap.points.copy()
    points[..., 1] *= np.array(factors)[codes[:, 0]][:, None]
    return Scores(points, cheap.excess)


class Known:
    """Plans of which one tells nothing of another."""

    def __init__(self, expected):
        self.expect = expected

    def expected(self):
        return self.expect

    def among(self, rows):
        return Alone(self.expect.take(rows))


class Alone:
    """Some of them."""

    def __init__(self, expected):
        self.expected = expected

    def believing(self, row):
        spread = self.expected.spread.copy()
        spread[row] = 0.0
        return Alone(Expected(self.expected.points, spread, self.expected.chance))


def test_the_bias_of_a_chip_is_learned_and_what_never_differs_stays(space):
    """Replays would be spent on plans of a chip that the closed form flatters."""
    layouts, codes = space
    cheap = told(codes)
    costly = off(codes, cheap, (1.3, 0.8))
    some = np.concatenate([np.flatnonzero(codes[:, 0] == chip)[:4] for chip in (0, 1)])
    seen = [Scores(s.points[some], s.excess[some]) for s in (cheap, costly)]
    found = learned(layouts, codes, cheap, codes[some], *seen).expected()
    assert found.points[..., 0] == pytest.approx(cheap.points[..., 0], rel=1e-12)
    assert not found.spread[..., 0].any()
    assert found.points[..., 1] == pytest.approx(costly.points[..., 1], rel=0.05)
    assert (np.abs(found.points - costly.points) <= found.spread)[..., 1].all()
    assert (found.chance == 1).all()


def test_limits_that_the_costly_tier_keeps_sooner_are_hoped_for(space):
    """Plans just over a limit would never be replayed, though their replay keeps it."""
    layouts, codes = space
    cheap = told(codes)
    over = np.linspace(0, 0.2, len(codes))[:, None] * np.ones(2)
    cheap = Scores(cheap.points, over)
    costly = Scores(cheap.points, np.maximum(over - 0.05, 0.0))
    some = np.arange(0, len(codes), 2)
    seen = [Scores(s.points[some], s.excess[some]) for s in (cheap, costly)]
    chance = learned(layouts, codes, cheap, codes[some], *seen).expected().chance[:, 0]
    assert chance[over[:, 0] == 0] == pytest.approx(1)
    assert chance[np.abs(over[:, 0] - 0.03).argmin()] > 0.5
    assert not chance[over[:, 0] > 0.1].any()


def test_without_a_replay_the_guard_band_is_all_that_is_known(space):
    """The first look would claim to know what nobody has measured."""
    layouts, codes = space
    cheap, none = told(codes), Scores(np.zeros((0, 2, 2)), np.zeros((0, 2)))
    found = learned(layouts, codes, cheap, codes[:0], none, none).expected()
    assert found.points == pytest.approx(cheap.points)
    assert found.spread == pytest.approx(0.1 * cheap.points)


@pytest.mark.parametrize("width", [2, 3])
def test_the_plan_that_adds_most_is_picked_first(width):
    """Hours of replays would go to plans that add little."""
    points = np.random.default_rng(width).uniform(0, 1, (60, width))
    front = points[:20][nondominated(points[:20])]
    rest = points[20:]
    sure = Expected(rest[:, None], np.zeros((40, 1, width)), np.ones((40, 1)))
    known = np.concatenate([front, rest])
    known = known[nondominated(known)]
    low, size = known.min(axis=0), np.ptp(known, axis=0)

    def volume(rows):
        return hypervolume((rows - low) / size, 1.1)

    gains = [volume(np.concatenate([front, row[None]])) - volume(front) for row in rest]
    chosen = picked(front, Known(sure), 5)
    assert gains[chosen[0]] == pytest.approx(max(gains), rel=0.05)
    together = volume(np.concatenate([front, rest[chosen]]))
    greedy = front
    for _ in range(5):
        best = max(rest, key=lambda row: volume(np.concatenate([greedy, row[None]])))
        greedy = np.concatenate([greedy, best[None]])
    assert together == pytest.approx(volume(greedy), rel=0.01)


def test_a_plan_without_a_chance_is_not_picked():
    """A budget would be spent to the end though nothing is left to find."""
    front = np.array([[0.0, 1.0], [1.0, 0.0]])
    behind = np.array([[0.5, 1.5], [2.0, 2.0]])[:, None]
    nothing = Expected(behind, np.zeros(behind.shape), np.ones((2, 1)))
    assert not len(picked(front, Known(nothing), 4))
    never = Expected(np.full((2, 1, 2), 0.1), np.full((2, 1, 2), 0.1), np.zeros((2, 1)))
    assert not len(picked(front, Known(never), 4))


def test_an_axis_that_changes_nothing_is_found_out(space):
    """Each level of it would be replayed anew, as if it were another plan."""
    layouts, codes = space
    cheap = told(codes)
    axis = layouts.space.axes.index("tensor_parallel")
    costly = off(codes, cheap, (1.3, 0.8))
    costly.points[..., 1] *= 1.0 + 0.2 * codes[:, axis, None]
    some = np.arange(0, len(codes), 2)
    seen = [Scores(s.points[some], s.excess[some]) for s in (cheap, costly)]
    found = learned(layouts, codes, cheap, codes[some], *seen)
    varied = [n for n in layouts.space.axes if len(layouts.space.levels[n]) > 1]
    ordered = [n for n in varied if not layouts.is_name[layouts.space.axes.index(n)]]
    counts = dict(zip(ordered, found.processes[0].counts, strict=False))
    assert counts["tensor_parallel"] >= 1
    assert min(counts["max_batch"], counts["token_budget"]) < 1
    assert found.expected().points[..., 1] == pytest.approx(costly.points[..., 1], rel=0.04)


def test_believing_a_plan_is_knowing_it(space):
    """Plans that are replayed together would be taken for strangers."""
    layouts, codes = space
    cheap = told(codes)
    costly = off(codes, cheap, (1.3, 0.8))
    costly.points[..., 1] *= np.random.default_rng(2).uniform(0.9, 1.1, (len(codes), 1))
    some, row = np.arange(0, len(codes), 7), 3
    seen = [Scores(s.points[some], s.excess[some]) for s in (cheap, costly)]
    pool = learned(layouts, codes, cheap, codes[some], *seen)
    (processes,), together = pool.processes, pool.among(np.arange(len(codes)))
    before, after = together.expected, together.believing(row).expected
    assert after.points[row] == pytest.approx(before.points[row], rel=1e-9)
    assert after.spread[row] == pytest.approx(np.zeros((2, 2)), abs=1e-6)
    assert after.spread.sum() < before.spread.sum()
    (one,) = together.ahead
    each = Alike(pool.places, processes.known)
    for told_by in one.believing(row).told:
        process = told_by.process
        likeness = each.over(process.nearness, processes.counts)
        mine = Alike(pool.places, pool.places.take([row])).over(process.nearness, processes.counts)
        size = len(some)
        matrix = np.eye(size + 1) * (1 + process.own)
        matrix[:size, :size] = process.root @ process.root.T
        matrix[:size, size] = matrix[size, :size] = likeness[row]
        cross = np.column_stack([likeness, mine])
        whole = 1 + process.own - (cross * np.linalg.solve(matrix, cross.T).T).sum(axis=1)
        others = np.arange(len(codes)) != row
        assert told_by.left[others] == pytest.approx(whole[others], abs=1e-9)


def test_chances_are_those_of_a_normal():
    """Unlikely plans would be tried before likely ones."""
    z = np.linspace(-6, 6, 400)
    exact = [0.5 * math.erfc(-x / math.sqrt(2)) for x in z]
    assert normal_cdf(z) == pytest.approx(exact, abs=2e-4)
