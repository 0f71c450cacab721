"""Two levels with the message cut into chunks: one is inside the domain while another is outside.

Every chunk pays the steps of its ring again, so there is a best number of them: the floors of the
protocol against the wait for the first chunk.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from simkernel.collectives import _flows, hierarchical
from simkernel.collectives._flows import PLAIN, Phase, Way, passes
from simkernel.columns import Column
from simkernel.placement import Group
from simkernel.traffic import Traffic, Wires

OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter")
IN_BEST = False


def traffic(
    operation: str, wires: Wires, group: Group, payload_bytes: Column, remote_frac: Column = 1.0
) -> Traffic:
    """Closed form: the fastest of CHUNKS; bytes are those of two levels.

    With x, y seconds of a chunk inside and outside: an all-reduce goes in, out, in, and takes
    2x + y for one chunk, else 2x + 2 max(x, y) + (chunks - 2) max(2x, y); a gather or scatter
    x + y + (chunks - 1) max(x, y).
    """
    whole = hierarchical.traffic(operation, wires, group, payload_bytes)
    rounds = passes(operation)
    near_s = wires.inside_step_s * (group.inside - 1)
    far_s = rounds * wires.outside_step_s * (group.domains - 1)
    base_s = wires.inside_base_s * (group.inside > 1) + wires.outside_base_s * (group.domains > 1)
    options = [
        _chunked_s(rounds, n, whole.inside_s / rounds / n + near_s, whole.outside_s / n + far_s)
        for n in _flows.CHUNKS
    ]
    return replace(whole, elapsed_s=base_s + np.min(np.stack(options), axis=0))


def _chunked_s(rounds: int, chunks: int, near_s: Column, far_s: Column) -> Column:
    """Wave fronts of a message in chunks; what a chunk takes inside, each time, and outside."""
    slower_s = np.maximum(near_s, far_s)
    if rounds == 1:
        return near_s + far_s + (chunks - 1) * slower_s
    if chunks == 1:
        return 2 * near_s + far_s
    return 2 * near_s + 2 * slower_s + (chunks - 2) * np.maximum(2 * near_s, far_s)


def phases(
    operation: str, members: int, domain_size: int, payload_bytes: float, way: Way = PLAIN
) -> list[Phase]:
    """Wave fronts: in front t, chunk c is in its stage t - c; the steps of a stage at once."""
    steps = hierarchical.phases(operation, members, domain_size, payload_bytes / way.chunks)
    stages = [_at_once(steps, size) for size in _stages(operation, members, domain_size)]
    fronts = [
        [flow for chunk in range(way.chunks) for flow in _stage(stages, front - chunk)]
        for front in range(way.chunks + len(stages) - 1)
    ]
    return [front for front in fronts if front]


def _stages(operation: str, members: int, domain_size: int) -> list[tuple[int, int]]:
    """First and last step of each stage among those of two levels."""
    near, far = domain_size - 1, members // domain_size - 1
    counts = {
        "all_reduce": (near, 2 * far, near),
        "reduce_scatter": (near, far),
        "all_gather": (far, near),
    }[operation]
    ends = np.cumsum(counts).tolist()
    return list(zip([0, *ends[:-1]], ends, strict=True))


def _at_once(steps: list[Phase], span: tuple[int, int]) -> Phase:
    """Steps of one ring as one flow of all their bytes for each pair."""
    first, last = span
    return [(a, b, sent * (last - first)) for a, b, sent in steps[first]] if last > first else []


def _stage(stages: list[Phase], number: int) -> Phase:
    return stages[number] if 0 <= number < len(stages) else []
