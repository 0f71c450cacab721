"""A lane that computes prompts and nothing else: steps while any wait, and rest between.

Each step takes all prompts that came during the one before, as far as the token budget goes. Its
limit of validity is the lane that keeps up.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simkernel.columns import Column, Floats
from simkernel.false_position import crossing
from simkernel.lane import Carried, Lane, carried_by, lane_step_s
from simkernel.serve_open import Spread

ROOT_STEPS = 9
"""In which the prompts of a step are found: 1e-4 of them is left at most (tested)."""

LEAST_PROMPTS = 1e-3


@dataclass(frozen=True)
class PromptPace:
    """Steps of a lane that computes prompts; (n,) each.

    Parameters
    ----------
    requests_per_s : that come to the lane
    prompts : in a mean step, of each copy that steps together
    step_s, token_s : a mean step; what one more token adds to it [s]
    busy_frac : of the time, that spent in steps
    """

    requests_per_s: Floats
    prompts: Floats
    step_s: Floats
    token_s: Floats
    busy_frac: Floats


def most_prompts(lane: Lane) -> Floats:
    """Prompts of a step that its budget fills; (n,)."""
    return np.asarray(lane.budget_tokens / lane.mix.prompt_tokens_mean)


def prompts_step_s(lane: Lane, prompts: Floats) -> Floats:
    """A mean step of so many prompts of every copy; (n,) [s].

    Notes
    -----
    Over lengths of one of them: a short one alone takes as long as its launches.
    """
    if lane.curves.shared is not None:
        carried = carried_by(lane, prompts, np.ones(prompts.shape), lane.budget_tokens)
        return lane_step_s(lane, lane.nobody, carried)
    lengths = np.array(_lengths(lane))
    apart = lengths - lane.mix.prompt_tokens_mean
    whole = prompts * lane.mix.prompt_tokens_mean
    room = (lane.budget_tokens - whole) / max(float(apart.max()), 1.0)
    varies = np.minimum(prompts, 1.0) * np.clip(room, 0.0, 1.0)  # a full step is full
    total: Floats = np.zeros(prompts.shape)
    for one in apart:
        tokens = np.maximum(whole + varies * one, 0.0)
        total = total + lane_step_s(lane, lane.nobody, Carried(tokens, prompts, tokens))
    return total / len(lengths)


SHARES = 4
"""Of the prompts by length, each with its mean: a step is nearly straight within one."""


def _lengths(lane: Lane) -> list[float]:
    """Lengths that stand for equal shares of the prompts."""
    parts = np.array_split(lane.mix.prompt_tokens, min(SHARES, len(lane.mix.prompt_tokens)))
    return [float(part.mean()) for part in parts]


def most_prompts_per_s(lane: Lane) -> Floats:
    """Prompts that a lane computes at most: full steps, one after another; (n,) [1/s]."""
    most = most_prompts(lane)
    return most / prompts_step_s(lane, most)


def prompt_pace(lane: Lane, requests_per_s: Floats) -> PromptPace:
    """The steady state at a rate; a full lane beyond what it computes.

    Notes
    -----
    A step of n prompts is followed by one of as many as came meanwhile, or, if none did, by a
    rest until one comes: n = r S(n) + exp(-c r S(n)) / c of c copies that step together.
    """
    rate, copies = requests_per_s, lane.copies

    def missing(prompts: Floats) -> Floats:
        came = rate * prompts_step_s(lane, prompts)
        return prompts - came - np.exp(-copies * came) / copies

    most = most_prompts(lane)
    low = np.minimum(np.full(most.shape, LEAST_PROMPTS), most)
    ends = missing(low), missing(most)
    found, *_ = crossing(missing, low, most, *ends, ROOT_STEPS)
    prompts = np.where(ends[1] <= 0.0, most, found)
    step_s = prompts_step_s(lane, prompts)
    rest_s = np.exp(-copies * rate * step_s) / np.maximum(copies * rate, 1e-12)
    more = np.minimum(prompts * 1.25, most)
    fewer = more * 0.75
    added = (more - fewer) * lane.mix.prompt_tokens_mean
    token_s = (prompts_step_s(lane, more) - prompts_step_s(lane, fewer)) / added
    busy = np.where(ends[1] <= 0.0, 1.0, step_s / (step_s + rest_s))
    return PromptPace(rate, prompts, step_s, np.maximum(token_s, 0.0), busy)


@dataclass(frozen=True)
class PromptTimes:
    """From arrival to a computed prompt, over requests; (n,) each.

    Parameters
    ----------
    spread : the whole of it
    own_s : the steps that compute a mean prompt, with whoever came along
    own_sd_s : of the whole, what follows from the length of the prompt itself
    terms : of the mean, by name
    """

    spread: Spread
    own_s: Floats
    own_sd_s: Floats
    terms: dict[str, Floats]


def prompt_times(lane: Lane, at: PromptPace, lanes: Column = 1.0) -> PromptTimes:
    """How long a request waits and is computed.

    Parameters
    ----------
    lanes : (n,) among which a router picks the emptiest; 1 where it looks at none

    Notes
    -----
    It finds a step under way for the share of time that the lane is busy, longer ones more often
    (inspection), and shares the next with whoever came during it. What the token budget does not
    hold goes on in full steps. Counts of prompts are Poisson. Of many lanes behind one router the
    emptiest is seldom busy: the wait is that of as many servers, where it is less.
    """
    mix, engine, busy = lane.mix, lane.engine, at.busy_frac
    relative = _relative(lane, at)
    found_s = at.step_s * (1.0 + relative)
    found_sd = at.step_s * np.sqrt(np.maximum(relative * (1.0 + relative), 0.0))
    residual_s = 0.5 * found_s
    others = at.requests_per_s * found_s
    each_s = np.stack([_own_s(lane, 0.0 * others, share) for share in _lengths(lane)])
    alone_s = each_s.mean(axis=0)
    shared_s = alone_s + np.maximum(_own_s(lane, others) - _own_s(lane, 0.0 * others), 0.0)
    own_s = alone_s + busy * (shared_s - alone_s)
    queue_s, queue_sd = _budget_queue(lane, at)
    host_s = engine.request_s + engine.prompt_token_s * mix.prompt_tokens_mean
    terms = {
        "request": host_s + 0.0 * own_s,
        "step_under_way": busy * residual_s,
        "full_budgets_before": queue_s,
        "own_step": alone_s,
        "others_in_own_step": own_s - alone_s,
    }
    mean_s = sum(terms.values()) - engine.request_s
    shortest_s = _own_s(lane, 0.0 * others, float(mix.prompt_tokens[0]))
    least_s = shortest_s + engine.prompt_token_s * float(mix.prompt_tokens[0])
    within = np.maximum(mix.prompt_sd_tokens**2 - np.var(_lengths(lane)), 0.0)
    own_sd = np.sqrt(each_s.var(axis=0) + at.token_s**2 * within)
    own_sd = own_sd + engine.prompt_token_s * mix.prompt_sd_tokens
    each = mix.prompt_sd_tokens**2 + mix.prompt_tokens_mean**2
    follow = at.token_s * at.requests_per_s * mix.prompt_tokens_mean
    whole_s = residual_s + shared_s - alone_s
    variance = (
        own_sd**2
        + at.token_s**2 * busy * others * each
        + busy * ((found_sd**2 + found_s**2) / 3.0 - residual_s**2)
        + busy * (follow**2 + follow) * found_sd**2
        + busy * (1.0 - busy) * whole_s**2
        + queue_sd**2
    )
    above_s = np.maximum(mean_s - least_s, 1e-9)
    spread = Spread(np.asarray(above_s), np.sqrt(variance), engine.request_s + least_s)
    seen = PromptTimes(spread, np.asarray(own_s), np.asarray(own_sd), terms)
    return seen if np.all(np.asarray(lanes) <= 1.0) else _emptiest(lane, at, seen, lanes)


def _emptiest(lane: Lane, at: PromptPace, seen: PromptTimes, lanes: Column) -> PromptTimes:
    """The same where a router gives to the emptiest of some lanes.

    Notes
    -----
    It waits only where all are busy, and then no longer than in a lane of its own, whose step
    takes all who wait.

    References
    ----------
    Sakasegawa, Ann. Inst. Statist. Math. 29 (1977) 67: the mean wait of M/G/c; Lee and Longton
    (1959) for services that vary.
    """
    alone_s = seen.terms["own_step"]
    relative = (seen.own_sd_s / alone_s) ** 2
    use = np.minimum(at.requests_per_s * alone_s, 1.0 - 1e-9)
    waits = use ** (np.sqrt(2.0 * (lanes + 1.0)) - 1.0)
    named = ("step_under_way", "full_budgets_before", "others_in_own_step")
    more_s = sum(seen.terms[name] for name in named)
    alike_s = alone_s * (1.0 + relative) / 2.0 / (lanes * (1.0 - use))
    each_s = np.minimum(alike_s, more_s / np.maximum(at.busy_frac, 1e-9))
    is_many = np.asarray(lanes) > 1.0
    terms = {n: np.where(is_many, 0.0, t) if n in named else t for n, t in seen.terms.items()}
    terms["step_under_way"] = np.where(is_many, waits * each_s, terms["step_under_way"])
    own = seen.spread
    mean_s = np.maximum(own.mean_s - more_s + waits * each_s, 1e-9)
    variance = seen.own_sd_s**2 + waits * (2.0 - waits) * each_s**2
    spread = Spread(
        np.where(is_many, mean_s, own.mean_s),
        np.where(is_many, np.sqrt(variance), own.sd_s),
        own.constant_s,
    )
    return PromptTimes(spread, np.where(is_many, alone_s, seen.own_s), seen.own_sd_s, terms)


def _relative(lane: Lane, at: PromptPace) -> Floats:
    """Variance of steps over their squared mean; (n,).

    Notes
    -----
    Of the prompts that come in a step a Poisson number x: the next takes them, or one where none
    came. Lengths differ beside, and each step's load follows from the length of the one before.
    """
    mix = lane.mix
    came = at.requests_per_s * at.step_s
    alone = np.exp(-came)
    count = np.maximum(came + came**2 + alone - (came + alone) ** 2, 0.0)
    tokens = at.prompts * mix.prompt_sd_tokens**2 + count * mix.prompt_tokens_mean**2
    kept = np.minimum(at.requests_per_s * at.token_s * mix.prompt_tokens_mean, 0.95)
    kept = kept * (1.0 - alone)
    return at.token_s**2 * tokens / (1.0 - kept**2) / np.maximum(at.step_s, 1e-12) ** 2


def _own_s(lane: Lane, others: Floats, prompt_tokens: float | None = None) -> Floats:
    """Steps until a prompt is computed, beside so many others that came with it; (n,)."""
    mean_tokens = lane.mix.prompt_tokens_mean
    own = mean_tokens if prompt_tokens is None else prompt_tokens
    whole = own + others * mean_tokens
    held = np.minimum(whole, lane.budget_tokens)
    ahead = own + 0.5 * others * mean_tokens
    prompts = (own / mean_tokens + others) * held / whole
    step_s = lane_step_s(lane, lane.nobody, Carried(held, prompts, held))
    return np.asarray(step_s * np.maximum(ahead / lane.budget_tokens, 1.0))


def _budget_queue(lane: Lane, at: PromptPace) -> tuple[Floats, Floats]:
    """Wait, and its deviation, for steps that the budget has filled with prompts of others.

    As in `serve_open`, where nobody decodes.
    """
    mix, rate, room = lane.mix, at.requests_per_s, lane.budget_tokens
    full_s = prompts_step_s(lane, most_prompts(lane))
    busy = np.minimum(rate * full_s * mix.prompt_tokens_mean / room, 0.98)
    relative = (mix.prompt_sd_tokens / mix.prompt_tokens_mean) ** 2
    served_s = full_s * mix.prompt_tokens_mean / room
    rest_s = rate * served_s**2 * (1.0 + relative) / 2.0
    alone = np.minimum(mix.prompt_tokens_mean * (1.0 + relative) / room, 1.0) ** 2
    wait_s = rest_s * busy / (1.0 - busy) * alone
    third = rate * served_s**3 * (1.0 + relative) ** 3 / (3.0 * (1.0 - busy))
    return wait_s, np.sqrt(wait_s**2 + third * busy * alone)
