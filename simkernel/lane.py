"""A lane that holds those who decode and takes in prompts as they come, in a steady state.

One attention group, one pipeline slot. Everything follows from one number, the requests that come
during a mean step: who decodes, the tokens that steps carry, their length, and from it the rate.
Lanes that share experts step together. Its limit of validity is the lane that keeps up: beyond
saturation queues grow without end and only the replay knows how fast.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from simkernel.columns import Column, Floats, Masks
from simkernel.false_position import crossing
from simkernel.serving_engine import Engine
from simkernel.serving_mix import Mix
from simkernel.step_curves import Place, StepCurves
from simkernel.step_parts import LEAST_TO_SPLIT

CROWD_Z = 1.645
"""Deviations of the number in the house, a Poisson one, that a lane must hold: 95% of times."""

ROOT_STEPS, SHARED_ROOT_STEPS = 5, 9
"""In which a rate is found, beside its two ends: 2e-4 of the rate is left at most (tested). Steps
of copies that wait for each other bend where the first prompts come, and take more."""

ROUNDS = 2
"""In which the share of carrying steps settles to below 1%: they lengthen what others wait in."""

LEAST_ARRIVALS = 1e-4
"""Requests per step of a lane that is nearly empty."""


@dataclass(frozen=True)
class Lane:
    """What a lane is made of, one row per candidate.

    Parameters
    ----------
    curves : of its steps
    engine : overheads of the host
    mix : of its requests
    stages : (n,) that a step walks through
    places : (n,) sequences that memory and the engine's limit hold
    held_sequences : (n,) that decode at once when it is full, as `held` has it
    budget_tokens : (n,) tokens in a step, at most
    slower_frac : (n,) or 0: extra time of every step, under a power cap
    clumped_frac : (n,) how requests come to a lane: 1 at random, 0 one by one at even gaps, as
        many lanes get them that are served in turn, or by who has least
    crowd_frac : (n,) variance of the number in a lane, over that of a lane for itself
    queries : (n,) tokens that a decoding sequence brings to a step: its last one and its drafts
    made_tokens, made_sd_tokens : (n,) that it makes in a step: mean and deviation
    copies : (n,) lanes that step together because they share experts: all wait for the longest
    """

    curves: StepCurves
    engine: Engine
    mix: Mix
    stages: Column
    places: Floats
    held_sequences: Floats
    budget_tokens: Floats
    slower_frac: Column = 0.0
    clumped_frac: Column = 1.0
    crowd_frac: Column = 1.0
    queries: Column = 1.0
    made_tokens: Column = 1.0
    made_sd_tokens: Column = 0.0
    copies: Column = 1.0

    @cached_property
    def later_steps(self) -> Column:
        """Steps in which a request makes its tokens after the first, on average.

        The last one may make more than are wanted: half a step's spread of tokens beyond the end
        (Feller II, XI.3, the excess of a renewal process).
        """
        return (self.mix.later_tokens + self.excess_tokens) / self.made_tokens

    @cached_property
    def excess_tokens(self) -> Column:
        """Tokens made beyond the end of an answer, on average."""
        second = self.made_sd_tokens**2 + self.made_tokens**2
        beyond = (second - self.made_tokens) / (2.0 * self.made_tokens)
        return beyond * (self.mix.later_tokens > 0.0)

    @cached_property
    def step_clumped_frac(self) -> Column:
        """How requests come to all that step together: copies get the clumps of each other."""
        return np.minimum(self.clumped_frac * self.copies, 1.0)

    @cached_property
    def busiest_of(self) -> Column:
        """Deviations by which the fullest of the copies exceeds the mean one."""
        return _largest_of(self.copies)

    @cached_property
    def chances(self) -> Column:
        """Copies whose prompts make a step carry: engines that balance them hold theirs back."""
        balanced = np.minimum(self.engine.balanced_frac, 1.0)
        return 1.0 + (self.copies - 1.0) * (1.0 - balanced)


@dataclass(frozen=True)
class Standing:
    """Those who decode in the fullest copy, and what they take beside the layers; (n,) each.

    `mean_tokens` are of all copies alike, for the experts that they share.
    """

    sequences: Floats
    tokens: Floats
    mean_tokens: Floats
    head_s: Floats
    decode_s: Floats

    def __getitem__(self, row: int) -> Standing:
        return Standing(*(getattr(self, f.name)[row] for f in fields(self)))


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
        that carry
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


def held(room_sequences: Floats, most_sequences: Floats) -> Floats:
    """Sequences that decode in a full lane, on average; (n,).

    Parameters
    ----------
    room_sequences : mean ones that memory has room for
    most_sequences : limit of the engine, at which newcomers simply wait

    Notes
    -----
    A lane that memory limits admits until it is full and then throws out whom it cannot let
    grow, to compute them again: what it does beyond a crowd that nearly always fits is lost. Our
    choice of that crowd, n + 1.645 sqrt(n), is within a few per cent of replays from 25 places on.
    """
    root = np.sqrt(np.maximum(room_sequences, 0.0) + CROWD_Z**2 / 4.0) - CROWD_Z / 2.0
    return np.asarray(np.minimum(root**2, most_sequences))


def most_arrivals(lane: Lane) -> Floats:
    """Requests per step at which a lane is full: of places, or of tokens in every step; (n,)."""
    mix, steps = lane.mix, lane.later_steps
    by_tokens = lane.budget_tokens / (mix.prompt_tokens_mean + steps * lane.queries)
    by_places = np.maximum(lane.held_sequences, 1e-3) / np.maximum(steps, 1e-9)
    return np.asarray(np.minimum(by_tokens, by_places))


def pace(lane: Lane, arrivals: Floats) -> Pace:
    """The steady state in which so many requests come to each lane in a mean step.

    Parameters
    ----------
    arrivals : (n,), or (several, n) to see several loads side by side

    Notes
    -----
    With a arrivals per step and O output tokens, a (O - 1) sequences decode (Little 1961) and
    a P prompt tokens are carried per step; where a step makes more than one token of a sequence,
    it stays for fewer. Which steps carry: a step carries what came during
    the one before, Poisson, and a carrying step is longer, so that steps form a chain of two
    states; prompts beyond the token budget go on in the next step, which then carries too. Copies
    that share experts step together: a prompt that comes to any of them makes the step carry.
    """
    prompt_tokens, chance = lane.mix.prompt_tokens_mean, arrivals * lane.chances
    clumped, decoding = lane.step_clumped_frac, arrivals * lane.later_steps
    standing = _standing(lane, decoding)
    room = np.maximum(lane.budget_tokens - standing.tokens, 1.0)
    plain_s = lane_step_s(lane, standing)
    least_frac = arrivals * prompt_tokens / room
    carrying_frac = _share_frac(np.maximum(1.0 - np.exp(-chance), least_frac))
    further = _steps_of_prompts(lane.mix.prompt_tokens, room)
    evenly = np.minimum(chance * further, 1.0)
    for round_ in range(ROUNDS + 1):
        carried = _carried(lane, arrivals, carrying_frac, room)
        long_s = lane_step_s(lane, standing, carried)
        step_s = plain_s + carrying_frac * (long_s - plain_s)
        begin, again = (1.0 - np.exp(-chance * s / step_s) for s in (plain_s, long_s))
        again = 1.0 - (1.0 - again) / further
        if round_ < ROUNDS:
            chained = begin / np.maximum(1.0 - again + begin, 1e-12)
            mixed = evenly + clumped * (chained - evenly)
            carrying_frac = _share_frac(np.maximum(mixed, least_frac))
    crossing = np.minimum(np.maximum(chance * long_s / step_s - 1.0, 0.0), 1.0)
    again_evenly = 1.0 - (1.0 - crossing) / further
    again = again_evenly + clumped * (again - again_evenly)
    begin = carrying_frac * (1.0 - again) / np.maximum(1.0 - carrying_frac, 1e-9)
    return Pace(
        decoding,
        arrivals,
        step_s,
        plain_s,
        long_s,
        carrying_frac,
        carried.tokens,
        carried.mean_tokens,
        again,
        np.minimum(begin, 1.0),
        standing,
    )


def _largest_of(count: Column) -> Column:
    """Deviations by which the largest of some normal values exceeds their mean.

    Notes
    -----
    sqrt(2 ln n) is its limit; 1 - 1 / (ln n + 1.24) of it is our choice, within 1% of the exact
    values from 2 to 128 (0.56, 1.03, 1.42, 1.77, 2.07, 2.34, 2.59; Tippett 1925).
    """
    log = np.log(count)
    return np.asarray(np.sqrt(2.0 * log) * (1.0 - 1.0 / (log + 1.24)))


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


def _standing(lane: Lane, decoding: Floats) -> Standing:
    """What those who decode take; of several copies the fullest has a crowd above the mean."""
    mean_tokens = decoding * lane.queries
    longest, tokens = decoding, mean_tokens
    if lane.curves.shared is not None:
        longest = decoding + lane.busiest_of * np.sqrt(lane.crowd_frac * decoding)
        tokens = longest * lane.queries
    alike, floors = lane.curves.place(longest), lane.curves.floors
    head_s = alike.read(floors.head)
    decode_s = alike.read(floors.decode) * np.minimum(longest, 1.0)
    return Standing(longest, tokens, mean_tokens, head_s, decode_s)


@dataclass(frozen=True)
class Carried:
    """Prompts in a step, of the copy with most: tokens, prompts; mean tokens of all copies."""

    tokens: Floats
    prompts: Floats
    mean_tokens: Floats


def _carried(lane: Lane, arrivals: Floats, carrying_frac: Floats, room: Floats) -> Carried:
    """Prompts of a step that carries any.

    Notes
    -----
    Of C copies over which m prompts are thrown at random C (1 - (1 - 1/C)^m) get any. A router
    that fills the emptiest copy is no better: it fills where answers ended, and they end at
    random. Tokens of a copy are taken as lognormal, and the longest as the largest of so many.
    """
    prompt_tokens = lane.mix.prompt_tokens_mean
    mean_tokens = arrivals * prompt_tokens / carrying_frac
    if lane.curves.shared is None:
        return Carried(mean_tokens, arrivals / carrying_frac, mean_tokens)
    copies = lane.copies
    requests = np.maximum(arrivals * copies / carrying_frac, 1e-9)
    missed = np.exp(requests * np.log1p(-np.minimum(1.0 / copies, 1.0 - 1e-12)))
    met = np.maximum(copies * (1.0 - missed), 1.0)
    each = requests / met
    spread = np.log1p((lane.mix.prompt_sd_tokens / prompt_tokens) ** 2 / each)
    beyond = np.exp(np.sqrt(spread) * _largest_of(met) - 0.5 * spread * (1.0 - 1.0 / met))
    longest = np.minimum(each * prompt_tokens * beyond, room)
    longest = np.where(copies > 1.0, longest, mean_tokens)
    return Carried(longest, longest / prompt_tokens, mean_tokens)


def lane_step_s(lane: Lane, standing: Standing, carried: Carried | None = None) -> Floats:
    """One step: layers of its tokens, head, attention of decodes and prompts, the host."""
    floors, engine = lane.curves.floors, lane.engine
    tokens, sequences, mean_tokens = standing.tokens, standing.sequences, standing.mean_tokens
    prompts_s: Column = 0.0
    if carried is not None:
        tokens, sequences = tokens + carried.tokens, sequences + carried.prompts
        mean_tokens = mean_tokens + carried.mean_tokens
        prompts_s = carried.prompts * floors.prompt_s
    at = lane.curves.place(tokens)
    kernels_s = at.read(floors.layers) + standing.head_s + standing.decode_s + prompts_s
    if lane.curves.shared is not None:
        beside_s = standing.decode_s + prompts_s
        kernels_s = kernels_s + _shared_s(lane.curves, at, tokens, mean_tokens, beside_s)
    host_s = engine.host_s(lane.stages, sequences)
    return np.asarray(kernels_s * (1.0 + lane.slower_frac) + host_s)


def plain_parts(lane: Lane, standing: Standing) -> dict[str, Floats]:
    """What a step without prompts is made of, by name, before a power cap; (n,) each [s]."""
    at = lane.curves.place(standing.tokens)
    parts = {
        "layers": at.read(lane.curves.floors.layers),
        "attention": standing.decode_s,
        "head": standing.head_s,
        "host": np.asarray(lane.engine.host_s(lane.stages, standing.sequences)),
    }
    if lane.curves.shared is not None:
        tokens = standing.tokens
        parts["experts"] = _shared_s(
            lane.curves, at, tokens, standing.mean_tokens, standing.decode_s
        )
    return parts


def _shared_s(
    curves: StepCurves, at: Place, tokens: Floats, mean_tokens: Floats, attention_s: Floats
) -> Floats:
    """Experts over what all copies bring on average, and the exchange of the one with most.

    Two micro-batches hide the exchange of one behind the rest of the other, as far as that
    uses no wire and lies in layers with experts: never more than either takes.
    """
    shared, floors = curves.shared, curves.floors
    if shared is None or floors.experts is None or floors.exchange is None:
        return 0.0 * tokens
    experts_s = curves.place(mean_tokens).read(floors.experts)
    exchange_s = at.read(floors.exchange)
    if floors.covers is None or not np.any(shared.hides_frac):
        return experts_s + exchange_s
    beside_s = experts_s + shared.layers_frac * (at.read(floors.covers) + attention_s)
    hidden_s = shared.hides_frac * np.minimum(exchange_s, beside_s)
    return experts_s + exchange_s - np.where(tokens >= LEAST_TO_SPLIT, hidden_s, 0.0)


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
    cells["prompt_tokens"] = np.moveaxis(cells["prompt_tokens"], 0, 1)
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
