"""A lane that holds those who decode and takes in prompts as they come: what its steps take.

One attention group, one pipeline slot. Lanes that share experts step together.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np

from simkernel.columns import Column, Floats
from simkernel.serving_engine import Engine
from simkernel.serving_mix import Mix
from simkernel.step_curves import Place, StepCurves
from simkernel.step_parts import LEAST_TO_SPLIT


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
    held_sequences : (n,) that decode at once when it is full, as `full_lane.held` has it
    thrown_frac : (n,) times that a full lane puts a request back, as `full_lane.thrown` has it
    budget_tokens : (n,) tokens in a step, at most
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
    thrown_frac: Floats
    budget_tokens: Floats
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
        """How requests come to all that step together: to copies of a group at random.

        However evenly a router fills lanes, it fills where answers ended, and they end at random.
        """
        return np.where(self.copies > 1.0, 1.0, self.clumped_frac)

    @cached_property
    def nobody(self) -> Standing:
        """No one who decodes: what a pass of prompts alone stands on."""
        return standing_of(self, np.zeros(len(self.places)))

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

    `mean_tokens` are of all copies alike, for the experts that they share; `kernels_s` all that
    a step of them alone takes on the device.
    """

    sequences: Floats
    tokens: Floats
    mean_tokens: Floats
    head_s: Floats
    decode_s: Floats
    kernels_s: Floats

    def __getitem__(self, row: int) -> Standing:
        return Standing(*(getattr(self, f.name)[row] for f in fields(self)))


@dataclass(frozen=True)
class Carried:
    """Prompts in a step, of the copy with most: tokens, prompts; mean tokens of all copies.

    `varied_frac` is the variance of the logarithm of the tokens, from step to step.
    """

    tokens: Floats
    prompts: Floats
    mean_tokens: Floats
    varied_frac: Column = 0.0


def _largest_of(count: Column) -> Column:
    """Deviations by which the largest of some normal values exceeds their mean.

    Notes
    -----
    sqrt(2 ln n) is its limit; 1 - 1 / (ln n + 1.24) of it is our choice, within 1% of the exact
    values from 2 to 128 (0.56, 1.03, 1.42, 1.77, 2.07, 2.34, 2.59; Tippett 1925).
    """
    log = np.log(count)
    return np.asarray(np.sqrt(2.0 * log) * (1.0 - 1.0 / (log + 1.24)))


def standing_of(lane: Lane, sequences: Floats) -> Standing:
    """What those who decode take; of several copies the fullest has a crowd above the mean."""
    mean_tokens = sequences * lane.queries
    longest, tokens = sequences, mean_tokens
    if lane.curves.shared is not None:
        longest = sequences + lane.busiest_of * np.sqrt(lane.crowd_frac * sequences)
        tokens = longest * lane.queries
    alike, floors = lane.curves.place(longest), lane.curves.floors
    head_s = alike.read(floors.head)
    decode_s = alike.read(floors.decode) * np.minimum(longest, 1.0)
    alone = Standing(longest, tokens, mean_tokens, head_s, decode_s, head_s)
    return replace(alone, kernels_s=_kernels_s(lane, alone, tokens, mean_tokens))


