"""A stream made larger: copies laid over each other, or the same requests in less time.

Both give the same rate and not the same load. Laid over each other, bursts of independent users
average out; compressed, every burst stays and comes faster. Which one was done is said in words.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from simkernel.columns import Codes, Floats
from simkernel.workload import Prefixes, RequestStream

SHIFT_S = 60.0  # our choice: single bursts of a minute average out, the busy quarter-hour stays

DUST_DIGITS = 9
"""Digits of a product of floats that are not dust: 1.1 times a hundred users is 110."""


@dataclass(frozen=True)
class Scaled:
    """A larger stream, and in words how it was made."""

    requests: RequestStream
    words: str


def superposed(
    stream: RequestStream, times: float, rng: np.random.Generator, shift_s: float = SHIFT_S
) -> Scaled:
    """Copies of a stream over each other, each moved in time on its own.

    Parameters
    ----------
    stream : what is copied; of a closed loop the concurrency is multiplied too
    times : how many copies; of a last broken one each request is kept by chance
    rng : what is drawn from
    shift_s : each copy is moved by up to half of it either way, around the span [s]

    Notes
    -----
    Swings slower than the shift are common to all copies, as day and night are to all users; a
    shift as long as the stream would average out the very peak that a fleet is bought for. With
    such a long shift copies are independent: variance over mean of the counts stays that of one
    copy, so their spread over the mean falls with the root of the copies. With a shorter one it
    falls towards the spread of averages over the shift, not to 0. Copies are other users: they
    share neither sessions nor prefixes.
    """
    copies, rows = _copied(len(stream), times, rng)
    width_s = min(shift_s, stream.span_s)
    moved_s = width_s * rng.uniform(-0.5, 0.5, math.ceil(times))
    moved_s[0] = 0.0
    arrival_s = _around(stream.arrival_s[rows] + moved_s[copies], stream.span_s)
    order = np.argsort(arrival_s, kind="stable")
    copies, rows = copies[order], rows[order]
    larger = stream.take(rows, arrival_s[order], stream.span_s)
    return Scaled(
        replace(
            larger,
            prefixes=_apart(larger.prefixes, copies),
            session_codes=_sessions_apart(stream, rows, copies),
            concurrency=math.ceil(round(stream.concurrency * times, DUST_DIGITS)),
        ),
        _superposed_words(stream, times, width_s),
    )


def compressed(stream: RequestStream, times: float) -> Scaled:
    """The same requests in a part of the time.

    Parameters
    ----------
    stream : an open stream
    times : how much faster

    Notes
    -----
    Gaps keep their distribution over their mean: what was a busy hour is a burst of seconds. It
    is the harder of the two to serve wherever arrivals come in clumps.
    """
    words = (
        f"time divided by {times:g}: every burst and swing is kept and {times:g} times as fast, "
        f"the stream lasts {stream.span_s / times:g} s"
    )
    return Scaled(
        replace(stream, arrival_s=stream.arrival_s / times, span_s=stream.span_s / times), words
    )


def _superposed_words(stream: RequestStream, times: float, width_s: float) -> str:
    if stream.concurrency:
        return f"{times:g} times as many users at once, each waiting for an answer"
    if width_s >= stream.span_s:
        return (
            f"{times:g} independent copies, moved around the span: bursts and swings average out"
        )
    return (
        f"{times:g} copies, each moved by up to {width_s / 2:g} s either way around the span: "
        "bursts shorter than that average out, slower swings are common to all"
    )


def _copied(requests: int, times: float, rng: np.random.Generator) -> tuple[Codes, Codes]:
    """Copy and row of every request of the copies."""
    whole = math.floor(times)
    kept = np.flatnonzero(rng.uniform(size=requests) < times - whole)
    copies = np.repeat(np.arange(whole + 1), [requests] * whole + [len(kept)])
    return copies, np.concatenate([np.tile(np.arange(requests), whole), kept])


def _around(times_s: Floats, span_s: float) -> Floats:
    """Times that left the span on one side come in on the other; no span leaves them."""
    if not span_s:
        return times_s
    inside_s = times_s % span_s
    return np.where(inside_s < span_s, inside_s, 0.0)


def _apart(prefixes: Prefixes | None, copies: Codes) -> Prefixes | None:
    """Blocks of different copies under different hashes."""
    if prefixes is None:
        return None
    names, codes = np.unique(prefixes.hashes, return_inverse=True)
    owners = np.repeat(copies, np.diff(prefixes.starts))
    return replace(prefixes, hashes=codes + owners * len(names))


def _sessions_apart(stream: RequestStream, rows: Codes, copies: Codes) -> Codes | None:
    """Codes of the sessions of copied requests, those of different copies different."""
    codes = stream.session_codes
    return None if codes is None else codes[rows] + copies * (int(codes.max(initial=0)) + 1)
