"""What a power cap does to prompts and to decoding: each follows the clock as far as it must."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_serving_tables import CASES, rig

from simkernel.capped_passes import PowerLimit, elapsed_s
from simkernel.columns import taken
from simkernel.passes import Pass, wires_s
from simkernel.power import duty_watts
from simkernel.power_cap import held_clock_frac
from simkernel.serving_passes import decode_parts, prefill_parts
from simkernel.serving_tables import step_tables
from simkernel.step_curves import step_curves

FOLLOWS = {"compute_frac": 1.0, "memory_frac": 0.0024, "communication_frac": 0.0}
POWER = rig("llama-3.1-8b").chips.power
LINKS = rig("llama-3.1-8b").chips.scaleup_bytes_per_s[:1]
"""H100: 108 W with a context, and so much for memory to the power of 0.5 and arithmetic of 0.3."""


def limit(cap_frac):
    return PowerLimit(np.array([cap_frac]), **FOLLOWS, link_bytes_per_s=LINKS)


def capped(case, cap_frac):
    return replace(rig(case), limit=limit(cap_frac))


def test_products_follow_the_clock_that_the_cap_leaves():
    """700 W of products at 350 W: ((350 - 108) / (700 - 108))^(1/3) of the clock, 1.347 times."""
    product = Pass(compute_s=0.9, hbm_s=0.2, floor_s=1.0, peak_compute_s=0.8, peak_hbm_s=0.2)
    clock = (242.0 / 592.0) ** (1.0 / 3.0)
    got = elapsed_s([product], POWER, limit(0.5))
    assert got == pytest.approx(0.1 + 0.9 / clock, rel=1e-12)


def test_memory_hardly_follows_it_until_arithmetic_is_the_slower():
    """A cache that is read at full rate would be read slower, or products of any clock be free."""
    reading = Pass(compute_s=0.1, hbm_s=0.9, floor_s=1.0, peak_compute_s=0.05, peak_hbm_s=0.8)
    watts = POWER.context_w + POWER.memory_w * 0.8**0.5 + POWER.compute_w * 0.05**0.3
    clock = float(held_clock_frac(350.0, POWER.context_w, watts)[0])
    assert clock < 0.9
    got = elapsed_s([reading], POWER, limit(0.5))
    assert got == pytest.approx(0.1 + 0.9 * (1.0 + 0.0024 * (1.0 / clock - 1.0)), rel=1e-4)
    close = replace(reading, compute_s=0.88)
    assert elapsed_s([close], POWER, limit(0.5)) == pytest.approx(0.1 + 0.88 / clock, rel=1e-4)


def test_wires_and_launches_keep_their_time():
    """Links and hosts have clocks of their own."""
    wires = Pass(inside_s=0.5, floor_s=0.7)
    assert elapsed_s([wires, Pass(floor_s=0.2)], POWER, limit(0.3)) == pytest.approx(0.9)


@pytest.mark.parametrize("case", ["llama-3.1-70b", "llama-3.1-8b"])
def test_prompts_slow_down_and_decoding_hardly_does(case):
    """A cap would cost every answer what it costs its prompt."""
    one = capped(case, 0.6)
    passes = {
        "prompts": prefill_parts(one, np.array([2.0]), np.array([2048.0])),
        "decoding": decode_parts(one, np.array([32.0]), np.array([2000.0])),
    }
    slower = {}
    for name, parts in passes.items():
        capped_s = np.squeeze(elapsed_s(list(parts.values()), one.chips.power, one.limit))
        whole_s, alone_s = (
            float(np.squeeze(sum(np.asarray(seconds(part)) for part in parts.values())))
            for seconds in (lambda part: part.floor_s, wires_s)
        )
        slower[name] = (float(capped_s) - whole_s) / (whole_s - alone_s)
    full = 1.0 / float(held_clock_frac(420.0, 108.0, 700.0)) - 1.0
    assert 0.4 * full < slower["prompts"] <= full
    assert 0 <= slower["decoding"] < 0.5 * slower["prompts"]


@given(st.floats(0.3, 1.0), st.floats(0.3, 1.0), st.floats(0, 1), st.floats(0, 1))
def test_a_lower_cap_is_never_faster(one, other, compute, memory):
    """A search would find its best plan under the tightest cap."""
    kernel = Pass(
        compute_s=compute, hbm_s=memory, floor_s=max(compute, memory) + 0.01,
        peak_compute_s=0.8 * compute, peak_hbm_s=0.8 * memory,
    )  # fmt: skip
    low, high = sorted((one, other))
    free = elapsed_s([kernel], POWER, None)
    assert free <= elapsed_s([kernel], POWER, limit(high)) * (1 + 1e-12)
    assert elapsed_s([kernel], POWER, limit(high)) <= elapsed_s([kernel], POWER, limit(low))


@pytest.mark.parametrize("case", CASES)
def test_tables_and_curves_are_stretched_alike(case):
    """The replay of a capped plan would be of another device than its closed form."""
    one = capped(case, 0.5)
    duty = duty_watts(one.chips.power, 0.5, 0.3, 0.1, 350.0)
    tables, free = step_tables(one, 64, 4096, 4096, duty), step_tables(rig(case), 64, 4096, 4096)
    curves = step_curves(one, 4096.0, 1000.0, np.array([2000.0]))
    for tokens in (16.0, 300.0, 4096.0):
        read = curves.floor_of(curves.layers_s, np.array([tokens]))[0]
        dense = np.interp(tokens, tables.tokens, tables.token_s) - float(one.engine.step_s)
        assert read == pytest.approx(dense, rel=0.01)
    assert tables.token_s[-1] > free.token_s[-1]
    assert np.all(tables.decode_s >= free.decode_s * (1.0 - 1e-12))


def test_plans_that_differ_in_their_cap_alone_have_curves_of_their_own():
    """Two caps would share the faster curve."""
    one = rig("llama-3.1-8b")
    plans = taken(one.plans, np.zeros(2, dtype=np.int64))
    two = replace(
        one, plans=plans, limit=PowerLimit(np.array([1.0, 0.4]), **FOLLOWS, link_bytes_per_s=LINKS)
    )
    curves = step_curves(two, 4096.0, 1000.0, np.array([2000.0]))
    free, held = curves.floor_of(curves.layers_s, np.array([4096.0, 4096.0]))
    assert held > 1.2 * free
