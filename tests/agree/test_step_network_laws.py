"""Laws of a step under other links: closed form and replay move by the sign of the change."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_training_replay import CATALOG, contended, plan, ready

from simkernel.fabrics import direct_links
from simkernel.hardware import TOPOLOGIES
from simkernel.placement import order_code

CHIP = CATALOG.chips(["H100-SXM"])
DOMAINS = st.sampled_from([8, 64, 128])
SPLITS = st.sampled_from([(2, 2), (4, 2), (2, 1), (4, 1)])


def steps_s(domain, split, placement="tp-cp-ep-dp-pp", **rates):
    """Closed form without stragglers and replay of DeepSeek-V3 on 1,024 devices."""
    decisions = {
        "pipeline_parallel": split[0], "tensor_parallel": split[1], "supernode_devices": domain,
        "placement_code": order_code(placement), "global_batch_sequences": 2048,
    }  # fmt: skip
    pipeline, stack, closed_s = ready(plan(**decisions), **rates)
    return np.array([closed_s, contended(pipeline, stack).step.step_s])


def shaped(shape, domain):
    """Links of a domain of another shape, the device's rate shared out over them."""
    code = np.array([TOPOLOGIES.index(shape)])
    links = direct_links(code, np.array([domain]))
    return {
        "scaleup_topology_code": code,
        "scaleup_peer_bytes_per_s": CHIP.scaleup_bytes_per_s / links,
    }


@pytest.mark.long
@settings(max_examples=8, deadline=None)
@given(DOMAINS, SPLITS, st.floats(1.2, 4.0))
def test_a_faster_link_never_slows_a_step_and_speeds_it_where_it_is_critical(domain, split, more):
    """astra-sim 207: the same cycles whatever the rate; or a faster wire that costs time."""
    base = steps_s(domain, split)
    inside = steps_s(
        domain,
        split,
        scaleup_bytes_per_s=CHIP.scaleup_bytes_per_s * more,
        scaleup_peer_bytes_per_s=CHIP.scaleup_peer_bytes_per_s * more,
    )
    outside = steps_s(domain, split, scaleout_bytes_per_s=CHIP.scaleout_bytes_per_s * more)
    assert np.all(inside <= base * (1.0 + 1e-9))
    assert np.all(outside <= base * (1.0 + 1e-9))
    assert np.all((outside if domain == 8 else inside) < base)  # where experts are exchanged


@pytest.mark.long
@settings(max_examples=6, deadline=None)
@given(st.sampled_from([64, 128]), SPLITS, st.sampled_from(["full_mesh", "torus2d", "torus3d"]))
def test_a_mesh_or_torus_of_the_same_rate_is_never_faster_than_a_switch(domain, split, shape):
    """Links that serve one neighbour each would carry what a switch gives to any pair."""
    switch, other = steps_s(domain, split), steps_s(domain, split, **shaped(shape, domain))
    assert np.all(other >= switch * (1.0 - 1e-9))
    if shape != "full_mesh" or domain > 64:
        assert np.all(other > switch)


@settings(max_examples=4, deadline=None)
@given(DOMAINS, st.sampled_from([2, 4]))
def test_a_tensor_group_torn_apart_slows_a_step(domain, depth):
    """Where ranks sit would decide nothing; experts are no such law, a token is sent once."""
    kept = steps_s(domain, (depth, 2))
    torn = steps_s(domain, (depth, 2), "pp-ep-dp-cp-tp")
    assert np.all(torn > 1.01 * kept)
