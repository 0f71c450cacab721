"""Nobody joins a queue that is full; ranks below the terms' own are let in all the same.

With it no more than so many less urgent requests wait at a replica, whatever comes.
"""

from __future__ import annotations

from simkernel.replay.state import Asked, Seen, Terms


def lets_in(asked: Asked, seen: Seen, picked: int, terms: Terms) -> bool:
    """Whether the queue of the replica that was picked is short enough."""
    return asked.rank < terms.from_rank or seen.waiting[picked] < terms.most_waiting
