"""The shipped studies over the shipped catalogue: as many candidates as they promise."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from costdata.catalog import load
from planner.space.blocks import bills, blocks, columns, make_space
from planner.space.rule import ChipSizes, ModelCounts
from planner.study.read import read_study
from simkernel.hardware import PRECISIONS

SHIPPED = Path(__file__).parents[2] / "studies"
DEEPSEEK_V3 = ModelCounts(61, (128,), (0,), (2048, 18432), 256, (2048,), 4096)
LLAMA_70B = ModelCounts(80, (64,), (8,), (28672,), 0, (), 8192)


def sizes():
    """Every chip of the catalogue as the rules see it."""
    catalog = load()
    return {name: _size(catalog, name) for name in catalog.accelerators}


def _size(catalog, name):
    facts = catalog.accelerator(name)
    kernels = ("mla", "moe")
    known = tuple(p for p in PRECISIONS if all(catalog.supports(name, p, k) for k in kernels))
    return ChipSizes(facts.domain_options, facts.devices_per_host, known or ("none",))


@pytest.mark.long
def test_the_main_job_has_a_million_candidates_that_can_exist():
    """The sweep would look at a toy, or run for longer than a minute."""
    space = make_space(read_study(SHIPPED / "deepseek_v3_training.toml"), DEEPSEEK_V3, sizes())
    masked, total = Counter(), 0
    for bill in bills(space):
        for block in blocks(space, bill):
            masked.update(block.masked)
            total += len(block)
    assert 1_000_000 < total < 6_000_000
    assert total + sum(masked.values()) == space.enumerated


def test_the_seventy_billion_job_finds_a_plan_close_above_the_count_it_needs():
    """6 N D and attention need 3,702 devices; a coarse axis would answer far above it."""
    space = make_space(read_study(SHIPPED / "llama31_70b_training.toml"), LLAMA_70B, sizes())
    split = set()
    for bill in bills(space):
        if 3702 <= bill.values["devices"] <= 3768:
            for block in blocks(space, bill):
                c = columns(space, block)
                split |= set(zip(c["devices"], c["pipeline_parallel"], strict=True))
    deep = sorted(devices for devices, pipeline in split if pipeline >= 4)
    assert deep[0] <= 3_720
