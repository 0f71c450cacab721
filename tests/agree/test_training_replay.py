"""Training steps replayed: against the closed form, against themselves unfolded, and by law."""

from dataclasses import replace

import numpy as np
import pytest

from costdata.catalog import load
from costdata.configs import read_model
from simkernel import plugins
from simkernel.candidates import plan_of
from simkernel.memory import Reserve
from simkernel.placement import order_code
from simkernel.replay.compiled import contend_lent, machine_code
from simkernel.replay.contended import NO_OUTAGES, Stage, opened_play
from simkernel.replay.draws import Unevenness, drawn
from simkernel.replay.phases import OUTSIDE, OWN_LINKS, Uplinks, no_uplinks, phases_of
from simkernel.replay.program import PAIR
from simkernel.replay.step import contended_step, walked_step
from simkernel.replay.training import pipeline_of
from simkernel.replay.walk import opened_walk
from simkernel.train import training_step
from simkernel.workload import TrainingJob

CATALOG, MODEL = load(), read_model("deepseek-v3")
SCHEDULES = plugins.names("schedules")
UNEVEN_FRAC = {"dual_pipe": 0.02, "dual_pipe_v": 0.02}
"""Closed forms that are exact for even stages alone: DeepSeek-V3's first and last are lighter."""

EVEN = Unevenness(1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 1, 1)


def job_on(chip, profile="vendor_2026"):
    stack, keeping = CATALOG.stack(profile, chip), CATALOG.keeping(profile, chip)
    return TrainingJob(14.8e12, 4096, 65e6, expert_imbalance=1.1, stack=stack, keeping=keeping)


def plan(schedule="one_forward_one_backward", **decisions):
    """DeepSeek-V3 on 1,024 devices in domains of 8, unless said otherwise."""
    chunks = 2 if plugins.find("schedules", schedule).TRAITS.is_chunked else 1
    known = {
        "devices": 1024,
        "supernode_devices": 8,
        "tensor_parallel": 2,
        "pipeline_parallel": 8,
        "expert_parallel": 64,
        "sequence_parallel": 1,
        "virtual_stages": chunks,
        "global_batch_sequences": 4096,
        "schedule_code": SCHEDULES.index(schedule),
        "collective_code": len(plugins.names("collectives")),
    }
    return plan_of(**(known | decisions))


def ready(plans, chip="H100-SXM", profile="vendor_2026", **rates):
    """The pipeline of a plan, its stack, and its step in closed form without stragglers."""
    job, chips = job_on(chip, profile), replace(CATALOG.chips([chip]), **rates)
    step = training_step(job, MODEL, chips, plans, Reserve(0.0, 0.0))
    closed_s = float(step.time.total[0] - step.time.terms["stragglers"][0])
    return pipeline_of(job, MODEL, chips, plans), job.stack, closed_s


def contended(pipeline, stack, uplinks=None):
    """The step on shared links, everything even."""
    draw = drawn(EVEN, pipeline.expert_layers, pipeline.devices, pipeline.program.micro_batches, 0)
    uplinks = uplinks or no_uplinks(pipeline)
    return contended_step(pipeline, stack, uplinks, walked_step(pipeline), draw)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_an_uncontended_replay_is_the_closed_form(schedule):
    """A plan would be confirmed or refused by another model of its pipeline, not by events."""
    for stages in (2, 8):
        plans = plan(schedule, pipeline_parallel=stages)
        pipeline, _, closed_s = ready(plans)
        gap = closed_s / walked_step(pipeline).step_s - 1.0
        assert -0.01 <= gap <= UNEVEN_FRAC.get(schedule, 0.01)


@pytest.mark.long
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_shared_links_only_lengthen_a_step_and_little_where_ports_suffice(schedule):
    """Contention would be a second, hidden model of passes."""
    pipeline, stack, _ = ready(plan(schedule))
    alone, shared = walked_step(pipeline), contended(pipeline, stack)
    assert alone.step_s * (1 - 2e-3) <= shared.step.step_s <= 1.03 * alone.step_s
    assert (shared.busy_frac <= 1.0 + 1e-9).all()


def test_a_stack_that_overlaps_nothing_replays_to_its_closed_form():
    """Gathers and reductions would be hidden in the replay, and waited for in the closed form."""
    plans = plan(global_batch_sequences=1024, tensor_parallel=4)
    pipeline, stack, closed_s = ready(plans, "A100-80GB-SXM", "unfused_2020")
    assert not stack.overlaps_data
    assert walked_step(pipeline).step_s == pytest.approx(closed_s, rel=0.01)
    assert contended(pipeline, stack).step.step_s == pytest.approx(closed_s, rel=0.01)


