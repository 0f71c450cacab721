"""Kept machine code is that of today's sources, and a place that cannot be written is no fault."""

import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from serving_cases import families, fleet, linear_tables, stream

import simkernel
from simkernel import plugins
from simkernel.replay import compiled
from simkernel.replay.opening import Run
from simkernel.replay.requests import COLUMNS, Requests
from simkernel.replay.serve import replay


@pytest.mark.parametrize("room", ["batching/sarathi.py", "routing/random.py", "replay/steps.py"])
def test_a_changed_source_is_filed_elsewhere(tmp_path, room):
    """Yesterday's policy would run under today's name."""
    copy = tmp_path / "simkernel"
    shutil.copytree(Path(simkernel.__path__[0]), copy)
    before = compiled.fingerprint(copy)
    assert before == compiled.fingerprint(Path(simkernel.__path__[0]))
    with (copy / room).open("a") as file:
        file.write("\n# changed\n")
    assert compiled.fingerprint(copy) != before


def test_a_new_policy_is_filed_elsewhere(tmp_path):
    """The kept dispatch would know nothing of it, and its code would mean another."""
    copy = tmp_path / "simkernel"
    shutil.copytree(Path(simkernel.__path__[0]), copy)
    before = compiled.fingerprint(copy)
    shutil.copy(copy / "routing" / "random.py", copy / "routing" / "another.py")
    assert compiled.fingerprint(copy) != before


def test_code_is_kept_where_the_user_says(tmp_path, monkeypatch):
    """A read-only installation would have no place for it."""
    monkeypatch.setenv("CLUSTER_PLANNER_CACHE", str(tmp_path / "here"))
    folder = compiled.cache_folder()
    assert folder.parent == tmp_path / "here"
    assert folder.is_dir()


def test_a_place_that_cannot_be_written_means_compiling_anew(tmp_path, monkeypatch):
    """A locked-down machine could not replay at all."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("CLUSTER_PLANNER_CACHE", str(tmp_path / "file"))
    assert compiled.cache_folder() is None


def test_of_processes_that_need_the_same_code_one_compiles_it(tmp_path):
    """Every worker of a machine would spend a minute on what the first has nearly done."""
    inside, most = [], []

    def compile_(signature):
        inside.append(signature)
        most.append(len(inside))
        time.sleep(0.02)
        inside.remove(signature)
        return signature

    one_by_one = compiled._one_at_a_time(compile_, tmp_path / "x.lock")
    beside = compiled._one_at_a_time(compile_, tmp_path / "not there" / "x.lock")
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(one_by_one, range(4))) == [0, 1, 2, 3]
    assert most == [1, 1, 1, 1]
    assert beside("alone") == "alone"


@pytest.mark.long
def test_the_compiled_chain_reaches_every_policy_of_the_folders():
    """The last of a folder would be compiled as the one before."""
    requests, tables = families(per_s=60.0), linear_tables()  # who looks at caches finds some
    requests = replace(requests, sessions=np.arange(len(requests)) % 7)
    tight = {"replicas": 3, "pool_blocks": 150, "token_budget": 1200, "has_prefix_cache": True}
    ends_s = {
        (batching, routing): replay(
            requests, fleet(batching, routing=routing, **tight), tables
        ).finish_s.tobytes()
        for batching in plugins.names("batching")
        for routing in plugins.names("routing")
    }
    assert len(set(ends_s.values())) == len(ends_s)


def test_the_loop_is_compiled_for_one_kind_of_input_only():
    """A table read from a file, or a count from NumPy, would cost a compilation of its own."""
    plain, tables = stream(50), linear_tables(has_joules=True)
    frozen = {name: np.asfortranarray(vars(tables)[name]) for name in ("decode_s", "prefill_s")}
    for table in frozen.values():
        table.flags.writeable = False
    others = (
        (plain, fleet(), linear_tables()),
        (plain, fleet(), replace(tables, **frozen, least_step_s=0, tokens=tables.tokens * 1.0)),
        (plain, fleet(pool_blocks=np.int32(4096), max_batch=32.0, request_overhead_s=1), tables),
        (
            Requests(*(vars(plain)[name].astype(np.float32) for name in COLUMNS)),
            fleet(replicas=np.int64(2)),
            tables,
        ),
    )
    replay(plain, fleet(), tables)
    kinds = len(compiled.advance().signatures)
    for requests, house, given in others:
        assert np.all(replay(requests, house, given, Run(concurrency=np.int32(0))).is_served)
    assert len(compiled.advance().signatures) == kinds


def test_numba_is_left_as_it_was_found():
    """Another library that compiles would find its cache moved."""
    before = compiled.numba.config.CACHE_DIR
    compiled.advance.cache_clear()
    compiled.advance()
    after = compiled.numba.config.CACHE_DIR
    assert after == before
    result = replay(stream(20), fleet(), linear_tables())
    assert np.all(result.is_served)
