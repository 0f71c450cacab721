"""Closed form of a replica to which requests come at their own times, at a steady rate.

A lane (one attention group, one pipeline slot) holds those who decode and takes in prompts as
they come. Everything follows from one number, the requests that come during a mean step: who
decodes, the tokens that steps carry, their length, and from it the rate. Percentiles are of the
first two moments. Its limit of validity is the lane that keeps up: beyond saturation queues grow
without end and only the replay knows how fast.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from simkernel.columns import Column, Floats, Masks
from simkernel.serving_engine import Engine
from simkernel.serving_mix import Mix
from simkernel.step_curves import FLOOR, StepCurves
from simkernel.workload import percentile_frac

CROWD_Z = 1.645
"""Deviations of the number in the house, a Poisson one, that a lane must hold: 95% of times."""

ROOT_STEPS = 9
"""In which a rate is found: 2e-4 of the rate is left, in most lanes 1e-7 (tested)."""

ROUNDS = 2
"""In which the share of carrying steps settles to below 1%: they lengthen what others wait in."""

MOST_BENT_FRAC = 0.9
"""Of a step, the share that is taken to grow with the crowd at most: beyond, a lane has no steady
state and the deviation no end."""

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
    thrown_frac : (n,) times that a request of a full lane is put back, as `thrown` has it
    budget_tokens : (n,) tokens in a step, at most
    slower_frac : (n,) or 0: extra time of every step, under a power cap
    clumped_frac : (n,) how requests come to a lane: 1 at random, 0 one by one at even gaps, as
        many lanes get them that are served in turn, or by who has least
    crowd_frac : (n,) variance of the number in a lane, over that of a lane for itself
    """

    curves: StepCurves
    engine: Engine
    mix: Mix
    stages: Column
    places: Floats
    held_sequences: Floats
    thrown_frac: Floats
    budget_tokens: Floats
    slower_frac: Column = 0.0
    clumped_frac: Column = 1.0
    crowd_frac: Column = 1.0


@dataclass(frozen=True)
class Pace:
    """Steps of a lane in a steady state; (n,) each.

    Parameters
    ----------
    decoding_sequences : that decode at once
    arrivals : requests that come in a mean step
    step_s, plain_s, carrying_s : mean step; one without prompts, one with them [s]
    carrying_frac : of the steps, those with prompts
    carried_tokens : of prompts in such a step
    again_frac, begin_frac : of the steps after one that carries, and after a plain one, those
        that carry
    prompts_s : attention of one prompt [s]
    """

    decoding_sequences: Floats
    arrivals: Floats
    step_s: Floats
    plain_s: Floats
    carrying_s: Floats
    carrying_frac: Floats
    carried_tokens: Floats
    again_frac: Floats
    begin_frac: Floats
    prompts_s: Floats

    @property
    def requests_per_s(self) -> Floats:
        """Rate at which requests come and go."""
        return self.arrivals / self.step_s


@dataclass(frozen=True)
class Spread:
    """A latency by its first two moments; `constant_s` is the same for every request."""

    mean_s: Floats
    sd_s: Floats
    constant_s: Column = 0.0

    def at(self, statistic: str) -> Floats:
        """The mean, or a percentile such as "p95", of a lognormal of these moments; (n,) [s]."""
        if statistic == "mean":
            return np.asarray(self.mean_s + self.constant_s)
        frac = percentile_frac(statistic)
        relative = (self.sd_s / np.maximum(self.mean_s, 1e-12)) ** 2
        sigma = np.sqrt(np.log1p(relative))
        median_s = self.mean_s / np.sqrt(1.0 + relative)
        return np.asarray(median_s * np.exp(NormalDist().inv_cdf(frac) * sigma) + self.constant_s)


def most_arrivals(lane: Lane) -> Floats:
    """Requests per step at which a lane is full: of places, or of tokens in every step; (n,)."""
    return np.minimum(*_most_by(lane))


