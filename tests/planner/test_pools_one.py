"""One pair of plans out of a study of pools: its replicas, and what is told of both pools."""

from pathlib import Path

import numpy as np
import pytest
from small_pools import ONE, pooled

from planner.documents.front_text import _short_of
from planner.pools import fronts, one
from planner.pools.counts import counts_of
from planner.pools.one import rows
from planner.pools.phase import ready
from planner.runs.kinds import prepare
from planner.space.blocks import values_of
from planner.space.plan_keys import codes_of
from planner.space.single import single
from planner.study.pools import POOLS
from planner.study.read import study_from_text
from planner.study.settings import with_settings
from planner.training.engine import catalogue_names

SHIPPED = Path("studies/serve_disaggregated.toml")
NARROWED = (
    "kv_precision=fp8", "power_cap_frac=1.0", "prefill.tp=1", "prefill.token_budget=16384",
    "decode.accelerator=H100-SXM", "decode.tp=2", "decode.max_batch=256", 'costing.site="us-tx"',
)  # fmt: skip


def shipped(*settings):
    names = catalogue_names()
    study = study_from_text(SHIPPED.read_text(encoding="utf-8"), SHIPPED.name, Path.cwd(), names)
    return with_settings(study, settings, names) if settings else study


def evaluated(study):
    found = single(study)
    codes = codes_of(found.engine.space, np.array([found.key]))
    return found, codes, rows(found.engine, codes)[0]


def fewest(found, codes, pool):
    """The fewest replicas that a run looks at of one pool of the pair."""
    engine, space = found.engine.pools[pool], found.engine.space
    columns = values_of(engine.space, space.codes_of_pool(pool, codes))
    chip = str(engine.space.levels["accelerator"][int(columns["accelerator"][0])])
    return min(counts_of(engine, ready(engine, pool, columns, chip))[1])


@pytest.mark.long
@pytest.mark.parametrize("times", [40, 60])
def test_one_pair_has_the_replicas_that_a_run_looks_at(times):
    """Replicas were cut where keys had room for no more, and a feasible plan told infeasible."""
    found, codes, plan = evaluated(shipped(*NARROWED, f"workload.chat.scale.times={times}"))
    assert plan.is_feasible[0]
    for pool in POOLS:
        assert plan.metrics[f"{pool}.replicas"][0] >= fewest(found, codes, pool)
    assert times == 40 or plan.metrics["prefill.replicas"][0] > 128


@pytest.mark.long
def test_one_pair_is_taken_of_a_study_with_every_axis_open(monkeypatch):
    """One plan was refused because the plans around it had more names than there are keys."""
    study = shipped()
    wide = single(study)
    monkeypatch.setattr(one, "MOST_KEYS", 1)
    found, _, plan = evaluated(study)
    assert dict(found.taken) == dict(wide.taken)
    assert found.taken["prefill.power_cap_frac"] == 0.7
    assert plan.is_feasible[0]


def test_replicas_around_one_pair_are_looked_at_too():
    """Whoever asks what one change does would find no other count of replicas."""
    found, codes, plan = evaluated(pooled(*ONE))
    name = "prefill.replicas"
    own = int(plan.metrics[name][0])
    levels = found.engine.space.levels[name]
    at = found.engine.space.axes.index(name)
    near = {
        levels[row[at]] for axis, row in found.engine.space.neighbours(codes[0]) if axis == name
    }
    assert near >= {own + 1}
    assert own not in near
    assert min(near) >= 1


def test_a_run_leaves_out_replicas_that_have_no_key(monkeypatch):
    """Counts beyond the levels of the keys would end a run with a lookup that fails."""
    monkeypatch.setattr("planner.pools.space.MOST_REPLICAS", 1)
    rate = "workload.chat.trace.arrivals.requests_per_s=2000"
    one_bill = ("decode.accelerator=H100-SXM", "supernode_devices=8")
    engine = prepare(pooled(*one_bill, "prefill.tp=1", rate))
    results = list(fronts.sweep(engine, 1, lambda: False))
    assert any("more_replicas" in name for result in results for name in result.masked)


def test_a_run_names_what_both_pools_have_not_alike():
    """Whoever gives the pools two precisions of the cache was told of limits alone."""
    one_bill = ("decode.accelerator=H100-SXM", "supernode_devices=8")
    unlike = ("prefill.kv_precision=bf16", 'decode.kv_precision=["fp8", "bf16"]')
    engine = prepare(pooled(*one_bill, *unlike))
    (result,) = fronts.sweep(engine, 1, lambda: False)
    assert result.masked["pools_differ_in_kv_precision"] == engine.space.enumerated // 2
    assert result.front
    engine = prepare(pooled(*one_bill, unlike[0], "decode.kv_precision=fp8"))
    (result,) = fronts.sweep(engine, 1, lambda: False)
    assert result.masked["pools_differ_in_kv_precision"] == engine.space.enumerated
    assert not result.front


@pytest.mark.parametrize(
    ("use", "words"), [(1.0, "is saturated"), (0.5, "is over 100 times beyond")]
)
def test_what_no_share_can_tell_is_told_in_words(use, words):
    """A full pool was "2949672092571.6% beyond" its bound, which is a wait without end."""
    plan = {"worst_excess": 2.9e10, "binding": "ttft_s_p95", "utilisation_frac": use}
    assert words in _short_of(plan)