def carried_by(
    lane: Lane, arrivals: Floats, carrying_frac: Floats, room_tokens: Floats
) -> Carried:
    """Prompts of a step that carries any.

    Notes
    -----
    Of C copies over which m prompts are thrown at random C (1 - (1 - 1/C)^m) get any, and each of
    these a Poisson number of them that is not 0. A router that fills the emptiest copy is no
    better: it fills where answers ended, and they end at random. Tokens of a copy are taken as
    lognormal, and so are those of the copy with most, as the largest of so many; what the budget
    does not hold waits. m varies too, and the longest grows with its root or a little less.
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
    relative = (lane.mix.prompt_sd_tokens / prompt_tokens) ** 2
    spread = np.log1p((relative + np.maximum(1.0 + requests / copies - each, 0.0)) / each)
    varies = _largest_variance(met)
    beyond = np.exp(np.sqrt(spread) * _largest_of(met) - 0.5 * spread * (1.0 - varies))
    fewer = 1.0 - ROOT_FRAC * (1.0 - ROOT_FRAC) / 2.0 / np.maximum(requests, 1.0)
    longest = each * prompt_tokens * beyond * fewer
    longest = _held_of(longest, spread * varies, room_tokens)
    longest = np.where(copies > 1.0, longest, mean_tokens)
    return Carried(longest, longest / prompt_tokens, mean_tokens, spread * varies)


def with_variance(lane: Lane, carried: Carried) -> Carried:
    """The same, of several prompts of any length in a lane alone: steps differ by so much."""
    relative = (lane.mix.prompt_sd_tokens / lane.mix.prompt_tokens_mean) ** 2
    each = (relative + _counted_variance(carried.prompts)) / np.maximum(carried.prompts, 1.0)
    return replace(carried, varied_frac=np.log1p(each))


def _counted_variance(mean: Floats) -> Floats:
    """Variance of a Poisson number that is not 0, over its mean.

    Notes
    -----
    Exactly 1 + l - m where m = l / (1 - exp(-l)); the form without l is our choice, within 0.05.
    """
    more = np.maximum(mean - 1.0, 0.0)
    return np.asarray(1.0 - 1.0 / (1.0 + more + 0.5 * more * more))


ROOT_FRAC = 0.4
"""Power of the number of prompts with which the longest copy grows; our choice."""


def _largest_variance(count: Column) -> Column:
    """Variance of the largest of some standard normal values.

    Notes
    -----
    1 / (1 + 0.9 ln n) is our choice, within 0.07 of the exact values from 1 to 64 (1, 0.68, 0.49,
    0.37, 0.30, 0.24, 0.21; Tippett 1925).
    """
    return np.asarray(1.0 / (1.0 + 0.9 * np.log(count)))


LOGISTIC = 1.702
"""Of the logistic distribution that stands for the normal one (Bowling et al. 2009)."""


def _held_of(mean: Column, log_variance: Column, room: Column) -> Floats:
    """Mean of a lognormal number cut off at a room; the normal distribution as a logistic one.

    References
    ----------
    Bowling et al., J. Ind. Eng. Manag. 2(1), 2009: 1 / (1 + exp(-1.702 z)), within 0.01.
    """
    deviation = np.sqrt(np.maximum(log_variance, 1e-12))
    place = np.minimum(np.maximum(np.log(room / mean) / deviation, -20.0), 20.0)
    odds, half = np.exp(LOGISTIC * place), np.exp(0.5 * LOGISTIC * deviation)
    below, above = odds / (odds + half), 1.0 / (1.0 + odds * half)
    return np.minimum(mean * below + room * above, np.minimum(mean, room))


def lane_step_s(lane: Lane, standing: Standing, carried: Carried | None = None) -> Floats:
    """One step: layers of its tokens, head, attention of decodes and prompts, the host."""
    sequences, kernels_s = standing.sequences, standing.kernels_s
    if carried is not None:
        sequences = sequences + carried.prompts
        kernels_s = _kernels_s(
            lane,
            standing,
            standing.tokens + carried.tokens,
            standing.mean_tokens + carried.mean_tokens,
            carried.prompts * lane.curves.floors.prompt_s,
        )
        kernels_s = _launched_s(lane, standing.kernels_s, carried, kernels_s)
    return np.asarray(kernels_s + lane.engine.host_s(lane.stages, sequences))


def _kernels_s(
    lane: Lane, standing: Standing, tokens: Floats, mean_tokens: Floats, prompts_s: Column = 0.0
) -> Floats:
    """What a step of some tokens takes on the device, attention of its prompts given."""
    at = lane.curves.place(tokens)
    beside_s = standing.decode_s + prompts_s
    found_s = at.read(lane.curves.floors.layers) + standing.head_s + beside_s
    if lane.curves.shared is not None:
        found_s = found_s + _shared_s(lane.curves, at, tokens, mean_tokens, beside_s)
    return np.asarray(found_s)


def _launched_s(lane: Lane, alone_s: Floats, carried: Carried, kernels_s: Floats) -> Floats:
    """Mean over steps with prompts of the longer of kernels and the launches of the host.

    Parameters
    ----------
    alone_s, kernels_s : without prompts, and with the mean tokens of `carried` [s]

    Notes
    -----
    The mean of the longer is more than the longer of the means: steps with few tokens wait for
    their launches, those with many do not make up for it. Between no tokens and the mean ones,
    and beyond, kernels are taken as a straight line.
    """
    launch_s = lane.curves.floors.launch_s * (carried.prompts > 0.0)
    is_sharp = not isinstance(carried.varied_frac, np.ndarray)
    if is_sharp or not np.any(launch_s > alone_s):
        return np.maximum(kernels_s, launch_s)
    more_s = np.maximum(kernels_s - alone_s, 1e-12)
    covered_frac = np.maximum(launch_s - alone_s, 0.0) / more_s  # of the mean tokens
    beyond_frac = 1.0 - _held_of(1.0, carried.varied_frac, np.maximum(covered_frac, 1e-6))
    return np.maximum(kernels_s, launch_s + more_s * beyond_frac * (covered_frac > 0.0))


def plain_parts(lane: Lane, standing: Standing) -> dict[str, Floats]:
    """What a step without prompts is made of, by name; (n,) each [s]."""
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


def carrying_step_s(lane: Lane, standing: Standing, plain_s: Floats, carried: Carried) -> Floats:
    """A step with prompts; where an engine stops decoding for them, a step and a pass apart.

    Parameters
    ----------
    standing, plain_s : those who decode, and a step of them alone [s]
    carried : prompts that come along

    Notes
    -----
    Copies that step together have one pass at a time, no shorter than a step of those who decode.
    """
    mixed_frac = lane.engine.mixed_frac
    if np.all(np.asarray(mixed_frac) >= 1.0):
        return lane_step_s(lane, standing, carried)
    passes = np.maximum(carried.tokens / lane.budget_tokens + 0.5, 1.0)  # a mean over remainders
    if lane.curves.shared is not None:
        passes = np.where(lane.copies > 1.0, 1.0, passes)
    nobody = lane.nobody
    held = Carried(
        carried.tokens / passes,
        carried.prompts / passes,
        carried.mean_tokens / passes,
        carried.varied_frac,
    )
    if lane.curves.shared is not None:
        mean_tokens = np.where(lane.copies > 1.0, standing.mean_tokens, 0.0)
        alone_s = _kernels_s(lane, nobody, nobody.tokens, mean_tokens)
        nobody = replace(nobody, mean_tokens=mean_tokens, kernels_s=alone_s)
    pass_s = passes * lane_step_s(lane, nobody, held)
    if lane.curves.shared is not None:
        pass_s = np.where(lane.copies > 1.0, np.maximum(pass_s, plain_s), pass_s)
    found_s = plain_s + pass_s
    if np.any(np.asarray(mixed_frac) > 0.0):
        mixed_s = lane_step_s(lane, standing, carried)
        found_s = mixed_frac * mixed_s + (1.0 - mixed_frac) * found_s
    return np.asarray(found_s)
