"""Rules that pick a plan, against fronts small enough to work out by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.decide.methods import aspiration, knee, topsis, weighted_sum
from planner.decide.robust import beats_frac, mean, regret, tail_mean, win_frac, worst_regret
from planner.decide.scaled import scaled
from simkernel.errors import PlanError

BENT = [[0.0, 10.0], [1.0, 2.0], [4.0, 1.0], [10.0, 0.0]]
"""Scaled: (0, 1), (.1, .2), (.4, .1), (1, 0)."""

DENT = [[0.0, 1.0], [0.6, 0.6], [1.0, 0.0]]
"""The middle plan lies above the line between the others."""


def test_the_knee_of_a_bent_front_is_where_little_of_one_buys_much_of_the_other():
    """The plan that a board would call the sensible one would be missed."""
    found = knee(scaled(BENT))
    assert found == pytest.approx(np.array([0.0, 0.7, 0.5, 0.0]) / np.sqrt(2))


def test_the_knee_is_the_least_sum_of_scaled_objectives():
    """The two published definitions would name two plans."""
    front = scaled(BENT)
    assert knee(front).argmax() == weighted_sum(front, [1, 1]).argmin() == 1


def test_a_weighted_sum_never_finds_a_plan_in_a_dent_and_an_aspiration_point_does():
    """The reader would be told that weights reach every plan."""
    front = scaled(DENT)
    picks = {int(weighted_sum(front, [w, 1 - w]).argmin()) for w in np.linspace(0, 1, 21)}
    assert picks == {0, 2}
    assert aspiration(front, [0.0, 0.0], [1, 1]).argmin() == 1


def test_an_aspiration_point_is_met_where_the_figure_is_below_zero():
    """A plan that keeps everything asked would look as if it did not."""
    front = scaled(BENT)
    found = aspiration(front, [2.0, 3.0], [1, 1])
    assert found.argmin() == 1
    assert found[1] == pytest.approx(0.5 * -0.1 + 1e-4 * 0.5 * (-0.1 - 0.1))
    assert (found[[0, 2, 3]] > 0).all()


def test_topsis_by_hand():
    """Closeness would not be that of the published steps."""
    front = scaled([[3.0, 0.0], [0.0, 4.0], [1.5, 1.0]])
    found = topsis(front, [1, 1])
    length = np.sqrt([3**2 + 1.5**2, 4**2 + 1**2])
    third = 0.5 * np.array([1.5, 1.0]) / length
    worst = 0.5 * np.array([3.0, 4.0]) / length
    best, far = np.linalg.norm(third), np.linalg.norm(worst - third)
    assert found[2] == pytest.approx(far / (best + far))


def test_a_front_of_one_plan_has_one_choice():
    """A division by a range of 0 would end the report."""
    front = scaled([[5.0, 7.0, 0.0]])
    assert topsis(front, [1, 1, 1]) == pytest.approx([1.0])
    assert weighted_sum(front, [1, 2, 3]) == pytest.approx([0.0])


@pytest.mark.parametrize("weights", [[1], [1, -1], [0, 0], [1, np.nan]])
def test_weights_that_mean_nothing_are_refused(weights):
    """A negative weight would turn an objective round in silence."""
    with pytest.raises(PlanError, match="weight"):
        weighted_sum(scaled(BENT), weights)


@given(st.permutations(range(4)), st.floats(0.1, 1e6), st.floats(0.1, 1e6))
def test_choices_do_not_depend_on_units_or_order(order, dollars, tonnes):
    """Thousands of dollars would choose another plan than dollars."""
    points = np.array(BENT)[order] * [dollars, tonnes]
    front = scaled(points)
    for figure in (knee(front), topsis(front, [1, 1]), -weighted_sum(front, [2, 1])):
        assert order[int(figure.argmax())] == 1


TABLE = [[10.0, 20.0, 60.0], [15.0, 15.0, 40.0], [30.0, 30.0, 30.0]]


def test_regret_by_hand():
    """Minimax regret would be taken against another best."""
    assert regret(TABLE).tolist() == [[0, 5, 30], [5, 0, 10], [20, 15, 0]]
    assert worst_regret(TABLE).tolist() == [30, 10, 20]


def test_a_plan_that_cannot_be_had_somewhere_is_never_the_robust_choice():
    """A plan without a price in one scenario would win on the others."""
    table = [[1.0, np.nan], [9.0, 9.0]]
    assert worst_regret(table).tolist() == [np.inf, 8.0]
    assert mean(table).tolist() == [np.inf, 9.0]


def test_the_tail_mean_counts_the_edge_in_part():
    """CVaR would jump as scenarios are added."""
    assert tail_mean(TABLE, 1 / 3) == pytest.approx([60, 40, 30])
    assert tail_mean(TABLE, 0.5) == pytest.approx([(60 + 10) / 1.5, (40 + 7.5) / 1.5, 30])
    assert tail_mean(TABLE, 1.0) == pytest.approx(mean(TABLE))


def test_wins_are_shared_where_plans_tie():
    """Shares of wins would not add up."""
    assert win_frac([[1.0, 5.0], [1.0, 2.0]]) == pytest.approx([0.25, 0.75])
    assert beats_frac([1, 2, 3, 3], [2, 2, 2, 4]) == pytest.approx((1 + 0.5 + 0 + 1) / 4)
