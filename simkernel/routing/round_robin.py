"""Each in turn, whatever the load."""

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
    """The replica whose turn it is."""
    return serial % len(waiting)
