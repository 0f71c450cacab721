"""Placement against brute-force enumeration of ranks."""

import itertools

import numpy as np
import pytest

from simkernel.placement import (
    DIMENSIONS,
    ORDERS,
    Degrees,
    Group,
    cut_in_runs,
    order_code,
    place,
)


def enumerated(sizes, expert_tensor, expert, order, used):
    """Domain members per group, found by listing every rank and its coordinates."""
    world = int(np.prod([sizes[name] for name in DIMENSIONS]))
    ranges = [range(sizes[name]) for name in reversed(order)]
    coordinates = [dict(zip(reversed(order), c, strict=True)) for c in itertools.product(*ranges)]
    groups: dict[tuple, list[int]] = {}
    for rank, at in enumerate(coordinates):
        stage_index, step = 0, 1
        for name in order:
            if name != "pp":
                stage_index += at[name] * step
                step *= sizes[name]
        etp = stage_index % expert_tensor
        ep = stage_index // expert_tensor % expert
        edp = stage_index // (expert_tensor * expert)
        keys = {
            "tensor": (at["cp"], at["dp"], at["pp"]),
            "context": (at["tp"], at["dp"], at["pp"]),
            "data": (at["tp"], at["cp"], at["pp"]),
            "pipeline": (at["tp"], at["cp"], at["dp"]),
            "dense_sync": (at["tp"], at["pp"]),
            "expert": (etp, edp, at["pp"]),
            "expert_tensor": (ep, edp, at["pp"]),
            "expert_data": (etp, ep, at["pp"]),
        }
        for name, key in keys.items():
            groups.setdefault((name, *key), []).append(rank)
    assert len(coordinates) == world
    inside: dict[str, set[int]] = {}
    for (name, *_), ranks in groups.items():
        counts = np.unique([rank // used for rank in ranks], return_counts=True)[1]
        inside.setdefault(name, set()).update(int(c) for c in counts)
    return inside


def cases():
    """Every nested layout of up to 64 ranks on domains of 4 to 72, in six orders."""
    degrees = (1, 2, 4)
    for tp, cp, dp, pp in itertools.product(degrees, (1, 2), (1, 2, 4), degrees):
        if 1 < tp * cp * dp * pp <= 64:
            for etp, ep in itertools.product((1, 2), (1, 4, 8)):
                edges = sorted([tp, tp * cp, tp * cp * dp, etp, etp * ep])
                if (tp * cp * dp) % (etp * ep) == 0 and all(
                    b % a == 0 for a, b in itertools.pairwise(edges)
                ):
                    yield tp, cp, dp, pp, etp, ep


@pytest.mark.parametrize("order", ORDERS[::4])
@pytest.mark.parametrize("domain", [4, 8, 16, 72])
def test_members_per_domain_equal_enumeration_of_every_rank(order, domain):
    """If false, a group would be priced on a link its ranks do not use."""
    rows = list(cases())
    tp, cp, dp, pp, etp, ep = (np.array(column) for column in zip(*rows, strict=True))
    placed = place(
        Degrees(tp, cp, dp, pp, ep, etp),
        np.full(len(rows), domain),
        np.full(len(rows), ORDERS.index(order)),
    )
    for i, row in enumerate(rows):
        sizes = dict(zip(("tp", "cp", "dp", "pp"), row[:4], strict=True))
        used = int(placed.used_per_domain[i])
        assert 1 <= used <= domain
        for name, counts in enumerated(sizes, row[4], row[5], order, used).items():
            assert counts == {int(getattr(placed, name).inside[i])}, (name, row, used)


def test_llm_analysis_27_link_class_comes_from_where_ranks_sit():
    """TP8·DP8 on 8-device nodes crosses nodes for DP; TP1·DP8 stays inside."""
    one = np.ones(2, dtype=np.int64)
    degrees = Degrees(np.array([8, 1]), one, np.array([8, 8]), one, one, one)
    placed = place(degrees, np.array([8, 8]), np.full(2, order_code("tp-cp-ep-dp-pp")))
    assert placed.data.inside.tolist() == [1, 8]
    assert placed.data.domains.tolist() == [8, 1]


def test_a_rack_of_72_strands_8_devices_when_groups_are_powers_of_two():
    """EP 64 on NVL72 works 64 devices; the other 8 are paid for and named."""
    one = np.ones(1, dtype=np.int64)
    degrees = Degrees(one * 2, one, one * 256, one * 2, one * 64, one)
    placed = place(degrees, one * 72, one * order_code("tp-cp-ep-dp-pp"))
    assert placed.used_per_domain.tolist() == [64]
    assert placed.expert.inside.tolist() == [64]


@pytest.mark.parametrize(
    ("size", "inside"), [(16, 8), (16, 4), (64, 1), (12, 3), (8, 8), (64, 16)]
)
def test_runs_of_a_group_lie_where_listing_them_says(size, inside):
    """Shards would be gathered over a link that their neighbours do not use."""
    domain = np.arange(size) // inside
    for run in (
        r for r in range(1, size + 1) if size % r == 0 and (inside % r == 0 or r % inside == 0)
    ):
        near, far = cut_in_runs(
            Group(np.array([size]), np.array([inside])), np.array([size // run])
        )
        rows = domain.reshape(-1, run)
        assert {int(c) for row in rows for c in np.unique(row, return_counts=True)[1]} == {
            int(near.inside[0])
        }
        assert {int(c) for row in rows.T for c in np.unique(row, return_counts=True)[1]} == {
            int(far.inside[0])
        }
        assert (near.size[0], far.size[0]) == (run, size // run)
