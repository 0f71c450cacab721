"""Prefill and decode on pools apart: joined exactly, every device paid, keys and values moved."""

import json
from statistics import median

import numpy as np
import pytest
from small_pools import ONE, pooled, written
from small_serve import chat

from costdata import catalog
from planner.archive.store import Archive
from planner.documents import answers as commands
from planner.explain.plan import explain_plan
from planner.pareto import nondominated
from planner.pools.fronts import blocks_of_pairs, pair_criteria, pool_front, sweep
from planner.pools.join import evaluated
from planner.pools.one import pair_at, rows
from planner.pools.replay import pair_plan, replayed_pair
from planner.report.blocks import Points
from planner.report.decision import decision, sentence
from planner.report.gather import gather
from planner.report.sums import cost_lines
from planner.report.words import Say
from planner.runs.kinds import prepare
from planner.space.blocks import bills
from planner.space.plan_keys import codes_of
from planner.space.single import single
from planner.study.pools import POOLS
from simkernel.errors import BadStudy


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pools")
    return commands.run(written(folder), folder / "a.duckdb", is_quiet=True), folder


def one(*settings):
    """One pair of plans: its engine, and what is found of it."""
    found = single(pooled(*ONE, *settings))
    return found.engine, rows(found.engine, codes_of(found.engine.space, np.array([found.key])))[0]


def figure(found, name):
    return float(found.metrics[name][0])


def test_the_join_of_the_fronts_is_the_front_of_all_pairs():
    """A pair that is best would be lost because one half of it looked beaten in its own pool."""
    engine = prepare(pooled("decode.accelerator=H100-SXM", "supernode_devices=8"))
    (joined,) = sweep(engine, 1, lambda: False)
    whole = {
        pool: pool_front(engine.pools[pool], pool, next(bills(engine.pools[pool].space)),
                         is_whole=True).parts[0]
        for pool in POOLS
    }  # fmt: skip
    kept = {
        pool: pool_front(engine.pools[pool], pool, next(bills(engine.pools[pool].space))).parts[0]
        for pool in POOLS
    }
    assert all(len(kept[pool]) < len(whole[pool]) for pool in POOLS)
    points = [
        pair_criteria(engine, block.found)[block.found.is_feasible]
        for block in blocks_of_pairs(engine, tuple(whole[pool] for pool in POOLS))
    ]
    every = np.concatenate(points)
    best = every[nondominated(every)]
    front = joined.front
    assert len(front["plan"]) == len(best)
    for column, name in ((1, "it_mean_w"), (2, "it_peak_w"), (3, "purchase_units")):
        np.testing.assert_allclose(np.sort(front[name]), np.sort(best[:, column]), rtol=1e-9)
    for name in ("ttft_s_p95", "tpot_s_p95"):
        assert any(np.allclose(np.sort(front[name]), np.sort(c), rtol=1e-9) for c in best.T)


@pytest.mark.long
def test_a_study_of_pools_ends_with_a_front_in_the_archive(ran):
    """Pools that are swept and cannot be shown, explained, priced anew."""
    document, folder = ran
    row = document["front"][0]
    assert row["devices"] == row["prefill.devices"] + row["decode.devices"]
    assert row["prefill.accelerator"] == "H100-SXM"
    found = commands.explain(folder / "a.duckdb", "last", "1")
    assert found["ledgers"]["ttft_s"]["total"] == pytest.approx(
        found["metrics"]["ttft_s_mean"], rel=1e-6
    )
    for name in ("ttft_s_p95", "usd", "it_mean_w", "kgco2e", "devices"):
        assert found["metrics"][name] == pytest.approx(row[name], rel=1e-9)
    assert any(line["axis"] == "decode.replicas" for line in found["one_change"])
    again = commands.recost(folder / "a.duckdb", "last", ["costing.wacc_frac=0.02"])
    assert again["front"][0]["usd"] < row["usd"]
    json.dumps(document, allow_nan=False)


