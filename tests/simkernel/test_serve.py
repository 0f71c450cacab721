"""Steady serving: laws that hold for every plan, and hand-computed limits."""

import numpy as np
import pytest

from costdata import catalog
from costdata.configs import read_model
from simkernel.models import state_bytes
from simkernel.ops import summed
from simkernel.serve import Load, offline_run, static_batch, steady
from simkernel.serving_engine import Engine
from simkernel.serving_passes import _share, decode_parts, prefill_parts
from simkernel.serving_plans import ServingPlans, serving_plan_of
from simkernel.serving_rig import rig_of
from simkernel.share import touched_experts
from simkernel.stack import ISOLATED

FP8 = 2
BARE = Engine()


def rig(model="llama-3.1-70b", chip="H200-SXM", engine=BARE, name="vllm", **decisions):
    facts = catalog.load()
    plans = serving_plan_of(**{"tensor_parallel": 8, "precision_code": FP8, **decisions})
    return rig_of(
        read_model(model), engine, facts.chips([chip]), facts.engine_curves(name, [chip]), plans
    )


def served(requests, prompt=1024.0, output=1024.0, **decisions):
    return steady(rig(**decisions), Load(prompt, output, float(requests)))


def test_requests_in_flight_are_throughput_times_their_time():
    """Little's law: otherwise requests would vanish or be served twice."""
    for requests in (1, 7, 64, 5000):
        found = served(requests)
        first_s = found.ttft_s
        cycle_s = first_s + found.tpot_s * 1023.0
        flight = found.output_tokens_per_s / 1024.0 * cycle_s
        assert flight == pytest.approx(max(requests, 1), rel=1e-9)


def test_throughput_never_falls_with_more_requests_and_stops_rising_when_memory_is_full():
    """Preempted work that is counted would make a saturated replica look better and better."""
    rates = [float(served(n, chip="H100-SXM").output_tokens_per_s[0]) for n in (1, 8, 64, 512)]
    assert rates == sorted(rates)
    full = served(1, chip="H100-SXM").fitting_sequences[0]
    beyond = [float(served(full * k, chip="H100-SXM").output_tokens_per_s[0]) for k in (1, 2, 8)]
    assert beyond == pytest.approx([beyond[0]] * 3, rel=1e-9)


def test_what_does_not_fit_waits_before_its_first_token():
    """A queue for memory that is not told hides 99% of the time to first token."""
    full = served(1).fitting_sequences[0]
    assert served(full).wait_s[0] == 0
    assert served(2 * full).wait_s[0] > 10 * served(full).ttft_s[0]


def test_no_step_is_faster_than_its_arithmetic_or_its_bytes():
    """A step below the roofline promises tokens that no chip can make."""
    for model, code in (("llama-3.1-70b", FP8), ("deepseek-v3", 3), ("openai--gpt-oss-120b", 0)):
        one = rig(model, expert_parallel=1, expert_tensor_parallel=8, precision_code=code)
        for parts in (decode_parts(one, 32.0, 4096.0), prefill_parts(one, 2.0, 4096.0)):
            done = summed(parts)
            assert done.floor_s >= np.maximum(done.peak_compute_s, done.peak_hbm_s)


def test_decode_reads_weights_and_cache_once():
    """Bytes of a decode step by hand: weights of a device and the keys of every sequence."""
    done = summed(decode_parts(rig(), 64.0, 4096.0))
    weights = 70.6e9 / 8  # the input table is not read; the head is in 16 bits
    keys = 64 * 4096 * 327_680 / 8
    activations = 1.1  # at most a tenth on top for 64 tokens
    moved = float(done.peak_hbm_s[0]) * 4.8e12
    assert weights + keys < moved < activations * (weights + keys)


def test_an_all_reduce_is_charged_for_the_bytes_of_the_way_it_takes():
    """Links would draw as for a ring where switches add up, or where all are served at once.

    Two reductions a layer of 80: a large message goes up once, one of a token to seven peers.
    """
    each = 8192 * 2.0 * 80 * 2
    large = prefill_parts(rig(), 4.0, 4096.0)["tensor_parallel"].inside_bytes
    small = decode_parts(rig(), 1.0, 4096.0)["tensor_parallel"].inside_bytes
    assert float(np.squeeze(large)) == pytest.approx(4 * 4096 * each, rel=0.01)
    assert float(np.squeeze(small)) == pytest.approx(7 * each, rel=0.01)


def test_small_batches_read_only_the_experts_they_meet():
    """A batch of one meets 8 of 256 experts; all of them would cost thirty times as much."""
    model = read_model("deepseek-v3")
    kind = next(k for k in model.kinds if k.mlp == "moe")
    one = rig("deepseek-v3", tensor_parallel=1, precision_code=3)

    class Asked:
        cut_tokens = np.array([1.0, 4.0, 10_000.0])
        expert = expert_tensor = 1.0
        stack = ISOLATED
        copied_experts = 0.0

    touched = touched_experts(Asked, kind)
    assert touched == pytest.approx([8.0, 256 * (1 - (1 - 8 / 256) ** 4), 256.0])
    assert one.model is model


