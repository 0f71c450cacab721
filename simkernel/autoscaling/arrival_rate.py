"""As many replicas as the requests of the last interval need at so many a second each."""

from __future__ import annotations

import math

from simkernel.operations.outages import Watched


def wanted(watched: Watched, target: float) -> int:
    """Replicas for `target` requests a second of each."""
    return math.ceil(watched.requests_per_s / target)
