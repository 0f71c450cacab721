"""Which policy a code stands for: the folder is the list.

Interpreted, a policy is looked up at each call; compiled, `compiled` puts a chain of comparisons
over the same folders in the place of these functions.
"""

from __future__ import annotations

from simkernel import plugins
from simkernel.replay.state import Asked, Cache, Jobs, Limits, Lists, Seats, Seen, Terms


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


def pick_replica(code: int, asked: Asked, seen: Seen) -> int:
    """The place among the replicas seen that the policy of that code in routing/ picks."""
    policy = plugins.find("routing", plugins.names("routing")[code])
    return policy.pick(asked, seen)


def lets_in(code: int, asked: Asked, seen: Seen, picked: int, terms: Terms) -> bool:
    """Whether the policy of that code in admission/ lets a request in."""
    policy = plugins.find("admission", plugins.names("admission")[code])
    return policy.lets_in(asked, seen, picked, terms)
