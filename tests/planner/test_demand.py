"""The requests a workload offers: one seed one stream, in words how it came about."""

import numpy as np
import pytest

from costdata.traces import catalogue_trace, write_trace
from planner.serving.demand import demand
from planner.study.parts import Scale, ServeWorkload
from simkernel.errors import BadFile, BadStudy


def work(trace, **more):
    return ServeWorkload(model="m", trace=trace, **more)


def synthetic(**more):
    return {"arrivals": 5.0, "prompt_tokens": 10, "output_tokens": {"from": 1, "to": 9}, **more}


def test_a_catalogue_trace_comes_as_it_is():
    """The first study of every user would rest on another load."""
    found = demand(work("azure_conversation_2023"), 1)
    assert len(found.requests) == 19_366
    assert "19,366 requests of azure_conversation_2023" in found.words[0]


def test_a_hundred_copies_of_the_conversation_keep_its_busy_minute():
    """J4: 553 requests a second, and a peak minute that a plan for the mean would miss."""
    scale = Scale(times=100, by="superpose")
    found = demand(work("azure_conversation_2023", scale=scale), 1)
    minutes = np.bincount((found.requests.arrival_s // 60).astype(int))
    assert found.requests.requests_per_s == pytest.approx(553.0, rel=1e-3)
    assert 1.3 < minutes.max() / (553 * 60) < 1.53
    assert "100 copies" in found.words[-1]
    fast = demand(work("azure_conversation_2023", scale=Scale(times=100, by="compress")), 1)
    assert fast.requests.requests_per_s == pytest.approx(553.0, rel=1e-3)
    assert fast.requests.span_s == pytest.approx(35.02, rel=1e-3)
    assert "time divided by 100" in fast.words[-1]


def test_a_seed_gives_the_same_stream_and_another_seed_another():
    """A plan could not be looked at twice, or five seeds would be one."""
    given = work(synthetic(), scale=Scale(times=2.5, by="superpose"))
    one, same, other = (demand(given, seed).requests for seed in (1, 1, 2))
    assert one.arrival_s.tolist() == same.arrival_s.tolist()
    assert one.output_tokens.tolist() == same.output_tokens.tolist()
    assert one.arrival_s[:5].tolist() != other.arrival_s[:5].tolist()


@pytest.mark.parametrize("by", ["superpose", "compress"])
def test_an_exported_stream_is_the_stream(tmp_path, by):
    """inference-sim#1032: the replay of an exported trace was eleven times as slow."""
    one = demand(work(synthetic(), scale=Scale(times=2.5, by=by)), 1).requests
    two = demand(work(str(write_trace(one, tmp_path / "out.csv"))), 2).requests
    assert one.arrival_s[0] == 0
    assert one.arrival_s.tolist() == two.arrival_s.tolist()
    assert one.prompt_tokens.tolist() == two.prompt_tokens.tolist()
    assert one.output_tokens.tolist() == two.output_tokens.tolist()


def test_other_lengths_leave_the_arrivals_as_they_were():
    """Two plans would differ by luck and not by the length that was changed."""
    one = demand(work(synthetic()), 1).requests
    two = demand(work(synthetic(prompt_tokens={"from": 1, "to": 4000})), 1).requests
    assert one.arrival_s.tolist() == two.arrival_s.tolist()


def test_so_many_requests_as_asked_for_at_the_rate_asked_for():
    """A stream would end early, or its rate be another."""
    found = demand(work(synthetic(requests=20_000)), 3).requests
    assert len(found) == 20_000
    assert found.requests_per_s == pytest.approx(5.0, rel=0.03)
    assert found.arrival_s[-1] < found.span_s


def test_pairs_of_a_trace_stay_together():
    """Long prompts bring short answers in code; drawn apart they would not."""
    name = "azure_code_2023"
    seen = catalogue_trace(name).requests
    given = synthetic(prompt_tokens=name, output_tokens=name, requests=30_000)
    found = demand(work(given), 1).requests
    pairs = set(zip(seen.prompt_tokens.tolist(), seen.output_tokens.tolist(), strict=True))
    assert (
        set(zip(found.prompt_tokens.tolist(), found.output_tokens.tolist(), strict=True)) <= pairs
    )
    assert found.prompt_tokens.mean() == pytest.approx(seen.prompt_tokens.mean(), rel=0.03)


def test_prompts_of_one_trace_and_answers_of_another():
    """A mix of services could not be planned for."""
    given = synthetic(
        prompt_tokens="azure_code_2023", output_tokens="azure_conversation_2023", requests=20_000
    )
    found = demand(work(given), 1).requests
    assert found.prompt_tokens.mean() == pytest.approx(2047.8, rel=0.03)
    assert found.output_tokens.mean() == pytest.approx(211.1, rel=0.03)


def test_a_closed_loop_has_users_and_no_times():
    """A benchmark of fixed concurrency would be replayed as a flood."""
    loop = {"process": "closed_loop", "concurrency": 8}
    given = work(synthetic(arrivals=loop, requests=50), scale=Scale(times=2, by="superpose"))
    found = demand(given, 1).requests
    assert (found.concurrency, len(found)) == (16, 100)
    assert found.arrival_s.max() == 0
    assert found.requests_per_s == 0


@pytest.mark.parametrize(
    "arrivals",
    [
        {"process": "gamma", "requests_per_s": 5.0, "cv": 3.0},
        {"process": "diurnal", "requests_per_s": 5.0, "peak_over_mean": 1.5, "period_s": 600.0},
        {"process": "profile", "requests_per_s": 5.0, "profile": [1, 9], "period_s": 600.0},
        {
            "process": "bursts",
            "requests_per_s": 5.0,
            "peak_over_mean": 4.0,
            "burst_s": 2.0,
            "quiet_s": 8.0,
        },
    ],
)
def test_every_open_process_reaches_the_stream(arrivals):
    """A process would be taken for another."""
    found = demand(work(synthetic(arrivals=arrivals, duration_s=12_000.0)), 1)
    assert found.requests.requests_per_s == pytest.approx(5.0, rel=0.1)
    assert arrivals["process"] in found.words[0]


def test_classes_come_by_their_shares():
    """Most requests would be held to the bound of a few."""
    slo = {"chat": {"share_frac": 0.8, "ttft_s_p95": 1.0}, "batch": {"e2e_s_p95": 60.0}}
    found = demand(work(synthetic(requests=10_000), slo=slo), 1)
    assert (found.class_codes == 0).mean() == pytest.approx(0.8, abs=0.02)
    assert [each.name for each in found.classes] == ["chat", "batch"]
    assert not demand(work(synthetic()), 1).class_codes.any()


def test_no_request_at_all_is_a_bad_study():
    """An empty stream would need no fleet."""
    with pytest.raises(BadStudy, match="no request comes"):
        demand(work(synthetic(arrivals=1e-9, duration_s=1.0)), 1)


def test_too_many_copies_are_refused_before_they_are_made():
    """The memory of the machine would be gone."""
    with pytest.raises(BadStudy, match="wanted at most"):
        demand(work("azure_code_2023", scale=Scale(times=1e7, by="superpose")), 1)


def test_what_was_left_out_of_a_file_is_said(tmp_path):
    """A third of a trace could vanish in silence."""
    file = tmp_path / "t.csv"
    file.write_text("arrived_at,num_prefill_tokens,num_decode_tokens\n1,5,2\n0,5,0\n0.5,1,1\n")
    found = demand(work(str(file)), 1)
    assert "1 left out: no output tokens" in found.words
    assert "rows were not in order of time and were sorted" in found.words
    with pytest.raises(BadFile, match="cannot be read"):
        demand(work(str(tmp_path / "none.csv")), 1)
