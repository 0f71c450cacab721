"""Nobody is turned away."""

from __future__ import annotations

from simkernel.replay.state import Asked, Seen, Terms


def lets_in(asked: Asked, seen: Seen, picked: int, terms: Terms) -> bool:
    """Always."""
    return True
