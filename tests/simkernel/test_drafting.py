"""Tokens drafted ahead: how many a step makes, what it costs, what it takes of the memory."""

from dataclasses import replace

import numpy as np
import pytest
from serving_cases import fleet, linear_tables, same, stream
from test_serving_tables import rig

from costdata.configs import read_model
from simkernel.drafting import (
    eagle_head,
    expected_tokens,
    prediction_layers,
    token_sd_tokens,
    token_shares,
)
from simkernel.kv_cache import resident_sequence_bytes, weight_bytes
from simkernel.models import draft_parameters, kind_kv_bytes
from simkernel.passes import Pass
from simkernel.replay.opening import Run
from simkernel.replay.serve import replay
from simkernel.serving_plans import serving_plan_of
from simkernel.step_curves import taken_rig
from simkernel.step_parts import ATTENTION, HEAD, step_parts

POLICIES = ("chunked_prefill", "continuous", "sarathi", "static", "prefill_first")


def drafting_rig(name, drafter, drafted, count):
    """A plan that drafts so many tokens with a drafter, `count` times over."""
    one = rig(name)
    drafts = {
        "draft_code": np.full(count, 1 if drafted else 0),
        "drafted_tokens": np.full(count, float(drafted)),
    }
    rows = taken_rig(one, np.zeros(count, dtype=np.int64))
    model = replace(one.model, drafters=(drafter(one.model),))
    return replace(rows, model=model, plans=replace(rows.plans, **drafts))


def decode_step_s(made, sequences, context):
    """Kernels of a step with decoding sequences alone."""
    queries = 1.0 + made.plans.drafted_tokens
    by_tokens = step_parts(made, sequences * queries, context)
    rest = step_parts(made, sequences, context)
    layers = sum((p for n, p in by_tokens.items() if n not in (ATTENTION, HEAD)), start=Pass())
    return np.asarray(layers.floor_s + rest[ATTENTION].floor_s + rest[HEAD].floor_s)


@pytest.mark.parametrize("chance", [0.0, 0.3, 0.85, 1.0])
@pytest.mark.parametrize("drafted", [0, 1, 3, 7])
def test_expected_tokens_are_leviathans(chance, drafted):
    """(1 - a^(k+1)) / (1 - a), the first equation of the paper that the method is from."""
    wanted = drafted + 1.0 if chance == 1.0 else (1 - chance ** (drafted + 1)) / (1 - chance)
    assert expected_tokens(drafted, chance, chance) == pytest.approx([wanted], rel=1e-12)
    assert token_shares(drafted, chance, chance).sum() == pytest.approx(1.0, rel=1e-12)


def test_deepseeks_own_layer_makes_what_it_was_published_to_make():
    """1.85 to 1.90 tokens a step with one draft; 3.2 with seven, of a layer used again."""
    assert expected_tokens(1, 0.85, 0.62) == pytest.approx([1.85])
    assert expected_tokens(7, 0.85, 0.62) == pytest.approx([3.2], rel=0.02)


def test_drafts_help_a_few_sequences_and_lose_on_many():
    """Verifying is free while weights are read; on short contexts many sequences pay for it."""
    few, many = np.array([1.0, 4.0]), np.array([1024.0, 4096.0])
    made = expected_tokens(3, 0.73, 0.69)
    for sequences, is_faster in ((few, True), (many, False)):
        context = np.full(len(sequences), 64.0)
        plain = decode_step_s(drafting_rig("llama-3.1-8b", eagle_head, 0, 2), sequences, context)
        ahead = decode_step_s(drafting_rig("llama-3.1-8b", eagle_head, 3, 2), sequences, context)
        assert np.all((ahead / made < plain) == is_faster)


def test_a_step_that_verifies_is_never_shorter_than_one_that_does_not():
    """Drafts would be computed for nothing."""
    sequences = np.array([1.0, 8.0, 64.0, 512.0])
    context = np.full(4, 2000.0)
    steps = [
        decode_step_s(drafting_rig("deepseek-v3", prediction_layers, k, 4), sequences, context)
        for k in (0, 1, 2, 4)
    ]
    assert np.all(np.diff(np.stack(steps), axis=0) > 0)


