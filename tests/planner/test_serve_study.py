"""Serving studies from file to front: sized on the peak, refused where nothing is known."""

import json
from dataclasses import replace

import numpy as np
import pytest
from small import planner
from small_serve import chat, written

from planner.bands import serving_bands
from planner.documents import answers as commands
from planner.documents.serving import told
from planner.metrics import metrics_of
from planner.runs.kinds import prepare
from planner.search.sweep import sweep
from planner.serving.bands import serve_band_of
from planner.serving.evaluate import evaluate
from planner.serving.fleet import sized
from planner.serving.metrics import is_computed
from planner.serving.replay import plan_of, replayed
from planner.space.blocks import values_of
from planner.space.plan_keys import codes_of
from planner.space.single import single
from simkernel.errors import BadStudy, UnknownName
from simkernel.kv_cache import free_bytes, resident_sequence_bytes

ONE = ("accelerator=H100-SXM", "supernode_devices=8", "tp=1", "max_batch=256", "token_budget=8192")


def one(*settings):
    """One plan: its engine, its row and its metrics, limits."""
    found = single(chat(*ONE, *settings))
    codes = codes_of(found.engine.space, np.array([found.key]))
    columns = values_of(found.engine.space, codes)
    return found, columns, evaluate(found.engine, columns, "H100-SXM")


def figure(found, name):
    return float(found.metrics[name][0])


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    folder = tmp_path_factory.mktemp("serve")
    return commands.run(written(folder), folder / "a.duckdb", replays=1, is_quiet=True), folder


def test_a_serving_study_ends_with_a_front_whose_first_plan_was_replayed(ran):
    """A kind of study that is read and never answered."""
    document, _ = ran
    counts = document["candidates"]
    assert document["front"]
    assert counts["evaluated"] + sum(counts["masked"].values()) == counts["enumerated"]
    (row,) = document["replayed"]
    assert row["plan"] in {plan["plan"] for plan in document["front"]}
    for name in ("ttft_s_p95", "tpot_s_mean"):
        assert row[f"replayed_{name}_low"] <= row[f"replayed_{name}"]
        assert row[f"replayed_{name}"] <= row[f"replayed_{name}_high"]
        assert f"gap_{name}" in row
    assert row["needed_replicas"] > 0


def test_every_metric_of_the_contract_is_there_with_its_band(ran):
    """A script that reads the JSON would meet a missing key."""
    document, _ = ran
    row = document["front"][0]
    for metric in metrics_of("serve"):
        if is_computed(metric.name):
            assert row[metric.name] is not None, metric.name
        if is_computed(metric.name) and metric.is_predicted:
            low, high = row[f"{metric.name}_low"], row[f"{metric.name}_high"]
            assert low <= row[metric.name] <= high, metric.name


@pytest.mark.long
def test_a_front_is_explained_recosted_and_shown(ran):
    """The other commands would know training alone."""
    document, folder = ran
    found = commands.explain(folder / "a.duckdb", "last", "1")
    assert found["ledgers"]["tpot_s"]["total"] == pytest.approx(
        found["metrics"]["tpot_s_mean"], rel=0.2
    )
    assert found["napkin"]["devices"]["napkin"] < found["napkin"]["devices"]["plan"]
    assert found["one_change"]
    again = commands.recost(folder / "a.duckdb", "last", ["costing.wacc_frac=0.02"])
    assert again["front"][0]["usd"] < document["front"][0]["usd"]
    json.dumps(document, allow_nan=False)


def test_a_fleet_serves_its_peak_with_the_headroom_asked_for():
    """A fleet sized on the mean fails every afternoon."""
    _, _, found = one()
    assert figure(found, "utilisation_frac") <= 0.7
    assert figure(found, "capacity_requests_per_s") >= 60
    assert figure(found, "devices") >= figure(found, "floor_devices")
    _, _, busy = one("workload.chat.trace.arrivals.requests_per_s=600")
    assert figure(busy, "replicas") > 5 * figure(found, "replicas")


def test_a_fleet_that_survives_a_host_has_as_many_replicas_more():
    """A spare that is not there when a host fails."""
    _, _, found = one("workload.chat.peak_utilisation_frac=1.0")
    _, _, spared = one(
        "workload.chat.peak_utilisation_frac=1.0", "workload.chat.survive_failures=1"
    )
    assert figure(spared, "replicas") == figure(found, "replicas") + 8


def test_replicas_are_never_added_against_a_latency_they_cannot_change():
    """A fleet would be bought for a bound that an empty replica already breaks."""
    _, _, found = one("workload.chat.slo.tpot_s_p95=0.001")
    _, _, before = one()
    broken = {name for name, limit in found.limits.items() if limit.excess[0] > 0}
    assert "tpot_s_p95 of an empty replica" in broken
    assert figure(found, "replicas") <= figure(before, "replicas")


