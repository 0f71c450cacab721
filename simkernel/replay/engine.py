"""The event loop of a serving fleet: plain Python in the subset that numba compiles.

Replicas act in the order of their clocks and meet only at arrivals. At one moment, steps end
first, then requests arrive, then batches are formed: so a request that arrives as a step ends may
join the next, and what a router sees does not depend on the order of the replicas.

What it does not know: any physics (it looks steps up), pipelines.
"""

from __future__ import annotations

import numpy as np

from simkernel.batching._house import make_way, tokens_due
from simkernel.batching._queue import free_blocks, line_up
from simkernel.replay.blocks import look_below, look_up
from simkernel.replay.dispatch import form_batch, lets_in, pick_replica, refusal
from simkernel.replay.results import NOT_ADMITTED, SERVED
from simkernel.replay.state import (
    DEAF,
    FIRST_HELD,
    HELD,
    KNOWN,
    LAST_HELD,
    LOGGED,
    NEXT,
    ROUTED,
    SHUT,
    STUCK_AT,
    Asked,
    Books,
    Cache,
    House,
    Jobs,
    Limits,
    Seen,
)
from simkernel.replay.steps import end_step, repeat_step, start_step
from simkernel.replay.together import (
    end_together,
    form_together,
    repeat_together,
    requests_of,
    start_together,
)

GOING, DONE, STUCK, PAUSED = range(4)
"""How a call of `advance` ended: events are left, none is, nothing will ever move again, or the
next comes at or after the time until which it was asked to go."""

NEVER_S = np.inf
"""When a replica acts that has nothing to do."""


def advance(events: int, until_s: float, house: House) -> int:
    """So many events further, before a time: step ends, arrivals, batches formed; how it ended."""
    for _ in range(events):
        replica = first_to_act(house.books)
        now_s = house.books[replica].clock_s
        arrival_s = next_arrival_s(house)
        next_s = min(now_s, arrival_s)
        if next_s == NEVER_S:
            return DONE
        if next_s >= until_s:
            return PAUSED
        if house.books[replica].is_flying > 0 and now_s <= arrival_s:
            land(replica, now_s, house)
        elif arrival_s <= now_s:
            arrive(arrival_s, house)
        elif not take_off(replica, now_s, min(arrival_s, until_s), house):
            house.counters[STUCK_AT] = replica
            return STUCK
    return GOING


def advance_together(events: int, until_s: float, house: House) -> int:
    """The same for replicas that step in groups: a loop of its own, compiled when it is needed."""
    for _ in range(events):
        first = first_to_act(house.books)
        now_s = house.books[first].clock_s
        arrival_s = next_arrival_s(house)
        next_s = min(now_s, arrival_s)
        if next_s == NEVER_S:
            return DONE
        if next_s >= until_s:
            return PAUSED
        if house.books[first].is_flying > 0 and now_s <= arrival_s:
            land_together(first, now_s, house)
        elif arrival_s <= now_s:
            arrive(arrival_s, house)
        elif not take_off_together(first, now_s, min(arrival_s, until_s), house):
            house.counters[STUCK_AT] = first
            return STUCK
    return GOING


def first_to_act(books: Books) -> int:
    """The replica with the least clock; of several, one whose step ends before one that forms."""
    first = 0
    for replica in range(1, len(books.clock_s)):
        if books[replica].clock_s < books[first].clock_s or (
            books[replica].clock_s == books[first].clock_s
            and books[first].is_flying == 0
            and books[replica].is_flying > 0
        ):
            first = replica
    return first


def next_arrival_s(house: House) -> float:
    """When the scheduler sees the next request; never, when none is known to come."""
    if house.counters[NEXT] >= house.counters[KNOWN]:
        return NEVER_S
    return house.times[house.counters[NEXT]].arrival_s + house.rules.request_overhead_s


