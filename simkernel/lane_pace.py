"""The pace of a lane in a steady state: its steps, which of them carry prompts, and its rate.

Everything follows from one number, the requests that come during a mean step: who decodes, the
tokens that steps carry, their length, and from it the rate. Its limit of validity is the lane that
keeps up: beyond saturation queues grow without end and only the replay knows how fast.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from simkernel.columns import Column, Floats, Masks
from simkernel.false_position import crossing
from simkernel.lane import (
    Carried,
    Lane,
    Standing,
    carried_by,
    carrying_step_s,
    lane_step_s,
    standing_of,
    with_variance,
)
from simkernel.serving_mix import Mix

CROWD_Z = 1.645
"""Deviations of the number in the house, a Poisson one, that a lane must hold: 95% of times."""

ROOT_STEPS, SHARED_ROOT_STEPS = 5, 9
"""In which a rate is found, beside its two ends: 2e-4 of the rate is left at most (tested). Steps
of copies that wait for each other bend where the first prompts come, and take more."""

ROUNDS, SHARED_ROUNDS = 2, 6
"""In which the share of carrying steps settles to below 1%: they lengthen what others wait in. Of
copies in step each prompt lengthens the steps of all, and takes more."""

LEAST_ARRIVALS = 1e-4
"""Requests per step of a lane that is nearly empty."""


@dataclass(frozen=True)
class Pace:
    """Steps of a lane in a steady state; (n,) each.

    Parameters
    ----------
    decoding_sequences : that decode at once
    arrivals : requests that come in a mean step
    step_s, plain_s, carrying_s : mean step; one without prompts, one with them [s]
    carrying_frac : of the steps, those with prompts, of any copy
    carried_tokens, mean_carried_tokens : of prompts in such a step, of the copy with most and of
        all alike
    again_frac, begin_frac : of the steps after one that carries, and after a plain one, those
        that carry; passes after a pass and after a step where decoding stops for prompts
    standing : those who decode, and what they take
    """

    decoding_sequences: Floats
    arrivals: Floats
    step_s: Floats
    plain_s: Floats
    carrying_s: Floats
    carrying_frac: Floats
    carried_tokens: Floats
    mean_carried_tokens: Floats
    again_frac: Floats
    begin_frac: Floats
    standing: Standing

    def at(self, row: int) -> Pace:
        """One of several that stand side by side as (several, n)."""
        return Pace(**{f.name: getattr(self, f.name)[row] for f in fields(self)})

    @property
    def requests_per_s(self) -> Floats:
        """Rate at which requests come and go."""
        return self.arrivals / self.step_s


def most_arrivals(lane: Lane) -> Floats:
    """Requests per step at which a lane is full: of places, or of tokens in every step; (n,)."""
    return np.minimum(*_most_by(lane))


def _most_by(lane: Lane) -> tuple[Floats, Floats]:
    """Requests per step that fill its tokens, and that fill its places; (n,) each."""
    mix, steps = lane.mix, lane.later_steps
    by_tokens = lane.budget_tokens / (mix.prompt_tokens_mean + steps * lane.queries)
    by_places = np.maximum(lane.held_sequences, 1e-3) / np.maximum(steps, 1e-9)
    return np.asarray(by_tokens), np.asarray(by_places)


def saturated(lane: Lane) -> Pace:
    """A full lane with a queue before it: those whom its memory cannot keep are computed again.

    Where steps are full of tokens before the memory is, nobody is put back; nor by an engine that
    takes a prompt only if the running ones keep room to grow.
    """
    by_tokens, by_places = _most_by(lane)
    has_room = lane.engine.is_stopped_by_prompts
    again_frac = np.where((by_places < by_tokens) & (not has_room), lane.thrown_frac, 0.0)
    return pace(lane, np.minimum(by_tokens, by_places), again_frac)


def pace(lane: Lane, arrivals: Floats, again_frac: Column = 0.0) -> Pace:
    """The steady state in which so many requests come to each lane in a mean step.

    Parameters
    ----------
    arrivals : (n,), or (several, n) to see several loads side by side
    again_frac : (n,) prompts computed again, per request

    Notes
    -----
    With a arrivals per step and O output tokens, a (O - 1) sequences decode (Little 1961) and
    a P prompt tokens are carried per step; where a step makes more than one token of a sequence,
    it stays for fewer. Which steps carry: a step carries what came during
    the one before, Poisson, and a carrying step is longer, so that steps form a chain of two
    states; prompts beyond the token budget go on in the next step, which then carries too. Copies
    that share experts step together: a prompt that comes to any of them makes the step carry.
    Where decoding stops for prompts, a step and the passes after it count as one.
    """
    decoding = arrivals * lane.later_steps
    standing = standing_of(lane, decoding)
    room = np.maximum(lane.budget_tokens - standing.tokens, 1.0)
    plain_s = lane_step_s(lane, standing)
    chained = _in_turns if lane.engine.is_stopped_by_prompts else _mixed
    found = chained(lane, arrivals * (1.0 + again_frac), standing, plain_s, room)
    return Pace(
        decoding,
        arrivals,
        plain_s + found.carrying_frac * (found.carrying_s - plain_s),
        plain_s,
        found.carrying_s,
        found.carrying_frac,
        found.carried_tokens,
        found.mean_carried_tokens,
        found.again_frac,
        found.begin_frac,
        standing,
    )


@dataclass(frozen=True)
class _Chain:
    """Which steps carry prompts, and how long those are; as in `Pace`."""

    carrying_s: Floats
    carrying_frac: Floats
    carried_tokens: Floats
    mean_carried_tokens: Floats
    again_frac: Floats
    begin_frac: Floats


def _mixed(
    lane: Lane, computed: Floats, standing: Standing, plain_s: Floats, room: Floats
) -> _Chain:
    """Prompts in steps that decode too.

    Parameters
    ----------
    computed : prompts of each lane in a mean step
    standing, plain_s : those who decode, and a step of them alone [s]
    room : tokens that they leave in a step
    """
    prompt_tokens, chance = lane.mix.prompt_tokens_mean, computed * lane.chances
    clumped = lane.step_clumped_frac
    least_frac = computed * prompt_tokens / room
    carrying_frac = _share_frac(np.maximum(1.0 - np.exp(-chance), least_frac))
    further = _steps_of_prompts(lane.mix.prompt_tokens, room)
    evenly = np.minimum(chance * further, 1.0)
    rounds = ROUNDS if lane.curves.shared is None else SHARED_ROUNDS
    for round_ in range(rounds + 1):
        carried = carried_by(lane, computed, carrying_frac, room)
        carried = _with_variance(lane, carried, is_last=round_ == rounds)
        long_s = carrying_step_s(lane, standing, plain_s, carried)
        step_s = plain_s + carrying_frac * (long_s - plain_s)
        begin = 1.0 - np.exp(-chance * plain_s / step_s)
        again = 1.0 - _none_come(lane, chance / step_s, plain_s, long_s) / further
        if round_ < rounds:
            chained = begin / np.maximum(1.0 - again + begin, 1e-12)
            mixed = evenly + clumped * (chained - evenly)
            carrying_frac = _share_frac(np.maximum(mixed, least_frac))
    crossing = np.minimum(np.maximum(chance * long_s / step_s - 1.0, 0.0), 1.0)
    again_evenly = 1.0 - (1.0 - crossing) / further
    again = again_evenly + clumped * (again - again_evenly)
    begin = carrying_frac * (1.0 - again) / np.maximum(1.0 - carrying_frac, 1e-9)
    return _Chain(
        long_s,
        carrying_frac,
        carried.tokens,
        carried.mean_tokens,
        again,
        np.minimum(begin, 1.0),
    )


def _in_turns(
    lane: Lane, computed: Floats, standing: Standing, plain_s: Floats, room: Floats
) -> _Chain:
    """Prompts in passes of their own, one after another as long as requests come meanwhile.

    Parameters as of `_mixed`. A copy that has prompts computes them while the others decode, and
    all wait for the longest: its own passes come between two of its steps, those of others
    lengthen its steps, which stands here as the share of a pass that they add.
    """
    prompt_tokens = lane.mix.prompt_tokens_mean
    others = computed * (lane.chances - 1.0)
    least_frac = computed * prompt_tokens / room
    own = _share_frac(np.maximum(1.0 - np.exp(-computed), least_frac))
    further = np.where(lane.copies > 1.0, _steps_of_prompts(lane.mix.prompt_tokens, room), 1.0)
    beside = 1.0 - np.exp(-others)
    rounds = ROUNDS if lane.curves.shared is None else SHARED_ROUNDS
    for round_ in range(rounds + 1):
        any_frac = own
        if lane.curves.shared is not None:
            own_frac = own / (1.0 + own)
            in_step = (1.0 + own) * (1.0 - (1.0 - own_frac) * (1.0 - beside))
            any_frac = np.where(lane.copies > 1.0, in_step, own)
        carried = carried_by(lane, computed, np.maximum(any_frac, 1e-9), room)
        carried = _with_variance(lane, carried, is_last=round_ == rounds)
        pass_s = carrying_step_s(lane, standing, plain_s, carried) - plain_s
        pass_s = np.maximum(pass_s, 1e-12)
        longer_s = beside * np.maximum(pass_s - plain_s, 0.0)
        gap_s = plain_s + longer_s + own * pass_s
        first, following = (
            1.0 - np.exp(-computed * s / gap_s) for s in (plain_s + longer_s, pass_s)
        )
        if round_ < rounds:
            passes = further * first / np.maximum(1.0 - following, LEAST_END_FRAC)
            own = _share_frac(np.maximum(passes, least_frac))
            if lane.curves.shared is not None:
                beside = _beside_frac(lane, others, (plain_s, pass_s, gap_s), further)
    passes = further * first / np.maximum(1.0 - following, LEAST_END_FRAC)
    more = longer_s / pass_s
    carrying_frac = own + more
    return _Chain(
        plain_s + pass_s,
        carrying_frac,
        carried.tokens,
        computed * prompt_tokens / carrying_frac,
        following / np.maximum(1.0 - following, LEAST_END_FRAC) + more,
        np.minimum(passes, 1.0) + more,
    )


def _with_variance(lane: Lane, carried: Carried, *, is_last: bool) -> Carried:
    """How steps differ changes the mean one; the share that carry settles on the mean alone."""
    if not is_last:
        return replace(carried, varied_frac=0.0)
    return with_variance(lane, carried) if lane.curves.shared is None else carried


LEAST_END_FRAC = 0.05
"""Of passes, those that end a row of them at least: more follow each other in no lane that keeps
up."""


def _beside_frac(
    lane: Lane, others: Floats, times: tuple[Floats, Floats, Floats], further: Floats
) -> Floats:
    """Of the steps of a copy, those in which another computes prompts; 0 of one alone; (n,).

    Parameters
    ----------
    others : prompts that come to the other copies in a mean gap between tokens
    times : of a plain step, a pass, and such a gap [s]
    further : steps that a prompt is cut into
    """
    plain_s, pass_s, gap_s = times
    begin = 1.0 - np.exp(-others * plain_s / gap_s)
    again = 1.0 - _none_come(lane, others / gap_s, plain_s, pass_s) / further
    chained = begin / np.maximum(1.0 - again + begin, 1e-12)
    evenly = np.minimum(others * further, 1.0)
    return np.asarray(evenly + lane.step_clumped_frac * (chained - evenly))


def _none_come(lane: Lane, per_s: Floats, plain_s: Floats, long_s: Floats) -> Floats:
    """Chance that no prompt comes during a step that carries some; (n,).

    Parameters
    ----------
    per_s : prompts that come [1/s]
    plain_s, long_s : a step without prompts, and a mean one with them [s]

    Notes
    -----
    Of many copies in step one short prompt makes a short step, which ends a row of them more often
    than the mean one: those steps are gamma distributed, as wide as prompts are.
    """
    expected = per_s * long_s
    if lane.curves.shared is None:
        return np.exp(-expected)
    relative = lane.mix.prompt_sd_tokens / lane.mix.prompt_tokens_mean
    spread = np.maximum(relative * np.maximum(1.0 - plain_s / long_s, 0.0), 1e-3) ** 2
    widely = np.exp(-np.log1p(spread * expected) / spread)
    return np.where(lane.copies > 1.0, widely, np.exp(-expected))


def _share_frac(values: Floats) -> Floats:
    return np.minimum(np.maximum(values, 1e-9), 1.0)


def _steps_of_prompts(prompt_tokens: Floats, room: Floats) -> Floats:
    """Steps over which a prompt is carried, mean of all lengths; 1 where all fit one.

    Parameters
    ----------
    prompt_tokens : (q,) rising lengths, or (q, several, 1) of several loads
    room : (n,) or (several, n)
    """
    found = np.ones(room.shape)
    is_cut = room < prompt_tokens[-1]
    if np.any(is_cut):
        left = room[is_cut]
        lengths = prompt_tokens[:, None]
        if prompt_tokens.ndim > 1:
            shape = (len(prompt_tokens), *room.shape)
            lengths = np.broadcast_to(prompt_tokens, shape)[:, is_cut]
        whole = int((lengths <= left.min()).all(axis=1).sum())  # rising: the first ones fit
        cut = np.ceil(lengths[whole:] / left).sum(axis=0)
        found[is_cut] = (whole + cut) / len(prompt_tokens)
    return found


def pace_and_fuller(lane: Lane, arrivals: Floats) -> tuple[Pace, Floats]:
    """The steady state, and the mean step of a lane that is a deviation fuller; (n,) [s]."""
    both = pace(lane, np.stack([arrivals, fuller_arrivals(lane, arrivals)]))
    return both.at(0), both.step_s[1]


def fuller_arrivals(lane: Lane, arrivals: Floats) -> Floats:
    """Requests per step of a lane that is a deviation of its crowd fuller, or full; (n,)."""
    decoding = np.maximum(arrivals * lane.later_steps, 1e-9)
    return np.minimum(arrivals * (1.0 + np.sqrt(decoding) / decoding), most_arrivals(lane))


def arrivals_at(lane: Lane, requests_per_s: Floats) -> Floats:
    """Requests per mean step of a lane at a rate, at most those of a full one; (n,).

    Parameters
    ----------
    requests_per_s : (n,), or (several, n) of as many loads as the lane has side by side

    Notes
    -----
    Looked for where arrivals are as many as the rate brings in a step, which is nearly a straight
    line in the crowd. A step of copies that wait for each other jumps with the first prompts:
    there it is nearly straight in logarithms.
    """
    most = most_arrivals(lane) + 0.0 * requests_per_s
    at_rest = pace(lane, 0.0 * most).step_s * requests_per_s
    is_alone = lane.curves.shared is None

    def missing(arrivals: Floats) -> Floats:
        brought = requests_per_s * pace(lane, arrivals).step_s
        return arrivals - brought if is_alone else np.log(arrivals / brought)

    over = missing(most)
    least = np.minimum(at_rest, most)
    if is_alone:
        found, *_ = crossing(missing, 0.0 * most, most, -at_rest, over, ROOT_STEPS)
        return np.where(over <= 0.0, most, found)
    found, *_ = crossing(
        lambda at: missing(np.exp(at)),
        np.log(least),
        np.log(most),
        missing(least),
        over,
        SHARED_ROOT_STEPS,
    )
    return np.where(over <= 0.0, most, np.exp(found))


def side_by_side(lane: Lane, mixes: Sequence[Mix]) -> Lane:
    """The lane under several loads at once: what is found of it is (several, n)."""
    cells: dict[str, Any] = {
        f.name: np.array([getattr(mix, f.name) for mix in mixes])[..., None] for f in fields(Mix)
    }
    for name in ("prompt_tokens", "cached_tokens"):
        cells[name] = np.moveaxis(cells[name], 0, 1)
    return replace(lane, mix=Mix(**cells))


def is_roomy(lane: Lane, at: Pace) -> Masks:
    """Places for nearly all crowds, and a step in hand for prompts that come together; (n,)."""
    beyond = CROWD_Z * np.sqrt(lane.crowd_frac * at.decoding_sequences)
    crowd = at.decoding_sequences + beyond + at.arrivals
    return np.asarray(crowd <= np.maximum(lane.places, 1.0))


def roomy_arrivals(lane: Lane) -> Floats:
    """The most requests per step for which a lane is roomy; (n,).

    With a (1 + L) + z sqrt(c L a) = p of L steps a request, c the variance of the crowd and p the
    places: a square in the root of a.
    """
    whole, steps = 1.0 + lane.later_steps, lane.later_steps
    beyond = CROWD_Z * np.sqrt(lane.crowd_frac * steps)
    places = np.maximum(lane.places, 1.0)
    root = (np.sqrt(beyond**2 + 4.0 * whole * places) - beyond) / (2.0 * whole)
    return np.asarray(root**2)