def _most_by(lane: Lane) -> tuple[Floats, Floats]:
    """Requests per step that fill its tokens, and that fill its places; (n,) each."""
    mix = lane.mix
    by_tokens = lane.budget_tokens / (mix.prompt_tokens_mean + mix.later_tokens)
    by_places = np.maximum(lane.held_sequences, 1e-3) / max(mix.later_tokens, 1e-9)
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
    """The steady state in which so many requests come in a mean step.

    Parameters
    ----------
    arrivals : (n,) requests in a mean step
    again_frac : (n,) prompts computed again, per request

    Notes
    -----
    With a arrivals per step and O output tokens, a (O - 1) sequences decode (Little 1961) and
    a P prompt tokens are carried per step. Which steps carry: a step carries what came during
    the one before, Poisson, and a carrying step is longer, so that steps form a chain of two
    states; prompts beyond the token budget go on in the next step, which then carries too.
    """
    mix, computed = lane.mix, arrivals * (1.0 + again_frac)
    decoding = arrivals * mix.later_tokens
    room = np.maximum(lane.budget_tokens - decoding, 1.0)
    plain_s = _step_s(lane, decoding, 0.0 * arrivals, 0.0 * arrivals, decoding)
    prompt_s = lane.curves.prompts_s[FLOOR].mean(axis=1)[lane.curves.layout]
    least_frac = computed * mix.prompt_tokens_mean / room
    carrying_frac = np.clip(np.maximum(1.0 - np.exp(-computed), least_frac), 1e-9, 1.0)
    further = np.ceil(mix.prompt_tokens[:, None] / room).mean(axis=0)
    for round_ in range(ROUNDS + 1):
        carried = computed * mix.prompt_tokens_mean / carrying_frac
        each = computed / carrying_frac
        long_s = _carrying_s(lane, decoding, carried, each, prompt_s)
        step_s = plain_s + carrying_frac * (long_s - plain_s)
        chain = _chain(lane, computed, (plain_s, long_s, step_s), further)
        if round_ < ROUNDS:
            carrying_frac = np.clip(np.maximum(chain[0], least_frac), 1e-9, 1.0)
    _, again, begin = chain
    return Pace(
        decoding,
        arrivals,
        step_s,
        plain_s,
        long_s,
        carrying_frac,
        carried,
        again,
        np.minimum(begin, 1.0),
        prompt_s,
    )


def _chain(
    lane: Lane, computed: Floats, times: tuple[Floats, Floats, Floats], further: Floats
) -> tuple[Floats, Floats, Floats]:
    """Share of steps that carry, and of those after one that does, and after a plain one; (n,).

    Parameters
    ----------
    computed : prompts in a mean step
    times : plain, carrying and mean step [s]
    further : steps that a prompt is cut into

    Notes
    -----
    Where decoding stops for prompts, passes follow a step, and each other, as long as requests
    come meanwhile: then the figures are passes after a mean step, and after a pass.
    """
    plain_s, long_s, step_s = times
    begin, again = (1.0 - np.exp(-computed * s / step_s) for s in (plain_s, long_s))
    again = 1.0 - (1.0 - again) / further
    evenly = np.minimum(computed * further, 1.0)
    chained = begin / np.maximum(1.0 - again + begin, 1e-12)
    carrying = evenly + lane.clumped_frac * (chained - evenly)
    crossing = np.clip(computed * long_s / step_s - 1.0, 0.0, 1.0)
    again_evenly = 1.0 - (1.0 - crossing) / further
    again = again_evenly + lane.clumped_frac * (again - again_evenly)
    begin = carrying * (1.0 - again) / np.maximum(1.0 - carrying, 1e-9)
    if not lane.engine.is_stopped_by_prompts:
        return carrying, again, begin
    pass_s = np.maximum(long_s - plain_s, 0.0)
    first, next_ = (1.0 - np.exp(-computed * s / step_s) for s in (plain_s, pass_s))
    passes = first / np.maximum(1.0 - next_, 0.05)
    return passes, next_ / np.maximum(1.0 - next_, 0.05), passes


def _carrying_s(
    lane: Lane, decoding: Floats, carried: Floats, prompts: Floats, prompt_s: Column
) -> Floats:
    """A step with prompts; where an engine stops decoding for them, a step and a pass apart."""
    mixed_frac = lane.engine.mixed_frac
    mixed_s = _step_s(lane, decoding, carried, prompts, decoding + carried, prompt_s)
    if np.all(np.asarray(mixed_frac) >= 1.0):
        return mixed_s
    nobody = 0.0 * decoding
    plain_s = _step_s(lane, decoding, nobody, nobody, decoding)
    passes = np.maximum(carried / lane.budget_tokens + 0.5, 1.0)  # a mean over random remainders
    held = carried / passes
    one_s = _step_s(lane, nobody, held, prompts / passes, held, prompt_s)
    apart_s = plain_s + passes * one_s
    return np.asarray(mixed_frac * mixed_s + (1.0 - mixed_frac) * apart_s)


