"""The published trace of DualPipe's pair against the closed form of the same four layers."""

import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from costdata import catalog
from costdata.configs import read_model
from costdata.profiles import HOPPER
from simkernel import plugins
from simkernel.candidates import RECOMPUTE, plan_of
from simkernel.hardware import PRECISIONS
from simkernel.layout import layout_of
from simkernel.turns import turns_of
from simkernel.workload import TrainingJob

TRACE = tomllib.loads((Path(__file__).parent / "hopper_trace.toml").read_text(encoding="utf-8"))
CHIP = "H800-SXM"


@pytest.fixture(scope="module")
def priced():
    """Layout and turns of four layers with experts on one device, routing forced even."""
    shelf, model = catalog.load(), read_model("deepseek-ai--DeepSeek-V3")
    job = TrainingJob(
        tokens=1.0,
        tokens_per_sequence=4096,
        max_global_batch_tokens=np.inf,
        expert_imbalance=1.0,
        stack=shelf.stack(HOPPER, CHIP),
        keeping=shelf.keeping(HOPPER, CHIP),
    )
    plans = plan_of(
        devices=2048,
        supernode_devices=8,
        pipeline_parallel=16,
        expert_parallel=64,
        global_batch_sequences=15360,
        zero_stage=1,
        recompute_code=RECOMPUTE.index("selective"),
        schedule_code=plugins.code("schedules", "dual_pipe"),
        precision_code=PRECISIONS.index("fp8"),
    )
    layers = np.zeros((1, 3, len(model.kinds)))
    layers[:, :, [kind.mlp for kind in model.kinds].index("moe")] = 4.0
    layout = layout_of(job, model, shelf.chips([CHIP]), plans, layers)
    return layout, turns_of(plans, layout, job.stack), job, plans


def test_a_pair_takes_as_long_as_the_published_trace(priced):
    """The kernels of a stack would not be those that it was published with."""
    layout, turns, job, plans = priced
    pair_s = float(turns.times.inner.pair_s[0])
    assert pair_s == pytest.approx(TRACE["pair_s"], rel=TRACE["tolerance_frac"])
    lone = turns_of(plans, layout, replace(job.stack, overlaps_data=False))
    assert pair_s < 0.85 * float(lone.times.inner.turn_s[0]), "nothing of the exchange is hidden"


def test_the_core_takes_as_long_as_in_the_published_trace(priced):
    """Attention would run at the rate of a kernel that was not made for the chip."""
    attention_s = float(priced[0].work[1].terms["attention"][0])
    assert attention_s == pytest.approx(TRACE["attention_s"], rel=TRACE["kernel_tolerance_frac"])


def test_what_is_hidden_costs_the_processors_that_products_leave(priced):
    """The report and the trace would name another share than the profile has."""
    left = TRACE["processors_left"]
    assert priced[2].stack.contention_frac == pytest.approx(1 - left / 132, abs=1e-4)
