"""To the replica with the fewest requests in the house; the first of several."""

from __future__ import annotations

from simkernel.replay.state import Asked, Seen
from simkernel.routing._load import least_busy

READS_CACHE = False


def pick(asked: Asked, seen: Seen) -> int:
    """The replica with the fewest requests waiting or running."""
    return least_busy(seen)
