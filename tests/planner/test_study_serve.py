"""Traffic and latencies of a serving study: what is taken, and every fault at once."""

import math
import re
from pathlib import Path as File

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costdata.traces import trace_formats, trace_name
from planner.study.names import Names
from planner.study.read import study_from_text
from planner.study.slo import Bound, SloClass, slo_classes
from planner.study.traffic import (
    ARRIVALS,
    Bursts,
    ClosedLoop,
    Diurnal,
    Gamma,
    Lengths,
    Poisson,
    Profile,
    Recorded,
    traffic_of,
)
from planner.study.written import study_from_json, study_to_json
from simkernel.errors import BadStudy

HEAD = """[study]
name = "chat"
kind = "serve"
[axes]
accelerator = "H100-SXM"
devices = 8
[workload.chat]
model = "llama-3.1-70b"
"""
NAMES = Names(trace=trace_name)


def workload(body, folder):
    return study_from_text(HEAD + body, "x.toml", folder, NAMES).workloads["chat"]


def faults_of(body, folder):
    with pytest.raises(BadStudy) as caught:
        workload(body, folder)
    return caught.value.faults


def drawn(text, folder):
    body = f"[workload.chat.trace]\n{text}\n"
    lengths = "prompt_tokens = 10\noutput_tokens = 20\n"
    return traffic_of(workload(body + lengths, folder).trace)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("arrivals = 5.5", Poisson(5.5)),
        ('arrivals = { process = "poisson", requests_per_s = 5 }', Poisson(5.0)),
        ('arrivals = { process = "gamma", requests_per_s = 5.5, cv = 2 }', Gamma(5.5, 2.0)),
        (
            'arrivals = { process = "diurnal", requests_per_s = 5.5, peak_over_mean = 1.6 }',
            Diurnal(5.5, 1.6, 50_400.0, 86_400.0),
        ),
        (
            'arrivals = { process = "profile", requests_per_s = 1, profile = [1, 3] }',
            Profile(1.0, (1.0, 3.0), 86_400.0),
        ),
        (
            'arrivals = { process = "bursts", requests_per_s = 1, peak_over_mean = 5, '
            "burst_s = 1, quiet_s = 4 }",
            Bursts(1.0, 5.0, 1.0, 4.0),
        ),
        ('arrivals = { process = "closed_loop", concurrency = 64 }', ClosedLoop(64)),
    ],
)
def test_every_process_can_be_asked_for(text, wanted, tmp_path):
    """A load would have to be recorded before it could be planned for."""
    assert drawn(text, tmp_path).arrivals == wanted


@pytest.mark.parametrize(
    ("text", "span_s", "requests"),
    [
        ("arrivals = 5", 3600.0, 0),
        ("arrivals = 5\nduration_s = 60", 60.0, 0),
        ("arrivals = 5\nrequests = 70", 0.0, 70),
        ('arrivals = { process = "closed_loop", concurrency = 4 }', 0.0, 10_000),
        (
            'arrivals = { process = "diurnal", requests_per_s = 5, peak_over_mean = 2 }',
            86_400.0,
            0,
        ),
    ],
)
def test_what_ends_the_stream(text, span_s, requests, tmp_path):
    """An hour of a day would be taken for the day, and its peak be missed."""
    found = drawn(text, tmp_path)
    assert (found.span_s, found.requests) == (span_s, requests)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("512", Lengths(512, 512)),
        ("{ from = 128, to = 2048 }", Lengths(128, 2048)),
        ("[10, 500]", Lengths(values=(10, 500), weights=(1.0, 1.0))),
        ("{ values = [10, 500], weights = [9, 1] }", Lengths(values=(10, 500), weights=(9, 1))),
        ('"azure_code_2023"', Lengths(trace="azure_code_2023")),
    ],
)
def test_every_kind_of_length_can_be_asked_for(text, wanted, tmp_path):
    """A plan would rest on a mean length."""
    trace = f"trace = {{ arrivals = 1, prompt_tokens = {text}, output_tokens = 5 }}"
    assert traffic_of(workload(trace, tmp_path).trace).prompt == wanted


def test_a_file_is_found_from_the_folder_of_the_study(tmp_path):
    """The working folder would decide which trace a plan rests on."""
    named = workload('trace = "my/trace.csv"', tmp_path)
    assert traffic_of(named.trace) == Recorded(str(tmp_path / "my/trace.csv"))
    given_unit = workload('trace = { file = "t.csv", time_unit = "us" }', tmp_path)
    assert traffic_of(given_unit.trace) == Recorded(str(tmp_path / "t.csv"), "us")
    lengths = 'trace = { arrivals = 1, prompt_tokens = "p.csv", output_tokens = 2 }'
    assert traffic_of(workload(lengths, tmp_path).trace).prompt.trace == str(tmp_path / "p.csv")


