"""How far a token's experts are spread."""

from dataclasses import replace

import numpy as np
import pytest
from conftest import chip, dense_model, moe_model

from simkernel import plugins
from simkernel.candidates import CONTEXT_EXCHANGE, plan_of
from simkernel.exchange import (
    boundary_send,
    collective,
    context_traffic,
    distinct_domains,
    head_traffic,
    tensor_backward,
    tensor_traffic,
)
from simkernel.memory import layer_activation_bytes
from simkernel.models import Core
from simkernel.ops import layer_backward, layer_forward
from simkernel.placement import place
from simkernel.share import imbalance, share_of
from simkernel.traffic import network
from simkernel.workload import TrainingJob

KIND = moe_model(experts=256, top_k=8).kinds[0]
DOMAINS = np.array([2.0, 4.0, 8.0, 16.0, 32.0])


def test_experts_drawn_freely_hit_as_many_domains_as_the_hypergeometric_says():
    """256 experts, 8 of them: 1.99, 3.62, 5.30, 6.52, 7.27 domains of 2 to 32."""
    assert distinct_domains(DOMAINS, KIND) == pytest.approx(
        [1.99, 3.62, 5.30, 6.52, 7.27], abs=0.006
    )


def test_node_limited_routing_agrees_with_a_monte_carlo_of_deepseek_v3():
    """4 of 8 groups: 1.93, 2.93, 3.63, 5.34, 6.61 domains; else dispatch is priced too dear."""
    limited = replace(KIND, expert_groups=8, expert_groups_used=4)
    found = distinct_domains(DOMAINS, limited)
    assert found == pytest.approx([1.93, 2.93, 3.63, 5.34, 6.61], rel=0.035)


def test_one_domain_holds_all():
    """A group inside one domain would send outside."""
    assert distinct_domains(np.ones(1), KIND) == pytest.approx([1.0])


def tensor_share(sequence_parallel):
    """Eight tensor ranks over a ring, with or without sequence parallelism; two stages."""
    plan = plan_of(
        devices=16,
        supernode_devices=8,
        tensor_parallel=8,
        pipeline_parallel=2,
        sequence_parallel=sequence_parallel,
        collective_code=plugins.code("collectives", "ring"),
    )
    placement = place(plan.degrees, plan.supernode_devices, plan.placement_code)
    wires = network(chip(), plan.supernode_devices, plan.oversubscription)
    return share_of(TrainingJob(1e12, 2048, 65e6), chip(), plan, placement, wires)


def test_sequence_parallelism_sends_as_much_forward_and_a_gather_more_backward():
    """A gather and a scatter are an all-reduce (Korthikanti et al. 2022, section 4.2.2)."""
    model = dense_model()
    on, off = tensor_share(1), tensor_share(0)
    forward, backward = (
        [f(share, model, model.kinds[0]).inside_bytes for share in (on, off)]
        for f in (tensor_traffic, tensor_backward)
    )
    assert forward[0] == pytest.approx(forward[1], rel=1e-12)
    assert backward[1] == pytest.approx(forward[1], rel=1e-12)
    assert backward[0] == pytest.approx(1.5 * forward[0], rel=1e-12)


def test_a_stage_sends_every_token_once_and_gathers_it_where_ranks_work_on_all():
    """Eight ranks that each sent everything would load the slow network eightfold."""
    on, off = (boundary_send(tensor_share(code), dense_model()) for code in (1, 0))
    assert on.outside_bytes == off.outside_bytes > 0
    assert on.inside_bytes == 0 < off.inside_bytes


TOKENS = 32768


def context_share(exchange, ranks=8, tensor=1):
    """One sequence over some context ranks of one domain."""
    plan = plan_of(
        devices=ranks * tensor,
        supernode_devices=8,
        tensor_parallel=tensor,
        context_parallel=ranks,
        context_exchange_code=CONTEXT_EXCHANGE.index(exchange),
        collective_code=plugins.code("collectives", "direct"),
    )
    placement = place(plan.degrees, plan.supernode_devices, plan.placement_code)
    wires = network(chip(), plan.supernode_devices, plan.oversubscription)
    return share_of(TrainingJob(1e12, TOKENS, 65e6), chip(), plan, placement, wires)


def test_scattered_heads_send_four_parts_where_a_ring_sends_two_wholes():
    """Equal heads: 4 N h / P against 2 N h a layer (arXiv 2309.14509, section 3.2)."""
    core, ranks, whole = dense_model(kv_heads=32).kinds[0].core, 8, TOKENS * 4096 * 2.0
    sent = head_traffic(context_share("all_to_all"), core).inside_bytes
    assert sent == pytest.approx(4 * whole / ranks * 7 / 8, rel=1e-12)
    passed = context_traffic(context_share("ring"), core, 1.0).inside_bytes
    assert passed == pytest.approx(2 * whole * 7 / 8, rel=1e-12)
    assert context_traffic(context_share("all_to_all"), core, 1.0).inside_bytes == 0


