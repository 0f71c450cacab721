"""Latencies of a replica to which requests come at their own times, at a steady rate.

Read off the steady state of its lanes, `simkernel.lane`; percentiles are of the first two moments.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from simkernel.columns import Column, Floats
from simkernel.lane import LOGISTIC, Carried, Lane, carrying_step_s, lane_step_s, standing_of
from simkernel.lane_pace import Pace, fuller_arrivals, pace
from simkernel.workload import percentile_frac

MOST_BENT_FRAC = 0.9
"""Of a step, the share that is taken to grow with the crowd at most: beyond, a lane has no steady
state and the deviation no end."""

MOST_TAKEN_FRAC = 0.95
"""Of its time that a lane spends on prompts at most: in one that does nothing else none decode."""


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


def latencies(lane: Lane, at: Pace, fuller_step_s: Floats | None = None) -> dict[str, Spread]:
    """Every latency of a lane by name; `fuller_step_s` where it is known."""
    first, later = ttft(lane, at), tpot(lane, at, fuller_step_s)
    return {"ttft_s": first, "tpot_s": later, "e2e_s": e2e(lane, first, later)}


def tpot(lane: Lane, at: Pace, fuller_step_s: Floats | None = None) -> Spread:
    """Mean time between the later tokens of a request, over requests.

    Notes
    -----
    The crowd moves slowly: a request sees a lane that is a deviation fuller, or emptier, for its
    whole answer. A fuller lane is slower and fills further, which widens the crowd by the share
    of a step that grows with it. Prompts come fast and average out over an answer.
    """
    crowd = np.sqrt(np.maximum(at.decoding_sequences, 1e-9))
    if fuller_step_s is None:
        fuller_step_s = pace(lane, fuller_arrivals(lane, at.arrivals)).step_s
    slope_s = fuller_step_s - at.step_s
    bent = np.minimum(np.maximum(slope_s * crowd / at.step_s, 0.0), MOST_BENT_FRAC)
    slow_s = slope_s * np.sqrt(lane.crowd_frac / (1.0 - bent))
    share = np.minimum(lane.mix.answer_share_frac * lane.made_tokens, 1.0)
    more_s, variance = _prompts_met(lane, at, share)
    mean_s = at.step_s + _crowded_s(lane, at, crowd) + more_s
    return _by_token(lane, mean_s, slow_s**2 + variance)


def _prompts_met(lane: Lane, at: Pace, share: Column) -> tuple[Floats, Floats]:
    """What prompts of others add to the mean step of an answer, and its variance; (n,) each.

    Parameters
    ----------
    share : mean of one over the steps of an answer

    Notes
    -----
    An answer of n steps takes T = n plain + W(T), of the prompts that come to its lane meanwhile.
    Those are a cumulative process: W varies by T times the rate of prompts times (var S + c m^2),
    S what one takes, m its mean, c how clumped they come; solved for T by 1 / (1 - r)^2 as much, r
    the share of time that prompts take. What came during the step of the own prompt is met beside
    that, r / (1 - r) of that step, and spoils short answers most. A router that fills the emptiest
    lane sends less to one that is held up: a third of r is left then, our choice.

    References
    ----------
    Cox (1962), Renewal Theory, 8: cumulative processes.
    """
    mix, clumped, token_s = lane.mix, lane.clumped_frac, _token_s(lane, at)
    longer_s, taken = at.carrying_s - at.plain_s, _taken_frac(at)
    sd_s = _carried_sd_tokens(lane, at) * token_s
    own_s = at.carrying_s + sd_s**2 / np.maximum(longer_s, 1e-12)
    more_s = clumped * own_s * taken / (1.0 - taken) * share
    held_up = taken * (1.0 + 2.0 * np.minimum(2.0 * lane.crowd_frac, 1.0)) / 3.0
    each = token_s**2 * (mix.prompt_sd_tokens**2 + clumped * mix.prompt_tokens_mean**2)
    by_step = at.arrivals * each / (1.0 - held_up) ** 2
    variance = by_step * share * (1.0 + clumped * share * own_s / at.step_s)
    if lane.curves.shared is not None:
        later_s, in_step = _steps_met(lane, at, longer_s)
        more_s = np.where(lane.copies > 1.0, later_s * share, more_s)
        variance = np.where(lane.copies > 1.0, in_step * share, variance)
    return np.asarray(more_s), np.asarray(variance)


def _steps_met(lane: Lane, at: Pace, longer_s: Floats) -> tuple[Floats, Floats]:
    """What steps with prompts add to an answer, of copies that wait for each other; (n,) each.

    A step carries or not, in rows: the first ones of an answer more often than others, [s]; and
    the variance of a step. The copy with most prompts has about as many in each.
    """
    kept = np.minimum(at.again_frac - at.begin_frac, 0.999)
    varied = at.carrying_frac * (1.0 - at.carrying_frac)
    if lane.engine.is_stopped_by_prompts:
        # Passes between two steps are geometric in number, and those of other gaps know nothing.
        varied = at.carrying_frac * (1.0 + 2.0 * at.again_frac) - at.carrying_frac**2
        kept = np.minimum(kept, 0.6)
    later_s = np.maximum(longer_s * (at.again_frac - at.carrying_frac) / (1.0 - kept), 0.0)
    return later_s, np.asarray(varied * longer_s**2 * (1.0 + kept) / (1.0 - kept))


def _taken_frac(at: Pace) -> Floats:
    """Share of its time that a lane spends on prompts."""
    return np.minimum(at.carrying_frac * (at.carrying_s - at.plain_s) / at.step_s, MOST_TAKEN_FRAC)


def _by_token(lane: Lane, step_s: Floats, variance: Floats) -> Spread:
    """From the steps of an answer to its tokens: luck of the drafts and an overfull end beside."""
    share, made = lane.mix.answer_share_frac, lane.made_tokens
    mean_s = step_s * (1.0 + lane.excess_tokens * share) / made
    luck = mean_s**2 * (lane.made_sd_tokens**2 / made * share)
    return Spread(mean_s, np.sqrt(variance / made**2 + luck))


def _crowded_s(lane: Lane, at: Pace, crowd: Floats) -> Floats:
    """What a token waits beyond the mean step, because most tokens are made in full steps; (n,).

    Parameters
    ----------
    crowd : deviation of the number that decodes, a Poisson one

    Notes
    -----
    Tokens see a step weighted by its crowd: longer than the mean one by the slope of a step in
    its crowd times variance over mean. Longer steps fill the lane further, once for the variance
    and once for the mean (Little 1961). Of copies in step the crowd of all decides, which varies
    the less the more they are.
    """
    fuller = standing_of(lane, at.decoding_sequences + crowd)
    more_s = lane_step_s(lane, fuller) - at.plain_s
    slope_s = more_s / (1.0 - _taken_frac(at))
    bent = np.minimum(np.maximum(slope_s * crowd / at.step_s, 0.0), MOST_BENT_FRAC)
    crowd_frac = np.minimum(lane.crowd_frac, 1.0 / lane.copies)
    return np.asarray(slope_s / crowd * crowd_frac / (1.0 - bent) ** 2)


def ttft(lane: Lane, at: Pace) -> Spread:
    """Time from arrival to the end of the step that makes the first token.

    Notes
    -----
    A request finds a step under way (longer ones more often: inspection), waits for its rest,
    and shares the next step with whoever else came during that step. What the token budget does
    not hold goes on in full steps.
    """
    mix, engine, seen = lane.mix, lane.engine, _first(lane, at)
    found = seen.found
    least_s = seen.least_s + engine.prompt_token_s * float(mix.prompt_tokens[0])
    mean_s = sum(_named(lane, seen).values()) - engine.request_s
    token_s = _token_s(lane, at)
    own = (token_s + engine.prompt_token_s) * mix.prompt_sd_tokens
    each = token_s**2 * seen.others * (mix.prompt_sd_tokens**2 + mix.prompt_tokens_mean**2)
    rest = (found.sd_s**2 + found.mean_s**2) / 3.0 - found.mean_s**2 / 4.0
    follow = lane.clumped_frac * token_s * at.requests_per_s * mix.prompt_tokens_mean
    variance = own**2 + each + rest + (follow**2 + follow) * found.sd_s**2 + seen.queue.sd_s**2
    above_s = np.maximum(mean_s - least_s, 1e-9)
    return Spread(np.asarray(above_s), np.sqrt(variance), engine.request_s + least_s)


def ttft_parts(lane: Lane, at: Pace) -> dict[str, Floats]:
    """What the mean time to first token is made of, by name; (n,) each [s]."""
    return _named(lane, _first(lane, at))


@dataclass(frozen=True)
class _First:
    """What a request meets until its first token: the step it finds, its own, queues before it.

    `others` come with it; its own step with the shortest prompt and the mean one, and with others.
    """

    found: Spread
    others: Floats
    queue: Spread
    least_s: Floats
    own_s: Floats
    whole_s: Floats


def _first(lane: Lane, at: Pace) -> _First:
    mix, found = lane.mix, _step_found(lane, at)
    others = _come_with(lane, at, found)
    none = np.zeros(others.shape)
    prompts = np.array([[float(mix.prompt_tokens[0])], [mix.prompt_tokens_mean]])
    least_s, own_s, whole_s = _first_steps_s(
        lane, at, np.stack([none, none, others]), prompts[[0, 1, 1]]
    )
    return _First(found, others, _budget_queue(lane, at), least_s, own_s, whole_s)


def _named(lane: Lane, seen: _First) -> dict[str, Floats]:
    engine, own_s = lane.engine, seen.own_s
    host_s = engine.request_s + engine.prompt_token_s * lane.mix.prompt_tokens_mean
    return {
        "request": host_s + 0.0 * own_s,
        "step_under_way": 0.5 * seen.found.mean_s,
        "full_budgets_before": seen.queue.mean_s,
        "own_step": own_s,
        "others_in_own_step": seen.whole_s - own_s,
    }


def _come_with(lane: Lane, at: Pace, found: Spread) -> Floats:
    """Other requests that come while the step that a request finds runs."""
    expected = at.requests_per_s * found.mean_s
    alone = np.maximum(expected - 1.0, 0.0)
    return np.asarray(alone + lane.clumped_frac * (expected - alone))


def _step_found(lane: Lane, at: Pace) -> Spread:
    """The step that a request finds under way, whole: longer ones are found more often.

    Its moments are the second and third of all steps over the mean; those that carry prompts are
    taken as lognormal. Requests that come one by one at even gaps find a plain step, unless those
    before them are carried for longer than their gaps.

    References
    ----------
    Feller II (1971), I.4: the inspection paradox.
    """
    frac, decoding_too = at.carrying_frac, lane.engine.mixed_frac
    alone_s = at.carrying_s - at.plain_s * (1.0 - decoding_too)
    relative = (_carried_sd_tokens(lane, at) * _token_s(lane, at) / alone_s) ** 2
    plain_frac = 1.0 - frac * decoding_too
    second = plain_frac * at.plain_s**2 + frac * alone_s**2 * (1.0 + relative)
    third = plain_frac * _cube(at.plain_s) + frac * _cube(alone_s * (1.0 + relative))
    mean_s = second / at.step_s
    sd_s = np.sqrt(np.maximum(third / at.step_s - mean_s**2, 0.0))
    clumped = lane.step_clumped_frac
    if np.all(np.asarray(clumped) >= 1.0):
        return Spread(mean_s, sd_s)
    left = _left_of_prompts(lane, at, alone_s, relative)
    evenly_s = at.plain_s + 2.0 * left.mean_s
    variance = np.maximum(3.0 * left.sd_s**2 - left.mean_s**2, 0.0)
    variance = variance + clumped * (sd_s**2 - variance)
    return Spread(evenly_s + clumped * (mean_s - evenly_s), np.sqrt(variance))


def _left_of_prompts(lane: Lane, at: Pace, alone_s: Floats, relative: Floats) -> Spread:
    """What is left of prompts before, where they come at even gaps: a wait in D/G/1; (n,) each.

    Parameters
    ----------
    alone_s, relative : a step that carries a prompt, and its variance over its square

    Notes
    -----
    The mean wait is the sum over n of what n prompts take beyond n gaps, over n; its variance that
    of the square. What several take is lognormal here. Four terms: the rest of the sum, of long
    queues, is shorter in lanes, where prompts that waited share one step.

    References
    ----------
    Spitzer (1956), Trans. Amer. Math. Soc. 82, 323: both sums, from a combinatorial lemma.
    """
    gap_s = 1.0 / np.maximum(at.requests_per_s * lane.chances, 1e-9)
    more_s, variance = at.carrying_s - at.plain_s, relative * alone_s**2
    one = _beyond(alone_s, relative, gap_s)
    two_s = alone_s + more_s
    two = _beyond(two_s, 2.0 * variance / two_s**2, 2.0 * gap_s)
    mean_s, second = (_four(a, 0.5 * b) for a, b in zip(one, two, strict=True))
    return Spread(mean_s, np.sqrt(second))


def _four(first: Floats, second: Floats) -> Floats:
    """Four terms of a sum whose terms fall as its first two do; (n,)."""
    ratio = second / np.maximum(first, 1e-30)
    return np.asarray((first + second) * (1.0 + ratio * ratio))


def _beyond(mean_s: Floats, relative: Floats, gap_s: Floats) -> tuple[Floats, Floats]:
    """What a lognormal time is longer than a gap: mean and mean square; (n,) each.

    Partial moments of the lognormal distribution, the normal one as a logistic one, as in `lane`.
    """
    sigma = np.sqrt(np.maximum(np.log1p(relative), 1e-6))
    place = np.log(gap_s / mean_s) / sigma + 0.5 * sigma
    odds = np.exp(LOGISTIC * np.minimum(np.maximum(place, -20.0), 20.0))
    each = np.exp(-LOGISTIC * sigma)
    chance, first = 1.0 / (1.0 + odds), mean_s / (1.0 + odds * each)
    second = mean_s**2 * (1.0 + relative) / (1.0 + odds * each * each)
    beyond_s = np.maximum(first - gap_s * chance, 0.0)
    return beyond_s, np.maximum(second - 2.0 * gap_s * first + gap_s**2 * chance, beyond_s**2)


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
    room = np.maximum(lane.budget_tokens - at.standing.tokens, 1.0)
    full_s = at.plain_s * lane.engine.mixed_frac + _token_s(lane, at) * room
    busy = np.minimum(rate * full_s * mix.prompt_tokens_mean / room, 0.98)
    relative = (mix.prompt_sd_tokens / mix.prompt_tokens_mean) ** 2
    served_s = full_s * mix.prompt_tokens_mean / room
    rest_s = rate * served_s**2 * (lane.clumped_frac + relative) / 2.0
    alone = np.minimum(mix.prompt_tokens_mean * (1.0 + relative) / room, 1.0) ** 2
    more_s = rest_s * busy / (1.0 - busy) * alone
    third = rate * _cube(served_s * (1.0 + relative)) / (3.0 * (1.0 - busy))
    return Spread(more_s, np.sqrt(more_s**2 + third * busy * alone))


def _cube(values: Floats) -> Floats:
    """Third power: a product is ten times quicker than a power of an array."""
    return values * values * values


def _token_s(lane: Lane, at: Pace) -> Floats:
    """Time that one more prompt token adds to a carrying step."""
    return (at.carrying_s - at.plain_s) / np.maximum(at.carried_tokens, 1.0)


def _carried_sd_tokens(lane: Lane, at: Pace) -> Floats:
    """Deviation of the tokens that a carrying step carries: of several prompts, of any length.

    The number of prompts is Poisson and at least one. It varies with the length of the step in
    which they came as well: with r of the time on prompts by 1 / (1 - r^2) as much, as variances
    of steps that follow each other add up.
    """
    mix, each = lane.mix, at.arrivals / np.maximum(at.carrying_frac, 1e-9)
    if lane.curves.shared is not None:
        each = np.maximum(each, at.carried_tokens / mix.prompt_tokens_mean)
    rate = each - 1.0 + np.exp(-each)
    for _ in range(2):
        rate = each * (1.0 - np.exp(-np.maximum(rate, 1e-9)))
    spread = np.maximum(each * (1.0 + rate - each), 0.0)
    variance = each * mix.prompt_sd_tokens**2 + spread * mix.prompt_tokens_mean**2
    alone = np.where(lane.copies > 1.0, 0.0, lane.clumped_frac)
    variance = variance / (1.0 - alone * _taken_frac(at) ** 2)
    return np.minimum(np.sqrt(variance), lane.budget_tokens)


def _first_steps_s(lane: Lane, at: Pace, others: Floats, prompt_tokens: Floats) -> Floats:
    """The steps that carry a prompt and those who came with it; (several, n).

    Of copies that step together another may carry more: the step is that of the longest.
    """
    standing, mean_tokens = at.standing, lane.mix.prompt_tokens_mean
    room = np.maximum(lane.budget_tokens - standing.tokens, 1.0)
    whole = prompt_tokens + others * mean_tokens
    held = np.minimum(whole, room)
    ahead = prompt_tokens + 0.5 * others * mean_tokens
    prompts = (1.0 + others) * held / whole
    elsewhere = (lane.copies - 1.0) * at.arrivals * mean_tokens
    carried = Carried(held, prompts, (held + elsewhere) / lane.copies)
    one_s = carrying_step_s(lane, standing, at.plain_s, carried)
    if lane.curves.shared is not None:
        one_s = np.where(lane.copies > 1.0, np.maximum(one_s, at.carrying_s), one_s)
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
