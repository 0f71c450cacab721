"""To the replica where the first token can be foreseen to come soonest.

What prompts before it still have to compute, and what the replica's cache lacks of its own, at the
pace of a step full of prompts; of several the least busy. Requests that decode are not looked at,
so where prompts are short it is `least_loaded`.

References
----------
Qin et al., Mooncake (FAST 2025), algorithm 1: the least of queueing and prefill, hits left out.
"""

from __future__ import annotations

from simkernel.replay.state import Asked, Seen

READS_CACHE = True


def pick(asked: Asked, seen: Seen) -> int:
    """The replica with the least foreseen time to first token."""
    best, soonest_s, load = -1, 0.0, 0
    for place in range(len(seen.replicas)):
        tokens = seen.due_tokens[place] + seen.missing_tokens[place]
        wait_s = tokens * seen.prompt_token_s[place]
        own = seen.waiting[place] + seen.running[place]
        if best < 0 or wait_s < soonest_s or (wait_s == soonest_s and own < load):
            best, soonest_s, load = place, wait_s, own
    return best