@pytest.mark.parametrize("change", [{"chip": "B200-SXM"}, {"cache_bytes_per_value": 1.0}])
def test_faster_memory_or_fewer_bytes_never_slow_a_step(change):
    """Paying for bandwidth or halving the cache would make a plan worse."""
    assert served(64, prompt=8192.0, **change).tpot_s < served(64, prompt=8192.0).tpot_s


def test_many_candidates_are_priced_as_one_by_one():
    """A row that depends on its neighbours makes every sweep wrong."""
    facts, model = catalog.load(), read_model("deepseek-v3")
    plans = [
        serving_plan_of(
            tensor_parallel=8 // copies,
            attention_data_parallel=copies,
            expert_parallel=expert,
            expert_tensor_parallel=8 // expert,
            precision_code=3,
            expert_precision_code=3,
        )
        for copies in (1, 8)
        for expert in (1, 8)
    ]
    table = ServingPlans(
        **{
            name: np.concatenate([getattr(plan, name) for plan in plans])
            for name in ServingPlans.__dataclass_fields__
        }
    )
    chips, curves = (f(["H200-SXM"]) for f in (facts.chips, _curves(facts)))
    load = Load(1024.0, 512.0, 64.0)
    rows = np.zeros(4, dtype=int)
    whole = steady(rig_of(model, BARE, chips.take(rows), _taken(curves, rows), table), load)
    singly = [steady(rig_of(model, BARE, chips, curves, plan), load) for plan in plans]
    assert whole.tpot_s == pytest.approx([float(s.tpot_s[0]) for s in singly], rel=1e-12)


def test_a_static_batch_ends_with_its_slowest_part():
    """Prefill of all prompts, then a step for every further token."""
    found = static_batch(rig(), Load(512.0, 128.0, 16.0))
    whole_s = found.ttft_s + 127.0 * found.tpot_s
    assert found.output_tokens_per_s == pytest.approx(16 * 128 / whole_s)


def test_a_replica_without_room_for_one_request_is_infeasible():
    """A model that does not fit would otherwise be ranked by its step time."""
    assert served(1, model="llama-3.1-405b", tensor_parallel=1).is_infeasible[0]
    assert not served(1).is_infeasible[0]


def test_overheads_lengthen_first_and_later_tokens_by_themselves():
    """An overhead that moves nothing is a dead knob, one that moves more is counted twice."""
    plain, slow = served(1), served(1, engine=Engine(step_s=0.002, request_s=0.03))
    assert slow.tpot_s - plain.tpot_s == pytest.approx(0.002)
    assert slow.ttft_s - plain.ttft_s == pytest.approx(0.03 + 0.002 * 2.5, rel=0.01)


def test_a_budget_below_the_running_sequences_still_moves_prompts_on():
    """A chunk of no or negative tokens would end as a negative time."""
    found = served(64, budget_tokens=32.0)
    assert found.tpot_s[0] > 0
    assert found.ttft_s[0] > served(64).ttft_s[0]


def _curves(facts):
    return lambda names: facts.engine_curves("vllm", names)


def _taken(curves, rows):
    from simkernel.columns import taken

    return taken(curves, rows)


def test_whole_crowds_of_an_offline_run_give_the_steady_rate_and_a_rest_less():
    """A run of two full crowds is steady; half a crowd more leaves the memory half empty."""
    fitting = float(np.floor(served(1, chip="H100-SXM").fitting_sequences[0]))
    at = rig(chip="H100-SXM")
    steadily = steady(at, Load(1024.0, 1024.0, 1e6)).output_tokens_per_s[0]
    crowd = steady(at, Load(1024.0, 1024.0, 1e6)).sequences[0]
    whole = offline_run(at, Load(1024.0, 1024.0, 2.0 * crowd)).output_tokens_per_s[0]
    rest = offline_run(at, Load(1024.0, 1024.0, 1.5 * crowd)).output_tokens_per_s[0]
    assert fitting > 1
    assert whole == pytest.approx(steadily, rel=1e-6)
    assert rest < whole


def test_prompts_that_wait_for_each_other_hold_decoding_up_less():
    """Unbalanced attention copies are all as slow as the one with a prompt."""
    moe = {"model": "deepseek-v3", "tensor_parallel": 1, "attention_data_parallel": 8}
    moe |= {"expert_parallel": 8, "expert_precision_code": FP8, "chip": "B200-SXM"}
    load = Load(4000.0, 1000.0, 448.0)
    tpots = [
        float(steady(rig(engine=Engine(balanced_frac=frac), **moe), load).tpot_s[0])
        for frac in (0.0, 0.5, 1.0)
    ]
    assert tpots == sorted(tpots, reverse=True)
    assert tpots[2] < tpots[0]


def test_every_stage_of_a_pipeline_has_a_host_and_the_last_one_the_head():
    """Otherwise eight stages would be eight times one device, which no published run is."""
    engine = Engine(step_s=1e-3)
    rates = [
        float(
            steady(
                rig(engine=engine, tensor_parallel=1, pipeline_parallel=n),
                Load(128.0, 512.0, 64.0 * n),
            ).output_tokens_per_s[0]
        )
        / n
        for n in (2, 4, 8)
    ]
    assert rates == sorted(rates, reverse=True)
    assert rates[2] < 0.95 * rates[0]


