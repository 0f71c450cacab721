"""Each request goes anywhere, whatever the load: the least a load balancer does."""

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
    """The replica that the draw falls on."""
    return int(draw_frac * len(waiting))
