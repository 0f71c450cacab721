"""Which policy a code stands for: the folder is the list.

Interpreted, a policy is looked up at each call; compiled, `compiled` puts a chain of comparisons
over the same folders in the place of these functions.
"""

from __future__ import annotations

from simkernel import plugins
from simkernel.columns import Codes
from simkernel.replay.state import Cache, Jobs, Limits, Lists, Seats


def form_batch(
    code: int,
    replica: int,
    jobs: Jobs,
    lists: Lists,
    limits: Limits,
    seats: Seats,
    cache: Cache | None,
) -> int:
    """The batch of the next step, formed by the policy of that code in batching/."""
    policy = plugins.find("batching", plugins.names("batching")[code])
    return policy.form(replica, jobs, lists, limits, seats, cache)


def refusal(code: int, prompt_tokens: int, output_tokens: int, limits: Limits) -> int:
    """Why the policy of that code in batching/ refuses a request, or 0."""
    policy = plugins.find("batching", plugins.names("batching")[code])
    return policy.refusal(prompt_tokens, output_tokens, limits)


def pick_replica(
    code: int,
    serial: int,
    draw_frac: float,
    waiting: Codes,
    running: Codes,
    free_blocks: Codes,
    missing: Codes,
) -> int:
    """The replica that the policy of that code in routing/ picks."""
    policy = plugins.find("routing", plugins.names("routing")[code])
    return policy.pick(serial, draw_frac, waiting, running, free_blocks, missing)
