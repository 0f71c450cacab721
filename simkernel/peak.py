"""The busiest window of a stream: what a fleet is sized on, with what leads up to it.

A fleet sized on the mean fails at the peak, and a peak replayed from an empty fleet looks better
than it is. So the window comes with a warm-up before it and the work left over where that begins.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from simkernel.columns import Floats, Masks
from simkernel.workload import RequestStream


@dataclass(frozen=True)
class PeakWindow:
    """The busiest window and its warm-up.

    Parameters
    ----------
    warm_up_from_s : where a replay begins; what it measures before `start_s` is left out [s]
    start_s, end_s : the window, its end left out [s]
    first_row, start_row, end_row : first request of the warm-up, of the window, after the window
    tokens_per_s, mean_tokens_per_s : weighted load of the window and of the whole stream
    requests_per_s : rate in the window
    warm_up_backlog_tokens : weighted tokens unserved where the warm-up begins
    backlog_tokens : the same where the window begins
    """

    warm_up_from_s: float
    start_s: float
    end_s: float
    first_row: int
    start_row: int
    end_row: int
    tokens_per_s: float
    mean_tokens_per_s: float
    requests_per_s: float
    warm_up_backlog_tokens: float
    backlog_tokens: float


def peak_window(
    arrival_s: Floats,
    tokens: Floats,
    span_s: float,
    window_s: float,
    warm_up_s: float = 0.0,
    capacity_tokens_per_s: float = math.inf,
) -> PeakWindow:
    """The window of a given length that brings the most tokens; the first of several.

    Parameters
    ----------
    arrival_s : (n,) never falling, n of at least 1 [s]
    tokens : (n,) load of each request; weigh prompt and answer by what each costs
    span_s : time the stream stands for [s]
    window_s : length of the window; a longer one than the span is the whole stream [s]
    warm_up_s : what is replayed before it, as far as the stream reaches back [s]
    capacity_tokens_per_s : what the fleet serves; infinite leaves no backlog

    Notes
    -----
    The fullest half-open window of a length begins at an arrival: one that begins between two
    can be moved to the next without losing any.
    """
    length_s = min(window_s, span_s) if span_s else window_s
    before = np.concatenate([[0.0], np.cumsum(tokens)])
    ends = np.searchsorted(arrival_s, arrival_s + length_s, side="left")
    start = int(np.argmax(before[ends] - before[:-1]))
    start_s, end = float(arrival_s[start]), int(ends[start])
    from_s = max(start_s - warm_up_s, float(arrival_s[0]))
    backlogs = backlog_tokens(
        arrival_s, tokens, capacity_tokens_per_s, np.array([from_s, start_s])
    )
    return PeakWindow(
        warm_up_from_s=from_s,
        start_s=start_s,
        end_s=start_s + length_s,
        first_row=int(np.searchsorted(arrival_s, from_s, side="left")),
        start_row=start,
        end_row=end,
        tokens_per_s=float(before[end] - before[start]) / length_s,
        mean_tokens_per_s=float(before[-1]) / (span_s or length_s),
        requests_per_s=(end - start) / length_s,
        warm_up_backlog_tokens=float(backlogs[0]),
        backlog_tokens=float(backlogs[1]),
    )


def peak_stream(
    stream: RequestStream, window: PeakWindow, follow_s: float = 0.0
) -> tuple[RequestStream, Masks]:
    """The requests of a window and of its warm-up, times from the start of the warm-up.

    Parameters
    ----------
    stream : what the window was found in
    window : from `peak_window`
    follow_s : after the window, whose requests come too: the last ones of the window would else
        be answered by a fleet that empties

    Returns
    -------
    the requests, and (n,) which of them are of the window and count
    """
    end_s = window.end_s + follow_s
    end_row = max(int(np.searchsorted(stream.arrival_s, end_s, side="left")), window.end_row)
    rows = np.arange(window.first_row, end_row)
    arrival_s = stream.arrival_s[rows] - window.warm_up_from_s
    is_counted = (rows >= window.start_row) & (rows < window.end_row)
    return stream.take(rows, arrival_s, end_s - window.warm_up_from_s), is_counted


def warmed_from_empty(
    window: PeakWindow, arrival_s: Floats, tokens: Floats, capacity_tokens_per_s: float
) -> PeakWindow:
    """The window with a warm-up that begins when a fleet of this capacity last had no backlog.

    Parameters
    ----------
    window : from `peak_window`
    arrival_s, tokens : (n,) as it was found in
    capacity_tokens_per_s : what the fleet serves

    Notes
    -----
    Looked for in steps of the warm-up, and no further back than ten of them: a fleet that was
    behind for longer is overloaded, which its replay tells as well.
    """
    step_s = window.start_s - window.warm_up_from_s
    back = window.start_s - step_s * np.arange(1.0, MOST_WARM_UPS + 1.0)
    back = np.maximum(back, float(arrival_s[0]))
    left = backlog_tokens(arrival_s, tokens, capacity_tokens_per_s, back)
    free = np.flatnonzero(left <= 0.0)
    at = int(free[0]) if len(free) else len(back) - 1
    first = int(np.searchsorted(arrival_s, back[at], side="left"))
    return replace(
        window,
        warm_up_from_s=float(back[at]),
        first_row=first,
        warm_up_backlog_tokens=float(left[at]),
    )


def filled_before(
    window: PeakWindow, arrival_s: Floats, tokens: Floats, filled_tokens: float
) -> PeakWindow:
    """The window with a warm-up that brings so many tokens, where the stream has as many.

    Parameters
    ----------
    window : from `peak_window`
    arrival_s, tokens : (n,) as it was found in
    filled_tokens : that have to come before it; 0 leaves the window as it is
    """
    before = np.concatenate([[0.0], np.cumsum(tokens)])
    wanted = before[window.start_row] - filled_tokens
    first = max(int(np.searchsorted(before, wanted, side="right")) - 1, 0)
    if first >= window.first_row:
        return window
    return replace(window, warm_up_from_s=float(arrival_s[first]), first_row=first)


MOST_WARM_UPS = 10


def backlog_tokens(
    arrival_s: Floats, tokens: Floats, capacity_tokens_per_s: float, at_s: Floats
) -> Floats:
    """Work unserved at some times, before what arrives at these times, by a fleet as one server.

    Parameters
    ----------
    arrival_s : (n,) never falling [s]
    tokens : (n,) work of each request
    capacity_tokens_per_s : what is served while there is work
    at_s : (m,) [s]

    Returns
    -------
    (m,) [tokens]

    Notes
    -----
    A fluid queue that starts empty, first come, first served; batching and preemption are for
    the replay to know.

    References
    ----------
    Lindley, Proc. Camb. Phil. Soc. 48 (1952) 277, the recursion unrolled.
    """
    if math.isinf(capacity_tokens_per_s):
        return np.zeros(len(at_s))
    done = np.cumsum(tokens)
    served = capacity_tokens_per_s * arrival_s
    after = done - served - np.minimum.accumulate(done - tokens - served)
    last = np.searchsorted(arrival_s, at_s, side="left") - 1
    waited_s = at_s - arrival_s[np.maximum(last, 0)]
    left = after[np.maximum(last, 0)] - capacity_tokens_per_s * waited_s
    return np.where(last < 0, 0.0, np.maximum(left, 0.0))
