"""Each request goes anywhere, whatever the load: the least a load balancer does."""

from __future__ import annotations

from simkernel.replay.state import Asked, Seen

READS_CACHE = False


def pick(asked: Asked, seen: Seen) -> int:
    """The replica that the draw falls on."""
    return int(asked.draw_frac * len(seen.replicas))