def test_a_bound_out_of_reach_is_told_with_the_nearest_change_that_works():
    """ "Infeasible" without a floor and a way out is no answer."""
    settings = [*ONE, "workload.chat.slo.tpot_s_p95=0.006"]
    found = commands.evaluate_study(chat(*settings))
    assert not found["feasible"]
    assert {v["limit"] for v in found["violations"]} & {"tpot_s_p95 of an empty replica"}
    near = found["nearest"]
    assert near["axis"] in ("tensor_parallel", "precision")
    changed = [*settings, f"{near['axis']}={near['to']}"]
    assert commands.evaluate_study(chat(*changed))["feasible"]


def test_too_few_replicas_break_saturation_and_have_no_latency_of_a_dream():
    """A fleet that cannot keep up would show the latencies of one that can."""
    _, _, found = one("replicas=1", "workload.chat.trace.arrivals.requests_per_s=2000")
    assert found.limits["saturation"].excess[0] > 0
    assert figure(found, "utilisation_frac") == pytest.approx(1.0)
    assert not found.is_feasible[0]
    calm = one()[2]
    assert 0 < figure(calm, "utilisation_frac") < 1
    for name in ("ttft_s_p95", "tpot_s_p95"):
        assert figure(found, name) > 1.05 * figure(calm, name)


def test_given_devices_are_cut_into_whole_replicas():
    """Devices would be sold that no replica uses."""
    _, _, found = one("devices=16", "tp=2")
    assert figure(found, "replicas") == 8
    engine = prepare(chat("devices=15", "tp=2"))
    (*_, result) = list(sweep(engine, 1, lambda: False))
    assert result.evaluated == 0
    assert result.masked["replicas_do_not_divide_devices"] > 0


def test_a_power_cap_slows_steps_and_saves_watts():
    """A cap that costs nothing would be on every front."""
    _, _, free = one("replicas=4")
    _, _, capped = one("replicas=4", "power_cap_frac=0.5")
    assert figure(capped, "tpot_s_mean") > figure(free, "tpot_s_mean")
    assert figure(capped, "device_peak_w") < figure(free, "device_peak_w")


def test_a_model_that_does_not_fit_is_a_result_with_bytes():
    """GenZ and others print a latency for what cannot be loaded."""
    _, _, found = one("workload.chat.model=llama-3.1-70b")
    assert found.limits["memory"].excess[0] > 0
    assert not found.is_feasible[0]


def test_what_no_memory_holds_is_told_for_one_replica_in_figures_that_exist():
    """A fleet of six million, infinite bills, and a document that cannot be written."""
    _, _, found = one("workload.chat.model=bloom-176b")
    assert found.limits["memory"].excess[0] > 0
    assert figure(found, "replicas") == 1
    assert all(np.isfinite(value[0]) for value in found.metrics.values())


def test_a_prompt_that_is_not_cut_has_to_fit_a_step():
    """A plan whose engine refuses half of its requests would be bought."""
    found, _, whole = one("batching=continuous")
    longest = figure_of_limit(whole)
    assert longest == found.engine.load.longest_tokens - 1
    assert figure_of_limit(one("batching=chunked_prefill")[2]) == 0
    short = one("batching=continuous", f"token_budget={int(longest) - 1}", "max_batch=32")[2]
    assert short.limits["prompt_in_a_step"].excess[0] > 0


def figure_of_limit(found):
    return float(found.limits["prompt_in_a_step"].have[0])


def test_requests_of_one_output_token_are_replayed():
    """Classifiers answer with one token: there is no time between tokens, and no fault of ours."""
    plan = plan_of(*replay_parts("workload.chat.trace.output_tokens=1"))
    found = replayed(plan, 1)
    assert np.isfinite(found.metrics["ttft_s_p50"])
    shown = told(plan, found, {"ttft_s_p50": 1.0, "tpot_s_p50": 1.0}, 1)
    assert "ttft_s_p50" in shown["metrics"]
    assert "tpot_s_p50" not in shown["metrics"]
    assert json.dumps(shown, allow_nan=False)


def test_a_plan_that_no_fleet_can_run_is_told_and_not_replayed(tmp_path):
    """A minute of silence, and then a fault of ours."""
    for setting, limit in (
        ("workload.chat.model=bloom-176b", "memory"),
        ("workload.chat.trace.prompt_tokens=200000", "context"),
    ):
        answer = planner(
            "replay",
            written(tmp_path),
            *sum((["--set", s] for s in (*ONE, setting)), []),
            "--json",
        )
        assert answer.code == 1
        assert limit in {v["limit"] for v in answer.document["violations"]}
        assert "replay" not in answer.document