def test_a_serving_study_reads_back_as_it_was(tmp_path):
    """A stored run would be about another load."""
    body = (
        'trace = { arrivals = { process = "profile", requests_per_s = 1, profile = [1, 3] }, '
        "prompt_tokens = { from = 1, to = 9 }, output_tokens = [1, 2] }\n"
        'scale = { times = 3, by = "superpose" }\n'
        "slo = { fast = { share_frac = 0.3, ttft_s_p95 = 1.0 }, slow = { e2e_s_p99 = 60.0 } }"
    )
    study = study_from_text(HEAD + body, "x.toml", tmp_path, NAMES)
    again = study_from_json(study_to_json(study))
    assert study_to_json(again) == study_to_json(study)
    one, two = (each.workloads["chat"] for each in (study, again))
    assert traffic_of(one.trace) == traffic_of(two.trace)
    assert slo_classes(one.slo) == slo_classes(two.slo)


def synthetic(arrivals="1", prompt="1", more=""):
    return (
        f"trace = {{ arrivals = {arrivals}, prompt_tokens = {prompt}, output_tokens = 1{more} }}"
    )


def process(text):
    return synthetic(f"{{ process = {text} }}")


def bounded(slo):
    return f'trace = "azure_code_2023"\nslo = {slo}'


WRONG = {
    'trace = "azure_conversation"': "did you mean azure_conversation_2023",
    "trace = {}": "arrivals is not given",
    "trace = { arrivals = 1 }": "output_tokens is not given",
    'trace = { file = 7, unit = "s" }': "is no path",
    'trace = { file = "a.csv", time_unit = "h" }': "is no unit",
    synthetic(prompt="0"): "prompt_tokens = 0",
    synthetic(prompt="1.5"): "prompt_tokens = 1.5",
    synthetic(prompt="true"): "prompt_tokens = True",
    synthetic(prompt="[]"): "is no length",
    synthetic(prompt="{ from = 9, to = 1 }"): "is no length",
    synthetic(prompt="{ values = [1], weights = [0] }"): "is no length",
    synthetic(prompt='"none"'): "'none' is not known",
    synthetic("0"): "greater than 0",
    synthetic("nan"): "arrivals.requests_per_s",
    synthetic("1e6"): "wanted at most 50,000,000",
    synthetic('"poisson"'): "arrivals.requests_per_s is not given",
    process('"pareto"'): "is no process",
    process('"gamma", requests_per_s = 1, cv = -1'): "arrivals.cv = -1",
    process('"poisson", rate = 1'): "arrivals.rate is no key",
    process('"bursts", requests_per_s = 1, peak_over_mean = 6, burst_s = 1, quiet_s = 4'): (
        "wanted at most"
    ),
    process('"profile", requests_per_s = 1, profile = [0, 0]'): "is all 0",
    synthetic(
        '{ process = "diurnal", requests_per_s = 1, peak_over_mean = 2 }', more=", duration_s = 60"
    ): "wanted at least one period",
    synthetic(
        '{ process = "diurnal", requests_per_s = 1, peak_over_mean = 2 }', more=", requests = 60"
    ): "60 s are a part of the period",
    process('"bursts", requests_per_s = 1, peak_over_mean = 2, burst_s = 1e-9, quiet_s = 1e-9'): (
        "arrivals are to be drawn"
    ),
    process(
        '"bursts", requests_per_s = 1, peak_over_mean = 1e9, burst_s = 1e-6, quiet_s = 1e9'
    ): "arrivals are to be drawn",
    process('"profile", requests_per_s = 100, profile = [1, 0, 0, 0, 0, 0, 0, 0, 0, 0]'): (
        "86,400,000 arrivals are to be drawn"
    ),
    synthetic(more=", duration_s = 1, requests = 1"): "remove one",
    synthetic(more=", requests = 0"): "requests = 0",
    synthetic('{ process = "closed_loop", concurrency = 1 }', more=", duration_s = 9"): (
        "as long as its answers"
    ),
    process('"closed_loop", concurrency = 1') + '\nscale = { times = 2, by = "compress" }': (
        "no times to compress"
    ),
    'trace = "azure_code_2023"\nscale = { times = 0, by = "superpose" }': "scale.times = 0",
    bounded("2"): "slo = 2",
    bounded("{ ttft_p95 = 2 }"): "did you mean ttft_s_p95",
    bounded("{ ttft_s_p0 = 2 }"): "ttft_s_p0 is no latency",
    bounded("{ ttft_s_p95 = -2 }"): "is no bound",
    bounded("{ ttft_s_p95 = inf }"): "is no bound",
    bounded("{ ttft_s_p95 = true }"): "is no bound",
    bounded("{ ttft_s_p50 = 2, ttft_s_p95 = 1 }"): "can never bind",
    bounded("{ a = { ttft_s_p50 = 2 }, e2e_s_p95 = 1 }"): "inside a class",
    bounded("{ a = { ttft_s_p50 = 2 }, b = { ttft_s_p50 = 1 } }"): "slo.a.share_frac is not given",
    bounded(
        "{ a = { share_frac = 0.4, ttft_s_p50 = 2 }, b = { share_frac = 0.4, ttft_s_p50 = 1 } }"
    ): "sum to 0.8",
    bounded("{ a = { share_frac = 1.0 } }"): "a bound",
    bounded("{ a = { share_frac = 2, ttft_s_p50 = 2 } }"): "is no share",
}