def arrive(now_s: float, house: House) -> None:
    """The next request: refused, or routed to a replica and put in its queue."""
    request = house.counters[NEXT]
    house.counters[NEXT] += 1
    reason = refusal(
        house.rules.batching_code,
        house.jobs[request].prompt_tokens,
        house.jobs[request].output_tokens,
        house.limits,
    )
    if reason == SERVED:
        reason = receive(request, now_s, house)
    house.times[request].refusal_code = reason
    if reason != SERVED:
        let_next_come(now_s, house)


def receive(request: int, now_s: float, house: House) -> int:
    """A request that can be served: sent to a replica, held while none is open, or not let in."""
    rules, seen = house.rules, look_around(request, house)
    if len(seen.replicas) == 0:
        hold(request, house)
        return SERVED
    asked = asked_of(request, house)
    picked = pick_replica(rules.routing_code, asked, seen)
    if not lets_in(rules.admission_code, asked, seen, picked, rules.admission):
        return NOT_ADMITTED
    house.counters[ROUTED] += 1
    send(request, seen.replicas[picked], now_s, house)
    return SERVED


def send(request: int, replica: int, now_s: float, house: House) -> None:
    """A request joins the queue of a replica, which acts at once where it had nothing to do."""
    books, jobs, lists = house.books, house.jobs, house.lists
    house.times[request].replica = replica
    settle(replica, now_s, house)
    line_up(replica, request, jobs, lists)
    lists[replica].due_tokens += tokens_due(request, jobs)
    first = replica - replica % house.rules.copies
    if books[first].clock_s == NEVER_S and books[first].door != DEAF:
        books[first].clock_s = now_s


def hold(request: int, house: House) -> None:
    """Waits at the router, in order, until a replica opens."""
    counters = house.counters
    house.jobs[request].behind = -1
    if counters[HELD] == 0:
        counters[FIRST_HELD] = request
    else:
        house.jobs[counters[LAST_HELD]].behind = request
    counters[LAST_HELD] = request
    counters[HELD] += 1


def asked_of(request: int, house: House) -> Asked:
    """What policies at the door know of a request."""
    times, jobs = house.times, house.jobs
    return Asked(
        house.counters[ROUTED],
        times[request].draw_frac,
        times[request].session,
        jobs[request].rank,
        jobs[request].prompt_tokens,
    )


def look_around(request: int, house: House) -> Seen:
    """What policies at the door see of the replicas that take requests."""
    seen, lists, books, count = house.seen, house.lists, house.books, 0
    prompt = house.jobs[request].prompt_tokens
    for replica in range(len(books)):
        if books[replica].door == SHUT:
            continue
        seen.replicas[count] = replica
        seen.waiting[count] = lists[replica].waiting_count
        seen.running[count] = lists[replica].running_count
        seen.free_blocks[count] = lists[replica].free_blocks
        seen.due_tokens[count] = lists[replica].due_tokens - books[replica].prefill_tokens
        seen.prompt_token_s[count] = house.rules.prompt_token_s * books[replica].pace_frac
        seen.missing_tokens[count] = prompt
        if house.rules.reads_cache:
            seen.missing_tokens[count] = missing_tokens(
                replica, request, house.jobs, house.limits, house.cache
            )
        count += 1
    return Seen(
        seen.replicas[:count],
        seen.waiting[:count],
        seen.running[:count],
        seen.free_blocks[:count],
        seen.missing_tokens[:count],
        seen.due_tokens[:count],
        seen.prompt_token_s[:count],
    )


def missing_tokens(
    replica: int, request: int, jobs: Jobs, limits: Limits, cache: Cache | None
) -> int:
    """Tokens of a prompt that a replica would have to compute."""
    prompt = jobs[request].prompt_tokens
    if cache is None:
        return prompt
    found = look_up(replica, request, prompt, limits, cache)
    found += look_below(replica, request, found, prompt, limits, cache)
    return prompt - found * limits.block_tokens


def let_next_come(now_s: float, house: House) -> None:
    """In a closed loop, who leaves lets the next one come at that moment."""
    known = house.counters[KNOWN]
    if house.rules.concurrency > 0 and known < len(house.times.arrival_s):
        house.times[known].arrival_s = now_s
        house.counters[KNOWN] += 1


