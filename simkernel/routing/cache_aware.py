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

from simkernel.replay.state import Asked, Seen
from simkernel.routing._load import most_load

READS_CACHE = True


def pick(asked: Asked, seen: Seen) -> int:
    """The replica with the fewest tokens to compute among those that are hardly busier."""
    least = seen.waiting[0] + seen.running[0]
    for place in range(1, len(seen.waiting)):
        least = min(least, seen.waiting[place] + seen.running[place])
    most = most_load(least)
    best, fewest, load = -1, 0, 0
    for place in range(len(seen.waiting)):
        own, missing = seen.waiting[place] + seen.running[place], seen.missing_tokens[place]
        if own <= most and (best < 0 or missing < fewest or (missing == fewest and own < load)):
            best, fewest, load = place, missing, own
    return best