def test_a_replay_draws_no_more_than_its_cap():
    """Watts of a capped fleet would be bought twice."""
    free, capped = (
        replayed(plan_of(*replay_parts("replicas=4", f"power_cap_frac={cap}")), 1).metrics
        for cap in (1.0, 0.4)
    )
    assert capped["device_w"] <= 0.4 * 700 < free["device_w"]


def test_a_small_fleet_is_not_rounded_up_twice():
    """One replica at a twentieth of its rate would be sold as two."""
    found = sized(plan_of(*replay_parts("workload.chat.trace.arrivals.requests_per_s=1")), 1)
    assert (found.replicas, found.working, found.lost) == (1, 1, 0)


def test_a_search_without_an_end_names_no_fleet(monkeypatch):
    """The last fleet tried would be sold as one that keeps every bound."""
    monkeypatch.setattr("planner.serving.fleet.MOST_TRIES", 3)
    plan = plan_of(*replay_parts())
    never = replace(replayed(plan, 1), refused=1)
    monkeypatch.setattr("planner.serving.fleet.replayed", lambda plan, seeds: never)
    found = sized(plan, 1)
    assert (found.replicas, found.found) == (0, None)


def test_a_given_fleet_has_to_survive_the_failures_asked_for():
    """Four replicas on one host of eight would survive the loss of that host."""
    asked = ("workload.chat.survive_failures=1",)
    _, _, found = one(*asked)
    assert found.limits["survive_failures"].excess[0] <= 0
    few = one(*asked, f"replicas={int(figure(found, 'replicas')) - 1}")[2]
    assert few.limits["survive_failures"].excess[0] > 0
    assert one("replicas=4")[2].limits["survive_failures"].excess[0] <= 0


def test_the_pool_of_a_replay_holds_what_bytes_hold():
    """States weigh the same in short requests: ten times too many would run at once."""
    long = "workload.chat.trace.prompt_tokens={ from = 100, to = 30000 }"
    for model in ("llama-3.1-8b", "nemotron-nano-9b-v2"):
        found, columns, _ = one(f"workload.chat.model={model}", long)
        plan = plan_of(found.engine, columns, "H100-SXM")
        tokens = found.engine.load.peak.mix.context_tokens
        room = free_bytes(
            plan.rig.model, plan.rig.engine, plan.rig.plans, plan.rig.chips.memory_bytes
        )
        each = resident_sequence_bytes(plan.rig.model, plan.rig.plans, tokens)
        held = plan.fleet.pool_blocks * plan.fleet.block_tokens / tokens
        assert held == pytest.approx(float((room / each)[0]), rel=0.01)


def test_stages_of_a_pipeline_share_the_limit_of_sequences():
    """A pipeline of four would run four times what its engine admits."""
    plan = plan_of(*replay_parts("pp=4", "max_batch=64"))
    assert plan.fleet.max_batch == 16


def test_a_recorded_stream_is_one_draw_however_many_seeds():
    """A tail would look surer with every replay of the same minute."""
    recorded = ('workload.chat.trace="azure_conversation_2023"', "replicas=2")
    plan = plan_of(*replay_parts(*recorded))
    once, often = replayed(plan, 1), replayed(plan, 5)
    assert (often.requests, often.low, often.high) == (once.requests, once.low, once.high)


def test_an_engine_that_stops_for_prompts_is_replayed_as_it_does():
    """Its times between tokens would be those of an engine that mixes prompts in."""
    stops = 'workload.chat.engine="sglang"'
    assert plan_of(*replay_parts(stops)).fleet.batching == "prefill_first"
    assert plan_of(*replay_parts()).fleet.batching == "chunked_prefill"
    assert figure(one(stops)[2], "validated") == 1


def test_every_class_of_requests_is_held_to_its_own_bounds():
    """Patient requests would be bought the fleet of hasty ones, or hasty ones that of patient."""
    classes = "workload.chat.slo={hasty={share_frac=0.3,ttft_s_p95=1e-9},patient={ttft_s_p95=1e6}}"
    found = replayed(plan_of(*replay_parts(classes)), 1)
    assert [line["limit"] for line in found.broken()] == ["hasty.ttft_s_p95"]
    assert found.metrics["patient.ttft_s_p95"] > 0.0