def _step_s(
    lane: Lane,
    decoding: Floats,
    prompt_tokens: Floats,
    prompts: Floats,
    tokens: Floats,
    prompt_s: Column = 0.0,
) -> Floats:
    """One step: layers of its tokens, head, attention of decodes and prompts, the host."""
    curves, engine = lane.curves, lane.engine
    rows = decoding + prompts
    layers_s = curves.floor_of(curves.layers_s, tokens)
    alike = curves.place(decoding)
    head_s = alike.read(curves.head_s[FLOOR].ravel())
    decode_s = alike.read(curves.decode_s[FLOOR].ravel()) * np.minimum(decoding, 1.0)
    kernels_s = layers_s + head_s + decode_s + prompts * prompt_s
    kernels_s = np.maximum(kernels_s, curves.launch_s[curves.layout] * (prompts > 0.0))
    host_s = engine.host_s(lane.stages, rows)
    return np.asarray(kernels_s * (1.0 + lane.slower_frac) + host_s)


def latencies(lane: Lane, at: Pace) -> dict[str, Spread]:
    """Every latency of a lane by name."""
    first, later = ttft(lane, at), tpot(lane, at)
    return {"ttft_s": first, "tpot_s": later, "e2e_s": e2e(lane, first, later)}


def tpot(lane: Lane, at: Pace) -> Spread:
    """Mean time between the later tokens of a request, over requests.

    Notes
    -----
    The crowd moves slowly: a request sees a lane that is a deviation fuller, or emptier, for its
    whole answer. A fuller lane is slower and fills further, which widens the crowd by the share
    of a step that grows with it. Carrying steps come fast and average out over an answer. Its
    first later tokens come after a carrying step, its own, and meet more of them than the mean
    token does: short answers suffer most.
    """
    crowd = np.sqrt(np.maximum(at.decoding_sequences, 1e-9))
    fuller = at.arrivals * (1.0 + crowd / np.maximum(at.decoding_sequences, 1e-9))
    slope_s = pace(lane, np.minimum(fuller, most_arrivals(lane))).step_s - at.step_s
    bent = np.clip(slope_s * crowd / at.step_s, 0.0, MOST_BENT_FRAC)
    slow_s = slope_s * np.sqrt(lane.crowd_frac / (1.0 - bent))
    crowded_s = _crowded_s(lane, at, crowd)
    fast = at.carrying_frac * (1.0 - at.carrying_frac) * (at.carrying_s - at.plain_s) ** 2
    kept = np.minimum(at.again_frac - at.begin_frac, 0.999)
    if lane.engine.is_stopped_by_prompts:
        # Passes between two steps are geometric in number, and those of other gaps know nothing.
        count = at.carrying_frac * (1.0 + 2.0 * at.again_frac) - at.carrying_frac**2
        fast, kept = count * (at.carrying_s - at.plain_s) ** 2, np.minimum(kept, 0.6)
    more_s = (at.carrying_s - at.plain_s) * (at.again_frac - at.carrying_frac) / (1.0 - kept)
    mean_s = at.step_s + crowded_s + np.maximum(more_s, 0.0) * lane.mix.answer_share_frac
    fast = fast * (1.0 + kept) / (1.0 - kept)
    return Spread(mean_s, np.sqrt(slow_s**2 + fast * lane.mix.answer_share_frac))


def _crowded_s(lane: Lane, at: Pace, crowd: Floats) -> Floats:
    """What a token waits beyond the mean step, because most tokens are made in full steps; (n,).

    Parameters
    ----------
    crowd : deviation of the number that decodes, a Poisson one

    Notes
    -----
    Tokens see a step weighted by its crowd: longer than the mean one by the slope of a step in
    its crowd times variance over mean. Longer steps fill the lane further, once for the variance
    and once for the mean (Little 1961).
    """
    nobody, fuller = 0.0 * at.arrivals, at.decoding_sequences + crowd
    more_s = _step_s(lane, fuller, nobody, nobody, fuller) - at.plain_s
    prompts = np.minimum(at.carrying_frac * (at.carrying_s - at.plain_s) / at.step_s, 0.95)
    slope_s = more_s / (1.0 - prompts)
    bent = np.clip(slope_s * crowd / at.step_s, 0.0, MOST_BENT_FRAC)
    return np.asarray(slope_s / crowd * lane.crowd_frac / (1.0 - bent) ** 2)


