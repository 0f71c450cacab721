"""Speed of the training replay, its memory, and the whole supernode traversal."""

import resource
import time
from pathlib import Path

import numpy as np
import pytest

from planner.documents.knee import knee_document
from planner.documents.training_replay import row_of
from planner.space.single import single
from planner.study.read import read_study
from planner.study.settings import with_settings
from planner.training.engine import catalogue_names
from planner.training.replay import ready, replayed
from simkernel.replay.compiled import machine_code, walk_lent
from simkernel.replay.program import program_of
from simkernel.replay.walk import Paces, opened_walk

ROOT = Path(__file__).parents[2]
WANTED_PASSES_PER_S = 1_000_000
LONGEST_STEP_S = 5.0
LONGEST_TRAVERSAL_S = 60.0
EVALUATIONS = 100_000
MOST_GROWN_BYTES = 20e6

SPLITS = (
    ("pp=16", "tp=1", "ep=64", "schedule=1f1b"),
    ("pp=16", "tp=2", "ep=64", "schedule=interleaved", "vp=2"),
    ("pp=8", "tp=1", "ep=64", "schedule=dual_pipe"),
    ("pp=2", "tp=2", "ep=256", "schedule=1f1b"),
)

pytestmark = pytest.mark.bench


def even(devices):
    """Forward, backward, its halves and a pair, alike on all stages."""
    table = np.tile([1.0, 2.0, 1.0, 1.0, 2.5], (devices, 1))
    still = np.zeros((1, 1)), np.zeros(devices), np.zeros(devices)
    return Paces(table, np.zeros_like(table), *still)


@pytest.fixture(scope="module")
def run():
    """The compiled walk, warm."""
    walk = machine_code(walk_lent)
    program = program_of("one_forward_one_backward", 2, 1, 2)
    walk(program, even(2), opened_walk(program))
    return walk


@pytest.mark.parametrize(("devices", "micro_batches"), [(16, 240), (64, 1024), (64, 4096)])
def test_passes_and_their_sends_per_second_of_one_core(run, devices, micro_batches):
    """A grid of depths and batches would take minutes. A pass holds its send."""
    program = program_of("one_forward_one_backward", devices, 1, micro_batches)
    best_s = np.inf
    for _ in range(5):
        walked, began_s = opened_walk(program), time.process_time()
        run(program, even(devices), walked)
        best_s = min(best_s, time.process_time() - began_s)
    print(f"\n{devices} x {micro_batches}: {len(program.stage) / best_s:,.0f} passes/s")
    assert len(program.stage) / best_s >= WANTED_PASSES_PER_S


@pytest.mark.parametrize("split", SPLITS, ids=" ".join)
def test_a_step_of_1024_devices_is_replayed_in_seconds(split):
    """SimAI 293: an expert model on 64 devices took far too long at packet level."""
    names = catalogue_names()
    fixed = ("accelerator=H100-SXM", "devices=1024", "supernode_devices=8", "gbs=15360", "mbs=1")
    kinds = ("precision=fp8_block", "recompute=selective", "zero_stage=1")
    study = read_study(ROOT / "studies" / "deepseek_v3_training.toml", names)
    one = single(with_settings(study, [*fixed, *kinds, *split], names))
    replayed(ready(one.engine, *row_of(one)), 1, 1)  # compiled, or read from the cache
    began_s = time.perf_counter()
    found = replayed(ready(one.engine, *row_of(one)), 1, 1)
    took_s = time.perf_counter() - began_s
    print(f"\n{' '.join(split)}: {found.first.step.events:,} events in {took_s:.2f} s")
    assert took_s <= LONGEST_STEP_S


def test_a_hundred_thousand_evaluations_need_no_more_memory(run):
    """A search with replays would grow until the machine kills it."""
    program, paces = program_of("zero_bubble", 4, 1, 8), even(4)
    for _ in range(1000):
        run(program, paces, opened_walk(program))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(EVALUATIONS):
        run(program, paces, opened_walk(program))
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024.0
    assert grown <= MOST_GROWN_BYTES


def test_the_whole_supernode_traversal_ends_within_a_minute():
    """The bar is an hour; ours is a minute."""
    names = catalogue_names()
    study = read_study(ROOT / "studies" / "supernode_size.toml", names)
    everything = with_settings(study, ["study.preset=everything"], names)
    document = knee_document(everything, "supernode_devices")
    print(f"\n{document['candidates']['evaluated']:,} plans in {document['seconds']:.1f} s")
    assert document["seconds"] <= LONGEST_TRAVERSAL_S
    assert document["knees"]