@pytest.mark.parametrize("body", WRONG)
def test_a_wrong_workload_is_told_with_its_line(body, tmp_path):
    """A slip would size a fleet."""
    faults = faults_of(body, tmp_path)
    assert WRONG[body] in "\n".join(faults)
    assert all(fault.startswith("x.toml:") for fault in faults)


def test_all_faults_of_a_workload_are_told_at_once(tmp_path):
    """A study would be mended one run at a time."""
    body = """[workload.chat.trace]
arrivals = { process = "gamma", requests_per_s = -1 }
prompt_tokens = 0
output_tokens = "none"
speed = 7
[workload.chat.slo]
ttft_s_p95 = 0
tpot_p95 = 1
"""
    faults = faults_of(body, tmp_path)
    assert [fault.split(":")[1] for fault in faults if ":" in fault] == [
        *("12", "13", "10", "10", "11", "15", "16"),
    ]


def test_classes_and_their_shares(tmp_path):
    """A batch job would be held to the latency of a chat, or a chat to that of a batch job."""
    body = (
        'trace = "azure_code_2023"\nslo = { chat = { share_frac = 0.75, ttft_s_p95 = 2, '
        "tpot_s_mean = 0.05 }, batch = { e2e_s_p999 = 600 } }"
    )
    assert slo_classes(workload(body, tmp_path).slo) == (
        SloClass("chat", 0.75, (Bound("ttft_s", "p95", 2.0), Bound("tpot_s", "mean", 0.05))),
        SloClass("batch", 0.25, (Bound("e2e_s", "p999", 600.0),)),
    )
    plain = 'trace = "azure_code_2023"\nslo = { ttft_s_p95 = 2.0, tpot_s_p95 = 0.05 }'
    (only,) = slo_classes(workload(plain, tmp_path).slo)
    assert (only.name, only.share_frac, len(only.bounds)) == ("all", 1.0, 2)
    assert slo_classes(workload('trace = "azure_code_2023"', tmp_path).slo) == ()


def test_percentiles_of_statistics():
    """A bound on the 99.9th percentile would be checked on another."""
    found = [Bound("e2e_s", name, 1.0).percentile for name in ("p5", "p50", "p95", "p999", "max")]
    assert found == [5, 50, 95, 99.9, 100]
    assert math.isnan(Bound("e2e_s", "mean", 1.0).percentile)


def told_or_read(read, table):
    """What was read, or what is wrong; anything else is our own fault and goes through."""
    try:
        return read(table)
    except BadStudy as error:
        return error.faults


KEYS = st.sampled_from(["from", "to", "values", "weights", "process", "requests_per_s", "a"])


def nested(inner):
    """A value, or a list or a table of such values."""
    return inner | st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3)


toml_like = nested(
    nested(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text("ab1.µ \n", max_size=5)
    )
)


@pytest.mark.long
@given(
    st.dictionaries(
        st.sampled_from(
            ["arrivals", "prompt_tokens", "output_tokens", "duration_s", "requests", "file", "z"]
        ),
        toml_like,
    )
)
def test_no_trace_table_ends_in_a_traceback(table):
    """A slip of one key would end in our own traceback."""
    assert told_or_read(traffic_of, table)


@given(st.dictionaries(st.sampled_from(["ttft_s_p95", "a", "share_frac"]), toml_like))
def test_no_slo_table_ends_in_a_traceback(table):
    """A slip of one key would end in our own traceback."""
    assert told_or_read(slo_classes, table) or not table


DOCUMENT = File(__file__).parents[2] / "docs" / "TRAFFIC.md"


def test_every_study_of_the_documentation_is_read(tmp_path):
    """A reader would copy a key that is refused."""
    texts = re.findall(r"```toml\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    head = HEAD.split("[workload.chat]")[0]
    found = [study_from_text(head + text, "x.toml", tmp_path, NAMES) for text in texts]
    streams = [traffic_of(each.workloads["chat"].trace) for each in found]
    classes = [[c.name for c in slo_classes(each.workloads["chat"].slo)] for each in found]
    assert classes == [["all"], ["chat", "batch"]]
    assert isinstance(streams[0], Recorded)
    assert streams[1].arrivals == Gamma(5.5, 2.0)


def test_every_format_and_process_is_in_the_documentation():
    """A format would be read that nobody knows of, or promised that is not read."""
    text = DOCUMENT.read_text()
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("|")]
    told = {tuple(row) for row in rows if len(row) == 5} - {tuple(rows[0])}
    known = {(f.name, f.time, f.prompt, f.output, f.unit) for f in trace_formats()}
    assert known == {row for row in told if not row[0].startswith("-")}
    assert all(f"`{name}`" in text for name in ARRIVALS)