def ttft(lane: Lane, at: Pace) -> Spread:
    """Time from arrival to the end of the step that makes the first token.

    Notes
    -----
    A request finds a step under way (longer ones more often: inspection), waits for its rest,
    and shares the next step with whoever else came during that step. What the token budget does
    not hold goes on in full steps.
    """
    mix, engine = lane.mix, lane.engine
    rate, found = at.requests_per_s, _step_found(lane, at)
    others = _come_with(lane, at, found)
    least = float(mix.prompt_tokens[0])
    least_s = _first_step_s(lane, at, 0.0 * others, least) + engine.prompt_token_s * least
    queue = _budget_queue(lane, at)
    mean_s = sum(ttft_parts(lane, at).values()) - engine.request_s
    token_s = _token_s(lane, at)
    own = (token_s + engine.prompt_token_s) * mix.prompt_sd_tokens
    each = token_s**2 * others * (mix.prompt_sd_tokens**2 + mix.prompt_tokens_mean**2)
    rest = (found.sd_s**2 + found.mean_s**2) / 3.0 - found.mean_s**2 / 4.0
    follow = lane.clumped_frac * token_s * rate * mix.prompt_tokens_mean
    variance = own**2 + each + rest + (follow**2 + follow) * found.sd_s**2 + queue.sd_s**2
    above_s = np.maximum(mean_s - least_s, 1e-9)
    return Spread(np.asarray(above_s), np.sqrt(variance), engine.request_s + least_s)


def ttft_parts(lane: Lane, at: Pace) -> dict[str, Floats]:
    """What the mean time to first token is made of, by name; (n,) each [s]."""
    mix, engine, found = lane.mix, lane.engine, _step_found(lane, at)
    others = _come_with(lane, at, found)
    whole_s = _first_step_s(lane, at, others, mix.prompt_tokens_mean)
    own_s = _first_step_s(lane, at, 0.0 * others, mix.prompt_tokens_mean)
    host_s = engine.request_s + engine.prompt_token_s * mix.prompt_tokens_mean
    return {
        "request": host_s + 0.0 * own_s,
        "step_under_way": 0.5 * found.mean_s,
        "full_budgets_before": _budget_queue(lane, at).mean_s,
        "own_step": own_s,
        "others_in_own_step": whole_s - own_s,
    }


def _come_with(lane: Lane, at: Pace, found: Spread) -> Floats:
    """Other requests that come while the step that a request finds runs."""
    expected = at.requests_per_s * found.mean_s
    alone = np.maximum(expected - 1.0, 0.0)
    return np.asarray(alone + lane.clumped_frac * (expected - alone))


def _step_found(lane: Lane, at: Pace) -> Spread:
    """The step that a request finds under way, whole: longer ones are found more often.

    Its moments are the second and third of all steps over the mean; those that carry prompts are
    taken as lognormal. Requests that come one by one at even gaps find a plain step, unless the
    one before them is carried for longer than a gap.

    References
    ----------
    Feller II (1971), I.4: the inspection paradox.
    """
    frac, decoding_too = at.carrying_frac, lane.engine.mixed_frac
    alone_s = at.carrying_s - at.plain_s * (1.0 - decoding_too)
    relative = (_carried_sd_tokens(lane, at) * _token_s(lane, at) / alone_s) ** 2
    plain_frac = 1.0 - frac * decoding_too
    second = plain_frac * at.plain_s**2 + frac * alone_s**2 * (1.0 + relative)
    third = plain_frac * at.plain_s**3 + frac * (alone_s * (1.0 + relative)) ** 3
    mean_s = second / at.step_s
    sd_s = np.sqrt(np.maximum(third / at.step_s - mean_s**2, 0.0))
    crossing = np.clip(at.requests_per_s * at.carrying_s - 1.0, 0.0, 1.0)
    evenly_s = at.plain_s + crossing * (at.carrying_s - at.plain_s)
    clumped = lane.clumped_frac
    return Spread(evenly_s + clumped * (mean_s - evenly_s), clumped * sd_s)


