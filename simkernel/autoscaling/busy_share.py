"""As many replicas as would be busy for so much of their time.

A step takes nearly as long with few sequences as with some more, so a replica looks busy long
before it is full: a target near 1 is not too high.

References
----------
Kubernetes, Horizontal Pod Autoscaling, algorithm details: ceil(replicas x metric / target).
"""

from __future__ import annotations

import math

from simkernel.operations.outages import Watched


def wanted(watched: Watched, target: float) -> int:
    """Replicas that would be at work for `target` of the time, from 0 to 1."""
    return math.ceil(watched.working * watched.busy_frac / target)
