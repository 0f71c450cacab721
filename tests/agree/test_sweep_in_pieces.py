"""A sweep cut into blocks, processes and rows against the same sweep whole."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest

import planner.runs.run
from planner.archive.store import Archive
from planner.search import sweep as sweeping
from planner.search.sweep import sweep, sweep_bill
from planner.space.blocks import bills, rules_in_order, values_of
from planner.space.rule import Context
from planner.study.read import read_study
from planner.study.settings import with_settings
from planner.training.engine import catalogue_names, prepare
from planner.training.evaluate import evaluate

STUDIES = Path(__file__).parents[2] / "studies"
NARROW = {
    "deepseek_v3_training": (
        'accelerator=["H100-SXM", "GB200", "Ascend-910C"]',
        *("devices=[2048]", "expert_parallel=[16, 64]", "zero_stage=[1, 3]"),
        *("tp=[1, 4]", 'costing.site=["se", "us-tx"]'),
    ),
    "llama31_70b_training": (
        *("devices=[3712, 4096]", "gbs=[1024, 1856, 2048]", 'costing.site=["se", "us-tx"]'),
    ),
}
WIDE = {
    "deepseek_v3_training": (
        'accelerator=["H100-SXM", "GB200", "Ascend-910C", "TPU-v5p"]',
        *("devices=[512, 4096]", "zero_stage=[0, 1, 2, 3]", "etp=[1, 2]", "cp=[1, 2]"),
        *(
            'precision=["bf16", "fp8_block"]',
            "power_cap_frac=[0.5, 1.0]",
            "oversubscription=[1, 2]",
        ),
        *(
            'collective=["best", "ring", "hierarchical"]',
            'placement=["tp-cp-dp-pp", "tp-cp-pp-dp"]',
        ),
    ),
    "llama31_70b_training": (
        *("devices=[3712, 4096]", "scaleout_gbytes_per_s=[12.5, 100]", "gbs=[1024, 1856]"),
        *('collective=["best", "ring"]', "power_cap_frac=[0.6, 1.0]", "pin.goodput_frac=0.8"),
    ),
}
"""Studies in which every column of a candidate varies, rows that no limit allows included."""

DRAWS, BILLS, PER_BILL = 4000, 8, 8
SAME = {"rtol": 1e-12, "atol": 0.0}
"""Sums may be taken in another order by vectors of another length, no more."""


def made(name, settings):
    """A shipped study with settings, ready to evaluate."""
    names = catalogue_names()
    return prepare(with_settings(read_study(STUDIES / f"{name}.toml", names), settings, names))


@cache
def swept(name):
    """Engine of a narrowed study and the results of its bills, swept in this process, by index."""
    engine = made(name, NARROW[name])
    return engine, {result.index: result for result in sweep(engine, 1, lambda: False)}


def same_result(one, other):
    """Counts equal, the same plans on the front in the same order, their numbers to 1e-12."""
    assert one.evaluated == other.evaluated
    assert one.masked == other.masked
    assert one.rejected == other.rejected
    for table, twin in ((one.front, other.front), (one.nearest, other.nearest)):
        assert set(table) == set(twin)
        for name, column in table.items():
            same_column(column, twin[name], name)


def same_column(one, other, name):
    """Numbers to 1e-12, everything else equal."""
    one, other = np.asarray(one), np.asarray(other)
    if one.dtype.kind == "f":
        np.testing.assert_allclose(one, other, **SAME, err_msg=name)
    else:
        assert one.tolist() == other.tolist(), name


@pytest.mark.long
@pytest.mark.parametrize("name", NARROW)
@pytest.mark.parametrize("size", [61, 1000])
def test_blocks_of_any_size_give_the_same_front(name, monkeypatch, size):
    """How memory is cut would decide what is advised."""
    engine, whole = swept(name)
    monkeypatch.setattr(sweeping, "BLOCK_ROWS", size)
    for bill in list(bills(engine.space))[:: 4 if size < 100 else 1]:
        same_result(sweep_bill(engine, bill), whole[bill.index])


@pytest.mark.long
def test_two_processes_give_the_same_front_as_one():
    """A machine with more cores would come to another answer."""
    engine, whole = swept("deepseek_v3_training")
    apart = {result.index: result for result in sweep(engine, 2, lambda: False)}
    assert apart.keys() == whole.keys()
    for index, result in apart.items():
        same_result(result, whole[index])


@pytest.mark.long
def test_bills_done_in_any_order_give_the_same_run(monkeypatch, tmp_path):
    """Which process happened to be faster would show in the front."""
    engine, whole = swept("deepseek_v3_training")
    documents = []
    for seed in range(2):
        order = np.random.default_rng(seed).permutation(list(whole)) if seed else list(whole)
        results = [whole[index] for index in order]
        monkeypatch.setattr(planner.runs.run, "sweep", lambda *_, results=results: iter(results))
        done = planner.runs.run.run_study(engine, Archive(tmp_path / f"{seed}.duckdb"), workers=1)
        documents.append(done)
    first, other = documents
    assert len(first.front["plan"]) > 1
    assert other.summary.front_hash == first.summary.front_hash
    assert other.summary.rejected == first.summary.rejected
    for name, column in first.front.items():
        same_column(column, other.front[name], name)


@pytest.mark.long
@pytest.mark.parametrize("name", WIDE)
def test_a_batch_equals_its_candidates_one_at_a_time(name):
    """A plan would cost something else when it is looked at alone, in evaluate or explain."""
    engine, rng = made(name, WIDE[name]), np.random.default_rng(11)
    possible = [bill for bill in bills(engine.space) if not bill.masked_by]
    looked_at = 0
    for index in rng.choice(len(possible), size=min(BILLS, len(possible)), replace=False):
        bill = possible[index]
        some = drawn(engine.space, bill, rng)
        accelerator = str(bill.values["accelerator"])
        batch = evaluate(engine, values_of(engine.space, some), accelerator)
        for i in range(len(some)):
            alone = evaluate(engine, values_of(engine.space, some[i : i + 1]), accelerator)
            same_row(batch, i, alone)
        looked_at += len(some)
    assert looked_at > 30


def drawn(space, bill, rng):
    """Codes (n, axes) of some random candidates of a bill that can exist."""
    counts = [len(space.levels[name]) for name in space.axes]
    codes = rng.integers(0, counts, size=(DRAWS, len(counts)), dtype=np.int32)
    codes[:, : len(bill.codes)] = bill.codes
    context = Context(space.model, space.chips[str(bill.values["accelerator"])], space.levels)
    columns = {**values_of(space, codes), **bill.values}
    allowed = np.ones(len(codes), dtype=bool)
    for rule in rules_in_order(space):
        allowed &= rule.allows(columns, context)
    return codes[allowed][:PER_BILL]


def same_row(batch, i, alone):
    """Metrics, traffic, ledger terms and limits of one row of a batch, and of it alone."""
    pairs = [(batch.metrics, alone.metrics), (batch.traffic, alone.traffic)]
    pairs += [(batch.ledgers[n].terms, alone.ledgers[n].terms) for n in batch.ledgers]
    for kind in ("have", "need"):
        limits = ({n: getattr(v, kind) for n, v in e.limits.items()} for e in (batch, alone))
        pairs.append(tuple(limits))
    for many, one in pairs:
        assert set(many) == set(one)
        for name, column in many.items():
            value = np.broadcast_to(column, len(batch.metrics["devices"]))[i]
            np.testing.assert_allclose(value, one[name], rtol=1e-12, err_msg=name)