def test_fewer_key_heads_than_ranks_are_copied_and_no_more():
    """Two key heads over eight ranks: each rank needs one, so eight are sent for two."""
    few, enough = (dense_model(kv_heads=n).kinds[0].core for n in (2, 8))
    share = context_share("all_to_all")
    assert head_traffic(share, few).inside_bytes == head_traffic(share, enough).inside_bytes


def test_latent_keys_are_expanded_before_they_are_scattered():
    """A latent belongs to all heads: scattered as it is, every rank would need it whole."""
    core = Core("mla", 128, 0, 192, 128, latent=576)
    sent = head_traffic(context_share("all_to_all"), core).inside_bytes
    assert sent == pytest.approx(TOKENS / 8 * 128 * 2 * (192 + 128) * 2.0 * 7 / 8, rel=1e-12)


def test_latent_keys_go_round_as_wide_as_they_were_expanded():
    """A latent on the wire would have to be expanded by every rank, which no product counts."""
    core = Core("mla", 128, 0, 192, 128, latent=576)
    passed = context_traffic(context_share("ring", ranks=4, tensor=2), core, 1.0).inside_bytes
    assert passed == pytest.approx(TOKENS * 64 * (192 + 128) * 2.0 * 3 / 4, rel=1e-12)


def test_scattered_heads_are_waited_for_before_and_after_the_core():
    """A core cannot start on keys that are still on their way: nothing hides the exchange."""
    model, share = dense_model(), context_share("all_to_all")
    core, kind = model.kinds[0].core, model.kinds[0]
    exchange = head_traffic(share, core).floor_s
    forward = layer_forward(share, model, kind)
    alone = layer_forward(context_share("ring", ranks=1), model, kind)["attention"]
    assert forward["attention"].floor_s - exchange >= alone.floor_s / 8.01
    backward = layer_backward(share, model, kind, forward)
    for parts in (forward, backward):
        part = parts["attention"]
        assert part.floor_s == pytest.approx(part.compute_s + exchange + 5e-6, rel=1e-9)
        assert part.inside_bytes == head_traffic(share, core).inside_bytes


def test_a_ring_hides_behind_all_blocks_of_the_core_but_the_first():
    """All of a core would hide keys that its first block has to be done without."""
    slow = chip(scaleup_bytes_per_s=np.ones(1) * 4e9)
    model = dense_model()
    core, kind = model.kinds[0].core, model.kinds[0]
    fast_share = context_share("ring")
    slow_share = replace(fast_share, network=network(slow, np.array([8]), np.ones(1)))
    alone = layer_forward(context_share("ring", ranks=1), model, kind)["attention"].floor_s / 8
    hidden = layer_forward(fast_share, model, kind)["attention"].floor_s
    assert hidden == pytest.approx(alone, rel=0.01)
    passed = context_traffic(slow_share, core, 1.0).floor_s
    assert passed > alone
    shown = layer_forward(slow_share, model, kind)["attention"].floor_s
    assert shown == pytest.approx(passed + alone / 8, rel=0.01)


def test_scattered_heads_keep_the_output_in_both_layouts():
    """The core's gradient wants it by heads, the product after it by tokens: too little held."""
    model = dense_model()
    ring, scattered = (
        layer_activation_bytes(context_share(name), model, model.kinds[0])
        for name in CONTEXT_EXCHANGE
    )
    assert scattered - ring == pytest.approx(TOKENS / 8 * 4096 * 2.0, rel=1e-12)


@pytest.mark.parametrize(("ranks", "most"), [(2, 2.0), (4, 4.0), (64, 32.0), (256, 32.0)])
def test_no_expert_rank_gets_more_tokens_than_there_are(ranks, most):
    """Two ranks would be priced with four times the mean: twice as many tokens as exist."""
    model = moe_model(experts=256, top_k=8)
    plan = plan_of(devices=256, supernode_devices=8, expert_parallel=ranks)
    placement = place(plan.degrees, plan.supernode_devices, plan.placement_code)
    wires = network(chip(), plan.supernode_devices, plan.oversubscription)
    job = TrainingJob(1e12, 4096, 65e6, expert_imbalance=100.0)
    found = imbalance(share_of(job, chip(), plan, placement, wires), model.kinds[0])
    assert found[0] == pytest.approx(most)


def test_a_named_collective_is_no_choice_for_the_plans_beside_it():
    """What "best" costs would hang on who else is in the block."""
    share = tensor_share(0)
    best, named = len(plugins.names("collectives")), plugins.code("collectives", "all_pairs")

    def seconds(*codes):
        one = replace(share, collective_code=np.array(codes))
        return collective(one, "all_reduce", share.placement.tensor, 1e3).floor_s

    assert seconds(best, named).tolist() == [*seconds(best), *seconds(named)]
    assert seconds(named) < seconds(best)
