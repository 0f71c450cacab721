"""One step of one replica: what its batch costs, what it leaves behind when it ends.

Decodes that would be batched again as they are run as one flight of many steps: each step is
looked up and summed as if alone, only the requests are told once.
"""

from __future__ import annotations

import math

from simkernel.batching._house import blocks_for, take_blocks, tokens_due
from simkernel.columns import Codes
from simkernel.replay.pricing import step_price
from simkernel.replay.state import LOGGED, LUCK, STRIDE, Cache, House, Prices, Records
from simkernel.replay.tiers import loading_s


def start_step(replica: int, now_s: float, house: House) -> bool:
    """Starts the step that the batch describes; True when it holds decodes only.

    Notes
    -----
    Sets the clock to the end of the step, adds it to the books, and notes who started.
    """
    load = weigh(replica, now_s, house)
    tokens, sampled, decodes, context_tokens, prefills, cached_tokens, squared = load
    step_s, step_j, is_beyond = step_price(
        tokens, sampled, decodes, context_tokens, prefills, cached_tokens, squared, house.prices
    )
    waits_s = loaded_s(replica, house.cache)
    step_s, step_j = step_s + waits_s, step_j + house.prices.idle_w * waits_s
    slower_s = step_s * (house.books[replica].pace_frac - 1.0)
    step_s, step_j = step_s + slower_s, step_j + house.prices.idle_w * slower_s
    house.books[replica].flying_steps = house.books[replica].is_flying = 1
    house.books[replica].clock_s = now_s + step_s
    house.books[replica].prefill_tokens += tokens - decodes
    house.books[replica].flying_context = context_tokens
    book(replica, decodes, step_s, step_j, is_beyond, house)
    log_step(replica, now_s, step_s, decodes, prefills, tokens, house)
    return prefills == 0


def loaded_s(replica: int, cache: Cache | None) -> float:
    """What the step waits for blocks that come from elsewhere than this device."""
    if cache is None:
        return 0.0
    return loading_s(replica, cache)


def weigh(replica: int, now_s: float, house: House) -> tuple[int, int, int, int, int, int, float]:
    """What `pricing.step_price` asks of a batch; notes the start of those who just came."""
    jobs, seats = house.jobs, house.seats
    rounding = house.prices.context_rounding_tokens
    tokens, sampled, decodes, context_tokens, prefills, cached_tokens = 0, 0, 0, 0, 0, 0
    squared = 0.0
    for place in range(house.books[replica].flying_sequences):
        request = seats[replica, place].request
        chunk, due = seats[replica, place].tokens, tokens_due(request, jobs)
        tokens += chunk
        sampled += chunk >= due
        if due == 1 and jobs[request].made_tokens > 0:
            decodes += 1
            context_tokens += jobs[request].cached_tokens + 1
        else:
            prefills += 1
            cached = jobs[request].cached_tokens
            cached_tokens += (cached + rounding - 1) // rounding * rounding
            squared += float(chunk) * chunk
            if math.isnan(house.times[request].start_s):
                house.times[request].start_s = now_s
    return tokens, sampled, decodes, context_tokens, prefills, cached_tokens, squared


def book(
    replica: int, decodes: int, step_s: float, step_j: float, is_beyond: bool, house: House
) -> None:
    """Adds one step to the sums of its replica."""
    books = house.books
    books[replica].steps += 1
    books[replica].busy_s += step_s
    books[replica].decode_tokens += decodes
    books[replica].running_s += books[replica].flying_sequences * step_s
    books[replica].step_j += step_j
    books[replica].extended_steps += is_beyond
    books[replica].end_s = books[replica].clock_s


def log_step(
    replica: int,
    now_s: float,
    step_s: float,
    decodes: int,
    prefills: int,
    tokens: int,
    house: House,
) -> None:
    """Writes the step down, while there are rows left."""
    log, lists, row = house.log, house.lists, house.counters[LOGGED]
    if row >= len(log.replica):
        return
    house.counters[LOGGED] += 1
    log[row].replica, log[row].start_s, log[row].step_s = replica, now_s, step_s
    log[row].decodes, log[row].prefills, log[row].tokens = decodes, prefills, tokens
    log[row].running, log[row].waiting = lists[replica].running_count, lists[replica].waiting_count
    log[row].blocks = house.limits.pool_blocks - lists[replica].free_blocks


