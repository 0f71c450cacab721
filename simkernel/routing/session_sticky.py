"""Every request of a session to one replica, whatever the load.

Highest random weight: of the replicas that are open the one whose number, mixed with the
session's, comes out largest. So a replica that fails moves its own sessions only, and they come
back when it does. A request of no session goes to the least busy replica.

References
----------
Thaler and Ravishankar, Using name-based mappings to increase hit rates, IEEE/ACM Transactions on
Networking 6(1), 1998.
"""

from __future__ import annotations

from simkernel.replay.state import Asked, Seen
from simkernel.routing._load import least_busy
from simkernel.routing._weight import weight_of

READS_CACHE = False


def pick(asked: Asked, seen: Seen) -> int:
    """The replica with the largest weight for this session."""
    if asked.session < 0:
        return least_busy(seen)
    best, heaviest = 0, -1
    for place in range(len(seen.replicas)):
        weight = weight_of(asked.session, seen.replicas[place])
        if weight > heaviest:
            best, heaviest = place, weight
    return best