def test_every_deployed_device_is_paid_and_powered(ran):
    """A pool left out of the denominator halves the price of a token (InferenceX-app#653)."""
    document, _ = ran
    for row in document["front"][:50]:
        tokens = row["output_tokens_per_s"]
        assert row["tokens_per_s_per_device"] == pytest.approx(tokens / row["devices"])
        pools = [row[f"{pool}.purchase_units"] * 8 for pool in POOLS]
        assert row["devices"] + row["stranded_devices"] <= sum(pools)
        degree = [row[f"{p}.tensor_parallel"] * row[f"{p}.replicas"] for p in POOLS]
        assert [row[f"{p}.devices"] for p in POOLS] == degree


@pytest.mark.long
def test_a_report_pays_and_tells_the_hardware_of_both_pools(ran):
    """Its bands and workbook had the first pool's hardware alone, and its left over and spare."""
    document, folder = ran
    got = gather(Archive(folder / "a.duckdb"), document["run"])
    middle = got.ends.middle
    assert middle.costs().columns["usd"][0] == pytest.approx(got.value("usd"), rel=1e-12)
    bought = sum(b.devices_per_unit * (b.purchase_units + b.spare_units) for b in middle.bills)[0]
    idle = sum(b.stranded_devices + b.spare_devices for b in middle.bills)[0]
    assert got.value("devices") + idle == bought
    told = sentence(got, "en")
    lines = [x for b in decision(got, Say("en")) if isinstance(b, Points) for x in b.lines]
    assert any("does not replay plans of two pools" in line for line in lines)
    for counted, word in (("stranded_devices", "left over"), ("spare_devices", "spare")):
        whole = sum(getattr(bill, counted) for bill in middle.bills)[0]
        assert f"{whole:.0f} {word}" in told
    capex = {line.name: line.value for line in cost_lines(middle)}["capex_usd"]
    assert capex == pytest.approx(got.value("capex_usd"), rel=1e-12)


@pytest.mark.long
def test_an_uncertain_price_moves_the_hardware_of_both_pools(ran):
    """The second pool would keep its list price while the first one's is drawn."""
    document, folder = ran
    ends = gather(Archive(folder / "a.duckdb"), document["run"]).ends
    _, high = ends.moved("price of servers")
    drawn = ends.at_scores(
        ends.middle.take(np.zeros(2, int)), "price of servers", np.zeros((2, 1))
    )
    for moved, end in ((high, ends.high), (drawn, ends.middle)):
        for one, other in zip(moved.beside, end.beside, strict=True):
            assert one.prices.unit_usd[0] == pytest.approx(other.prices.unit_usd[0])
    assert high.beside[0].prices.unit_usd[0] > ends.middle.beside[0].prices.unit_usd[0]


def test_weights_and_memory_are_told_of_each_pool():
    """Bytes of one replica of each were summed, so that a weight in bf16 took four bytes."""
    found = single(pooled(*ONE))
    told = explain_plan(found.engine, found.key)
    assert "weight_bytes_per_value" not in told.metrics
    for pool in POOLS:
        assert told.metrics[f"{pool}.weight_bytes_per_value"] == 2.0
        line = told.napkin[f"{pool}.weight_bytes_per_replica"]
        assert line["plan"] == told.metrics[f"{pool}.replica_weight_bytes"]
        assert line["plan"] == pytest.approx(line["napkin"], rel=0.01)
    held = {pool: told.metrics[f"{pool}.resident_bytes"] for pool in POOLS}
    fuller = max(held, key=lambda pool: held[pool])
    assert told.metrics["resident_bytes"] == held[fuller]
    assert told.binds["resident_bytes"].startswith(f"{fuller}.")


def test_what_an_engine_keeps_for_itself_is_not_free_in_either_pool():
    """Four gigabytes of a device were told free that the same plan on one pool has in use."""
    alone = single(chat("accelerator=H100-SXM", *ONE[6:], "tp=1", "max_batch=256",
                        "token_budget=8192"))  # fmt: skip
    kept = explain_plan(alone.engine, alone.key).ledgers["resident_bytes"]["terms"]["reserve"]
    assert kept > 0.0
    for fuller, tp in (("prefill", 8), ("decode", 1)):
        _, found = one(f"decode.tp={tp}")
        assert float(found.ledgers["resident_bytes"].terms[f"{fuller}.reserve"][0]) == kept


