"""Each in turn, whatever the load."""

from __future__ import annotations

from simkernel.replay.state import Asked, Seen

READS_CACHE = False


def pick(asked: Asked, seen: Seen) -> int:
    """The replica whose turn it is."""
    return asked.serial % len(seen.replicas)
