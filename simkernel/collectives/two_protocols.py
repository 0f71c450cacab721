"""Two levels with the protocols of a library inside the domain: low latency, or high rate.

One curve for all sizes is a half too fast for messages of 1 to 32 MB. Where a chip was measured
closely this takes, for each message, the faster of two protocols, and counts what a device copies
for itself. Other chips, and everything between domains, keep the one curve.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from simkernel.collectives import direct, hierarchical
from simkernel.collectives._flows import PLAIN, Phase, Way, passes
from simkernel.columns import Column
from simkernel.placement import Group
from simkernel.traffic import Traffic, Wires

OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
IN_BEST = False


def traffic(
    operation: str, wires: Wires, group: Group, payload_bytes: Column, remote_frac: Column = 1.0
) -> Traffic:
    """Closed form: the flows of two levels, or of everyone to everyone, at another pace inside."""
    is_exchange = operation == "all_to_all"
    algorithm = direct if is_exchange else hierarchical
    whole = algorithm.traffic(operation, wires, group, payload_bytes)
    rounds = passes(operation)
    steps = 0 if is_exchange else rounds * (group.inside - 1)
    held = group.inside / group.size if is_exchange else 1.0
    moved = whole.inside_bytes + wires.inside_protocols.own_frac * rounds * payload_bytes * held
    moved_s, fixed_s = _faster(wires, moved, steps)
    has_near, has_far = group.inside > 1, group.domains > 1
    far_steps = 1 if is_exchange else rounds * (group.domains - 1)
    far_s = wires.outside_base_s + wires.outside_step_s * far_steps + whole.outside_s
    near_s, far_s = np.where(has_near, moved_s + fixed_s, 0.0), np.where(has_far, far_s, 0.0)
    elapsed_s = np.maximum(near_s, far_s) if is_exchange else near_s + far_s
    is_known = np.isfinite(wires.inside_protocols.high_frac)
    return replace(
        whole,
        elapsed_s=np.where(is_known, elapsed_s, whole.elapsed_s),
        inside_s=np.where(is_known & has_near, moved_s, whole.inside_s),
    )


def _faster(wires: Wires, moved_bytes: Column, steps: Column) -> tuple[Column, Column]:
    """Seconds of the bytes and of the rest by the faster protocol; NaN where none is known."""
    of, wire = wires.inside_protocols, wires.inside_bytes_per_s
    low_s, high_s = moved_bytes / (wire * of.low_frac), moved_bytes / (wire * of.high_frac)
    is_low = low_s + of.low_base_s < high_s + of.high_base_s
    fixed_s = np.where(is_low, of.low_base_s, of.high_base_s) + of.step_s * steps
    return np.where(is_low, low_s, high_s), fixed_s


def phases(
    operation: str, members: int, domain_size: int, payload_bytes: float, way: Way = PLAIN
) -> list[Phase]:
    """Those of two levels, or of everyone to everyone."""
    algorithm = direct if operation == "all_to_all" else hierarchical
    return algorithm.phases(operation, members, domain_size, payload_bytes, way)
