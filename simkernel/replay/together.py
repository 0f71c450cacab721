"""Copies of attention that share experts: one step for all of them, as long as the longest needs.

The first of a group keeps its clock. Each copy forms its own batch from its own queue; one without
any requests runs along empty.
"""

from __future__ import annotations

from simkernel.batching._house import make_way, take_blocks
from simkernel.replay.dispatch import form_batch
from simkernel.replay.pricing import least_step_s, parts_price, shared_price
from simkernel.replay.state import House
from simkernel.replay.steps import book, end_step, like_steps, loaded_s, log_step, weigh


def requests_of(first: int, house: House) -> int:
    """Requests in the house of all copies of a group."""
    found = 0
    for copy in range(first, first + house.rules.copies):
        found += house.lists[copy].running_count + house.lists[copy].waiting_count
    return found


def form_together(first: int, house: House) -> tuple[int, bool]:
    """Every copy's next batch; the sequences of all, and whether each runs all that it may."""
    lists, books = house.lists, house.books
    total, is_steady = 0, True
    for copy in range(first, first + house.rules.copies):
        thrown_before, count = lists[copy].preemptions, 0
        if house.rules.evicts and lists[copy].waiting_count > 0:
            make_way(copy, house.jobs, lists, house.limits, house.seats, house.cache)
            is_steady = False
        if lists[copy].running_count + lists[copy].waiting_count > 0:
            count = form_batch(
                house.rules.batching_code,
                copy,
                house.jobs,
                lists,
                house.limits,
                house.seats,
                house.cache,
            )
        books[copy].flying_sequences = count
        books[copy].flying_steps = 1
        total += count
        is_steady = is_steady and count == lists[copy].running_count
        is_steady = is_steady and lists[copy].preemptions == thrown_before
        if books[copy].dry_steps > house.rules.most_dry_steps:
            return 0, False
    return total, is_steady


def start_together(first: int, now_s: float, house: House) -> bool:
    """Starts the step that the batches describe; True when they hold decodes only.

    Notes
    -----
    Sets the group's clock to the end of the step, adds it to the books of all copies that take
    part, and notes who started.
    """
    books, prices = house.books, house.prices
    longest_s, own_s, most_tokens, all_tokens, prefilling = 0.0, 0.0, 0, 0, 0
    for copy in range(first, first + house.rules.copies):
        if books[copy].flying_sequences > 0:
            load = weigh(copy, now_s, house)
            tokens, sampled, decodes, context, prefills, cached, squared = load
            own_s, own_j, is_beyond = parts_price(
                tokens, sampled, decodes, context, prefills, cached, squared, prices
            )
            books[copy].flying_context = context
            waits_s = loaded_s(copy, house.cache)
            own_s, own_j = own_s + waits_s, own_j + prices.idle_w * waits_s
            books[copy].own_s = own_s
            books[copy].own_j, books[copy].is_beyond = own_j, is_beyond
            books[copy].flying_tokens, books[copy].flying_decodes = tokens, decodes
            longest_s, most_tokens = max(longest_s, own_s), max(most_tokens, tokens)
            all_tokens += tokens
            prefilling += prefills
    mean_tokens = all_tokens / house.rules.copies
    shared_s, shared_j = shared_price(longest_s, most_tokens, mean_tokens, prices)
    step_s = max(longest_s + shared_s, least_step_s(prefilling, prices)) * books[first].pace_frac
    books[first].clock_s, books[first].is_flying = now_s + step_s, 1
    for copy in range(first, first + house.rules.copies):
        if books[copy].flying_sequences > 0:
            books[copy].prefill_tokens += books[copy].flying_tokens - books[copy].flying_decodes
            book_copy(copy, step_s, shared_s, shared_j, house)
            books[copy].end_s = books[first].clock_s
            log_step(
                copy,
                now_s,
                step_s,
                books[copy].flying_decodes,
                books[copy].flying_sequences - books[copy].flying_decodes,
                books[copy].flying_tokens,
                house,
            )
    return prefilling == 0


def book_copy(copy: int, step_s: float, shared_s: float, shared_j: float, house: House) -> None:
    """Adds one step to a copy's sums: it draws idle watts while it waits for the longest."""
    books = house.books
    waits_s = step_s - shared_s - books[copy].own_s
    step_j = 0.0
    if house.prices.has_joules:
        step_j = books[copy].own_j + shared_j + house.prices.idle_w * waits_s
    book(copy, books[copy].flying_decodes, step_s, step_j, books[copy].is_beyond > 0, house)


def repeat_together(first: int, until_s: float, house: House) -> None:
    """Runs the same decodes of all copies on until one ends, or a step outlasts `until_s`."""
    books, copies = house.books, house.rules.copies
    if books[first].clock_s >= until_s:
        return
    most = house.limits.max_context_tokens
    for copy in range(first, first + copies):
        if books[copy].flying_sequences > 0:
            most = min(most, like_steps(copy, house))
    steps = 1
    while steps < most and books[first].clock_s < until_s:
        books[first].clock_s += next_step_s(first, house)
        steps += 1
    for copy in range(first, first + copies):
        books[copy].flying_steps = steps
        if books[copy].flying_sequences > 0:
            books[copy].end_s = books[first].clock_s
            for place in range(books[copy].flying_sequences):
                request = house.seats[copy, place].request
                cached = house.jobs[request].cached_tokens + steps
                take_blocks(
                    copy, request, cached, house.jobs, house.lists, house.limits, house.cache
                )


def next_step_s(first: int, house: House) -> float:
    """One more step of the same decodes, a token further, booked; its seconds."""
    books, prices = house.books, house.prices
    longest_s, most_tokens, all_tokens = 0.0, 0, 0
    for copy in range(first, first + house.rules.copies):
        count = books[copy].flying_sequences
        if count > 0:
            books[copy].flying_context += count
            own_s, own_j, is_beyond = parts_price(
                count, count, count, books[copy].flying_context, 0, 0, 0.0, prices
            )
            books[copy].own_s, books[copy].own_j = own_s, own_j
            books[copy].is_beyond = is_beyond
            longest_s, most_tokens = max(longest_s, own_s), max(most_tokens, count)
            all_tokens += count
    mean_tokens = all_tokens / house.rules.copies
    shared_s, shared_j = shared_price(longest_s, most_tokens, mean_tokens, prices)
    step_s = max(longest_s + shared_s, least_step_s(0, prices)) * books[first].pace_frac
    for copy in range(first, first + house.rules.copies):
        if books[copy].flying_sequences > 0:
            book_copy(copy, step_s, shared_s, shared_j, house)
    return step_s


def end_together(first: int, now_s: float, house: House) -> int:
    """Gives their tokens to the batches of all copies; the requests that now have all."""
    ended = 0
    for copy in range(first, first + house.rules.copies):
        if house.books[copy].flying_sequences > 0:
            found = end_step(copy, now_s, house)
            house.books[copy].ended = found
            ended += found
        else:
            house.books[copy].ended = 0
    house.books[first].is_flying = 0
    return ended
