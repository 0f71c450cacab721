"""Every file of the catalogue reads, and its counts are those that were published."""

import json
from pathlib import Path

import pytest

from costdata.configs import model_facts, model_names, model_of, read_config, read_model
from costdata.configs.family import TABLES, families
from simkernel.errors import MissingFact, UnknownName
from simkernel.models import (
    ACTIVE_CONVENTIONS,
    active_parameters,
    draft_parameters,
    kv_bytes_per_token,
    layer_counts,
    parameters,
    weight_bytes,
)

UNCHANGED = tuple(name for name in model_names() if not model_facts(name).is_transcribed)
PUBLISHED = tuple(name for name in model_names() if model_facts(name).published_parameters)
ACTIVE = tuple(name for name in PUBLISHED if model_facts(name).published_active_parameters)
TOTAL_TOLERANCE = 0.012  # the widest of the published roundings but one: Llama 4 Scout, 109 B
ROUNDED_TO_ONE_DIGIT = {"kimi-k2": 0.03}  # "1T" stands for 1.026 T


def test_the_catalogue_holds_the_files_it_promises():
    """A model that the tables name but whose file is not shipped cannot be planned for."""
    assert len(UNCHANGED) >= 49
    assert len(PUBLISHED) == 39
    assert len(ACTIVE) == 38
    for name in model_names():
        assert (TABLES / model_facts(name).folder / "config.json").is_file()


@pytest.mark.parametrize("name", model_names())
def test_every_file_of_the_catalogue_reads(name):
    """A published config.json that is refused is a model nobody can plan for."""
    model = read_model(name)
    assert model.name == name
    assert sum(layer_counts(model)) == model.layers > 0
    assert parameters(model).total > 1e8


@pytest.mark.parametrize("name", PUBLISHED)
def test_totals_are_the_published_ones(name):
    """A wrong total means a matrix is missing, double or of another width."""
    counted = parameters(read_model(name)).total
    published = model_facts(name).published_parameters
    assert counted == pytest.approx(published, rel=ROUNDED_TO_ONE_DIGIT.get(name, TOTAL_TOLERANCE))


@pytest.mark.parametrize("name", ACTIVE)
def test_active_counts_are_the_published_ones_under_the_stored_convention(name):
    """FLOPs follow active parameters; a convention that is not named hides an embedding."""
    facts = model_facts(name)
    assert facts.active_convention in ACTIVE_CONVENTIONS
    counted = active_parameters(read_model(name), facts.active_convention).total
    assert counted == pytest.approx(facts.published_active_parameters, rel=0.03)


@pytest.mark.parametrize("name", PUBLISHED)
def test_keys_and_values_take_the_listed_bytes(name):
    """Cache per token is a product of whole numbers: there is nothing to be near to."""
    assert kv_bytes_per_token(read_model(name)) == model_facts(name).kv_bytes_per_token


COUNTED = {  # exact counts by hand in the transcribed files, to the parameter
    "llama-3.1-8b": 8030261248,
    "deepseek-v3": 671026419200,
    "kimi-k2": 1026408232448,
    "gpt-oss-120b": 116829156672,
    "llama-4-scout": 107769861120,
    "glm-4.5": 352797829024,
    "gemma-3-27b": 27009002240,
    "nemotron-super-49b": 49867145216,
    "nemotron-3-nano-30b-a3b": 31577940288,
    "bloom-176b": 176247271424,
    "gpt-j-6b": 6050882784,
    "minimax-m2.5": 228689764864,
}


@pytest.mark.parametrize("name", COUNTED)
def test_counts_are_exact_to_the_parameter(name):
    """Norms, biases and sinks are small, but a layer that lacks one is the wrong layer."""
    assert parameters(read_model(name)).total == COUNTED[name]


def test_drafts_stay_outside_the_headline():
    """DeepSeek-V3's 671 B are without its 11.6 B of multi-token prediction; GLM-4.5 has 4.0 B."""
    assert draft_parameters(read_model("deepseek-v3")).total == pytest.approx(11.6e9, rel=0.005)
    assert draft_parameters(read_model("glm-4.5")).total == pytest.approx(4.0e9, rel=0.005)
    assert draft_parameters(read_model("glm-4.5-air")).total == pytest.approx(2.4e9, rel=0.02)


def test_the_vision_tower_stays_outside_the_headline():
    """Kimi-K2.5 is Kimi-K2 with a tower; its language model is counted as the same."""
    with_tower, without = read_model("kimi-k2.5"), read_model("kimi-k2")
    assert parameters(with_tower).total == parameters(without).total
    assert with_tower.vision_parameters > 3e8


def test_a_searched_architecture_has_layers_without_attention():
    """Nemotron Super keeps 49 attentions in 80 layers; the top level of its file is null."""
    model = read_model("nemotron-super-49b")
    kept = [kind for kind in (model.kinds[code] for code in model.layer_codes) if kind.core]
    assert (model.layers, len(kept)) == (80, 49)


