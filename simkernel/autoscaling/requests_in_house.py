"""As many replicas as keep so many requests in each house: waiting, running, or at the router.

References
----------
Kubernetes, Horizontal Pod Autoscaling, algorithm details: ceil(replicas x metric / target).
"""

from __future__ import annotations

import math

from simkernel.operations.outages import Watched


def wanted(watched: Watched, target: float) -> int:
    """Replicas for `target` requests in the house of each."""
    return math.ceil((watched.waiting + watched.running) / target)