def test_what_money_and_watts_buy_is_compared_of_pools(ran):
    """The table of ratios had no line of any plan that serves."""
    document, folder = ran
    found = commands.compare(folder / "a.duckdb", document["run"], "2", "1")
    line, metrics = found["ratios"]["facility_j_per_output_token"], found["metrics"]
    mwh, tokens = (metrics[n]["plan"] for n in ("facility_mwh", "output_tokens"))
    assert line["plan"] == pytest.approx(mwh * 3.6e9 / tokens)
    assert {"capex_usd_per_output_token_per_s", "kgco2e_per_output_mtoken"} <= set(found["ratios"])


def test_degrees_count_once_in_the_devices_of_each_pool():
    """A degree left out of a worker's devices makes it too good by that (aiconfigurator#1476)."""
    _, found = one("prefill.replicas=2", "prefill.tp=8", "decode.tp=4", "decode.replicas=1")
    assert figure(found, "devices") == 20
    assert figure(found, "tokens_per_s_per_device") == pytest.approx(
        figure(found, "output_tokens_per_s") / 20
    )


def test_a_second_pool_costs_what_it_costs_alone():
    """The price of a fleet would be that of its first pool, or all of one chip."""
    prices = {"H100-SXM": 400e3, "L40S": 150e3}
    given = [f"costing.all_in_usd_per_unit.{chip}={usd}" for chip, usd in prices.items()]
    study = pooled(*ONE, "decode.accelerator=L40S", "decode.tp=2", "decode.supernode_devices=1",
                   "workload.chat.slo.tpot_s_p95=0.06", *given)  # fmt: skip
    found = single(study)
    told = explain_plan(found.engine, found.key)
    usd = told.ledgers["capex_usd"]["terms"]
    bought = sum(usd[name] for name in ("servers", "stranded", "spares"))
    units = [told.metrics[f"{pool}.purchase_units"] for pool in POOLS]
    assert bought == pytest.approx(units[0] * 400e3 + units[1] * 150e3, rel=1e-9)
    share = units[0] * 400e3 / bought
    read = told.metrics["usd_per_mtoken_input"] * told.metrics["input_tokens"] / 1e6
    assert read == pytest.approx(told.metrics["usd"] * share, rel=1e-9)


def test_prompts_of_rented_pools_pay_their_share_of_the_rent():
    """Pools that are rented would share their rent out by what servers sell for."""
    study = pooled(*ONE, "decode.accelerator=L40S", "decode.tp=2", "decode.supernode_devices=1",
                   "workload.chat.slo.tpot_s_p95=0.06", 'costing.acquire="on_demand"')  # fmt: skip
    found = single(study)
    told, shelf = explain_plan(found.engine, found.key), catalog.load()
    rents = [
        told.metrics[f"{pool}.purchase_units"]
        * shelf.purchase_unit(chip).devices
        * median(rent.usd_per_device_hour for rent in shelf.rent(chip, "on_demand"))
        for pool, chip in zip(POOLS, ("H100-SXM", "L40S"), strict=True)
    ]
    read = told.metrics["usd_per_mtoken_input"] * told.metrics["input_tokens"] / 1e6
    assert read == pytest.approx(told.metrics["usd"] * rents[0] / sum(rents), rel=1e-9)


def test_doubling_the_wires_halves_what_they_take():
    """A transfer that bandwidth does not shorten is made of something else (LLMServingSim#42)."""
    _, slow = one("scaleout_gbytes_per_s=25")
    _, fast = one("scaleout_gbytes_per_s=50")
    _, faster = one("scaleout_gbytes_per_s=100")
    first, second, third = (figure(x, "kv_transfer_s") for x in (slow, fast, faster))
    assert first - second == pytest.approx(2.0 * (second - third), rel=1e-9)
    assert first > figure(slow, "kv_moved_bytes") / 25e9


