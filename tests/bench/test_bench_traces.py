"""How fast a million requests are read, drawn, copied and searched for their peak."""

import time

import numpy as np
import pytest

from costdata.traces import catalogue_trace, read_trace
from planner.serving.demand import demand
from planner.study.parts import Scale, ServeWorkload
from simkernel.peak import peak_window

REQUESTS = 1_000_000


def cpu_s(work):
    start = time.process_time()
    result = work()
    return result, time.process_time() - start


@pytest.fixture(scope="module")
def columns():
    rng = np.random.default_rng(0)
    times = np.datetime64("2023-11-16T18:15:46.680590", "us")
    times = np.datetime_as_string(times + np.cumsum(rng.integers(0, 999, REQUESTS)))
    return times, rng.integers(1, 9999, REQUESTS), rng.integers(1, 999, REQUESTS)


FORMATS = {
    "azure": ("TIMESTAMP,ContextTokens,GeneratedTokens", "{0}0,{1},{2}", 2.0),
    "azure 2024": ("TIMESTAMP,ContextTokens,GeneratedTokens", "{0}+00:00,{1},{2}", 2.0),
    "vidur": ("arrived_at,num_prefill_tokens,num_decode_tokens", "{3}.25,{1},{2}", 2.0),
    "burstgpt": (
        "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,"
        "Log Type",
        "{3}.0,1722ac82-0a46-4bf0-aa08-{3},43,GPT-4,{1},{2},9,API log",
        4.0,
    ),
    "mooncake": (
        "",
        '{{"timestamp": {3}, "input_length": {1}, "output_length": {2}, "hash_ids": [{3}, 5]}}',
        8.0,
    ),
}
"""Header, row and the CPU seconds that a million rows may take."""


@pytest.mark.bench
@pytest.mark.parametrize("name", FORMATS)
def test_a_million_rows_are_read(name, columns, tmp_path, tell):
    """A week of a service would be read longer than it is planned for."""
    header, row, most_s = FORMATS[name]
    rows = zip(*columns, range(REQUESTS), strict=True)
    path = tmp_path / "trace"
    path.write_text("\n".join(filter(None, [header, *(row.format(*cells) for cells in rows)])))
    trace, seconds = cpu_s(lambda: read_trace(path))
    tell(f"{name}: a million rows read", f"{seconds:.2f} s", f"bar {most_s:g} s")
    assert len(trace.requests) == REQUESTS
    assert seconds < most_s


@pytest.mark.bench
def test_a_hundred_copies_and_their_peak(tell):
    """J4 would spend its time before the first replica."""
    work = ServeWorkload("m", "azure_conversation_2023", scale=Scale(100, "superpose"))
    assert catalogue_trace("azure_conversation_2023")
    found, copied_s = cpu_s(lambda: demand(work, 1).requests)
    tokens = found.prompt_tokens + found.output_tokens
    _, found_s = cpu_s(lambda: peak_window(found.arrival_s, tokens, found.span_s, 60.0, 60.0, 1e6))
    tell("1.9 million requests copied from a trace", f"{copied_s:.2f} s", "bar 2 s")
    tell("their busiest minute and its backlog found", f"{found_s:.2f} s", "bar 1 s")
    assert copied_s < 2.0
    assert found_s < 1.0
