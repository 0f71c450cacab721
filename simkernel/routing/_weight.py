"""How heavy each replica weighs for a session: fixed numbers that look drawn."""

from __future__ import annotations

_PRIME = (1 << 31) - 1
"""Products of two numbers below it fit into 63 bits."""

_OF_SESSIONS, _OF_REPLICAS = 48_271, 69_621
"""Multipliers of full period (Park and Miller 1988; Fishman and Moore 1986)."""


def weight_of(session: int, replica: int) -> int:
    """The weight of a replica for a session, from 0 to below 2^31 - 1."""
    mixed = session % _PRIME * _OF_SESSIONS % _PRIME
    mixed = (mixed + (replica + 1) * _OF_REPLICAS) % _PRIME
    return mixed * mixed % _PRIME * _OF_SESSIONS % _PRIME
