"""Keys and values on their way: hand-worked transfers, with and without overlap; their laws."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costdata.configs import read_model
from simkernel.kv_transfer import End, exposed_s, sequence_bytes, transfer_s, wire_under

LLAMA = read_model("meta-llama--Meta-Llama-3.1-70B")
PROMPT_BYTES = 1000 * 80 * 2 * 8 * 128 * 2
"""A thousand tokens of Llama-3.1-70B in 16 bits: layers x (key and value) x heads x width x 2."""


def end(gbytes_per_s, base_s=10e-6):
    return End(np.array([gbytes_per_s * 1e9]), np.array([base_s]))


def test_bytes_of_a_prompt_are_those_of_its_layers():
    """Copies of key heads on tensor ranks would be sent as well, or a layer left out."""
    assert sequence_bytes(LLAMA, 1000.0, 2.0) == PROMPT_BYTES == 327_680_000
    assert sequence_bytes(LLAMA, 1000.0, 1.0) == PROMPT_BYTES / 2


def test_a_transfer_by_hand():
    """Latency and bytes over the slower end: 10 us + 327.68 MB / 50 GB/s = 6.5636 ms."""
    moving = transfer_s(PROMPT_BYTES, end(100), end(50))
    assert moving[0] == pytest.approx(6.5636e-3)
    assert transfer_s(PROMPT_BYTES, end(50), end(100)) == moving


@pytest.mark.parametrize(
    ("prefill_s", "left_s"),
    [
        (0.1, 6.5636e-3 / 80),  # all but the last layer is sent beside the prompt
        (2e-3, 6.5636e-3 - 2e-3 * 79 / 80 + 6.5636e-3 / 80),  # the wires are slower
        (0.0, 6.5636e-3),  # nothing to hide behind
    ],
)
def test_what_layer_wise_sending_leaves_by_hand(prefill_s, left_s):
    """max(0, t - p (L - 1) / L) + t / L of 80 layers."""
    assert exposed_s(np.array([6.5636e-3]), np.array([prefill_s]), 80)[0] == pytest.approx(left_s)


def test_a_wire_half_in_use_by_hand():
    """Equal transfers of 2 ms that come 250 times a second wait 1 ms on average (M/D/1)."""
    found = wire_under(end(50), np.array([250.0]), 1e8, 1e16, 1e24)
    assert found.use_frac[0] == pytest.approx(0.5)
    assert found.wait_s[0] == pytest.approx(1e-3)


def test_steps_of_a_pool_leave_transfers_the_rest_of_its_wires():
    """A wire that steps use half the time would move keys and values as if it were free."""
    half = end(50).beside(0.5)
    assert transfer_s(PROMPT_BYTES, end(100), half) == transfer_s(PROMPT_BYTES, end(100), end(25))
    found = wire_under(end(100), np.array([250.0]), 1e8, 1e16, 1e24, 0.5)
    assert found.wait_s[0] == pytest.approx(1e-3)
    assert found.use_frac[0] == pytest.approx(0.25 + 0.5)


@given(
    moved=st.floats(1e3, 1e11),
    rates=st.tuples(st.floats(1.0, 1e3), st.floats(1.0, 1e3)),
    prefill_s=st.floats(0.0, 100.0),
    layers=st.integers(1, 200),
)
def test_laws_of_a_transfer(moved, rates, prefill_s, layers):
    """Bytes would move faster than the wires, or overlap cost time."""
    source, destination = (end(rate) for rate in rates)
    moving = transfer_s(moved, source, destination)
    least_s = moved / (min(rates) * 1e9)
    assert moving[0] >= least_s
    doubled = transfer_s(moved, *(end(2 * rate) for rate in rates))
    assert moving[0] - 10e-6 == pytest.approx(2 * (doubled[0] - 10e-6), rel=1e-9, abs=1e-15)
    left = exposed_s(moving, np.array([prefill_s]), layers)
    assert moving[0] / layers * (1 - 1e-12) <= left[0] <= moving[0]
    assert prefill_s + left[0] >= moving[0] * (1 - 1e-12)
