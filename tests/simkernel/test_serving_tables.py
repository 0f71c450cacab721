"""Step tables are the passes they were filled from, between their points too."""

from dataclasses import replace

import numpy as np
import pytest

from costdata import catalog as catalogue
from costdata.configs import read_model
from simkernel.hardware import PRECISIONS
from simkernel.power import duty_watts
from simkernel.serving_passes import decode_parts, launched_s, prefill_parts
from simkernel.serving_plans import serving_plan_of
from simkernel.serving_rig import rig_of
from simkernel.serving_tables import spaced, step_tables
from simkernel.step_curves import step_curves, taken_rig

WANTED = 1e-3
"""Table error: 0.1% of the part."""

CASES = {
    "llama-3.1-70b": {"tensor_parallel": 4, "precision": "fp8"},
    "llama-3.1-8b": {"tensor_parallel": 1, "precision": "bf16"},
    "qwen3-30b-a3b": {"tensor_parallel": 2, "expert_parallel": 2, "precision": "bf16"},
    "deepseek-v3": {
        "tensor_parallel": 1,
        "attention_data_parallel": 32,
        "expert_parallel": 32,
        "precision": "fp8",
    },
}


def rig(name):
    """One plan on H100 hosts of eight."""
    catalog, case = catalogue.load(), dict(CASES[name])
    code = PRECISIONS.index(case.pop("precision"))
    plan = serving_plan_of(**case, precision_code=code, expert_precision_code=code)
    return rig_of(
        read_model(name),
        catalog.engine("vllm", "hopper"),
        catalog.chips(["H100-SXM"]),
        catalog.engine_curves("vllm", ["H100-SXM"]),
        plan,
    )


@pytest.fixture(scope="module", params=CASES)
def made(request):
    one = rig(request.param)
    duty = duty_watts(one.chips.power, 0.5, 0.3, 0.1, 1e9)
    return one, step_tables(one, 512, 8192, 16_384, duty)


def rows(one, count):
    return taken_rig(one, np.zeros(count, dtype=np.int64))


def parts_s(parts, wanted):
    return sum(np.asarray(part.floor_s) for name, part in parts.items() if wanted(name))


def bilinear(table, first, second, x, y):
    """A table read between four points, as the replay reads it."""
    i = np.clip(np.searchsorted(first, x, side="right") - 1, 0, len(first) - 2)
    j = np.clip(np.searchsorted(second, y, side="right") - 1, 0, len(second) - 2)
    u = (x - first[i]) / (first[i + 1] - first[i])
    v = (y - second[j]) / (second[j + 1] - second[j])
    here = table[i, j] + v * (table[i, j + 1] - table[i, j])
    next_ = table[i + 1, j] + v * (table[i + 1, j + 1] - table[i + 1, j])
    return here + u * (next_ - here)


def test_layers_and_head_between_points_are_the_pass(made):
    """Every step of a replay would be off by what the table is off."""
    one, tables = made
    rng = np.random.default_rng(1)
    tokens = rng.integers(1, 8193, 300).astype(float)
    passes = decode_parts(rows(one, 300), tokens, np.ones(300))
    direct = parts_s(passes, lambda name: name not in ("attention", "head"))
    token_s = np.array(tables.token_s)
    if tables.together:
        token_s += tables.together.experts_s + tables.together.exchange_s
    read = np.interp(tokens, tables.tokens, token_s) - float(one.engine.step_s)
    assert np.max(np.abs(read / direct - 1.0)) < WANTED
    sequences = rng.integers(1, 513, 300).astype(float)
    direct = parts_s(decode_parts(rows(one, 300), sequences, np.ones(300)), lambda n: n == "head")
    read = np.interp(sequences, tables.sequences, tables.sequence_s)
    read = read - float(one.engine.sequence_s) * sequences
    assert np.max(np.abs(read / direct - 1.0)) < WANTED


def test_attention_of_decodes_between_points_is_the_pass(made):
    """Long contexts would be served faster, or slower, than their cache can be read."""
    one, tables = made
    rng = np.random.default_rng(2)
    sequences = rng.integers(1, 513, 300).astype(float)
    contexts = np.exp(rng.uniform(0.0, np.log(16_384), 300))
    passes = decode_parts(rows(one, 300), sequences, contexts)
    direct = parts_s(passes, lambda name: name == "attention")
    read = bilinear(tables.decode_s, tables.sequences, tables.decode_contexts, sequences, contexts)
    layers = np.interp(sequences, tables.tokens, tables.token_s)
    assert np.max(np.abs(read - direct) / (direct + layers)) < WANTED
    assert np.quantile(np.abs(read / direct - 1.0), 0.99) < WANTED  # but where it turns a corner


