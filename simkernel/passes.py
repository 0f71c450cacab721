"""The pass: busy seconds per resource plus a floor, for one stage over some tokens.

The only place where compute, memory and network meet. Passes add when they run one after
another; `combine` tells how long passes take that run beside each other.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from operator import attrgetter

import numpy as np

from simkernel.columns import Column, Floats
from simkernel.roofline import Work
from simkernel.stack import Stack
from simkernel.traffic import Traffic


@dataclass(frozen=True)
class Pass:
    """Seconds of one pass; each a number or (n,).

    Parameters
    ----------
    compute_s, hbm_s, inside_s, outside_s, host_s, host_link_s : each resource is busy
    floor_s : the pass alone, its steps one after another; nothing beside it makes it shorter
    weight_s : of `floor_s`, gradients of weights: no other pass waits for them
    peak_compute_s, peak_hbm_s : flop / dense peak and bytes / memory rate, for utilisation
    inside_bytes, outside_bytes : sent per device inside and outside the scale-up domain
    timed_s, guessed_s : of the kernels and collectives in it, what times of such ones speak for,
        and what they do not
    """

    compute_s: Column = 0.0
    hbm_s: Column = 0.0
    inside_s: Column = 0.0
    outside_s: Column = 0.0
    host_s: Column = 0.0
    host_link_s: Column = 0.0
    floor_s: Column = 0.0
    weight_s: Column = 0.0
    peak_compute_s: Column = 0.0
    peak_hbm_s: Column = 0.0
    inside_bytes: Column = 0.0
    outside_bytes: Column = 0.0
    timed_s: Column = 0.0
    guessed_s: Column = 0.0

    def __add__(self, other: Pass) -> Pass:
        """One after the other."""
        pairs = zip(_values(self), _values(other), strict=True)
        return Pass(*[b if _is_zero(a) else a if _is_zero(b) else a + b for a, b in pairs])

    def times(self, count: Column) -> Pass:
        """The same pass `count` times in a row."""
        return Pass(*[a if _is_zero(a) else a * count for a in _values(self)])

    def without(self, part: Pass) -> Pass:
        """What is left where a part of it is looked at apart."""
        return self + part.times(-1.0)

    def at(self, row: int) -> Pass:
        """One of several passes that stand side by side as (several, n)."""
        return Pass(*[a[row] if isinstance(a, np.ndarray) else a for a in _values(self)])


_values = attrgetter(*(f.name for f in fields(Pass)))
"""All numbers of a pass, in order."""


def computed(work: Work) -> Pass:
    """The pass of one kernel."""
    return Pass(
        compute_s=work.compute_s,
        hbm_s=work.hbm_s,
        floor_s=work.elapsed_s,
        peak_compute_s=work.peak_compute_s,
        peak_hbm_s=work.peak_hbm_s,
        timed_s=work.timed_s,
        guessed_s=work.guessed_s,
    )


def sent(traffic: Traffic) -> Pass:
    """The pass of one collective."""
    return Pass(
        inside_s=traffic.inside_s,
        outside_s=traffic.outside_s,
        floor_s=traffic.elapsed_s,
        inside_bytes=traffic.inside_bytes,
        outside_bytes=traffic.outside_bytes,
        timed_s=traffic.timed_s,
        guessed_s=traffic.guessed_s,
    )


def wires_s(done: Pass) -> Column:
    """Elapsed seconds of a pass in which a device does nothing but send and wait for messages.

    Of a collective all of it, latency too; of a sum of kernels and collectives what their bytes
    take on the wires.
    """
    on_wire_s = np.asarray(done.inside_s) + done.outside_s
    is_alone = (np.asarray(done.compute_s) + done.hbm_s <= 0.0) & (on_wire_s > 0.0)
    return np.where(is_alone, done.floor_s, on_wire_s)


def combine(*passes: Pass) -> Floats:
    """Elapsed seconds of passes that run beside each other.

    Notes
    -----
    No resource does two things at once, and no pass ends before its own steps have: the most
    loaded resource or the longest floor decides. A lower bound on any real co-schedule.
    """
    busy = [
        sum((getattr(p, name) for p in passes), start=0.0)
        for name in ("compute_s", "hbm_s", "inside_s", "outside_s", "host_s", "host_link_s")
    ]
    elapsed = np.asarray(busy[0], dtype=float)
    for other in (*busy[1:], *(p.floor_s for p in passes)):
        elapsed = np.maximum(elapsed, other)
    return elapsed


def overlapped(done: Pass, beside: Pass, stack: Stack) -> Floats:
    """Elapsed seconds of a pass and of the communication beside it, on a stack.

    Parameters
    ----------
    done : work of the devices
    beside : collectives that wait for nothing in `done`
    stack : whether they run together, and what running together costs

    Returns
    -------
    (n,) [s]

    Notes
    -----
    Collectives run on the processors that the products want: what is hidden still takes
    `contention_frac` of its time from them. Without overlap one runs after the other.
    """
    if not stack.overlaps_data:
        return np.asarray(done.floor_s + beside.floor_s)
    hidden = np.minimum(done.floor_s, beside.floor_s)
    return combine(done, beside) + stack.contention_frac * hidden


def _is_zero(value: Column) -> bool:
    """An untouched default, so that sums skip it."""
    return isinstance(value, float) and value == 0.0
