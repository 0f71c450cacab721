"""What a study takes its links to be, and the presets that are laid over it."""

import pytest
from small import MOE, planner, study_of

from planner.documents.training_replay import row_of
from planner.space.single import single
from planner.study.settings import with_settings
from planner.study.written import study_document, study_from_json, study_to_json
from planner.training.engine import prepare
from planner.training.evaluate import UNPHYSICAL, evaluate
from simkernel.errors import BadStudy

PRESET = """
[network]
any_supernode = true

[presets.slow]
assumes = "domains of 16 reach half of their rate"

[presets.slow.network]
all_to_all_frac = { "16" = 0.5 }

[presets.slow.axes]
global_batch_sequences = 512
"""


def test_a_preset_is_laid_over_the_study_key_by_key_and_settings_stand_above_it():
    """A preset would forget what the study says, or nobody could vary anything under it."""
    plain = study_of(MOE + PRESET)
    slow = with_settings(plain, ["study.preset=slow"])
    assert slow.network.any_supernode
    assert slow.network.rules.exchange_frac == ((16, 0.5),)
    assert slow.axes["global_batch_sequences"] == (512,)
    assert plain.axes["global_batch_sequences"] == (1024,)
    given = with_settings(plain, ["study.preset=slow", "gbs=2048"])
    assert given.axes["global_batch_sequences"] == (2048,)
    named = study_of((MOE + PRESET).replace('name = "experts"', 'name = "e"\npreset = "slow"'))
    assert named.axes == slow.axes
    assert named.network == slow.network


def test_a_study_with_a_preset_reads_back_as_it_was():
    """A stored run could not be explained under the links it was priced with."""
    slow = with_settings(study_of(MOE + PRESET), ["study.preset=slow"])
    again = study_from_json(study_to_json(slow))
    assert study_document(again) == study_document(slow)
    assert "network" not in study_document(study_of(MOE))


def test_links_that_cannot_be_are_refused_all_at_once():
    """A typing mistake would be priced as physical links."""
    bad = '\n[network]\nlink_rule = "size"\nall_to_all_frac = { "16" = 2.0, "x" = 0.5 }\n'
    with pytest.raises(BadStudy) as error:
        study_of(MOE + bad)
    assert len(error.value.faults) == 3


def test_domains_that_nobody_sells_are_evaluated_where_the_study_asks_for_them(tmp_path):
    """A what-if would be refused, or offered to whoever did not ask."""
    path = tmp_path / "study.toml"
    path.write_text(MOE + PRESET)
    asked = ("--set", "accelerator=H100-SXM", "--set", "supernode_devices=32", "--json")
    found = planner("evaluate", path, *asked).document
    assert found["axes"]["supernode_devices"] == 32
    assert "what_if_domains" in found["notes"]
    path.write_text(MOE)
    assert planner("evaluate", path, *asked).code == 2


def test_slower_all_to_alls_and_the_rule_by_size_change_their_plans_alone():
    """A what-if would reach plans that it does not name; a fault would go unmarked."""
    one = ("accelerator=H100-SXM", "supernode_devices=16", "ep=16", "tp=1", "pp=1")
    base = with_settings(study_of(MOE + PRESET), [*one, "gbs=512", "zero_stage=1"])
    slow = with_settings(base, ["study.preset=slow"])
    other = with_settings(slow, ["supernode_devices=8"])
    by_size = with_settings(base, ["network.link_rule=group_size"])
    step_s = {name: evaluated(s) for name, s in (("base", base), ("slow", slow))}
    assert step_s["slow"][0] > step_s["base"][0]
    assert evaluated(other)[0] == evaluated(with_settings(base, ["supernode_devices=8"]))[0]
    assert UNPHYSICAL in evaluated(by_size)[1]
    assert UNPHYSICAL not in step_s["slow"][1]


def evaluated(study):
    """Step and limits of the one plan of a study."""

    assert prepare(study).space.enumerated
    one = single(study)
    found = evaluate(one.engine, *row_of(one))
    return found.metrics["step_s"][0], set(found.limits)
