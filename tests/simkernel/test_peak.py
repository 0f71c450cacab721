"""The busiest window, and what waits where it begins."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simkernel.peak import backlog_tokens, peak_stream, peak_window
from simkernel.workload import RequestStream


def test_the_busiest_window_of_a_hand_made_stream():
    """A fleet would be sized on a quieter time."""
    arrival_s = np.array([0.0, 10.0, 11.0, 12.0, 30.0])
    tokens = np.array([5.0, 1.0, 2.0, 3.0, 5.0])
    found = peak_window(arrival_s, tokens, span_s=40.0, window_s=2.5, warm_up_s=10.5)
    assert (found.start_s, found.end_s) == (10.0, 12.5)
    assert (found.first_row, found.start_row, found.end_row) == (0, 1, 4)
    assert found.warm_up_from_s == 0.0
    assert (found.tokens_per_s, found.mean_tokens_per_s) == (6 / 2.5, 16 / 40)
    assert found.requests_per_s == 3 / 2.5
    assert found.backlog_tokens == 0


def test_the_end_of_a_window_is_left_out():
    """A request at the seam would be counted in two windows."""
    arrival_s = np.array([0.0, 1.0, 2.0])
    assert peak_window(arrival_s, np.ones(3), 3.0, 1.0).end_row == 1


def test_tokens_weigh_not_requests():
    """Many short requests would hide a few that fill the fleet."""
    arrival_s = np.array([0.0, 0.1, 0.2, 50.0])
    assert peak_window(arrival_s, np.array([1, 1, 1, 4]), 100.0, 1.0).start_s == 50.0


def test_a_window_longer_than_the_stream_is_the_stream():
    """A rate would be too low by the part of the window in which nothing was recorded."""
    found = peak_window(np.array([0.0, 1.0]), np.array([3.0, 3.0]), 2.0, 60.0)
    assert (found.tokens_per_s, found.end_row) == (3.0, 2)
    assert found.tokens_per_s == found.mean_tokens_per_s


def test_the_backlog_at_the_start_by_hand():
    """A peak replayed from an empty fleet would look better than it is."""
    arrival_s = np.array([0.0, 1.0, 10.0, 11.0])
    tokens = np.array([4.0, 4.0, 9.0, 30.0])
    at_s = np.array([0.0, 1.0, 2.0, 5.0, 10.0, 11.0, 12.0])
    found = backlog_tokens(arrival_s, tokens, 2.0, at_s)
    assert found.tolist() == [0, 2, 4, 0, 0, 7, 35]
    window = peak_window(arrival_s, tokens, 12.0, 0.5, 10.0, capacity_tokens_per_s=2.0)
    assert (window.start_s, window.backlog_tokens, window.warm_up_backlog_tokens) == (11, 7, 2)


def test_the_requests_of_a_window_come_with_their_warm_up_and_are_told_apart():
    """The start-up of a replay would be measured as its latency (evalscope#1641)."""
    arrival_s = np.array([0.0, 8.0, 10.0, 11.0, 12.0, 30.0])
    tokens = np.arange(1, 7)
    stream = RequestStream(arrival_s, tokens, tokens, 40.0)
    window = peak_window(arrival_s, np.ones(6), 40.0, 2.5, warm_up_s=3.0)
    found, is_counted = peak_stream(stream, window)
    assert found.arrival_s.tolist() == [1.0, 3.0, 4.0, 5.0]
    assert found.prompt_tokens.tolist() == [2, 3, 4, 5]
    assert is_counted.tolist() == [False, True, True, True]
    assert found.span_s == 5.5


def test_one_request_has_a_window():
    """A trace of one request would end in a traceback."""
    found = peak_window(np.array([0.0]), np.array([5.0]), 0.0, 10.0, 5.0, 1.0)
    assert (found.tokens_per_s, found.backlog_tokens, found.end_row) == (0.5, 0, 1)


streams = st.lists(
    st.tuples(st.floats(0, 1e4), st.integers(1, 1000)), min_size=1, max_size=40
).map(lambda rows: (np.sort([t for t, _ in rows]), np.array([float(w) for _, w in rows])))


@settings(max_examples=150)
@given(streams, st.floats(0.1, 2e4))
def test_no_other_window_is_busier(given_stream, window_s):
    """The window is the maximum over all starts, tried one by one."""
    arrival_s, tokens = given_stream
    found = peak_window(arrival_s, tokens, float(arrival_s[-1] - arrival_s[0]), window_s)
    length_s = found.end_s - found.start_s
    starts = np.concatenate([arrival_s, arrival_s - length_s / 3, arrival_s - length_s * 0.9])
    sums = [
        tokens[(arrival_s >= s) & (arrival_s < s + length_s * (1 - 1e-9))].sum() for s in starts
    ]
    assert found.tokens_per_s * length_s >= max(sums) - 1e-6


@settings(max_examples=150)
@given(streams, st.floats(0.01, 1e4))
def test_the_backlog_is_that_of_the_recursion(given_stream, rate):
    """Lindley's recursion, step by step, is the same queue."""
    arrival_s, tokens = given_stream
    left, last, expected = 0.0, arrival_s[0], []
    for time, work in zip(arrival_s, tokens, strict=True):
        left = max(left - rate * (time - last), 0.0)
        expected.append(left if time > last or not expected else expected[-1])
        left, last = left + work, time
    found = backlog_tokens(arrival_s, tokens, rate, arrival_s)
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-6 * rate)


@settings(max_examples=60)
@given(streams, st.floats(0.01, 1e3), st.floats(1.0, 10.0))
def test_a_faster_fleet_never_has_more_left(given_stream, rate, faster):
    """More chips would leave a longer queue."""
    arrival_s, tokens = given_stream
    at_s = np.linspace(arrival_s[0], arrival_s[-1] + 10, 50)
    slow = backlog_tokens(arrival_s, tokens, rate, at_s)
    fast = backlog_tokens(arrival_s, tokens, rate * faster, at_s)
    assert (fast <= slow + 1e-6 * rate * faster).all()
    assert (slow <= tokens.sum() + 1e-6).all()
