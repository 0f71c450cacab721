"""Every schedule file walked by the replay: against the plain player, and published theory."""

import numpy as np
import pytest
from test_schedules import BESIDE_FRAC, EVEN, Line, played, schedule_cases

from simkernel import plugins
from simkernel.replay.compiled import machine_code, walk_lent
from simkernel.replay.program import program_of
from simkernel.replay.walk import Paces, opened_walk, walk

CASES = list(schedule_cases())
SLICE = CASES[::7]
"""Few enough to interpret."""


def paces(module, devices, chunks, seconds, beside):
    """Seconds of whole stages as the replay looks them up: (forward, input, weight) each.

    `beside` of the shorter pass of a pair is what the pair takes beyond the longer one.
    """
    rows = []
    for stage, (forward_s, input_s, weight_s) in enumerate(seconds):
        other = seconds[-1 - stage] if module.TRAITS.stages_held > 1 else seconds[stage]
        both = (forward_s, sum(other[1:]))
        pair = max(both) + beside * min(both)
        rows.append([forward_s, input_s + weight_s, input_s, weight_s, pair])
    table = np.array(rows) / chunks
    still = np.zeros((1, 1)), np.zeros(devices), np.zeros(devices)
    return Paces(table, np.zeros_like(table), *still)


def end_s(name, devices, chunks, micro_batches, seconds, how=None, beside=BESIDE_FRAC):
    """When the last pass ends."""
    program = program_of(name, devices, chunks, micro_batches)
    walked = opened_walk(program)
    run = how or machine_code(walk_lent)
    module = plugins.find("schedules", name)
    run(program, paces(module, devices, chunks, seconds, beside), walked)
    assert walked.counts[0] == len(program.stage)
    begun_s = walked.start_s[program.first[:-1]] * module.TRAITS.steps_run_on
    return (walked.end_s[program.first[1:] - 1] - begun_s).max()


@pytest.mark.parametrize(("name", "devices", "chunks", "micro_batches"), CASES)
def test_a_walk_ends_when_the_plain_player_does(name, devices, chunks, micro_batches):
    """The replay would run another order than the closed form is proved on; stages are uneven."""
    module = plugins.find("schedules", name)
    rng = np.random.default_rng(devices * 1000 + micro_batches)
    stages = Line(module, devices, chunks).stages
    seconds = [tuple(rng.uniform(0.5, 1.5, 3)) for _ in range(stages)]
    wanted, _ = played(module, devices, chunks, micro_batches, seconds)
    found = end_s(name, devices, chunks, micro_batches, seconds)
    if module.TRAITS.steps_run_on:  # one step of a device against the pace of many
        assert wanted - 1e-9 <= found <= 1.03 * wanted
    else:
        assert found == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize(("name", "devices", "chunks", "micro_batches"), SLICE)
def test_a_walk_is_the_same_compiled_and_interpreted(name, devices, chunks, micro_batches):
    """A person who reads the loop would read another program than the one that runs."""
    seconds = [EVEN] * Line(plugins.find("schedules", name), devices, chunks).stages
    args = (name, devices, chunks, micro_batches, seconds)
    assert end_s(*args) == end_s(*args, how=walk)


F, B = 1.0, 2.0
PAIR = B + BESIDE_FRAC * F
THEORY = {
    # Huang et al. 2019, section 2.3, and Narayanan et al. 2021, section 2.2.1
    "gpipe": lambda p, v, m: (m + p - 1) * (F + B),
    "one_forward_one_backward": lambda p, v, m: (m + p - 1) * (F + B),
    # Narayanan et al. 2021, section 2.2.2
    "interleaved": lambda p, v, m: m * (F + B) + (p - 1) * (F + B) / v,
    # NVIDIA Megatron-Core, combined 1F1B: as interleaved, passes but those of the fill in pairs
    "combined_1f1b": lambda p, v, m: p * (F + B) + (m * v - p * (v - 1) - 1) * PAIR / v,
    # Qi et al. 2024 (arXiv 2401.10241), table 1: bubble (p - 1)(T_F + T_B - T_W)
    "zero_bubble": lambda p, v, m: m * (F + B) + (p - 1) * (F + B / 2 - B / 2),
    # the same table: (p - 1)(T_F + T_B - 2 T_W), and section 6: none where all are as long
    "zero_bubble_h2": lambda p, v, m: m * (F + B) + (p - 1) * (F + B / 2 - 2 * B / 2),
    "zero_bubble_v": lambda p, v, m: 2 * m * (F + B),
    # github.com/deepseek-ai/DualPipe, README: bubble (p/2 - 1)(F&B + B - 3W), F&B as F + B
    "dual_pipe": lambda p, v, m: m * (F + B) + (p / 2 - 1) * (F + B + B - 3 * B / 2),
    # the same over twice the stages of half the size, fed as many micro-batches from either end
    "dual_pipe_v": lambda p, v, m: 2 * m * (F + B) + (p - 1) * (F + B + B - 3 * B / 2),
}
ONE_BY_ONE = ("dual_pipe", "dual_pipe_v")
"""Published for passes that hide nothing in a pair."""


@pytest.mark.parametrize("name", plugins.names("schedules"))
def test_a_balanced_walk_is_the_published_pipeline(name):
    """The bubble would not be the one its paper proves; every file needs its theory here."""
    module = plugins.find("schedules", name)
    chunks = 4 if module.TRAITS.is_chunked else 1
    for devices, micro_batches in ((4, 16), (8, 64)):
        stages = Line(module, devices, chunks).stages
        seconds = [(F, B / 2, B / 2)] * stages
        beside = 1.0 if name in ONE_BY_ONE else BESIDE_FRAC
        found = end_s(name, devices, chunks, micro_batches, seconds, beside=beside)
        assert found == pytest.approx(THEORY[name](devices, chunks, micro_batches), rel=1e-3)


@pytest.mark.parametrize("name", plugins.names("schedules"))
def test_a_slower_stage_lengthens_every_pipeline(name):
    """SimAI 62: a pipeline whose stages are uneven would cost what an even one does."""
    module = plugins.find("schedules", name)
    chunks = 2 if module.TRAITS.is_chunked else 1
    stages = Line(module, 4, chunks).stages
    even = end_s(name, 4, chunks, 16, [EVEN] * stages)
    for slow in range(stages):
        seconds = [tuple(1.3 * s for s in EVEN) if i == slow else EVEN for i in range(stages)]
        found = end_s(name, 4, chunks, 16, seconds)
        assert 1.05 * even < found <= 1.3 * even + 1e-9


def test_every_depth_and_batch_ends_and_passes_grow_with_both():
    """SimAI 270: a replay of more than two stages would hang, or poll without end."""
    for devices in (1, 2, 4, 8, 16, 32, 64):
        for micro_batches in (1, 8, 64, 256):
            program = program_of("one_forward_one_backward", devices, 1, micro_batches)
            assert len(program.stage) == 2 * devices * micro_batches
            found = end_s("one_forward_one_backward", devices, 1, micro_batches, [EVEN] * devices)
            assert found == pytest.approx((micro_batches + devices - 1) * sum(EVEN), rel=1e-9)
