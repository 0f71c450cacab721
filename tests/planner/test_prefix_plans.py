"""Plans with a prefix cache in closed form, and what the sweep and a replay know of them."""

from pathlib import Path

import numpy as np
import pytest

from costdata.traces import catalogue_trace
from planner.documents.serving import ready
from planner.runs.kinds import prepare as prepare_any
from planner.serving.engine import prepare
from planner.serving.evaluate import evaluate
from planner.serving.replay import replayed
from planner.space.blocks import values_of
from planner.space.plan_keys import codes_of
from planner.space.single import single
from planner.study.read import study_from_text
from planner.study.settings import with_settings
from planner.training.engine import catalogue_names
from simkernel.errors import BadStudy
from simkernel.prefix_chains import chain_codes
from simkernel.prefix_hits import hit_tokens
from simkernel.workload import Prefixes

SHIPPED = Path(__file__).parents[2] / "studies" / "serve_prefix_cache.toml"
ONE = ("accelerator=H100-SXM", "tp=4", "kv_precision=fp8", "max_batch=128", "token_budget=8192",
       "routing=cache_aware")  # fmt: skip


def study(*settings, text=None):
    names = catalogue_names()
    found = study_from_text(text or SHIPPED.read_text(), "p.toml", SHIPPED.parent, names)
    return with_settings(found, settings, names)


def closed(*settings, text=None):
    """One plan and its metrics."""
    plan, metrics = ready(single(study(*ONE, *settings, text=text)))
    return plan, metrics


@pytest.mark.long
def test_a_prefix_cache_needs_fewer_devices_and_less_time_to_first_token():
    """Prompts that come back longer would cost as much as new ones."""
    _, without = closed("prefix_cache=none")
    plan, cached = closed("prefix_cache=lru")
    assert without["prefix_hit_frac"] == 0 < cached["prefix_hit_frac"]
    assert cached["replicas"] < without["replicas"]
    assert cached["ttft_s_p50"] < without["ttft_s_p50"]
    assert cached["input_tokens"] == pytest.approx(without["input_tokens"], rel=1e-12)
    own = plan.engine.load.peak.mix.prompt_tokens_mean
    assert cached["floor_devices"] < without["floor_devices"]
    assert own >= unique_tokens_mean(plan.engine.load)
    assert cached["devices"] >= cached["floor_devices"]


def unique_tokens_mean(load):
    """Tokens of a prompt of the window that no prompt before had, by an endless cache."""
    stream = load.demand.requests
    codes = np.zeros(len(stream), dtype=np.int64)
    hits = hit_tokens(stream, np.inf, codes, 16)
    rows = slice(load.window.start_row, load.window.end_row)
    return (stream.prompt_tokens - hits)[rows].mean()


def test_a_stream_without_hashes_gains_nothing_and_loses_nothing():
    """Zero sharing would be faster, or slower, than no cache."""
    text = SHIPPED.read_text().replace("mooncake_conversation_part", "azure_conversation_2023")
    plain = closed("prefix_cache=none", "routing=least_loaded", text=text)[1]
    cached = closed("prefix_cache=lru", "routing=least_loaded", text=text)[1]
    assert cached.pop("validated") == 0.0
    plain.pop("validated")
    assert cached == pytest.approx(plain, rel=1e-9, nan_ok=True)


@pytest.mark.long
def test_a_column_with_and_without_is_each_of_them_alone():
    """Rows of a sweep would change with the company they are in."""
    engine = prepare(study(*ONE[:-1], 'routing=["least_loaded","cache_aware"]'))
    space = engine.space
    codes = codes_of(space, np.arange(4))
    found = evaluate(engine, values_of(space, codes), "H100-SXM")
    for row in range(4):
        alone = evaluate(engine, values_of(space, codes[row : row + 1]), "H100-SXM")
        for name in ("replicas", "ttft_s_p95", "prefix_hit_frac", "input_tokens"):
            assert found.metrics[name][row] == pytest.approx(alone.metrics[name][0], rel=1e-9)


def test_more_room_never_finds_less_and_nobody_finds_what_nobody_had():
    """A larger cache would be worth less, or tokens would be found that never were."""
    stream = catalogue_trace("mooncake_conversation_part").requests
    rows = np.arange(1500)
    stream = stream.take(rows, stream.arrival_s[rows], 1.0)
    one = np.zeros(len(stream), dtype=np.int64)
    sums = [hit_tokens(stream, room, one, 16).sum() for room in (1e4, 1e5, 1e6, 1e7, np.inf)]
    assert np.all(np.diff(sums) >= 0)
    assert sums[0] < sums[-1]
    _, first = np.unique(chain_codes(stream.prefixes), return_index=True)
    assert sums[-1] <= 512 * (len(stream.prefixes.hashes) - len(first))
    apart = hit_tokens(stream, np.inf, np.arange(len(stream)), 16)
    assert apart.sum() == 0


def test_chains_part_where_what_is_before_parts():
    """Blocks alike behind different beginnings would be taken for the same."""
    prefixes = Prefixes(np.array([1, 2, 3, 9, 2, 3, 1, 2, 4]), np.array([0, 3, 6, 9]), 512)
    codes = chain_codes(prefixes).reshape(3, 3)
    assert codes[0, :2].tolist() == codes[2, :2].tolist()
    assert len({*codes[0], *codes[1], *codes[2]}) == 7


@pytest.mark.parametrize("axis", ["prefill.prefix_cache", "prefix_cache"])
def test_pools_apart_with_prefix_caches_are_refused(axis):
    """A study would ask for what nothing computes, and never hear of it."""
    text = (SHIPPED.parent / "serve_disaggregated.toml").read_text()
    names = catalogue_names()
    asked = study_from_text(text, "p.toml", SHIPPED.parent, names)
    with pytest.raises(BadStudy, match="prefix caches of pools apart"):
        prepare_any(with_settings(asked, [f"{axis}=lru"], names))


@pytest.mark.long
@pytest.mark.bench
def test_the_replay_finds_what_the_closed_form_promises():
    """The sweep would choose by hits that no fleet has."""
    for routing in ("least_loaded", "cache_aware"):
        plan, metrics = closed("prefix_cache=lru", f"routing={routing}")
        found = replayed(plan, 1).metrics
        assert metrics["prefix_hit_frac"] < 1.2 * found["prefix_hit_frac"]