def unfolded(pipeline, copies):
    """The same pipeline so many times side by side, each with its own micro-batches' tokens."""
    program = pipeline.program
    items, tokens = len(program.stage), program.walks * program.places * program.micro_batches
    shift = np.repeat(np.arange(copies), items)[:, None] * tokens
    first = [program.first[:-1] + i * items for i in range(copies)]
    repeated = program._replace(
        first=np.concatenate([*first, [copies * items]]),
        kinds=np.tile(program.kinds, (copies, 1)),
        tokens=np.where(np.tile(program.tokens, (copies, 1)) < 0, -1, 0)
        + np.where(np.tile(program.tokens, (copies, 1)) < 0, 0, 1)
        * (np.tile(program.tokens, (copies, 1)) + shift),
        stage=np.tile(program.stage, copies),
        other=np.tile(program.other, copies),
        cost=np.tile(program.cost, copies),
        walks=program.walks * copies,
    )
    many = {n: np.tile(getattr(pipeline, n), copies) for n in ("device_kind", "gather_s")}
    many["reduce_s"] = np.tile(pipeline.reduce_s, copies)
    return replace(pipeline, program=repeated, **many)


@pytest.mark.parametrize("schedule", ["one_forward_one_backward", "dual_pipe", "interleaved"])
def test_one_pipeline_stands_for_all_that_do_the_same(schedule):
    """1,024 devices would be replayed as one pipeline, and be slower or faster than all of them.

    Passes that take turns on a scarce link amplify rounding, tenfold in a few passes, so the two
    agree to all digits early in the step and to a per cent at its end.
    """
    pipeline, stack, _ = ready(plan(schedule, pipeline_parallel=4, global_batch_sequences=2048))
    stages = pipeline.devices
    scarce = Uplinks(np.zeros(stages, np.int64), np.array([stages / 6.0]))
    folded = contended(pipeline, stack, scarce).step
    copies = 3
    whole = unfolded(pipeline, copies)
    shared = Uplinks(np.zeros(copies * stages, np.int64), np.array([copies * stages / 6.0]))
    phases, net = phases_of(whole, stack, shared)
    walked, played = opened_walk(whole.program), opened_play(copies * stages)
    paces = whole.paces()._replace(from_s=np.zeros(copies * stages))
    machine_code(contend_lent)(
        Stage(whole.program, paces, phases, net, walked, played, NO_OUTAGES)
    )
    ends_s = walked.end_s.reshape(copies, -1)
    is_early = folded.walked.end_s < folded.passes_s / 4.0
    assert (ends_s == ends_s[0]).all()
    assert ends_s[0][is_early] == pytest.approx(folded.walked.end_s[is_early], rel=1e-9)
    assert played.done_s.max() + whole.optimiser_s == pytest.approx(folded.step_s, rel=0.02)
    assert folded.step_s > 1.01 * contended(pipeline, stack).step.step_s


def test_links_matter_where_they_are_critical_and_with_the_right_sign():
    """astra-sim 207: the same cycles whatever topology, rate or placement."""
    base = plan(pipeline_parallel=4)
    pipeline, stack, _ = ready(base)
    base_s = contended(pipeline, stack).step.step_s
    rate = CATALOG.chips(["H100-SXM"]).scaleout_bytes_per_s

    def other_s(plans=base, uplinks=None, **rates):
        other, its_stack, _ = ready(plans, **rates)
        return contended(other, its_stack, uplinks).step.step_s

    assert (
        other_s(scaleout_bytes_per_s=2.0 * rate) < base_s < other_s(scaleout_bytes_per_s=rate / 2)
    )
    assert other_s(plan(pipeline_parallel=4, supernode_devices=64)) < 0.9 * base_s
    torn = plan(pipeline_parallel=4, placement_code=order_code("pp-dp-cp-tp"))
    assert other_s(torn) > 1.05 * base_s
    narrow = Uplinks(np.zeros(4, np.int64), np.array([4 / 8.0]))
    assert other_s(uplinks=narrow) > 1.05 * base_s


def test_uplinks_that_are_not_scarce_change_nothing_and_order_of_stages_neither():
    """A label would decide, or a link that never fills."""
    pipeline, stack, _ = ready(plan(pipeline_parallel=4))
    wide = Uplinks(np.zeros(4, np.int64), np.array([8.0]))
    same = contended(pipeline, stack, wide).step.step_s
    assert same == pytest.approx(contended(pipeline, stack).step.step_s, rel=1e-12)
    one = Uplinks(np.array([0, 0, 1, 1]), np.array([0.4, 0.8]))
    relabelled = Uplinks(np.array([1, 1, 0, 0]), np.array([0.8, 0.4]))
    steps = [contended(pipeline, stack, up).step.step_s for up in (one, relabelled)]
    assert steps[0] == pytest.approx(steps[1], rel=1e-12)


