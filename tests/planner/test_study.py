"""The study file: what it means, and everything that can be wrong with it at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.axes import AXES
from planner.metrics import METRICS, find_metric, is_at_least, metric_names
from planner.study.names import Names
from planner.study.read import read_study, study_from_text
from planner.study.written import study_from_json, study_sha256, study_to_json
from simkernel.errors import BadFile, BadStudy, unknown

SHIPPED = Path(__file__).parents[2] / "studies"
GOOD = """
[study]
name = "small"
kind = "train"

[workload.main]
model = "deepseek-v3"
tokens = 14.8e12
tokens_per_sequence = 4096

[axes]
accelerator = ["H800-SXM", "GB200"]
devices = { from = 512, to = 4096, step = "x2" }
tensor_parallel = [1, 2, 4]
global_batch_sequences = { from = 1024, to = 4096, step = 1024 }

[limits]
days = 60
"""


DEEP = "a = " + "[" * 5000


def read(text, names=None):
    """A study from text, as if it stood in studies/x.toml."""
    return study_from_text(text, "studies/x.toml", Path("/studies"), names)


def faults_of(text, names=None):
    """Every fault of a text."""
    with pytest.raises(BadStudy) as caught:
        read(text, names)
    return caught.value.faults


def test_a_study_is_read_with_every_axis_resolved():
    """An axis left out would be missing instead of taking its default."""
    study = read(GOOD)
    assert study.axes["devices"] == (512, 1024, 2048, 4096)
    assert study.axes["global_batch_sequences"] == (1024, 2048, 3072, 4096)
    assert study.axes["supernode_devices"] == ("offered",)
    assert study.axes["schedule"] == ("one_forward_one_backward",)
    assert study.training.tokens == 14.8e12
    assert study.training.max_global_batch_tokens == 62_914_560
    assert study.objectives.minimise == ("days", "usd", "kgco2e")
    assert study.seed == 0


def test_the_order_of_levels_is_kept():
    """Sorting would change design keys when a user puts the favourite first."""
    study = read(GOOD.replace("[1, 2, 4]", "[4, 1, 2]"))
    assert study.axes["tensor_parallel"] == (4, 1, 2)


def test_five_different_mistakes_are_told_in_one_run_each_with_its_line():
    """A user would mend a study one error message at a time."""
    text = GOOD.replace("tensor_parallel = [1, 2, 4]", "tensor_paralel = [3]")
    text = text.replace("days = 60", 'days = "sixty"').replace('kind = "train"', 'kind = "trian"')
    text = text.replace("tokens = 14.8e12", "tokens = -1") + "[pin]\nmfu_frac = 40\n"
    faults = faults_of(text)
    assert len(faults) == 5
    lines = [int(fault.split(":")[1]) for fault in faults]
    assert lines == [4, 8, 14, 18, 20]
    assert "did you mean tensor_parallel" in faults[2]


def test_a_line_that_is_no_toml_does_not_hide_the_other_faults():
    """One missing quote would cost a run per remaining mistake."""
    text = GOOD.replace("days = 60", "dyas = 60").replace('name = "small"', 'name = "small')
    faults = faults_of(text)
    assert any(fault.startswith("studies/x.toml:3: ") for fault in faults)
    assert any("did you mean days" in fault for fault in faults)
    assert not any("name is not given" in fault for fault in faults)


def test_a_missing_key_is_told_with_what_it_wants():
    """The user would have to search the documentation for the key."""
    faults = faults_of(GOOD.replace("tokens_per_sequence = 4096", ""))
    assert faults == (
        "studies/x.toml:6: workload.main.tokens_per_sequence is not given; "
        "wanted a whole number of tokens, e.g. tokens_per_sequence = 4096",
    )


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("tensor_parallel = 1.5", "not a whole number"),
        ("tensor_parallel = true", "not a whole number"),
        ("tensor_parallel = []", "empty"),
        ("tensor_parallel = [2, 2]", "twice"),
        ("tensor_parallel = 0", "out of bounds"),
        ("tensor_parallel = '2'", "not a whole number"),
        ("tensor_parallel = nan", "not a whole number"),
        ("tensor_parallel = { from = 1, to = 8 }", "lacks 'step'"),
        ("tensor_parallel = { from = 1, to = 8, step = 'x1' }", "does not grow"),
        ("tensor_parallel = { from = 8, to = 1, step = 'x2' }", "down to"),
        ("tensor_parallel = { from = 1, to = 8, step = 0 }", "'step' of the range is 0"),
        ("tensor_parallel = { from = 1, to = 8, step = 0.5 }", "not a whole number"),
        ("tensor_parallel = { from = 1, to = 1e12, step = 1 }", "more than"),
        ("tensor_parallel = { from = 1, to = 8, step = 1, by = 2 }", "no key 'by'"),
        ("tensor_parallel = 'offered'", "not a whole number"),
        ("precision = 'bf17'", "not one of the names"),
        ("zero_stage = 4", "out of bounds"),
        ("offload = 'disk'", "not one of the names"),
        ("compute = 'guessed'", "not one of the names"),
        ("profile = 'mine'", "not one of the names"),
        ("power_cap_frac = 1.2", "out of bounds, from 0.3 to 1 here"),
        ("placement = 'tp-dp'", "not one of the names"),
        ("batching = 'continuous'", "no axis of a train study"),
        ("tp = 1", "write tensor_parallel"),
        ("nodes = 3", "both say how many chips"),
    ],
)
def test_every_kind_of_bad_axis_value_is_told(line, problem):
    """A dead or impossible setting would be taken and ignored."""
    text = GOOD.replace("tensor_parallel = [1, 2, 4]", line)
    (fault,) = faults_of(text)
    assert fault.startswith("studies/x.toml:14: ")
    assert problem in fault


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ("[costing]\nsites = 'se'", "did you mean site"),
        ("[costing]\npue = 0.9", "greater than or equal to 1"),
        ("[costing]\ngrid_kgco2e_per_kwh = 363", "not grams"),
        ("[costing]\nwacc_frac = 8", "less than or equal to 1"),
        ("[costing]\nlife_years = 0", "greater than 0"),
        ("[costing]\nutilisation_frac = 1e-300", "from 0.0001 to 1"),
        ("[costing]\ncarbon_usd_per_t = 1e300", "less than or equal to"),
        ("[costing]\nprice_usd = { 'H100-SXM' = 1e300 }", "less than or equal to"),
        ("[costing]\nsite = ['se', 'se']", "repeats"),
        ("[costing]\nprice_usd = { 'H100-SXM' = -1 }", "greater than 0"),
        ("[objectives]\nminimise = ['dollars']", "no metric of a train study"),
        ("[objectives]\nminimise = ['usd', 'usd']", "twice"),
        ("[objectives]\nminimise = ['ttft_s_p95']", "no metric of a train study"),
        ("[pin]\nnodes = 3", "no quantity [pin] can hold"),
        ("[pin]\ngoodput_frac = inf", "not finite"),
        ("[pins]\ngoodput_frac = 1", "did you mean pin"),
        ("[workload.other]\nmodel='a'\ntokens=1\ntokens_per_sequence=1", "has 2 workloads"),
    ],
)
def test_every_kind_of_bad_table_is_told(table, problem):
    """A slip of unit or a misspelt key would change the answer in silence."""
    (fault,) = faults_of(f"{GOOD}\n{table}\n")
    assert problem in fault


@pytest.mark.parametrize("given", ["0.9", '"zipf"', "{ power_law = -1 }", "{ zipf = 1 }"])
def test_an_imbalance_of_experts_that_cannot_be_is_told(given):
    """A misspelt distribution would be taken as even routing."""
    key = f"tokens_per_sequence = 4096\nexpert_imbalance = {given}"
    (fault,) = faults_of(GOOD.replace("tokens_per_sequence = 4096", key))
    assert fault.startswith("studies/x.toml:10: workload.main.expert_imbalance")
    assert "{ power_law = 0.3 }" in fault


def test_names_of_the_catalogue_are_looked_up_and_spelled_its_way():
    """An alias would be a second chip, and an unknown one would fail in the sweep."""

    def chip(name):
        if name == "H800":
            return "H800-SXM"
        raise unknown("accelerator", name, ["GB200", "H800-SXM"])

    text = GOOD.replace('"H800-SXM", "GB200"', '"H800"')
    assert read(text, Names(accelerator=chip)).axes["accelerator"] == ("H800-SXM",)
    (fault,) = faults_of(text.replace("H800", "GB20"), Names(accelerator=chip))
    assert fault.startswith("studies/x.toml:12: accelerator 'GB20' is not known")
    assert "GB200" in fault


def test_a_model_path_starts_at_the_study_not_at_the_working_folder():
    """The same study would mean another model when run from elsewhere."""
    study = read(GOOD.replace("deepseek-v3", "configs/own.json"))
    assert study.training.model == "/studies/configs/own.json"
    assert read(GOOD.replace("deepseek-v3", "../own")).training.model == "/own"
    name = "deepseek-ai/DeepSeek-V3"
    assert read(GOOD.replace("deepseek-v3", name)).training.model == name


def test_json_reads_back_as_the_same_study():
    """A study in the archive would not be the study that ran."""
    text = GOOD + (
        "[costing]\nsite = ['se', 'us-tx']\nprice_usd = { GB200 = 60000 }\n"
        "[pin]\ngoodput_frac = 0.9\n[objectives]\nminimise = ['days']\n"
    )
    study = read(text)
    again = study_from_json(study_to_json(study))
    assert study_to_json(again) == study_to_json(study)
    assert again.axes == study.axes
    assert again.costing == study.costing
    assert again.text == text


def test_the_hash_ignores_comments_and_sees_every_value():
    """Equal studies would look different, or different ones equal."""
    study = read(GOOD)
    assert study_sha256(read("# said\n" + GOOD)) == study_sha256(study)
    assert study_sha256(read(GOOD.replace("60", "61"))) != study_sha256(study)


def test_the_other_kinds_are_read_as_far_as_the_contract_gives_them():
    """A serving or buying study would be refused as a training study with odd keys."""
    serve = read(
        """
        [study]
        name = "chat"
        kind = "serve"
        [workload.chat]
        model = "llama-3.1-70b"
        trace = "azure_conversation_2023"
        scale = { times = 100, by = "superpose" }
        slo = { ttft_s_p95 = 2.0, tpot_s_p95 = 0.05 }
        [axes]
        accelerator = "H100-SXM"
        devices = 64
        max_batch = [64, 128]
        [axes.prefill]
        tensor_parallel = [4]
        """
    )
    assert serve.workloads["chat"].scale.times == 100
    assert serve.axes["prefill.tensor_parallel"] == (4,)
    assert "recompute" not in serve.axes
    hardware = read(
        """
        [study]
        name = "buy"
        kind = "hardware"
        [axes]
        accelerator = "all"
        nodes = { from = 100, to = 700, step = 100 }
        [limits]
        capex_usd = 200e6
        [objectives]
        maximise = ["peak_flop_per_s"]
        """
    )
    assert hardware.axes["nodes"] == (100, 200, 300, 400, 500, 600, 700)
    assert not hardware.workloads


def test_brackets_without_end_are_a_bad_study():
    """A damaged file would end in our own traceback."""
    assert "nested too deeply" in faults_of(DEEP)[0]


def test_an_unreadable_file_is_a_bad_file(tmp_path):
    """A traceback would meet the user."""
    with pytest.raises(BadFile, match="cannot be read"):
        read_study(tmp_path / "none.toml")
    (tmp_path / "x.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadFile, match="UTF-8"):
        read_study(tmp_path / "x.toml")


def test_marks_and_line_ends_of_other_systems_are_read(tmp_path):
    """A study saved on Windows would be refused, or its lines miscounted."""
    file = tmp_path / "x.toml"
    file.write_bytes(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode())
    assert read_study(file).name == "small"
    file.write_bytes(GOOD.replace("days", "dayz").replace("\n", "\r\n").encode())
    with pytest.raises(BadStudy, match=r":18: limits\.dayz"):
        read_study(file)


@pytest.mark.parametrize("name", ["deepseek_v3_training", "llama31_70b_training"])
def test_the_shipped_studies_are_read_without_a_fault(name):
    """The first command of the README would fail."""
    study = read_study(SHIPPED / f"{name}.toml")
    assert study.limits == {"days": 60}
    assert len(study.costing.site) >= 3
    assert study_from_json(study_to_json(study)).axes == study.axes


@given(st.text(max_size=200))
def test_any_text_is_a_study_or_a_bad_study(text):
    """Rubbish would end in our own traceback instead of exit code 2."""
    with pytest.raises(BadStudy):
        read(text)


@given(st.integers(0, len(GOOD) - 1), st.sampled_from('="[]{}.#\n\\ 7e'))
def test_a_study_with_one_wrong_letter_is_a_study_or_a_bad_study(at, letter):
    """A slip of one key would end in our own traceback."""
    faults = ()
    try:
        read(GOOD[:at] + letter + GOOD[at + 1 :])
    except BadStudy as error:
        faults = error.faults
    assert all(fault.startswith("studies/x.toml:") for fault in faults)


def test_axes_and_metrics_have_words_for_the_user():
    """`planner show` would print a name and no meaning."""
    assert all(axis.doc and axis.kinds for axis in AXES.values())
    assert all(metric.doc and metric.kinds for metric in METRICS.values())
    assert {m.direction for m in METRICS.values()} <= {"minimise", "maximise"}


def test_bands_belong_to_predicted_metrics():
    """A limit on days_high could not be set, or devices_low would mean nothing."""
    names = metric_names("train")
    assert "days_high" in names
    assert "devices_low" not in names
    assert find_metric("days_high").unit == "day"
    assert is_at_least("tokens_per_s")
    assert not is_at_least("days_low")


@pytest.mark.parametrize("section", ["limits", "targets"])
def test_a_bound_that_no_plan_can_have_is_refused_where_it_stands(section):
    """A slip of sign would be told as a study in which nothing is feasible."""
    text = GOOD.replace("[limits]\ndays = 60\n", f"[{section}]\nwater_l = -1.0\nkgco2e = -2\n")
    found = faults_of(text)
    assert [fault.split(":")[1] for fault in found] == ["18", "19"]
    assert all("below 0" in fault for fault in found)
    earned = read(text.replace("-1.0", "1.0").replace("kgco2e = -2", "usd = -2"))
    assert getattr(earned, section)["usd"] == -2