def _budget_queue(lane: Lane, at: Pace) -> Spread:
    """Wait for steps that the token budget has filled with prompts of others before.

    What stands in the step under way is counted there: here is the rest of a queue whose server
    takes a budget of tokens per step. Prompts that are small beside the budget go together in
    one step and do not queue: the square of the size of the prompt ahead, over the budget, is our
    choice between the two.

    References
    ----------
    Pollaczek and Khinchine, the first two moments of the wait in M/G/1; Kingman (1961) for gaps
    that vary less.
    """
    mix, rate = lane.mix, at.requests_per_s
    room = np.maximum(lane.budget_tokens - at.decoding_sequences, 1.0)
    full_s = at.plain_s * lane.engine.mixed_frac + _token_s(lane, at) * room
    busy = np.minimum(rate * full_s * mix.prompt_tokens_mean / room, 0.98)
    relative = (mix.prompt_sd_tokens / mix.prompt_tokens_mean) ** 2
    served_s = full_s * mix.prompt_tokens_mean / room
    rest_s = rate * served_s**2 * (lane.clumped_frac + relative) / 2.0
    alone = np.minimum(mix.prompt_tokens_mean * (1.0 + relative) / room, 1.0) ** 2
    more_s = rest_s * busy / (1.0 - busy) * alone
    third = rate * (served_s * (1.0 + relative)) ** 3 / (3.0 * (1.0 - busy))
    return Spread(more_s, np.sqrt(more_s**2 + third * busy * alone))


def _token_s(lane: Lane, at: Pace) -> Floats:
    """Time that one more prompt token adds to a carrying step."""
    return (at.carrying_s - at.plain_s) / np.maximum(at.carried_tokens, 1.0)


def _carried_sd_tokens(lane: Lane, at: Pace) -> Floats:
    """Deviation of the tokens that a carrying step carries: of several prompts, of any length.

    The number of prompts is Poisson and at least one.
    """
    mix, each = lane.mix, at.arrivals / at.carrying_frac
    rate = each - 1.0 + np.exp(-each)
    for _ in range(2):
        rate = each * (1.0 - np.exp(-np.maximum(rate, 1e-9)))
    spread = np.maximum(each * (1.0 + rate - each), 0.0)
    sd = np.sqrt(each * mix.prompt_sd_tokens**2 + spread * mix.prompt_tokens_mean**2)
    return np.minimum(sd, lane.budget_tokens)


def _first_step_s(lane: Lane, at: Pace, others: Floats, prompt_tokens: float) -> Floats:
    """The steps that carry a prompt and those who came with it."""
    room = np.maximum(lane.budget_tokens - at.decoding_sequences, 1.0)
    whole = prompt_tokens + others * lane.mix.prompt_tokens_mean
    held = np.minimum(whole, room)
    ahead = prompt_tokens + 0.5 * others * lane.mix.prompt_tokens_mean
    prompts = (1.0 + others) * held / whole
    one_s = _carrying_s(lane, at.decoding_sequences, held, prompts, at.prompts_s)
    one_s = one_s - at.plain_s * (1.0 - lane.engine.mixed_frac)
    return np.asarray(one_s * np.maximum(ahead / room, 1.0))


def e2e(lane: Lane, first: Spread, later: Spread) -> Spread:
    """Time from arrival to the last token, over requests."""
    mix = lane.mix
    variance = first.sd_s**2 + (later.mean_s * mix.output_sd_tokens) ** 2
    variance = variance + (mix.later_tokens * later.sd_s) ** 2
    return Spread(
        first.mean_s + later.mean_s * mix.later_tokens, np.sqrt(variance), first.constant_s
    )


def arrivals_at(lane: Lane, requests_per_s: Floats) -> Floats:
    """Requests per mean step of a lane at a rate, at most those of a full one; (n,).

    References
    ----------
    Dowell and Jarratt, BIT 11 (1971) 168: false position that halves the end that stays.
    """
    low, high = 0.0 * requests_per_s, most_arrivals(lane)
    under = -requests_per_s
    over = pace(lane, high).requests_per_s - requests_per_s
    is_beyond = over <= 0.0
    over = np.maximum(over, 1e-12)
    kept = np.zeros(len(high))
    for _ in range(ROOT_STEPS):
        middle = high - over * (high - low) / (over - under)
        found = pace(lane, middle).requests_per_s - requests_per_s
        is_over = found > 0.0
        under = np.where(is_over & (kept > 0.0), 0.5 * under, under)
        over = np.where(~is_over & (kept < 0.0), 0.5 * over, over)
        low, under = np.where(is_over, low, middle), np.where(is_over, under, found)
        high, over = np.where(is_over, middle, high), np.where(is_over, found, over)
        kept = np.where(is_over, 1.0, -1.0)
    return np.where(is_beyond, most_arrivals(lane), middle)


def is_roomy(lane: Lane, at: Pace) -> Masks:
    """Places for nearly all crowds, and a step in hand for prompts that come together; (n,)."""
    beyond = CROWD_Z * np.sqrt(lane.crowd_frac * at.decoding_sequences)
    crowd = at.decoding_sequences + beyond + at.arrivals
    return np.asarray(crowd <= np.maximum(lane.places, 1.0))
