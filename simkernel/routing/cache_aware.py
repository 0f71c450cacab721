"""To the replica that has most of the prompt in its cache, unless others have much less to do.

Among the replicas that are about as busy as the least busy one, whoever would have to compute the
fewest tokens; of several the least busy, the first of those. Where nothing is shared it is
`least_loaded`.

References
----------
SGLang's router, policy cache_aware: the best match unless loads are out of balance (by 64 requests
and half, where nothing else is said); NVIDIA Dynamo and llm-d weigh both.
"""

from __future__ import annotations

from simkernel.columns import Codes
from simkernel.routing._load import most_load

READS_CACHE = True


def pick(
    serial: int,
    draw_frac: float,
    waiting: Codes,
    running: Codes,
    free_blocks: Codes,
    missing: Codes,
) -> int:
    """The replica with the fewest tokens to compute among those that are hardly busier."""
    least = waiting[0] + running[0]
    for replica in range(1, len(waiting)):
        least = min(least, waiting[replica] + running[replica])
    most = most_load(least)
    best, fewest, load = -1, 0, 0
    for replica in range(len(waiting)):
        own = waiting[replica] + running[replica]
        if own <= most and (
            best < 0 or missing[replica] < fewest or (missing[replica] == fewest and own < load)
        ):
            best, fewest, load = replica, missing[replica], own
    return best