def test_windows_follow_the_type_where_the_file_lists_none():
    """Gemma 3 has 10 global layers in 62; Qwen2.5 states a window that is switched off."""
    gemma = read_model("gemma-3-27b")
    windows = [gemma.kinds[code].core.window for code in gemma.layer_codes]
    assert windows.count(0) == 10
    assert windows.count(1024) == 52
    qwen = read_model("qwen2.5-72b")
    assert all(kind.core.window == 0 for kind in qwen.kinds)


def test_names_and_labels_find_their_model():
    """A truth row whose label finds no model cannot be validated."""
    assert read_model("meta-llama--Meta-Llama-3.1-70B").name == "llama-3.1-70b"
    assert read_model("deepseek-ai/DeepSeek-V3").name == "deepseek-v3"
    assert read_model("DeepSeek-R1").name == "deepseek-v3"
    assert read_model("Qwen--Qwen3-235B-A22B-FP8").name == "qwen3-235b-a22b-fp8"
    assert read_model("Qwen/Qwen3-235B-A22B-FP8").name == "qwen3-235b-a22b"
    assert read_model("LLAMA-3.1-8B").name == "llama-3.1-8b"


def test_a_label_without_a_file_is_a_missing_fact():
    """ "gpt-39B" is a row that carries its own sizes: no file, and no guess."""
    with pytest.raises(MissingFact, match="config.json"):
        read_model("gpt-39B")
    with pytest.raises(UnknownName, match="qwen3-235b-a22b"):
        read_model("qwen3-235b-a22")


def test_a_path_reads_as_the_catalogue_does(tmp_path):
    """A user's own file must not need an entry in our tables."""
    document = (TABLES / "openai--gpt-oss-20b" / "config.json").read_text()
    folder = tmp_path / "my-model"
    folder.mkdir()
    (folder / "config.json").write_text(document)
    assert parameters(read_model(str(folder))).total == parameters(read_model("gpt-oss-20b")).total
    assert read_model(str(folder / "config.json")).name == "my-model"
    assert read_config(folder, "x").name == "x"


PRECISIONS = {
    "deepseek-v3": "fp8_block",
    "gpt-oss-120b": "mxfp4",
    "kimi-k2.5": "int4",
    "kimi-k2.5-nvfp4": "nvfp4",
    "deepseek-v3.1-nvfp4": "nvfp4",
    "qwen3-32b-fp8-static-pertensor": "fp8",
    "llama-3.1-70b-instruct-fp8": "fp8",
    "llama-3.1-8b": "bf16",
}


@pytest.mark.parametrize("name", PRECISIONS)
def test_precisions_come_from_the_quantisation(name):
    """A model read at the wrong precision is two or four times too big in memory."""
    assert read_model(name).weight_precision == PRECISIONS[name]


def test_a_mixed_checkpoint_is_neither_all_small_nor_all_large():
    """gpt-oss-120b is published as 60.8 GiB, Kimi-K2.5 as 595 GB: experts small, the rest not."""
    assert read_model("gpt-oss-120b").kept_parts == ("attention",)
    assert weight_bytes(read_model("gpt-oss-120b")).total == pytest.approx(60.8 * 2**30, rel=0.005)
    assert weight_bytes(read_model("kimi-k2.5")).total == pytest.approx(595e9, rel=0.01)
    assert weight_bytes(read_model("llama-3.1-8b")).total == 2 * 8030261248


def test_experts_that_do_nothing_are_scored_but_not_met():
    """LongCat-Flash scores 768 experts and picks 12; 256 of them have no weights: 8 on average."""
    found = TYPES["deepseek_v3"]["config"] | {"zero_expert_num": 128}
    model, plain = (model_of(c, "x", "x") for c in (found, TYPES["deepseek_v3"]["config"]))
    router = 58 * 128 * 7168
    assert parameters(model).total - parameters(plain).total == router
    assert active_parameters(model).terms["experts"] == pytest.approx(
        active_parameters(plain).terms["experts"] * 256 / 384
    )


TYPES = json.loads((Path(__file__).parent / "type_counts.json").read_text())["types"]
WITHIN_A_THOUSANDTH = 1e-3  # small vectors that transformers keeps as buffers, or single scalars


@pytest.mark.parametrize("name", TYPES)
def test_models_of_each_type_count_as_transformers_builds_them(name):
    """The reader works by meaning: every supported type is checked against its own class."""
    model = model_of(TYPES[name]["config"], name, name)
    assert parameters(model).total == pytest.approx(TYPES[name]["total"], rel=WITHIN_A_THOUSANDTH)


def test_most_types_of_the_table_are_checked():
    """A row of families.csv that no oracle has seen is a claim."""
    ours = {f.model_type for f in families().values() if "unsupported" not in f.extras}
    built = {t for t in ours if "transformers" in families()[t].note}
    seen = {case["config"]["model_type"] for case in TYPES.values()}
    assert len(built & seen) > 0.85 * len(built)
