"""Files that are broken, incomplete or of an unknown kind: told all at once, never guessed."""

import contextlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costdata.configs import model_facts, model_names, model_of, read_config
from costdata.configs.family import TABLES
from costdata.configs.meanings import SIZE_KEYS
from simkernel.errors import BadFile, MissingFact, PlanError
from simkernel.models import parameters

LLAMA = json.loads((TABLES / "meta-llama--Meta-Llama-3.1-8B" / "config.json").read_text())
DEEPSEEK = json.loads((TABLES / "deepseek-ai--DeepSeek-V3" / "config.json").read_text())


def read(document):
    return model_of(document, "hostile", "hostile/config.json")


@pytest.mark.parametrize("text", ["", "{", '{"hidden_size": 40', "[1, 2]", "3", "null", "\x00"])
def test_what_is_no_json_object_is_a_bad_file(tmp_path, text):
    """A truncated download must not become a model of other sizes."""
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(BadFile, match="config.json"):
        read_config(path, "x")


def test_a_file_that_is_not_there_is_a_bad_file(tmp_path):
    """The path is wrong, not the program."""
    with pytest.raises(BadFile, match="cannot be read"):
        read_config(tmp_path / "nowhere", "x")
    (tmp_path / "config.json").write_bytes(b"\xff\xfe\x00\x81")
    with pytest.raises(BadFile, match="not JSON"):
        read_config(tmp_path, "x")


REQUIRED = (
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "vocab_size",
)


@pytest.mark.parametrize("key", REQUIRED)
@pytest.mark.parametrize("how", ["absent", "null"])
def test_a_missing_size_is_named(key, how):
    """A default in its place would be another model."""
    document = {k: v for k, v in LLAMA.items() if k != key}
    if how == "null":
        document[key] = None
    with pytest.raises(MissingFact, match=key):
        read(document)


LATENT = (
    "qk_nope_head_dim",
    "v_head_dim",
    "n_routed_experts",
    "num_experts_per_tok",
    "vocab_size",
)


@pytest.mark.parametrize("key", LATENT[:2] + LATENT[3:])
def test_a_missing_size_of_a_mixture_is_named(key):
    """The type's class has defaults, but a published file states these."""
    with pytest.raises(MissingFact, match=key):
        read({k: v for k, v in DEEPSEEK.items() if k != key})


def test_all_missing_keys_are_told_in_one_run():
    """One fault a run is an afternoon of runs."""
    with pytest.raises(MissingFact) as caught:
        read({"model_type": "llama", "tie_word_embeddings": False})
    for key in REQUIRED:
        assert key in str(caught.value)


@pytest.mark.parametrize("value", [-1, 0.5, float("inf"), float("nan"), "4096", True, 10**12, {}])
def test_a_size_that_cannot_be_is_a_bad_file(value):
    """Infinity and negative widths come from hand-edited files."""
    with pytest.raises(BadFile, match="intermediate_size"):
        read({**LLAMA, "intermediate_size": value})


def test_faults_of_both_kinds_are_told_together():
    """A bad value must not hide a missing key, nor one bad value another."""
    document = {**LLAMA, "hidden_size": -4096, "num_key_value_heads": 7, "vocab_size": None}
    with pytest.raises(BadFile) as caught:
        read(document)
    for word in ("hidden_size", "num_key_value_heads", "vocab_size"):
        assert word in str(caught.value)
    assert len(caught.value.faults) >= 3


def test_heads_that_do_not_divide_are_told():
    """40 heads over 8 groups divide, 40 over 7 do not; 4096 over 33 is no head width."""
    with pytest.raises(BadFile, match="num_key_value_heads 7"):
        read({**LLAMA, "num_key_value_heads": 7})
    with pytest.raises(BadFile, match="not divisible by num_attention_heads 33"):
        read({**LLAMA, "num_attention_heads": 33})