def test_a_given_fleet_stays_below_the_use_asked_for():
    """A fleet without headroom would pass because it was given and not sized."""
    evaluated = one("replicas=1", "workload.chat.peak_utilisation_frac=0.01")[2]
    limit = evaluated.limits["peak_utilisation"]
    assert limit.have[0] > limit.need[0] == 0.01
    assert one()[2].limits["peak_utilisation"].have[0] <= 0.7 + 1e-9


def replay_parts(*settings):
    found, columns, _ = one(*settings)
    return found.engine, columns, "H100-SXM"


def test_the_replay_of_a_plan_keeps_its_bounds_and_is_the_same_again():
    """A tail that changes from run to run decides nothing."""
    found, columns, closed = one()
    plan = plan_of(found.engine, columns, "H100-SXM")
    first, second = replayed(plan, 2), replayed(plan, 2)
    assert first == second
    assert not first.broken()
    assert first.metrics["tpot_s_mean"] == pytest.approx(figure(closed, "tpot_s_mean"), rel=0.1)
    assert first.metrics["ttft_s_p50"] == pytest.approx(figure(closed, "ttft_s_p50"), rel=0.25)


def test_the_smallest_fleet_keeps_bounds_and_one_less_does_not():
    """A replica too many at every site, or one too few at the peak."""
    found, columns, _ = one("workload.chat.slo.ttft_s_p95=0.25")
    plan = plan_of(found.engine, columns, "H100-SXM")
    answer = sized(plan, 2)
    assert answer.found is not None
    assert not replayed(plan.with_replicas(answer.working), 2).broken()
    assert answer.working >= answer.saturated
    if answer.working > answer.saturated:
        fewer = replayed(plan.with_replicas(answer.working - 1), 2)
        assert fewer.broken()


def test_no_fleet_is_sized_against_a_floor():
    """The search would go on for ever."""
    found, columns, _ = one("workload.chat.slo.tpot_s_p95=0.001")
    answer = sized(plan_of(found.engine, columns, "H100-SXM"), 1)
    assert answer.replicas == 0
    assert answer.floors[0]["limit"] == "tpot_s_p95 of an empty replica"
    assert not answer.tries


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("limits.goodput_frac=0.9", "goodput_frac"),
        ("pin.step_s=1.0", "step_s"),
        ("workload.chat.slo.ttft_s_max=1.0", "slowest"),
    ],
)
def test_what_is_not_computed_is_refused(setting, words):
    """A limit that nothing applies would be taken for kept."""
    with pytest.raises(BadStudy, match=words):
        prepare(chat(setting))


def test_an_engine_that_nobody_timed_is_refused_with_the_known_ones():
    """A misspelt engine would be any engine."""
    with pytest.raises(UnknownName, match="vllm"):
        prepare(chat("workload.chat.engine=vlm"))


def test_a_closed_loop_has_no_rate_to_size_on():
    """Users who wait for answers come as fast as they are served."""
    with pytest.raises(BadStudy, match="closed loop"):
        prepare(chat('workload.chat.trace.arrivals={process="closed_loop",concurrency=8}',
                     "workload.chat.trace.requests=100"))  # fmt: skip


def test_an_error_of_speed_widens_all_that_grows_with_the_fleet():
    """A fleet half as fast as predicted is twice as dear."""
    speed = serve_band_of("capacity_requests_per_s", "dense")
    fleet = serve_band_of("replicas", "dense")
    assert fleet == pytest.approx((1.0 / speed[1], 1.0 / speed[0]))
    for name in ("usd", "facility_mwh", "j_per_token"):
        low, high = serve_band_of(name, "dense")
        assert low <= fleet[0]
        assert high >= fleet[1]


def test_latencies_have_the_bands_that_models_left_out_were_missed_by():
    """A band of no width would sell a guess as a measurement."""
    known = serving_bands("dense")
    assert serve_band_of("tpot_s_p95", "dense") == known["tpot_s"]
    assert serve_band_of("ttft_s_mean", "dense") == known["ttft_s"]
    assert known["tpot_s"][0] < 0.95 < 1.05 < known["tpot_s"][1]
    low, high = serve_band_of("e2e_s_p95", "dense")
    assert low == min(known["tpot_s"][0], known["ttft_s"][0])
    assert high == max(known["tpot_s"][1], known["ttft_s"][1])
    assert serve_band_of("output_tokens_per_s", "dense") == (1.0, 1.0)


def test_a_service_rests_on_its_engine_and_not_on_checkpoints():
    """A reader would look for what a figure rests on in the wrong table."""
    document = commands.evaluate_study(chat(*ONE))
    facts = document["facts_used"]
    assert any(name.startswith("H100-SXM.engines.vllm.") for name in facts)
    assert not any("checkpoint_s" in name for name in facts)
