"""One candidate out of a study, in a space wide enough to look around it."""

import numpy as np
import pytest
from small import DENSE, MOE, study_of, with_lines

from planner.space.plan_keys import codes_of
from planner.space.single import single
from planner.study.settings import with_settings
from planner.training.engine import catalogue_names
from simkernel.errors import BadStudy


def one(text, *settings):
    """The single candidate of a study, and its values by axis."""
    found = single(with_settings(study_of(text), settings, catalogue_names()))
    space = found.engine.space
    (codes,) = codes_of(space, np.array([found.key]))
    values = {n: space.levels[n][code] for n, code in zip(space.axes, codes, strict=True)}
    return found, values


def test_the_first_value_of_every_open_axis_is_taken():
    """Which of the candidates was evaluated would depend on the order of a set."""
    found, values = one(with_lines(DENSE, devices="devices = [64, 32]"))
    assert values["devices"] == 64
    assert values["accelerator"] == "H100-SXM"
    assert found.taken["devices"] == 64
    assert "global_batch_sequences" not in found.taken


@pytest.mark.parametrize(
    ("setting", "devices", "domain"),
    [
        ("nodes=4", 32, 8),
        ("supernodes=4", 32, 8),
        ("devices=4", 4, 4),
        ("devices=8", 8, 8),
        ("devices=5000", 5000, 8),
    ],
)
def test_counts_are_devices_and_the_domain_is_what_they_need(setting, devices, domain):
    """Four nodes would be four devices, or a domain would be larger than the job."""
    text = DENSE.replace("supernode_devices = 8\n", "")
    found, values = one(text, setting)
    assert (values["devices"], values["supernode_devices"]) == (devices, domain)
    assert found.taken["supernode_devices"] == domain


@pytest.mark.parametrize(
    ("setting", "devices", "domain"),
    [
        ("devices=72", 72, 72),
        ("devices=128", 128, 72),
        ("devices=8", 8, 8),
        ("supernodes=2", 144, 72),
        ("nodes=2", 8, 8),
    ],
)
def test_a_rack_is_counted_in_its_own_hosts_and_domains(setting, devices, domain):
    """A rack of 72 would be counted as nine hosts of eight."""
    found, values = one(with_lines(MOE, accelerator='accelerator = "GB200"'), setting)
    assert (values["devices"], values["supernode_devices"]) == (devices, domain)


def test_numbers_have_half_and_twice_as_neighbours():
    """The nearest feasible change could not be another degree."""
    found, values = one(DENSE, "tp=4", "pp=1", "devices=48")
    levels = found.engine.space.levels
    assert set(levels["tensor_parallel"]) == {2, 4, 8}
    assert set(levels["pipeline_parallel"]) == {1, 2}
    assert set(levels["devices"]) == {24, 48, 96}
    assert set(levels["zero_stage"]) == {0, 1, 2, 3}
    assert set(levels["recompute"]) == {"none", "selective", "full"}
    assert "fp8" in levels["precision"]
    assert levels["accelerator"] == ("H100-SXM",)
    moved = {"optimizer", "half_activations", "activations"}
    assert set(levels["offload"]) == {"none", *moved, *(f"pool_{what}" for what in moved)}


def test_the_studys_own_levels_are_neighbours_too():
    """A value that the study offers would not be among the changes."""
    found, _ = one(DENSE)
    levels = found.engine.space.levels
    assert set(levels["devices"]) >= {32, 64}
    assert set(levels["micro_batch_sequences"]) >= {1, 2}


def test_what_is_not_one_candidate_is_refused():
    """Some chip of many would be taken in silence."""
    with pytest.raises(BadStudy, match="many candidates; wanted one"):
        one(DENSE, "accelerator=all")
    with pytest.raises(BadStudy, match=r"supernode_devices = 16 is not possible here; wanted"):
        one(DENSE, "supernode_devices=16")