def repeat_step(replica: int, until_s: float, house: House) -> None:
    """Runs the same decodes on until one ends, blocks run short, or a step outlasts `until_s`."""
    if house.books[replica].clock_s < until_s:
        most = like_steps(replica, house)
        steps = repeat_decodes(most, until_s, house.books[replica], house.prices)
        for place in range(house.books[replica].flying_sequences):
            request = house.seats[replica, place].request
            cached = house.jobs[request].cached_tokens + steps
            take_blocks(
                replica, request, cached, house.jobs, house.lists, house.limits, house.cache
            )


def repeat_decodes(most: int, until_s: float, book: Records, prices: Prices) -> int:
    """Books the steps that follow the first of a flight; the number of steps in it.

    Notes
    -----
    The sums are kept at hand and written once: they grow in the order of the steps all the same.
    """
    count, context_tokens, end_s = book.flying_sequences, book.flying_context, book.clock_s
    busy_s, running_s, step_j = book.busy_s, book.running_s, book.step_j
    steps, extended, slower_frac = 1, 0, book.pace_frac - 1.0
    while steps < most and end_s < until_s:
        context_tokens += count
        add_s, add_j, is_beyond = step_price(
            count, count, count, context_tokens, 0, 0, 0.0, prices
        )
        slower_s = add_s * slower_frac
        add_s, add_j = add_s + slower_s, add_j + prices.idle_w * slower_s
        end_s += add_s
        busy_s += add_s
        running_s += count * add_s
        step_j += add_j
        extended += is_beyond
        steps += 1
    book.clock_s, book.end_s, book.flying_steps = end_s, end_s, steps
    book.busy_s, book.running_s, book.step_j = busy_s, running_s, step_j
    book.steps += steps - 1
    book.decode_tokens += count * (steps - 1)
    book.extended_steps += extended
    return steps


def like_steps(replica: int, house: House) -> int:
    """Steps until the first of the batch ends, or fewer when the pool may run dry before.

    Notes
    -----
    At least one block stays free, as some policies ask of each step. Where the whole way does not
    fit, one block each is tried, then single steps: what is not skipped is only slower.
    """
    jobs, seats, limits = house.jobs, house.seats, house.limits
    count = house.books[replica].flying_sequences
    most = limits.max_context_tokens
    for place in range(count):
        request = seats[replica, place].request
        most = min(most, jobs[request].output_tokens - jobs[request].made_tokens)
    free = house.lists[replica].free_blocks
    if count * (most // limits.block_tokens + 1) < free:
        return most
    for steps in (most, min(most, limits.block_tokens)):
        more = 0
        for place in range(count):
            request = seats[replica, place].request
            cached = jobs[request].cached_tokens + steps
            more += max(blocks_for(cached, limits) - jobs[request].blocks, 0)
        if more < free:
            return steps
    return 1


def end_step(replica: int, now_s: float, house: House) -> int:
    """Gives its tokens to the batch that flew; the number of requests that now have all."""
    jobs, times, books = house.jobs, house.times, house.books
    steps, ended, is_dry = books[replica].flying_steps, 0, True
    for place in range(books[replica].flying_sequences):
        request = house.seats[replica, place].request
        computed = house.seats[replica, place].tokens
        made, kept = steps, computed * steps
        if computed > 1 and jobs[request].made_tokens > 0 and tokens_due(request, jobs) == 1:
            made = kept = right_tokens(request, computed, jobs[request].made_tokens, house.luck)
        jobs[request].cached_tokens += kept
        if tokens_due(request, jobs) > 0:
            continue
        is_dry = False
        if jobs[request].made_tokens == 0:
            times[request].first_token_s = now_s
        if len(house.token_s) > 0:
            start = times[request].token_start + jobs[request].made_tokens
            house.token_s[start : start + made] = now_s
        jobs[request].made_tokens += made
        if jobs[request].made_tokens == jobs[request].output_tokens:
            times[request].finish_s = now_s
            ended += 1
    books[replica].flying_sequences = books[replica].is_flying = 0
    books[replica].dry_steps = books[replica].dry_steps + 1 if is_dry else 0
    return ended


def right_tokens(request: int, computed: int, made: int, luck: Codes) -> int:
    """Tokens that a verifying step makes of a sequence: those drafted rightly, and one more.

    Drawn by who it is and how far it is, so that neither the order of events nor a preemption
    changes a request's luck.
    """
    return min(luck[(request * STRIDE + made) % LUCK], computed)