def test_transfers_share_the_wires_with_steps_in_closed_form_as_in_the_replay():
    """Transfers would have wires to themselves that a pool cut over several hosts steps on."""
    cut = ("decode.accelerator=L40S", "decode.tp=2", "decode.supernode_devices=1")
    found = single(pooled(*ONE, *cut, "workload.chat.slo.tpot_s_p95=0.06"))
    pair = pair_at(found.engine, codes_of(found.engine.space, np.array([found.key])))
    closed, end = evaluated(found.engine, pair), pair.decode.end
    steps_frac = float(pair.decode.steps_frac[0])
    assert steps_frac > 0.05
    rate = float(end.bytes_per_s[0]) * (1.0 - steps_frac)
    moved_s = figure(closed, "kv_moved_bytes") / rate
    assert figure(closed, "kv_transfer_s") == pytest.approx(end.base_s[0] + moved_s, rel=1e-9)


def test_the_first_token_waits_for_its_keys_and_values():
    """A time to first token without the transfer is of another engine."""
    _, after = one()
    _, beside = one("kv_transfer=layer_wise")
    for found in (after, beside):
        parts = found.ledgers["ttft_s"].terms
        moved = float(parts["kv_transfer"][0] + parts["kv_wait_for_wires"][0])
        assert moved == pytest.approx(figure(found, "kv_exposed_s"))
        assert float(found.ledgers["ttft_s"].total[0]) == pytest.approx(
            figure(found, "ttft_s_mean")
        )
    assert figure(beside, "kv_exposed_s") < figure(after, "kv_exposed_s")
    assert figure(after, "kv_exposed_s") == pytest.approx(
        figure(after, "kv_transfer_s") + figure(after, "kv_wait_s")
    )


def test_wires_that_cannot_carry_the_load_are_a_limit():
    """A fleet whose network is the bottleneck would be shown as possible."""
    _, found = one("scaleout_gbytes_per_s=1")
    broken = {name for name, limit in found.limits.items() if limit.excess[0] > 0}
    assert any(name.endswith(": wires") for name in broken)


def test_replicas_do_not_cure_an_unloaded_latency():
    """A fleet would be enlarged for a bound that an empty replica breaks (dynamo#11624)."""
    hopeless = ("workload.chat.slo.ttft_s_p95=0.01",)
    counts = set()
    for rate in (60, 600):
        _, found = one(f"workload.chat.trace.arrivals.requests_per_s={rate}", *hopeless)
        broken = {name for name, limit in found.limits.items() if limit.excess[0] > 0}
        assert "prefill: ttft_s_p95" in broken
        counts.add(figure(found, "prefill.replicas") / rate)
    _, kept = one()
    assert min(counts) * 60 <= figure(kept, "prefill.replicas")


def test_what_pools_cannot_have_is_refused_at_once():
    """A count would be taken for one pool, or an axis of the fabric for half of it."""
    with pytest.raises(BadStudy, match="one fabric joins both pools"):
        pooled("prefill.kv_transfer=layer_wise")
    with pytest.raises(BadStudy, match=r"prefill\.devices and decode\.devices"):
        prepare(pooled("devices=64"))
    with pytest.raises(BadStudy, match="one pool does both"):
        prepare(chat("kv_transfer=layer_wise"))


def test_pools_that_cannot_read_each_others_cache_are_no_pair():
    """Keys and values would be read in a precision they were not written in."""
    with pytest.raises(BadStudy, match="moved as they are, not converted"):
        commands.evaluate_study(pooled(*ONE, "prefill.kv_precision=fp8"))


@pytest.mark.long
def test_the_closed_form_is_near_the_replay_of_both_pools(tmp_path):
    """A fleet would be bought on latencies that request by request are not there."""
    found = commands.replay(written(tmp_path), list(ONE), seeds=2)["replay"]
    assert found["refused"] == 0
    assert not found["is_overload"]
    gaps = found["gap"]
    for name, most in {"ttft_s_p50": 0.15, "tpot_s_mean": 0.05}.items():  # wanted of one pool too
        assert abs(gaps[name]) < most, (name, gaps[name])


@pytest.mark.long
def test_a_recorded_stream_is_one_draw_of_both_pools():
    """A tail would look surer with every replay of the same minute."""
    found = single(pooled(*ONE, 'workload.chat.trace="azure_conversation_2023"'))
    codes = codes_of(found.engine.space, np.array([found.key]))
    plan = pair_plan(found.engine, pair_at(found.engine, codes))
    once, often = replayed_pair(plan, 1), replayed_pair(plan, 5)
    assert (often.requests, often.low, often.high) == (once.requests, once.low, once.high)
