"""Enumeration: exact counts, nothing lost, nothing twice, memory that does not grow."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.space.blocks import bills, blocks, columns, keys_of, make_space, rules_in_order
from planner.space.plan_keys import broken_rules, codes_of, neighbours, plan_key, plan_name
from planner.space.rule import ChipSizes, ModelCounts
from planner.study.read import study_from_text
from simkernel import plugins
from simkernel.errors import BadStudy, UnknownName

MOE = ModelCounts(61, (128,), (0,), (2048, 18432), 256, (2048,), 4096)
DENSE = ModelCounts(80, (64,), (8,), (28672,), 0, (), 8192)
CHIPS = {
    "A": ChipSizes((8,), 8, ("bf16",)),
    "B": ChipSizes((4, 8, 16, 36, 72), 4),
}


def study(**axes):
    """A training study with the axes given, the others at their defaults."""
    given_axes = {"accelerator": ["A"], "devices": [16], "global_batch_sequences": [64]} | axes
    if {"nodes", "supernodes"} & set(axes):
        del given_axes["devices"]
    lines = "\n".join(f"{name} = {_toml(value)}" for name, value in given_axes.items())
    return study_from_text(
        "[study]\nname = 'x'\nkind = 'train'\n[workload.w]\nmodel = 'm'\ntokens = 1e12\n"
        f"tokens_per_sequence = 4096\n[axes]\n{lines}\n",
        "x.toml",
        Path("/"),
    )


def _toml(value):
    return repr(list(value)) if isinstance(value, list | tuple) else repr(value)


def produced(space, size=4096):
    """All rows, all keys and the masked counts of a space."""
    every = [block for bill in bills(space) for block in blocks(space, bill, size)]
    masked = Counter()
    for block in every:
        masked.update(block.masked)
    return (
        np.concatenate([block.codes for block in every]),
        np.concatenate([block.keys for block in every]),
        masked,
    )


def by_brute_force(space):
    """The same by looking at every combination: rows that break no rule, counts of the first."""
    rows, masked = [], Counter()
    plans = product(*(range(len(space.levels[name])) for name in space.plan_axes))
    for bill, plan in product(space.bill_codes, list(plans)):
        row = np.array((*bill, *plan), dtype=np.int32)
        broken = broken_rules(space, row)
        if broken:
            masked[broken[0]] += 1
        else:
            rows.append(row)
    return np.array(rows, dtype=np.int32).reshape(-1, len(space.axes)), masked


levels = {
    "devices": st.sampled_from([4, 8, 12, 16, 24, 72]),
    "tensor_parallel": st.sampled_from([1, 2, 3, 4, 8]),
    "pipeline_parallel": st.sampled_from([1, 2, 4, 64]),
    "context_parallel": st.sampled_from([1, 2]),
    "expert_parallel": st.sampled_from([1, 2, 3, 8]),
    "expert_tensor_parallel": st.sampled_from([1, 2]),
    "virtual_stages": st.sampled_from([1, 2, 40]),
    "global_batch_sequences": st.sampled_from([16, 24, 64]),
    "placement": st.sampled_from(["tp-cp-ep-dp-pp", "tp-cp-pp-ep-dp", "pp-tp-cp-dp"]),
    "schedule": st.sampled_from(plugins.names("schedules")),
    "zero_stage": st.sampled_from([0, 1, 3]),
    "precision": st.sampled_from(["bf16", "fp8"]),
    "accelerator": st.sampled_from(["A", "B"]),
}


@pytest.mark.long
@settings(max_examples=25)
@given(st.data(), st.sampled_from([MOE, DENSE]), st.sampled_from([1, 7, 4096]))
def test_the_space_equals_brute_force(data, model, size):
    """A candidate would be lost, invented or counted under another rule."""
    chosen = {
        name: data.draw(st.lists(values, min_size=1, max_size=2, unique=True), label=name)
        for name, values in levels.items()
    }
    space = make_space(study(**chosen), model, CHIPS)
    rows, keys, masked = produced(space, size)
    wanted_rows, wanted_masked = by_brute_force(space)
    assert np.array_equal(rows, wanted_rows)
    assert masked == wanted_masked
    assert len(rows) + sum(masked.values()) == space.enumerated
    assert np.array_equal(keys, keys_of(space, rows))
    assert np.array_equal(codes_of(space, keys), rows)
    assert np.all(np.diff(keys) > 0) or len(space.bill_codes) > 1


def test_every_degree_divides_into_the_devices_exactly_once():
    """A dimension left out of the product would bill fewer chips than work."""
    space = make_space(
        study(
            devices=[64, 96],
            accelerator=["A", "B"],
            tensor_parallel=[1, 2, 4],
            pipeline_parallel=[1, 3],
            context_parallel=[1, 2],
            expert_parallel=[1, 2, 8, 16],
            expert_tensor_parallel=[1, 2],
            global_batch_sequences=[192],
        ),
        MOE,
        CHIPS,
    )
    total = 0
    for bill in bills(space):
        for block in blocks(space, bill):
            c = columns(space, block)
            total += len(block)
            stage = c["tensor_parallel"] * c["context_parallel"] * c["data_parallel"]
            assert np.all(stage * c["pipeline_parallel"] == c["devices"])
            experts = c["expert_parallel"] * c["expert_tensor_parallel"]
            assert np.all(stage % experts == 0)
    assert total > 100


def test_tensor_parallel_one_goes_with_every_expert_parallel():
    """DeepSeek-V3 without tensor parallelism is how it was trained."""
    space = make_space(
        study(devices=[2048], expert_parallel=[8, 64, 256], global_batch_sequences=[2048]),
        MOE,
        CHIPS,
    )
    rows, _, _ = produced(space)
    assert len(rows) == 3


def test_blocks_are_full_but_the_last_and_do_not_change_the_candidates():
    """The result of a sweep would depend on the block size."""
    space = make_space(
        study(zero_stage=[1, 2, 3], recompute=["none", "full"], tensor_parallel=[1, 2, 4, 8]),
        MOE,
        CHIPS,
    )
    sizes = [len(b) for bill in bills(space) for b in blocks(space, bill, 5)]
    assert set(sizes[:-1]) == {5}
    small, _, small_masked = produced(space, 5)
    large, _, large_masked = produced(space, 4096)
    assert np.array_equal(small, large)
    assert small_masked == large_masked


def test_a_hundred_million_combinations_need_no_more_memory_than_a_block():
    """A large study would end in a killed process."""
    wide = study(
        devices=[1024],
        tensor_parallel=list(range(1, 101)),
        pipeline_parallel=list(range(1, 62)),
        expert_parallel=list(range(1, 129)),
        micro_batch_sequences=[1, 2],
        global_batch_sequences=[1024, 2048],
        zero_stage=[1, 2, 3],
        power_cap_frac=[0.5, 0.6, 0.7, 0.8, 0.9, 1.0],
        recompute=["none", "selective", "full"],
    )
    space = make_space(wide, MOE, CHIPS)
    assert space.enumerated > 1e8
    tracemalloc.start()
    rows, masked = 0, Counter()
    for bill in bills(space):
        for block in blocks(space, bill):
            rows += len(block)
            masked.update(block.masked)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert rows + sum(masked.values()) == space.enumerated
    assert rows > 10_000
    assert peak_bytes < 60e6


def test_what_is_offered_depends_on_the_chip():
    """An eight-way server would be priced as a 72-way rack."""
    space = make_space(study(accelerator=["A", "B"], devices=[64]), MOE, CHIPS)
    found = [(b.values["accelerator"], b.values["supernode_devices"]) for b in bills(space)]
    assert found == [("A", 8), ("B", 4), ("B", 8), ("B", 16), ("B", 36), ("B", 72)]
    assert not any(bill.masked_by for bill in bills(space))


def test_a_domain_that_is_not_offered_or_larger_than_needed_is_masked():
    """A rack that nobody sells would win, or one job would be counted in three racks."""
    space = make_space(
        study(accelerator=["A", "B"], devices=[8], supernode_devices=[4, 8, 16, 99]), MOE, CHIPS
    )
    broken = {
        (b.values["accelerator"], b.values["supernode_devices"]): b.masked_by for b in bills(space)
    }
    assert broken[("A", 8)] == ""
    assert broken[("A", 4)] == "supernode_not_offered"
    assert broken[("B", 99)] == "supernode_not_offered"
    assert broken[("B", 8)] == ""
    assert broken[("B", 16)] == "supernode_larger_than_job"


def test_nodes_and_supernodes_count_devices_of_each_chip():
    """Sixteen hosts of four chips would be taken for sixteen hosts of eight."""
    by_node = make_space(study(accelerator=["A", "B"], nodes=16), MOE, CHIPS)
    found = {(b.values["accelerator"], b.values["devices"]) for b in bills(by_node)}
    assert found == {("A", 128), ("B", 64)}
    by_rack = make_space(study(accelerator="B", supernodes=2, supernode_devices=72), MOE, CHIPS)
    assert [bill.values["devices"] for bill in bills(by_rack)] == [144]


def test_all_means_every_chip_handed_in():
    """A new chip in the catalogue would stay out of the study that asks for all."""
    space = make_space(study(accelerator="all"), MOE, CHIPS)
    assert space.levels["accelerator"] == ("A", "B")
    with pytest.raises(UnknownName):
        make_space(study(accelerator="C"), MOE, CHIPS)


def test_values_stand_in_columns_as_numbers_and_codes():
    """A catalogue rate would be taken for zero, or a name for a number."""
    space = make_space(
        study(scaleup_gbytes_per_s="catalogue", oversubscription=[1, 2.5], precision="bf16"),
        MOE,
        CHIPS,
    )
    rows = [columns(space, b) for bill in bills(space) for b in blocks(space, bill)]
    assert np.isnan(rows[0]["scaleup_gbytes_per_s"]).all()
    assert {float(r["oversubscription"][0]) for r in rows} == {1.0, 2.5}
    assert rows[0]["precision"].tolist() == [0]
    assert rows[0]["data_parallel"].tolist() == [16]


def test_a_plan_has_a_short_name_that_leads_back_to_it():
    """`explain RUN PLAN` would explain another plan."""
    assert plan_key(plan_name(123_456_789_012)) == 123_456_789_012
    assert plan_name(0) == "p0"
    for wrong in ("", "p", "x12", "pIl"):
        with pytest.raises(UnknownName):
            plan_key(wrong)


def test_neighbours_differ_on_one_axis_and_say_what_forbids_them():
    """`explain` would leave out a change, or offer one that cannot exist."""
    space = make_space(study(tensor_parallel=[1, 2, 3], zero_stage=[1, 3]), MOE, CHIPS)
    rows, _, _ = produced(space)
    found = [(axis, broken_rules(space, row)) for axis, row in neighbours(space, rows[0])]
    assert [axis for axis, _ in found] == ["tensor_parallel", "tensor_parallel", "zero_stage"]
    assert [bool(broken) for _, broken in found] == [False, True, False]
    assert "tensor_parallel_does_not_divide_heads" in found[1][1]


@pytest.mark.long
def test_more_combinations_than_a_key_can_number_are_refused():
    """Two plans would share a key and one would be lost."""
    many = {
        name: {"from": 1, "to": 99_000, "step": 1}
        for name in ("tensor_parallel", "pipeline_parallel", "expert_parallel", "virtual_stages")
    }
    text = {k: _Raw(v) for k, v in many.items()}
    with pytest.raises(BadStudy, match="combinations"):
        make_space(study(**text), MOE, CHIPS)


class _Raw(dict):
    """A TOML range."""

    def __repr__(self):
        return "{ " + ", ".join(f"{key} = {value}" for key, value in self.items()) + " }"


def test_every_rule_is_applied_somewhere():
    """A rule on an axis the study lacks would silently not hold."""
    space = make_space(study(), MOE, CHIPS)
    assert len({rule.name for rule in rules_in_order(space)}) == len(rules_in_order(space)) > 15
