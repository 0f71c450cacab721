"""How fast candidates that can exist are produced, and how little the others cost."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.space.blocks import bills, blocks, make_space
from planner.space.rule import ChipSizes, ModelCounts
from planner.study.read import study_from_text

STUDY = """
[study]
name = "bench"
kind = "train"
[workload.w]
model = "m"
tokens = 14.8e12
tokens_per_sequence = 4096
[axes]
accelerator = ["A", "B"]
devices = { from = 512, to = 16384, step = "x2" }
tensor_parallel = [1, 2, 4, 8]
pipeline_parallel = [1, 2, 4, 8, 16]
context_parallel = [1, 2]
expert_parallel = [1, 8, 16, 32, 64, 128, 256]
expert_tensor_parallel = [1, 2]
schedule = ["one_forward_one_backward", "interleaved"]
virtual_stages = [1, 2, 4]
micro_batch_sequences = [1, 2, 4]
global_batch_sequences = { from = 1920, to = 15360, step = "x2" }
zero_stage = [0, 1, 2, 3]
recompute = ["none", "selective", "full"]
precision = ["bf16", "fp8_block"]
power_cap_frac = [0.8, 1.0]
"""
MODEL = ModelCounts(61, (128,), (0,), (2048, 18432), 256, (2048,), 4096)
CHIPS = {"A": ChipSizes((8,), 8), "B": ChipSizes((4, 8, 16, 36, 72), 4)}


def count(space):
    """Candidates produced."""
    return sum(len(block) for bill in bills(space) for block in blocks(space, bill))


@pytest.mark.bench
def test_five_million_candidates_a_second_are_produced(benchmark):
    """The sweep would wait for the enumeration instead of for the physics."""
    space = make_space(study_from_text(STUDY, "x", Path("/")), MODEL, CHIPS)
    produced = benchmark.pedantic(count, args=(space,), rounds=3, warmup_rounds=1)
    per_s = produced / benchmark.stats["mean"]
    benchmark.extra_info["candidates_per_s"] = per_s
    assert produced > 5_000_000
    assert per_s > 5_000_000
