"""A stream is refused when it cannot be what was measured, and taken when it can."""

import numpy as np
import pytest

from simkernel.errors import BadStudy
from simkernel.replay.fleet import Fleet
from simkernel.replay.requests import Requests
from simkernel.replay.tables import StepJoules, StepTables
from simkernel.workload import RequestStream


def tables(**changed):
    parts = {
        "tokens": np.array([1, 512]),
        "token_s": np.array([0.01, 0.05]),
        "sequences": np.array([1, 64]),
        "sequence_s": np.array([0.0, 0.0]),
        "decode_contexts": np.array([0, 4096]),
        "decode_s": np.zeros((2, 2)),
        "prefill_contexts": np.array([0, 4096]),
        "prefill_chunks": np.array([1, 512]),
        "prefill_s": np.zeros((2, 2)),
    }
    return StepTables(**{**parts, **changed})


def test_a_first_request_at_zero_is_legal():
    """Another simulator crashes on a request at t = 0."""
    assert len(Requests(np.array([0.0, 1.0]), np.array([5, 5]), np.array([1, 0]))) == 2


def test_a_workloads_stream_is_taken_as_it_is():
    """Another stream would be replayed than the one that was sized."""
    columns = (np.array([0.0, 2.0]), np.array([5, 7]), np.array([1, 3]))
    requests = Requests.of(RequestStream(*columns, span_s=4.0))
    read = (requests.arrival_s, requests.prompt_tokens, requests.output_tokens)
    assert all(np.array_equal(*pair) for pair in zip(read, columns, strict=True))


def test_an_empty_stream_is_legal():
    """A class without traffic in a window would stop a study."""
    assert len(Requests.in_order(np.array([]), np.array([]), np.array([]))) == 0


def test_a_date_for_a_time_is_refused():
    """A trace in epoch seconds would be served after fifty idle years."""
    with pytest.raises(BadStudy, match="subtract the first arrival"):
        Requests(np.array([1.7e9, 1.7e9 + 1]), np.array([5, 5]), np.array([1, 1]))


def test_shuffled_rows_are_refused_and_put_in_order():
    """A request would be served before it came."""
    times_s, prompts, outputs = np.array([9.0, 3.0, 6.0]), np.array([9, 3, 6]), np.array([1, 2, 3])
    with pytest.raises(BadStudy, match="1 times in all"):
        Requests(times_s, prompts, outputs)
    sorted_stream = Requests.in_order(times_s + 1.7e9, prompts, outputs)
    assert sorted_stream.arrival_s.tolist() == [0.0, 3.0, 6.0]
    assert sorted_stream.prompt_tokens.tolist() == [3, 6, 9]
    assert sorted_stream.output_tokens.tolist() == [2, 3, 1]


@pytest.mark.parametrize(
    ("arrival_s", "prompts", "outputs", "said"),
    [
        ([-1.0], [1], [1], "count from 0"),
        ([float("nan")], [1], [1], "in seconds"),
        ([0.0], [-4], [1], "prompt_tokens -4"),
        ([0.0], [1], [1.5], "output_tokens 1.5"),
        ([0.0, 1.0], [1], [1], "one length"),
    ],
)
def test_a_broken_stream_is_refused_with_its_row(arrival_s, prompts, outputs, said):
    """A wrong file would give a latency instead of a message."""
    with pytest.raises(BadStudy, match=said):
        Requests(np.array(arrival_s), np.array(prompts), np.array(outputs))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"token_s": np.array([0.01])}, "its grids ask for"),
        ({"token_s": np.array([0.01, np.nan])}, "fill every one"),
        ({"decode_s": np.full((2, 2), -1.0)}, "fill every one"),
        ({"tokens": np.array([512, 1])}, "grid tokens"),
        ({"least_step_s": -1.0}, "least_step_s"),
        ({"context_rounding_tokens": 0}, "context_rounding_tokens"),
    ],
)
def test_a_broken_table_is_refused(changed, said):
    """A hole in a table would come out as a latency."""
    with pytest.raises(BadStudy, match=said):
        tables(**changed)


def test_a_table_of_joules_has_the_shape_of_its_seconds():
    """Energy would be read from another step's row."""
    full = tables()
    joules = StepJoules(full.token_s, full.sequence_s, full.decode_s, full.prefill_s[:1], 100.0)
    with pytest.raises(BadStudy, match="prefill_j has shape"):
        tables(joules=joules)


def test_a_fleet_without_room_is_refused_with_every_fault():
    """A replica without blocks would wait for ever."""
    with pytest.raises(BadStudy) as caught:
        Fleet(0, "static", "random", 8.5, 512, 16, 0, 4096, watermark_frac=1.0)
    assert len(caught.value.faults) == 4