def settle(replica: int, now_s: float, house: House) -> None:
    """Sums the time of those in the house until now, before their number changes."""
    in_house = house.lists[replica].running_count + house.lists[replica].waiting_count
    house.books[replica].request_s += in_house * (now_s - house.books[replica].changed_s)
    house.books[replica].changed_s = now_s


def take_off(replica: int, now_s: float, arrival_s: float, house: House) -> bool:
    """Forms the next batch and starts its step; False when nothing moves or ever will."""
    lists, books = house.lists, house.books
    if lists[replica].running_count + lists[replica].waiting_count == 0:
        books[replica].clock_s = NEVER_S
        return True
    thrown_before = lists[replica].preemptions
    if house.rules.evicts and lists[replica].waiting_count > 0:
        make_way(replica, house.jobs, lists, house.limits, house.seats, house.cache)
    count = form_batch(
        house.rules.batching_code,
        replica,
        house.jobs,
        lists,
        house.limits,
        house.seats,
        house.cache,
    )
    if count == 0 or books[replica].dry_steps > house.rules.most_dry_steps:
        return False
    books[replica].flying_sequences = count
    has_decodes_only = start_step(replica, now_s, house)
    is_steady = count == lists[replica].running_count
    is_steady = is_steady and lists[replica].preemptions == thrown_before
    if house.rules.evicts and lists[replica].waiting_count > 0:
        return True  # every step asks anew who has to leave
    is_skipped = house.rules.can_skip and house.counters[LOGGED] >= len(house.log.replica)
    if has_decodes_only and is_steady and is_skipped:
        repeat_step(replica, min(arrival_s, others_act_s(replica, house)), house)
    return True


def take_off_together(first: int, now_s: float, arrival_s: float, house: House) -> bool:
    """The same for copies that step together; False when nothing moves or ever will."""
    if requests_of(first, house) == 0:
        house.books[first].clock_s = NEVER_S
        return True
    count, is_steady = form_together(first, house)
    if count == 0:
        return False
    has_decodes_only = start_together(first, now_s, house)
    is_skipped = house.rules.can_skip and house.counters[LOGGED] >= len(house.log.replica)
    if has_decodes_only and is_steady and is_skipped:
        repeat_together(first, min(arrival_s, others_act_s(first, house)), house)
    return True


def others_act_s(replica: int, house: House) -> float:
    """In a closed loop another replica may let a request come; never before it acts next."""
    soonest_s = NEVER_S
    if house.rules.concurrency > 0:
        for other in range(len(house.books.clock_s)):
            if other != replica:
                soonest_s = min(soonest_s, house.books[other].clock_s)
    return soonest_s


def land(replica: int, now_s: float, house: House) -> None:
    """A step ends: tokens are made, and who has all of them leaves."""
    ended = end_step(replica, now_s, house)
    if ended > 0:
        settle(replica, now_s, house)
        let_leave(replica, house)
        for _ in range(ended):
            let_next_come(now_s, house)


def land_together(first: int, now_s: float, house: House) -> None:
    """A step of all copies of a group ends."""
    ended = end_together(first, now_s, house)
    for copy in range(first, first + house.rules.copies):
        if house.books[copy].ended > 0:
            settle(copy, now_s, house)
            let_leave(copy, house)
    for _ in range(ended):
        let_next_come(now_s, house)


def let_leave(replica: int, house: House) -> None:
    """Those with all their tokens give their blocks back; the others close up in order."""
    jobs, lists, seats = house.jobs, house.lists, house.seats
    kept = 0
    for place in range(lists[replica].running_count):
        request = seats[replica, place].running
        if jobs[request].made_tokens == jobs[request].output_tokens:
            free_blocks(replica, request, jobs, lists, house.cache)
        else:
            seats[replica, kept].running = request
            kept += 1
    lists[replica].running_count = kept