def test_what_is_drawn_belongs_to_its_seed_and_slows_a_step():
    """A replay would not be the same twice, or imbalance would cost nothing."""
    pipeline, _, _ = ready(plan())
    uneven = Unevenness(1.0, 1.1, 1.5, 0.02, 0.007, -1.0, 128, 2)
    args = (pipeline.expert_layers, pipeline.devices, pipeline.program.micro_batches)
    steps = [walked_step(pipeline, drawn(uneven, *args, seed)).step_s for seed in (1, 1, 2)]
    assert steps[0] == steps[1] != steps[2]
    assert min(steps) > walked_step(pipeline).step_s
    given = replace(uneven, slowest_frac=0.1, load_high_frac=1.0, load_typical_frac=1.0)
    slower = walked_step(pipeline, drawn(replace(given, batch_frac=0.0), *args, 1)).step_s
    assert slower == pytest.approx(1.1 * walked_step(pipeline).step_s, rel=0.01)


def test_a_pair_is_what_the_closed_form_makes_of_it():
    """Pairs would be priced by the replay itself."""
    pipeline, _, _ = ready(plan("dual_pipe"))
    times = pipeline.turns.times.inner
    assert pipeline.seconds[1, PAIR] == times.pair_s[0]


@pytest.mark.long
def test_every_depth_ends_on_shared_links_and_its_phases_grow_with_passes():
    """SimAI 270: a replay of more than two stages would hang, or events multiply."""
    per_layer = []
    for stages in (1, 2, 4, 8, 16, 32, 64):
        split = {"pipeline_parallel": stages, "tensor_parallel": 1, "expert_parallel": 8}
        pipeline, stack, _ = ready(plan(**split, global_batch_sequences=8192))
        found = contended(pipeline, stack).step
        wanted = found.events / pipeline.program.micro_batches
        per_layer.append(wanted)
        assert len(pipeline.program.stage) == 2 * stages * pipeline.program.micro_batches
    assert max(per_layer) <= 4 * (61 + 64) + 8 * 64
    assert min(per_layer) >= 4 * 58


def test_every_stage_has_its_own_layers_where_the_closed_form_takes_the_heaviest():
    """61 layers on 24 stages are twos and threes: a replay of all threes would be too long."""
    split = {"pipeline_parallel": 24, "tensor_parallel": 1, "expert_parallel": 8, "devices": 768}
    pipeline, _, closed_s = ready(plan(**split))
    layers, forward_s = pipeline.expert_layers, pipeline.seconds[:, 0]
    assert layers.sum() == sum(MODEL.kinds[c].mlp == "moe" for c in MODEL.layer_codes)
    inner = slice(3, -1)
    assert len(set(pipeline.stage_row)) > 1
    assert np.corrcoef(layers[inner], forward_s[inner])[0, 1] == pytest.approx(1.0)
    assert walked_step(pipeline).step_s < closed_s


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_simai_292_a_replay_keeps_the_wires_as_busy_as_the_closed_form_has_them(schedule):
    """Two tiers would price two lists of traffic; here the last stage sends as well, to nobody."""
    pipeline, stack, _ = ready(plan(schedule, pipeline_parallel=4, expert_parallel=32))
    found, turns = contended(pipeline, stack), pipeline.turns
    busy_s = found.busy_frac.mean(axis=0) * found.step.step_s
    for place, name in ((1, "inside_s"), (2, "outside_s")):
        each, once = (float(np.ravel(getattr(p, name))[0]) for p in (turns.each, turns.once))
        wanted_s = each * pipeline.program.micro_batches + once
        assert busy_s[place] == pytest.approx(wanted_s, rel=5e-3)


def test_simai_62_every_pass_but_chunked_ones_ends_with_a_send_on_its_port():
    """Messages between stages would be a formula: nothing else could ever wait for them."""
    pipeline, stack, _ = ready(plan(pipeline_parallel=4))
    phases, net = phases_of(pipeline, stack, no_uplinks(pipeline))
    send_s = float(pipeline.layout.send.floor_s[0])
    lasts = phases.first[1:] - 1
    assert phases.seconds[lasts] == pytest.approx(np.full(len(lasts), send_s))
    for phase in lasts:
        route = phases.route[phase]
        links = net.route_links[net.route_start[route] : net.route_start[route + 1]] % OWN_LINKS
        assert OUTSIDE in links
