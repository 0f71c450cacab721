"""How busy replicas are, and how much busier one may be that has something to offer."""

from __future__ import annotations

from simkernel.replay.state import Seen

BUSIER_FRAC, BUSIER_REQUESTS = 0.25, 2
"""Above the least busy one, whichever is more; our choice."""


def most_load(least: int) -> float:
    """Requests in the house of a replica that is hardly busier than one with `least`."""
    return least + max(BUSIER_REQUESTS, least * BUSIER_FRAC)


def least_busy(seen: Seen) -> int:
    """The place of the replica with the fewest requests in the house; the first of several."""
    best = 0
    for place in range(1, len(seen.waiting)):
        if seen.waiting[place] + seen.running[place] < seen.waiting[best] + seen.running[best]:
            best = place
    return best
