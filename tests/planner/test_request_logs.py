"""Logs of single requests: read, replayed through the passes of their plan, and scored."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from costdata import catalog
from planner.documents import validate as commands_validate
from planner.validation.request_logs import log_row, read_log
from planner.validation.request_protocols import slower_of
from planner.validation.request_replay import logged_run
from simkernel.errors import BadFile, BadStudy, MissingFact

FOLDER = Path(__file__).parents[1] / "truth" / "serve_requests"
LOGS = sorted(FOLDER.glob("*_requests.jsonl"))


def errors(protocol, logs=LOGS):
    """Largest error over the logs of every metric."""
    metrics = commands_validate.validate(logs, protocol, [])["metrics"]
    return {
        name: [g["mape"] for g in m["groups"]["model"].values()] for name, m in metrics.items()
    }


def test_both_logs_are_there_and_say_what_ran():
    """Settings beside the log must reach the replay, or another plan would be scored."""
    rows = [log_row(path) for path in LOGS]
    assert [row.text("tp") for row in rows] == ["1", "2"]
    assert {row.text("accelerator") for row in rows} == {"RTXPRO6000"}
    assert {row.text("max_num_batched_tokens") for row in rows} == {"2048"}
    assert all(len(read_log(path).arrival_s) == 300 for path in LOGS)


def changed_log(folder, **settings):
    """The first log with other settings of its engine, and another model."""
    model = settings.pop("model", None)
    name = LOGS[0].name.removesuffix("_requests.jsonl")
    (folder / LOGS[0].name).write_bytes(LOGS[0].read_bytes())
    meta = json.loads((FOLDER / f"{name}_meta.json").read_text())
    meta["engine_kwargs"] |= settings
    meta["model"] = model or meta["model"]
    (folder / f"{name}_meta.json").write_text(json.dumps(meta))
    return log_row(folder / LOGS[0].name)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"quantization": "fp8"}, "quantization = 'fp8'"),
        ({"kv_cache_dtype": "fp8"}, "kv_cache_dtype = 'fp8'"),
        ({"data_parallel_size": 4}, "data_parallel_size = 4"),
        ({"dtype": "float32"}, "dtype 'float32' is not one of ours"),
        ({"model": "meta-llama/Llama-3.1-405B"}, "do not fit the devices it ran on"),
    ],
)
def test_a_log_of_an_engine_that_is_not_read_is_not_scored(tmp_path, settings, told):
    """Four devices in 8 bits would be scored as one in 16."""
    with pytest.raises(MissingFact, match=re.escape(told)):
        logged_run(changed_log(tmp_path, **settings), catalog.load())


def test_an_efficiency_of_the_other_log_holds():
    """An engine calibrated on one model must serve another: a backlog amplifies every error."""
    found = errors("leave_one_out:model")
    assert max(found["tpot_s"]) < 0.15
    assert max(found["ttft_s_p50"]) < 0.30


def test_one_efficiency_explains_tails_and_medians_of_its_own_log():
    """The replay has the shape of the run: only its level may be off."""
    found = errors("one_factor:model")
    assert max(found["tpot_s_p99"]) < 0.03
    assert max(found["ttft_s_p50"]) < 0.05
    assert max(found["ttft_s_p99"]) < 0.05


def test_a_slower_log_needs_a_slower_engine():
    """The fitted efficiency must follow the log, not the starting point."""
    run = logged_run(log_row(LOGS[0]), catalog.load())
    once, twice = (run.predicted(slower)["tpot_s_mean"] for slower in (1.0, 2.0))
    assert once < twice < 3.0 * once
    assert 0.8 < slower_of([run]) < 1.25


def test_leaving_out_the_only_log_is_refused():
    """An efficiency fitted on nothing would be the shipped one under another name."""
    with pytest.raises(BadStudy, match="another"):
        errors("leave_one_out:model", LOGS[:1])


def test_broken_logs_are_refused_with_every_line(tmp_path):
    """A log that lost a column would be scored on other requests."""
    path = tmp_path / "H100_x_requests.jsonl"
    path.write_text('{"input_toks": 1}\nno json\n')
    with pytest.raises(BadFile) as error:
        read_log(path)
    assert len(error.value.faults) == 2
    with pytest.raises(BadFile, match="cannot be read"):
        log_row(path)
    path.with_name("H100_x_meta.json").write_text(json.dumps({"model": "m"}))
    with pytest.raises(BadFile, match="engine_kwargs"):
        log_row(path)


def test_times_count_from_the_first_arrival_whatever_the_clock(tmp_path):
    """Engines log their own clocks, and lines come in order of ending."""
    lines = [
        {
            "queued_ts": 7.5,
            "first_token_ts": 8,
            "last_token_ts": 9,
            "input_toks": 3,
            "output_toks": 3,
        },
        {
            "queued_ts": 7.0,
            "first_token_ts": 9,
            "last_token_ts": 9,
            "input_toks": 5,
            "output_toks": 1,
        },
    ]
    path = tmp_path / "H100_x_requests.jsonl"
    path.write_text("\n".join(json.dumps(line) for line in lines))
    log = read_log(path)
    assert list(log.arrival_s) == [0.0, 0.5]
    assert list(log.ttft_s) == [2.0, 0.5]
    assert np.isnan(log.tpot_s[0])
    assert log.tpot_s[1] == 0.5