def touched(tokens, spread):
    at = rig(model="qwen3-235b-a22b", engine=Engine(router_spread_frac=spread), tensor_parallel=1)
    kind = next(k for k in at.model.kinds if k.mlp == "moe")
    return float(touched_experts(_share(at, float(tokens), float(tokens), 1.0), kind)[0]), kind


def test_a_liked_expert_is_met_again_so_that_fewer_are_read():
    """Even routing reads too many experts in the middle; one token always reads its own."""
    for tokens in (1, 4, 16, 64, 4096):
        even, kind = touched(tokens, 0.0)
        skewed, _ = touched(tokens, 1.0)
        assert kind.top_k - 1e-9 <= skewed <= even + 1e-9
    assert touched(16, 1.0)[0] < 0.85 * touched(16, 0.0)[0]
    assert touched(16, 1e-4)[0] == pytest.approx(touched(16, 0.0)[0], rel=0.04)


def test_a_later_release_has_shorter_kernels_of_latent_attention_only():
    """Age must not touch models without a latent."""
    engine = Engine(layer_s=1e-5, latent_layer_s=1e-4, matures_per_year=1.0)
    assert engine.aged(0.3).latent_layer_s == pytest.approx(1e-4 * np.exp(-0.3))
    assert engine.aged(-9.0).latent_layer_s == pytest.approx(1e-4 * np.exp(0.35))
    assert engine.aged(0.3).layer_s == engine.layer_s


def test_an_exchange_sends_a_token_once_to_each_rank():
    """Every rank gets every token where they are few; beyond, only those it is routed to."""
    few = rig(model="qwen3-235b-a22b", chip="B200-SXM", tensor_parallel=1,
              attention_data_parallel=4, expert_parallel=4, expert_precision_code=FP8,
              supernode_devices=64)  # fmt: skip
    many = rig(model="qwen3-235b-a22b", chip="B200-SXM", tensor_parallel=1,
               attention_data_parallel=64, expert_parallel=64, expert_precision_code=FP8,
               supernode_devices=64)  # fmt: skip
    sent = [
        float(np.asarray(prefill_parts(r, 1.0, 4096.0)["expert_parallel"].inside_bytes)[0])
        for r in (few, many)
    ]
    once = 4096.0 * few.model.hidden * (1.0 + 2.0) * 94  # fp8 out, bf16 back, layers
    assert sent[0] == pytest.approx(3.0 * once, rel=1e-6)
    assert 3.0 * once < sent[1] < 8.0 * once


def test_a_decode_step_moves_the_whole_state_of_recurrent_layers():
    """States that are kept but never moved made hybrid models two to four times too fast."""
    slug = "nvidia--NVIDIA-Nemotron-Nano-9B-v2"
    one = rig(slug, "H100-SXM", tensor_parallel=1, precision_code=0)
    few, many = (summed(decode_parts(one, n, 500.0)) for n in (64.0, 128.0))
    moved_bytes = 2 * 64 * state_bytes(read_model(slug))
    more_bytes = (many.peak_hbm_s - few.peak_hbm_s) * 3.35e12
    assert np.all(more_bytes > moved_bytes)
    assert np.all(more_bytes < 1.4 * moved_bytes)  # the rest is the cache of its few attention


def held_back(requests, **launch):
    found = steady(rig(), Load(1024.0, 1024.0, float(requests), **launch))
    return float(found.ttft_s[0] - served(requests).ttft_s[0]), float(found.step.floor_s[0])


def test_a_prompt_waits_as_long_as_the_engine_holds_it_back():
    """A start-up option would pass for slow kernels: 20 steps are twice a short prompt.

    Of four requests hardly two come within 20 steps, so that one waits for all of them.
    """
    more_s, step_s = held_back(4, held_steps=20.0, held_prompts=8.0)
    assert more_s == pytest.approx(20.0 * step_s, rel=0.05)


def test_enough_prompts_end_the_wait():
    """A crowd would wait for a time-out that its own prompts had ended."""
    few, step_s = held_back(512, held_steps=200.0, held_prompts=3.0)
    assert few < 30.0 * step_s
    nobody, _ = held_back(512, held_steps=200.0, held_prompts=1.0)
    assert nobody == 0.0


def test_an_engine_that_looks_now_and_then_is_late_by_half_of_that():
    """Requests would be seen the moment they come, however seldom the engine looks."""
    more_s, step_s = held_back(4, poll_steps=31.0)
    assert more_s == pytest.approx(15.0 * step_s, rel=0.1)


def test_every_stage_walks_over_the_sequences_of_all_slots():
    """Eight stages would come out a sixth too fast beside one (RTX PRO 6000, TensorRT-LLM)."""
    engine = Engine(step_s=1e-3, sequence_s=1e-5)
    assert engine.host_s(1.0, 100.0) == pytest.approx(2e-3)
    assert engine.host_s(4.0, 100.0) == pytest.approx(4.0 * (1e-3 + 1e-5 * 400.0))