def test_more_experts_per_token_than_experts_is_told():
    """A token cannot meet 300 of 256 experts."""
    with pytest.raises(BadFile, match="300 experts"):
        read({**DEEPSEEK, "num_experts_per_tok": 300})


def test_a_pattern_shorter_than_the_model_is_told():
    """Layers without an entry would silently become something."""
    with pytest.raises(BadFile, match="layer_types has 2 entries"):
        read({**LLAMA, "layer_types": ["full_attention"] * 2})


def test_an_absurd_depth_is_told_and_does_not_run():
    """A typing slip in num_hidden_layers must not build a thousand million layers."""
    with pytest.raises(BadFile, match="layers"):
        read({**LLAMA, "num_hidden_layers": 999_999_999})


def test_an_unknown_mixer_is_a_missing_fact_by_its_name():
    """A mixer that is not known has matrices that are not counted."""
    document = {**LLAMA, "layer_types": ["retention"] * LLAMA["num_hidden_layers"]}
    with pytest.raises(MissingFact, match="layer_types has 'retention'"):
        read(document)


def test_an_unknown_type_with_known_keys_is_read():
    """A new name for the old architecture must not need a release of ours."""
    document = {**LLAMA, "model_type": "next_year"}
    assert parameters(read(document)).total == parameters(read(LLAMA)).total


UNKNOWN_FEATURES = {
    "num_memory_slots": 64,
    "engram_table_size": 10**6,
    "cross_layer_hidden_size": 512,
    "attn_lowrank_dim": 128,
    "mixture_of_depth_layers": [1, 3],
}


def test_an_unknown_type_with_unknown_features_is_refused_by_key():
    """Each of these could add matrices; leaving them out would be a guess."""
    with pytest.raises(MissingFact) as caught:
        read({**LLAMA, "model_type": "next_year", **UNKNOWN_FEATURES})
    for key in UNKNOWN_FEATURES:
        assert key in str(caught.value)


def test_features_that_are_off_are_no_reason_to_refuse():
    """Null, false, zero and empty say that the feature is not there."""
    off = {"engram_table_size": 0, "num_memory_slots": None, "attn_lowrank": False, "moe_x": []}
    assert read({**LLAMA, "model_type": "next_year", **off}).layers == 32


def test_an_unknown_type_must_say_whether_its_head_is_tied():
    """For a small model the table is a tenth of the count."""
    document = {k: v for k, v in LLAMA.items() if k != "tie_word_embeddings"}
    with pytest.raises(MissingFact, match="tie_word_embeddings"):
        read({**document, "model_type": "next_year"})


def test_an_unknown_type_with_a_window_must_say_where_it_is():
    """One window in six or in all layers: the cache differs by the length of the context."""
    with pytest.raises(MissingFact, match="layer_types"):
        read({**LLAMA, "model_type": "next_year", "sliding_window": 4096})


@pytest.mark.parametrize("kind", ["rwkv", "jetmoe", "zamba2", "xlstm"])
def test_a_type_of_another_architecture_is_refused_by_name(kind):
    """Its keys look familiar, its layers are not."""
    with pytest.raises(MissingFact, match="model_type"):
        read({**LLAMA, "model_type": kind})


SOME_VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-10, 10**13),
    st.floats(),
    st.text(max_size=5),
    st.lists(st.integers(-2, 5), max_size=4),
    st.dictionaries(st.text(max_size=3), st.none()),
)


@pytest.mark.long
@settings(max_examples=150)
@given(
    name=st.sampled_from(sorted(model_names())),
    changes=st.dictionaries(st.sampled_from(sorted(SIZE_KEYS)), SOME_VALUES, max_size=4),
)
def test_no_value_of_any_size_breaks_the_reader(name, changes):
    """Whatever a file holds, the answer is a model or an error of our tree, never a traceback."""
    path = TABLES / model_facts(name).folder / "config.json"
    document = json.loads(path.read_text()) | changes
    with contextlib.suppress(PlanError):
        assert read(document).layers > 0
