"""What the replay reads of a stream: when each comes, what it brings, how much it wants back.

Everything that could be served wrongly without a word is refused here, at the door.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simkernel.columns import Codes, Floats
from simkernel.errors import BadStudy
from simkernel.workload import Prefixes, RequestStream

COLUMNS = ("arrival_s", "prompt_tokens", "output_tokens")
LATEST_S = 1e8
"""About three years: a stream that starts later counts from an epoch, not from its own start."""


@dataclass(frozen=True)
class Requests:
    """Requests in order of arrival; times count from the start of the stream.

    Parameters
    ----------
    arrival_s : (n,) never falling, the first may be 0 [s]
    prompt_tokens : (n,) whole numbers, >= 0
    output_tokens : (n,) tokens the request ends after, whole numbers, >= 0
    prefixes : hashed blocks of the prompts, None where nothing is known of them
    ranks : (n,) who has less goes first, None where all are alike
    sessions : (n,) whose each is, from 0, -1 of nobody; None where nothing is known of them

    Raises
    ------
    BadStudy : columns of different lengths; times that fall, are negative, not finite or count
        from an epoch; negative or broken token counts; every fault at once

    Notes
    -----
    A request of no prompt token or no output token is legal here; the replay refuses it with a
    reason. `Requests.in_order` sorts a shuffled stream and sets its first arrival to 0.
    """

    arrival_s: Floats
    prompt_tokens: Codes
    output_tokens: Codes
    prefixes: Prefixes | None = None
    ranks: Codes | None = None
    sessions: Codes | None = None

    def __post_init__(self) -> None:
        faults = _faults(self)
        if faults:
            raise BadStudy(*faults)

    def __len__(self) -> int:
        return len(self.arrival_s)

    @classmethod
    def of(cls, stream: RequestStream) -> Requests:
        """The columns of a stream that the replay reads; its concurrency goes to `opening.Run`."""
        columns = (stream.arrival_s, stream.prompt_tokens, stream.output_tokens)
        return cls(*columns, stream.prefixes)

    @classmethod
    def in_order(cls, arrival_s: Floats, prompt_tokens: Codes, output_tokens: Codes) -> Requests:
        """The stream sorted by arrival, counted from its first arrival; equal times keep order."""
        times_s = np.asarray(arrival_s, dtype=np.float64)
        order = np.argsort(times_s, kind="stable")
        start_s = times_s[order[0]] if len(order) else 0.0
        prompts, outputs = np.asarray(prompt_tokens), np.asarray(output_tokens)
        return cls(times_s[order] - start_s, prompts[order], outputs[order])


def _faults(requests: Requests) -> list[str]:
    lengths = {name: np.shape(getattr(requests, name)) for name in COLUMNS}
    if len(set(lengths.values())) > 1 or any(len(shape) != 1 for shape in lengths.values()):
        return [f"requests have columns of shapes {lengths}; give three columns of one length"]
    faults = [*_time_faults(np.asarray(requests.arrival_s)), *_token_faults(requests)]
    hashed = len(requests) if requests.prefixes is None else len(requests.prefixes.starts) - 1
    if hashed != len(requests):
        faults.append(
            f"{len(requests)} requests have hashed blocks of {hashed}; give those of all"
        )
    for name in ("ranks", "sessions"):
        column = getattr(requests, name)
        if column is not None and np.shape(column) != (len(requests),):
            faults.append(
                f"{len(requests)} requests have {np.shape(column)} {name}; give one each"
            )
    return faults


def _time_faults(arrival_s: Floats) -> list[str]:
    if not len(arrival_s):
        return []
    if not np.all(np.isfinite(arrival_s)):
        row = int(np.argmin(np.isfinite(arrival_s)))
        return [f"request {row} arrives at {arrival_s[row]}; give every arrival in seconds"]
    faults = []
    if arrival_s[0] < 0:
        faults.append(f"the first request arrives at {arrival_s[0]:g} s; count from 0")
    if arrival_s[0] > LATEST_S:
        faults.append(
            f"the first request arrives at {arrival_s[0]:.0f} s, which is a date and no time; "
            "subtract the first arrival (Requests.in_order does)"
        )
    falls = np.flatnonzero(np.diff(arrival_s) < 0)
    if len(falls):
        faults.append(
            f"request {falls[0] + 1} arrives before request {falls[0]} "
            f"({len(falls)} times in all); sort by arrival (Requests.in_order does)"
        )
    return faults


def _token_faults(requests: Requests) -> list[str]:
    faults = []
    for name in ("prompt_tokens", "output_tokens"):
        tokens = np.asarray(getattr(requests, name))
        is_whole = np.isfinite(tokens) & (tokens >= 0) & (tokens == np.floor(tokens))
        if not np.all(is_whole):
            row = int(np.argmin(is_whole))
            faults.append(f"request {row} has {name} {tokens[row]}; give whole numbers from 0")
    return faults
