"""Nobody is let in whose first token can be foreseen to come too late.

Foreseen as in routing/slo_aware: prompts before it and its own at the pace of a step full of
prompts. Ranks below the terms' own are let in all the same.

References
----------
Qin et al., Mooncake (FAST 2025), section 7: requests whose time to first token would break its
bound are rejected before they are computed.
"""

from __future__ import annotations

from simkernel.replay.state import Asked, Seen, Terms


def lets_in(asked: Asked, seen: Seen, picked: int, terms: Terms) -> bool:
    """Whether its first token is foreseen within the bound."""
    tokens = seen.due_tokens[picked] + seen.missing_tokens[picked]
    wait_s = tokens * seen.prompt_token_s[picked]
    return asked.rank < terms.from_rank or wait_s <= terms.most_wait_s
