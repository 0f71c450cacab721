"""Every schedule file: its closed form against its own pass order, played event by event."""

import numpy as np
import pytest

from simkernel import plugins
from simkernel.stage_times import PassTimes, StageTimes


def times_of(seconds):
    """The first, an inner and the last of some stages, as a schedule is told of them."""
    each = [PassTimes(*(np.full(1, s) for s in (*stage, 0.0))) for stage in seconds]
    return StageTimes(each[0], each[min(1, len(each) - 1)], each[-1])


def played(module, stages, chunks, micro_batches, seconds):
    """Finish time and peak activations per stage when passes run in order and wait for inputs.

    `seconds[stage]` = (forward, backward) of a whole stage; a chunk takes its share.
    """
    queues = [module.order(s, stages, chunks, micro_batches) for s in range(stages)]
    done: dict[tuple, float] = {}
    clock, position = [0.0] * stages, [0] * stages
    kept, peak = [0] * stages, [0] * stages
    last = stages * chunks - 1
    while any(position[s] < len(queues[s]) for s in range(stages)):
        moved = False
        for s in range(stages):
            while position[s] < len(queues[s]):
                kind, chunk, batch = queues[s][position[s]]
                place = chunk * stages + s
                if kind == "forward":
                    needs = [("forward", place - 1, batch)] if place else []
                else:
                    needs = [("forward", place, batch)]
                    needs += [("backward", place + 1, batch)] if place < last else []
                if any(need not in done for need in needs):
                    break
                start = max([clock[s]] + [done[need] for need in needs])
                clock[s] = start + seconds[s][kind == "backward"] / chunks
                done[kind, place, batch] = clock[s]
                kept[s] += 1 if kind == "forward" else -1
                peak[s] = max(peak[s], kept[s])
                position[s] += 1
                moved = True
        assert moved, "the order waits for itself"
    return max(clock), [p / chunks for p in peak]


CASES = [(1, 1, 3), (2, 1, 1), (2, 1, 4), (4, 1, 3), (4, 1, 4), (4, 1, 16), (8, 1, 16)]
CHUNKED = [(2, 2, 4), (4, 2, 4), (4, 2, 8), (4, 4, 8), (8, 3, 16)]


def schedule_cases():
    """Chunks belong to the interleaved schedule, and only to it."""
    for name in plugins.names("schedules"):
        for case in CHUNKED if name == "interleaved" else CASES:
            yield (name, *case)


@pytest.mark.parametrize(("name", "stages", "chunks", "micro_batches"), list(schedule_cases()))
def test_closed_span_and_memory_equal_the_played_order(name, stages, chunks, micro_batches):
    """If false, the bubble or the activations in flight are priced for another schedule."""
    module = plugins.find("schedules", name)
    seconds = [(1.0, 2.0)] * stages
    end, peak = played(module, stages, chunks, micro_batches, seconds)
    one = np.ones(1)
    args = (one * stages, one * chunks, one * micro_batches)
    span = module.span(times_of(seconds), *args)
    assert end == pytest.approx(span.span_s[0], rel=1e-12)
    assert span.bubble_s[0] == pytest.approx(end - micro_batches * 3.0, abs=1e-9)
    kept = [module.in_flight(one * s, *args)[0] for s in range(stages)]
    assert kept == pytest.approx(peak)


@pytest.mark.parametrize("name", ["gpipe", "one_forward_one_backward"])
def test_a_slow_last_stage_is_the_pace_of_the_pipeline(name):
    """SimAI 62: the bubble must differ when stages are unbalanced, and the closed form with it."""
    module = plugins.find("schedules", name)
    seconds = [(1.0, 2.0)] * 3 + [(1.5, 3.0)]
    end, _ = played(module, 4, 1, 12, seconds)
    one = np.ones(1)
    span = module.span(times_of(seconds), one * 4, one, one * 12)
    assert end == pytest.approx(span.span_s[0], rel=1e-12)
    assert end > played(module, 4, 1, 12, [(1.0, 2.0)] * 4)[0]
