"""What is asked of a cluster: a training run, or a stream of requests."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from simkernel.columns import Codes, Floats
from simkernel.keeping import PLAIN, Keeping
from simkernel.link_rules import PHYSICAL, LinkRules
from simkernel.stack import ISOLATED, Stack


@dataclass(frozen=True)
class TrainingJob:
    """One training run of one model.

    Parameters
    ----------
    tokens : to train on in all
    tokens_per_sequence : sequence length
    max_global_batch_tokens : beyond it tokens-to-quality no longer holds
    has_draft_layers : multi-token prediction layers are trained too
    expert_imbalance : tokens of the busiest expert rank over the mean, times what evenly random
        routing gives; 1 is a router forced to balance
    expert_skew : exponent of a power law of the experts' loads on top of it; 0 is none
    stack : the software it runs on
    keeping : in which form that software keeps what is trained
    links : what decides which links a group uses
    """

    tokens: float
    tokens_per_sequence: int
    max_global_batch_tokens: float
    has_draft_layers: bool = False
    expert_imbalance: float = 1.0
    expert_skew: float = 0.0
    stack: Stack = ISOLATED
    keeping: Keeping = PLAIN
    links: LinkRules = PHYSICAL

    @property
    def ruled(self) -> TrainingJob:
        """The same job, its stack without what its link rule does not know (see `link_rules`)."""
        if not self.links.is_by_group_size:
            return self
        return replace(self, stack=replace(self.stack, contention_frac=0.0, straggler_frac=0.0))


@dataclass(frozen=True)
class Prefixes:
    """Hashed blocks of n prompts: prompts that begin alike begin with the same hashes.

    Parameters
    ----------
    hashes : (m,) whole numbers, the blocks of the first prompt, then of the second, …
    starts : (n + 1,) request i owns hashes[starts[i] : starts[i + 1]]
    block_tokens : tokens of one block; the last block of a prompt may be shorter
    """

    hashes: Codes
    starts: Codes
    block_tokens: int

    def take(self, rows: Codes) -> Prefixes:
        """The blocks of some requests, in the order of `rows`."""
        lengths = np.diff(self.starts)[rows]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        inside = np.arange(starts[-1]) - np.repeat(starts[:-1], lengths)
        return Prefixes(
            self.hashes[np.repeat(self.starts[rows], lengths) + inside], starts, self.block_tokens
        )


@dataclass(frozen=True)
class RequestStream:
    """A stream of n requests in the order they arrive.

    Parameters
    ----------
    arrival_s : (n,) never falling, from 0 on [s]
    prompt_tokens, output_tokens : (n,) whole numbers of at least 1
    span_s : time the stream stands for: its mean rate is n / span_s; 0 for a closed loop
    prefixes : hashed blocks of the prompts, None where nothing is known of them
    session_codes : (n,) requests of one conversation have one code; None where not known
    priorities : (n,) as the trace has them; None where it has none
    concurrency : 0 for an open stream; else at most so many are unanswered, and the next one
        starts when one is answered (a closed loop)
    """

    arrival_s: Floats
    prompt_tokens: Codes
    output_tokens: Codes
    span_s: float
    prefixes: Prefixes | None = None
    session_codes: Codes | None = None
    priorities: Floats | None = None
    concurrency: int = 0

    def __len__(self) -> int:
        return len(self.arrival_s)

    @property
    def requests_per_s(self) -> float:
        """Mean rate; 0 for a closed loop, whose rate is for the server to say."""
        return len(self) / self.span_s if self.span_s else 0.0

    def take(self, rows: Codes, arrival_s: Floats, span_s: float) -> RequestStream:
        """Some of the requests at other times, which must not fall."""
        sessions, priorities = self.session_codes, self.priorities
        return RequestStream(
            arrival_s=arrival_s,
            prompt_tokens=self.prompt_tokens[rows],
            output_tokens=self.output_tokens[rows],
            span_s=span_s,
            prefixes=None if self.prefixes is None else self.prefixes.take(rows),
            session_codes=None if sessions is None else sessions[rows],
            priorities=None if priorities is None else priorities[rows],
            concurrency=self.concurrency,
        )


def recorded_span_s(arrival_s: Floats) -> float:
    """Time that n recorded arrivals stand for: their span and one mean gap more.

    Parameters
    ----------
    arrival_s : (n,) never falling [s]

    Notes
    -----
    n arrivals have n - 1 gaps; without the last gap a copy that is shifted around the span would
    be n / (n - 1) times as dense. One arrival stands for no time.
    """
    if len(arrival_s) < 2:
        return 0.0
    return float((arrival_s[-1] - arrival_s[0]) * len(arrival_s) / (len(arrival_s) - 1))


def percentile_frac(statistic: str) -> float:
    """The share of requests below a percentile: 0.05 of "p5", 0.95 of "p95", 0.999 of "p999"."""
    digits = statistic.removeprefix("p")
    return float(digits) / 100.0 if len(digits) < 2 else float(f"0.{digits}")
