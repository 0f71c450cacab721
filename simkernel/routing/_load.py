"""How much busier than the least busy replica one may be that has something to offer."""

from __future__ import annotations

BUSIER_FRAC, BUSIER_REQUESTS = 0.25, 2
"""Above the least busy one, whichever is more; our choice."""


def most_load(least: int) -> float:
    """Requests in the house of a replica that is hardly busier than one with `least`."""
    return least + max(BUSIER_REQUESTS, least * BUSIER_FRAC)