def test_attention_of_chunks_between_points_is_the_pass(made):
    """The second chunk of a prompt meets the first: it costs more than a prompt of its size."""
    one, tables = made
    rng = np.random.default_rng(3)
    contexts = rng.uniform(0.0, 16_384.0, 300)
    chunks = np.exp(rng.uniform(np.log(16.0), np.log(8192.0), 300))
    passes = prefill_parts(rows(one, 300), np.ones(300), chunks, contexts)
    direct = parts_s(passes, lambda name: name == "attention")
    read = bilinear(
        tables.prefill_s, tables.prefill_contexts, tables.prefill_chunks, contexts, chunks
    )
    whole = direct + np.interp(chunks, tables.tokens, tables.token_s)
    assert np.max(np.abs(read - direct) / whole) < WANTED


def test_chunks_of_a_prompt_add_up_to_its_attention():
    """Work would appear or vanish with the way a prompt is cut."""
    one = rig("llama-3.1-8b")
    cut = np.array([0.0, 2048.0, 4096.0, 6144.0])
    parts = prefill_parts(rows(one, 4), np.ones(4), np.full(4, 2048.0), cut)
    whole = prefill_parts(one, np.ones(1), np.array([8192.0]))
    summed = np.sum(np.asarray(parts["attention"].peak_compute_s))
    assert summed == pytest.approx(float(whole["attention"].peak_compute_s[0]), rel=1e-9)


def test_joules_of_a_step_are_its_watts_times_its_seconds(made):
    """Energy per token would not be power over throughput."""
    one, tables = made
    devices, power = float(one.plans.devices[0]), one.chips.power
    for part in ("token", "decode"):
        seconds = np.asarray(getattr(tables, f"{part}_s"))
        joules = np.asarray(getattr(tables.joules, f"{part}_j"))
        watts = joules[seconds > 0] / seconds[seconds > 0] / devices
        assert np.all(watts >= power.context_w[0] * (1 - 1e-9))
        assert np.all(watts <= 2.0 * power.cap_w[0])  # of a part alone; means are capped


def test_a_prompt_is_never_quicker_than_its_launch(made):
    """Replay and closed form would launch the kernels of a prompt for nothing."""
    one, tables = made
    plain_s = float(one.engine.launch_layer_s) * one.model.layers
    assert float(launched_s(one)[0]) >= plain_s > 0.0
    assert tables.least_prefill_s == pytest.approx(
        float(launched_s(one)[0]) + float(one.engine.step_s)
    )


def test_curves_are_tables_on_a_coarser_grid():
    """Closed form and replay would be of two machines."""
    one = rig("llama-3.1-70b")
    tables = step_tables(one, 512, 8192, 16_384)
    curves = step_curves(one, 8192.0, 1000.0, np.array([100.0, 2000.0]))
    for tokens in (1.0, 7.0, 63.0, 300.0, 1111.0, 5000.0, 8192.0):
        read = curves.floor_of(curves.layers_s, np.array([tokens]))[0]
        dense = np.interp(tokens, tables.tokens, tables.token_s) - float(one.engine.step_s)
        assert read == pytest.approx(dense, rel=0.01)


def test_points_begin_dense_and_end_at_the_most():
    """A step at the budget would be read beyond its table."""
    points = spaced(8192, 1.01, 384)
    assert points[0] == 1
    assert points[-1] == 8192
    assert np.all(np.diff(points) >= 1)
    assert np.array_equal(points[:384], np.arange(1, 385))


def test_queries_keys_and_values_are_one_product():
    """Ranks would read their activations twice, the second time for a product of a few columns."""
    one, rows = rig("llama-3.1-70b"), np.array([2048.0])
    kind = one.model.kinds[0]
    query, keys = (next(w for w in kind.weights if w.name == name) for name in ("q", "kv"))
    wide = replace(query, outputs=query.outputs + keys.outputs)
    rest = tuple(w for w in kind.weights if w not in (query, keys))
    merged = replace(one.model, kinds=(replace(kind, weights=(wide, *rest)),))
    found, wanted = (
        decode_parts(replace(one, model=model), rows, rows)["gemm"].floor_s
        for model in (one.model, merged)
    )
    assert found == pytest.approx(wanted, rel=1e-12)
