"""The replicas that serve a stream, all alike, and how they batch and share it."""

from __future__ import annotations

from dataclasses import dataclass

from simkernel.drafting import MOST_DRAFTED
from simkernel.errors import BadStudy

LEAST = {
    "replicas": 1,
    "max_batch": 1,
    "token_budget": 1,
    "block_tokens": 1,
    "pool_blocks": 1,
    "max_context_tokens": 1,
}


@dataclass(frozen=True)
class Tier:
    """A memory below the device that keeps blocks of prompts.

    Parameters
    ----------
    blocks : that it holds; of each replica, or of all where it is shared
    block_s : to read one [s]
    latency_s : beside it, once for all that a step reads [s]
    is_shared : one for all replicas

    Raises
    ------
    BadStudy : less than nothing
    """

    blocks: int
    block_s: float
    latency_s: float = 0.0
    is_shared: bool = False

    def __post_init__(self) -> None:
        if not (self.blocks >= 0 and 0 <= self.block_s < float("inf") and self.latency_s >= 0):
            raise BadStudy(f"{self} is no tier; give blocks and seconds of 0 or more")


@dataclass(frozen=True)
class Fleet:
    """Whole replicas with the limits of their engine.

    Parameters
    ----------
    replicas : that serve the stream
    batching : file in batching/ that forms the batch of a step
    routing : file in routing/ that picks a replica at each arrival
    max_batch : sequences in a batch
    token_budget : tokens in a step, prefill and decode together
    block_tokens : tokens in one block of the paged cache
    pool_blocks : blocks that each replica has for caches
    max_context_tokens : prompt and output together; a longer request is refused
    watermark_frac : of the pool that admission leaves free, where the policy does so
    request_overhead_s : from arrival until the scheduler sees a request: network, tokenizer [s]
    drafted_tokens : guessed ahead of every decoding sequence, and verified in the next step
    first_accept_frac, later_accept_frac : chance that the first of them is right, and that each
        further one is if all before it are
    copies : neighbouring replicas that step together because they share experts
    has_prefix_cache : prompts that begin alike share the blocks of their beginning
    tiers : below the device, for what its cache gives up; the nearest first
    swap_blocks : room of each replica in its host for requests that are thrown out; 0 computes
        them again
    swap_block_s : to move one block to the host or back [s]
    evicts : who is less urgent leaves his seat for the first who waits
    admission : file in admission/ that lets requests in, or turns them away
    most_waiting, most_wait_s : requests in a queue, and seconds until a first token as they can be
        foreseen, above which the policies of admission turn requests away
    shed_from_rank : who has less is always let in

    Raises
    ------
    BadStudy : a limit that leaves no room for anything; every fault at once
    """

    replicas: int
    batching: str
    routing: str
    max_batch: int
    token_budget: int
    block_tokens: int
    pool_blocks: int
    max_context_tokens: int
    watermark_frac: float = 0.0
    request_overhead_s: float = 0.0
    drafted_tokens: int = 0
    first_accept_frac: float = 0.0
    later_accept_frac: float = 0.0
    copies: int = 1
    has_prefix_cache: bool = False
    tiers: tuple[Tier, ...] = ()
    swap_blocks: int = 0
    swap_block_s: float = 0.0
    evicts: bool = False
    admission: str = "everyone"
    most_waiting: int = 0
    most_wait_s: float = 0.0
    shed_from_rank: int = 0

    def __post_init__(self) -> None:
        faults = [
            f"{name} is {getattr(self, name)}; give a whole number of at least {least}"
            for name, least in LEAST.items()
            if not (getattr(self, name) >= least and getattr(self, name) % 1 == 0)
        ]
        if not 0 <= self.watermark_frac < 1:
            faults.append(f"watermark_frac is {self.watermark_frac}; give 0 to below 1")
        faults += [*self._drafting_faults(), *self._cache_faults()]
        if not 0 <= self.request_overhead_s < float("inf"):
            faults.append(f"request_overhead_s is {self.request_overhead_s}; give 0 or more")
        if self.most_waiting < 0 or not 0 <= self.most_wait_s < float("inf"):
            faults.append(
                f"admission goes by {self.most_waiting} requests and {self.most_wait_s} s; "
                "give 0 or more"
            )
        if faults:
            raise BadStudy(*faults)

    def _cache_faults(self) -> list[str]:
        faults = []
        if self.tiers and not self.has_prefix_cache:
            faults.append("tiers keep what a prefix cache gives up; give has_prefix_cache too")
        if self.swap_blocks < 0 or not 0 <= self.swap_block_s < float("inf"):
            faults.append(
                f"swap_blocks is {self.swap_blocks} of {self.swap_block_s} s each; give 0 or more"
            )
        return faults

    def _drafting_faults(self) -> list[str]:
        faults = []
        if not (0 <= self.drafted_tokens <= MOST_DRAFTED and self.drafted_tokens % 1 == 0):
            faults.append(f"drafted_tokens is {self.drafted_tokens}; give 0 to {MOST_DRAFTED}")
        faults += [
            f"{name} is {getattr(self, name)}; give 0 to 1"
            for name in ("first_accept_frac", "later_accept_frac")
            if not 0 <= getattr(self, name) <= 1
        ]
        if not (self.copies >= 1 and self.replicas % self.copies == 0):
            faults.append(
                f"{self.replicas} replicas are no whole groups of {self.copies} copies that step "
                "together; give a multiple"
            )
        return faults