def test_the_prediction_layer_is_held_with_its_cache():
    """11.5 B parameters more would fit for nothing (DeepSeek-V3 README_WEIGHTS.md)."""
    model = read_model("deepseek-v3")
    with_layer = replace(model, drafters=(prediction_layers(model),))
    decisions = {"expert_parallel": 32, "attention_data_parallel": 32, "precision_code": 2}
    plans = [
        serving_plan_of(**decisions, expert_precision_code=2, draft_code=code) for code in (0, 1)
    ]
    without, held = (weight_bytes(with_layer, plan).terms["drafter"] for plan in plans)
    assert without == [0.0]
    kind = model.kinds[model.draft_codes[0]]
    experts = sum(w.parameters for w in kind.weights if w.part == "experts")
    dense = draft_parameters(model).total - experts
    assert held == pytest.approx([dense + experts / 32], rel=0.1)
    more = [resident_sequence_bytes(with_layer, plan, 1000.0) for plan in plans]
    assert more[1] - more[0] == pytest.approx([kind_kv_bytes(kind, 1000.0)])


@pytest.mark.parametrize("policy", POLICIES)
def test_replayed_steps_make_as_many_tokens_as_the_drafts_promise(policy):
    """A replay would be of another method than the closed form."""
    house = fleet(policy, drafted_tokens=3, first_accept_frac=0.8, later_accept_frac=0.6)
    requests = stream(300, longest=(200, 400))
    result = replay(requests, house, linear_tables(), Run(logged_steps=100_000))
    plain = replay(requests, fleet(policy), linear_tables())
    decodes = np.sum(result.log.decodes)
    made = np.sum(requests.output_tokens - 1) / decodes
    wanted = expected_tokens(3, 0.8, 0.6)[0]
    excess = (token_sd_tokens(3, 0.8, 0.6)[0] ** 2 + wanted**2 - wanted) / (2 * wanted)
    steps = (np.mean(requests.output_tokens - 1) + excess) / wanted
    assert np.mean(requests.output_tokens - 1) / steps == pytest.approx(made, rel=0.02)
    assert np.mean(result.tpot_s[result.output_tokens > 1]) < np.mean(
        plain.tpot_s[plain.output_tokens > 1]
    )
    assert np.all(result.totals.blocks_left == 0)


@pytest.mark.parametrize("policy", POLICIES)
def test_identities_hold_with_drafts_and_preemptions(policy):
    """First token plus all gaps would not be the whole request."""
    house = fleet(
        policy, pool_blocks=130, drafted_tokens=4, first_accept_frac=0.7, later_accept_frac=0.7
    )
    run = Run(has_token_times=True)
    requests = stream(120, per_s=8.0)
    result = replay(requests, house, linear_tables(has_joules=True), run)
    served = np.flatnonzero(result.is_served & (result.output_tokens > 1))
    for request in served:
        start = result.token_start[request]
        times = result.token_s[start : start + result.output_tokens[request]]
        assert times[0] == result.first_token_s[request]
        assert times[-1] == result.finish_s[request]
        assert np.all(np.diff(times) >= 0)
    assert np.all(result.totals.blocks_left == 0)
    assert same(result, replay(requests, house, linear_tables(has_joules=True), run))
    own = Run(has_token_times=True, is_compiled=False)
    few = stream(25, per_s=8.0)
    tables = linear_tables(has_joules=True)
    assert same(replay(few, house, tables, run), replay(few, house, tables, own))


def test_drafts_that_are_never_right_cost_their_step_and_change_nothing_else():
    """A wrong draft would put a token into an answer."""
    wrong = fleet(drafted_tokens=2)
    requests = stream(100)
    tables = linear_tables(token_s=0.0, context_s=0.0)
    one, other = (replay(requests, house, tables) for house in (wrong, fleet()))
    assert np.allclose(one.finish_s, other.finish_s, rtol=1e-12)
