"""The front is exact: against a definition written out, in chunks, per group, in any unit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from planner.pareto import compared, merge, nondominated, nondominated_by, rounded_hash, thinned
from simkernel.errors import PlanError

TABLES = st.tuples(st.integers(0, 60), st.integers(1, 6)).flatmap(
    lambda shape: hnp.arrays(np.int64, shape, elements=st.integers(-3, 3))
)


def by_definition(points):
    """Dominance as its definition reads, quadratic in the points."""
    no_worse = (points[:, None] <= points[None]).all(axis=2)
    better = (points[:, None] < points[None]).any(axis=2)
    copies = (points[:, None] == points[None]).all(axis=2)
    is_later_copy = np.tril(copies, -1).any(axis=1)
    return ~(no_worse & better).any(axis=0) & ~is_later_copy


@given(TABLES)
def test_the_front_is_what_the_definition_of_dominance_says(points):
    """Plans would be kept that another plan beats, or lost that none beats."""
    assert np.array_equal(nondominated(points), by_definition(points))


@given(TABLES, st.integers(1, 20))
def test_what_is_not_shown_lies_near_something_that_is(points, most):
    """A reader of a thinned front would not know that a corner of it is missing."""
    is_kept, epsilon = thinned(points, most)
    assert is_kept.sum() <= most
    if not len(points):
        return
    extent = np.maximum(np.ptp(points, axis=0), 1e-300)
    apart = np.abs(points[:, None] - points[None, is_kept]) / extent
    assert np.all(apart.max(axis=2).min(axis=1) <= epsilon + 1e-12)


@given(TABLES, st.integers(1, 20))
def test_chunks_give_the_front_of_the_whole(points, size):
    """A sweep in blocks would find another front than a sweep at once."""
    kept = np.zeros(0, dtype=np.int64)
    for start in range(0, len(points), size):
        block = np.arange(start, min(start + size, len(points)))
        old, new = merge(points[kept], points[block])
        kept = np.concatenate([kept[old], block[new]])
    assert np.array_equal(kept, np.flatnonzero(nondominated(points)))


def test_five_objectives_with_copies_keep_the_first_of_each():
    """384 points in 5 objectives with copies crashed another planner (pymoo#797)."""
    rng = np.random.default_rng(7)
    once = rng.random((200, 5))
    points = np.concatenate([once, once[:184]])
    stays = nondominated(points)
    assert np.array_equal(stays[:200], nondominated(once))
    assert not stays[200:].any()


def test_one_objective_keeps_one_point():
    """A study with a single objective would have no best plan, or several equal ones."""
    assert nondominated([[2.0], [1.0], [1.0]]).tolist() == [False, True, False]


def test_no_points_make_an_empty_front():
    """A block in which every candidate is infeasible would stop the sweep."""
    empty = np.empty((0, 3))
    assert nondominated(empty).shape == (0,)
    old, new = merge(empty, [[1, 2, 3]])
    assert old.shape == (0,)
    assert new.tolist() == [True]
    assert merge([[1, 2, 3]], empty)[0].tolist() == [True]
    assert nondominated_by([], empty).shape == (0,)


@pytest.mark.parametrize("poison", [np.nan, np.inf, -np.inf])
def test_a_point_without_a_number_is_refused(poison):
    """NaN compares false with everything, so a failed evaluation would sit on the front."""
    with pytest.raises(PlanError, match=r"1 of 2 points .* objective \[1\]"):
        nondominated([[1.0, 2.0], [1.0, poison]])


def test_a_flat_list_is_refused():
    """Three numbers could be one point or three: guessing would give a wrong front."""
    with pytest.raises(PlanError, match="a table"):
        nondominated(np.array([1.0, 2.0, 3.0]))


@given(TABLES, st.lists(st.sampled_from([1e-12, 1e-3, 1.0, 1e6, 1e15]), min_size=6, max_size=6))
def test_units_do_not_change_the_front(points, scales):
    """An objective with large numbers would push the others aside (pymoo#557)."""
    scaled = points * np.array(scales)[: points.shape[1]]
    assert np.array_equal(nondominated(scaled), nondominated(points))


@pytest.mark.long
@given(TABLES, st.randoms(use_true_random=False))
def test_groups_are_fronts_of_their_own(points, random):
    """The plans of one hardware bill would be judged against those of another."""
    groups = np.array([random.randrange(4) for _ in points], dtype=np.int64)
    wanted = np.zeros(len(points), dtype=bool)
    for group in range(4):
        wanted[groups == group] = by_definition(points[groups == group])
    assert np.array_equal(nondominated_by(groups, points), wanted)


@given(TABLES, st.randoms(use_true_random=False))
def test_the_hash_of_a_front_does_not_see_order_or_noise(points, random):
    """Two equal runs would look different because blocks finished in another order."""
    order = list(range(len(points)))
    random.shuffle(order)
    assert rounded_hash(points[order] * (1 + 1e-13)) == rounded_hash(points)
    assert rounded_hash(-0.0 * points) == rounded_hash(0.0 * points)


def test_the_hash_of_a_front_sees_every_change():
    """Two different fronts would pass for the same result."""
    front = np.array([[1.0, 20.0], [2.0, 10.0]])
    changed = [front * (1 + 1e-6), front[:1], front[:, :1], front[:, ::-1], np.empty((0, 2))]
    assert len({rounded_hash(rows) for rows in [front, *changed]}) == 6


def test_the_noise_of_a_sum_decides_nothing_between_twins():
    """Where in a block a plan was evaluated would say which of two like plans is bought."""
    twin = np.nextafter([0.3, 2.0, 1e9], 0.0)
    for pair in ([[0.3, 2.0, 1e9], twin], [twin, [0.3, 2.0, 1e9]]):
        assert nondominated(pair).tolist() == [True, False]
        assert merge(pair[:1], pair[1:])[1].tolist() == [False]
    better = [0.3 * (1 - 1e-9), 2.0, 1e9]
    assert nondominated([[0.3, 2.0, 1e9], better]).tolist() == [False, True]


def test_rounding_keeps_the_order_of_numbers():
    """A plan that a bound proves no better could be better after rounding."""
    rng = np.random.default_rng(5)
    numbers = np.concatenate(
        [rng.standard_normal(500) * 10.0 ** rng.integers(-300, 300, 500), [0]]
    )
    near = np.sort(np.concatenate([numbers, numbers * (1 + 2e-10), np.nextafter(numbers, 1e308)]))
    rounded = compared(near[:, None])[:, 0]
    assert (np.diff(rounded) >= 0).all()
    np.testing.assert_allclose(rounded, near, rtol=2.0**-32, atol=1e-300)
