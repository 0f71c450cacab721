"""To the replica with the fewest requests in the house; the first of several."""

from __future__ import annotations

from simkernel.columns import Codes

READS_CACHE = False


def pick(
    serial: int,
    draw_frac: float,
    waiting: Codes,
    running: Codes,
    free_blocks: Codes,
    missing: Codes,
) -> int:
    """The replica with the fewest requests waiting or running."""
    best = 0
    for replica in range(1, len(waiting)):
        if waiting[replica] + running[replica] < waiting[best] + running[best]:
            best = replica
    return best
