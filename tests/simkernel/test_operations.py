"""Failures, drains, slow replicas, autoscaling, admission and ranks, each held to its law."""

from dataclasses import replace

import numpy as np
import pytest
from replay_scenarios import accounted
from serving_cases import fleet, linear_tables, same, stream

from simkernel.errors import BadStudy, UnknownName
from simkernel.operations.outages import Operations, Outage, Scaling
from simkernel.replay.opening import Run
from simkernel.replay.requests import Requests
from simkernel.replay.results import NOT_ADMITTED
from simkernel.replay.serve import replay

SECONDS = linear_tables(launch_s=1.0, token_s=0.0, context_s=0.0)
TABLES = linear_tables(has_joules=True)


def at_once(prompts, outputs, **columns):
    return Requests(np.zeros(len(prompts)), np.array(prompts), np.array(outputs), **columns)


def happens(*outages, **changed):
    return Operations(tuple(outages), **changed)


def played(requests, house, operations, tables=TABLES, **run):
    return replay(requests, house, tables, Run(**run), operations=operations)


def test_the_survivors_of_one_of_n_are_busy_n_over_n_less_one_as_much():
    """A fleet that loses a replica would look as busy as before, and be planned too small."""
    requests = stream(2000, 120.0, longest=(100, 2))
    house = fleet(replicas=4, routing="random", max_batch=1)
    whole = played(requests, house, happens())
    short = played(requests, house, happens(Outage((2,), 1e-9)))
    busy = [np.sum(r.totals.busy_s) / np.max(r.totals.end_s) for r in (whole, short)]
    rho, survivors = busy[0] / 4, busy[1] / 3
    assert 0.2 < rho < 0.5
    assert survivors == pytest.approx(rho * 4 / 3, rel=0.01)
    assert short.totals.busy_s[2] == 0.0


def test_a_failure_by_hand():
    """Steps of one second; the replica fails in the second one and is back at four and a half.

    Two of five tokens are made; they are kept, or not, or the request is given up.
    """
    one, house = at_once([10], [5]), fleet()
    outage = Outage((0,), 2.5, 4.5)
    ends = {
        w: played(one, house, happens(outage, of_lost=w), SECONDS) for w in ("resume", "restart")
    }
    assert ends["resume"].first_token_s.tolist() == [1.0]
    assert ends["resume"].finish_s.tolist() == [7.5]
    assert ends["restart"].first_token_s.tolist() == [5.5]
    assert ends["restart"].finish_s.tolist() == [9.5]
    lost = played(one, house, happens(outage, of_lost="lose"), SECONDS)
    assert lost.refused() == {"lost with a replica that failed": 1}
    assert np.isnan(lost.finish_s[0])


def test_who_is_sent_to_a_dead_replica_waits_until_somebody_notices():
    """Detection would be free, and the requests of its seconds would be forgotten."""
    requests, house = at_once([10, 10], [2, 2]), fleet(replicas=2)
    outage = Outage((1,), 1e-9, noticed_s=3.0)
    result = played(requests, house, happens(outage), SECONDS)
    assert result.finish_s == pytest.approx([2.0, 5.0])
    assert result.replica.tolist() == [0, 0]


def test_requests_wait_at_the_router_while_no_replica_is_open():
    """A whole fleet that restarts would lose, or serve, what comes meanwhile."""
    requests = Requests(np.array([0.0, 1.0]), np.array([5, 5]), np.array([1, 1]))
    back = played(requests, fleet(), happens(Outage((0,), 0.5, 3.0, way="failure")), SECONDS)
    assert back.finish_s.tolist() == [4.0, 4.0]
    gone = played(requests, fleet(), happens(Outage((0,), 0.5)), SECONDS)
    assert gone.refused() == {"no replica was left to serve it": 2}


def test_a_drained_replica_ends_what_it_has_and_takes_nothing():
    """A planned restart would cost work, or never begin."""
    requests = stream(120, 30.0)
    drain = Outage((0,), 1.0, 3.0, way="drain")
    result = played(requests, fleet(replicas=2), happens(drain))
    in_drain = (result.arrival_s > 1.0) & (result.arrival_s < 3.0)
    assert np.all(result.replica[in_drain] == 1)
    assert np.any(result.replica[result.arrival_s > 3.0] == 0)
    assert np.sum(result.preemptions) == 0
    assert np.all(result.is_served)


def test_after_its_grace_a_drained_replica_is_empty():
    """The longest answer would hold up a restart for ever."""
    requests = at_once([10, 10], [50, 50])
    drain = Outage((0,), 1.5, way="drain", grace_s=2.0)
    result = played(requests, fleet(replicas=2), happens(drain), SECONDS)
    assert result.replica.tolist() == [1, 1]
    assert result.totals.end_s[0] == 3.5
    assert result.finish_s[0] > result.finish_s[1]


def test_a_slow_replica_takes_as_many_times_as_long():
    """Steps under a degraded link would be as fast as ever, or slowed twice where they repeat."""
    requests, house = at_once([10, 700, 20], [9, 40, 3]), fleet()
    plain = played(requests, house, happens())
    slow = played(requests, house, happens(Outage((0,), 1e-12, way="slow", times=2.5)))
    first_s = np.min(plain.first_token_s)  # the step under way keeps its pace
    assert slow.finish_s - first_s == pytest.approx(2.5 * (plain.finish_s - first_s), rel=1e-9)


def test_what_happens_does_not_depend_on_steps_run_as_one():
    """A failure in a flight of like steps would forget the tokens made before it."""
    outages = (
        Outage((1,), 1.0, 2.0, noticed_s=0.25),
        Outage((0,), 1.5, 2.5, way="slow", times=2.0),
        Outage((2,), 1.5, 3.0, way="drain", grace_s=0.5),
    )
    requests, house = stream(100, 30.0), fleet(replicas=3, routing="least_loaded")
    one, other = (
        played(requests, house, happens(*outages, of_lost=after), can_skip=can_skip)
        for after in ("resume",)
        for can_skip in (True, False)
    )
    assert same(one, other)
    assert np.sum(one.preemptions) > 0


def test_compiled_and_interpreted_play_the_same():
    """Machine code would run the fleet another way than the source that is read."""
    requests = replace(stream(12, 20.0, longest=(200, 20)), ranks=np.arange(12) % 3)
    house = fleet(replicas=2, routing="slo_aware", max_batch=2, evicts=True)
    outages = happens(Outage((0,), 0.2, 0.5))
    one, other = (played(requests, house, outages, is_compiled=is_so) for is_so in (True, False))
    assert same(one, other)
    assert np.sum(one.preemptions) > 0


def test_a_failure_computes_each_request_at_most_once_more():
    """Recovery would feed itself: work lost again and again until nobody is served."""
    requests = stream(200, 40.0)
    outages = [Outage((i % 3,), 0.5 + 0.4 * i, 0.7 + 0.4 * i) for i in range(10)]
    result = played(requests, fleet(replicas=3), happens(*outages))
    assert np.all(result.is_served)
    assert np.max(result.preemptions) <= len(outages)
    lengths = result.prompt_tokens + result.output_tokens
    most = np.sum(lengths * result.preemptions) + np.sum(result.prompt_tokens)
    assert np.sum(result.totals.prefill_tokens) <= most


@pytest.mark.long
def test_prefix_caches_are_lost_with_their_replica():
    """A replica that restarts would find blocks in a memory that was switched off."""
    from serving_cases import families

    requests = families(60)
    house = fleet(has_prefix_cache=True)
    whole, failed = (
        played(requests, house, happens(*outages)) for outages in ((), (Outage((0,), 1.0, 1.001),))
    )
    assert np.sum(failed.hit_tokens) < np.sum(whole.hit_tokens)
    assert np.all(failed.is_served)
    assert failed.totals.holders_left.tolist() == [0]


def test_an_autoscaled_fleet_pays_for_what_is_on_and_serves_everybody():
    """Replicas would serve before they have started, or be paid for while they are off."""
    requests = stream(300, 30.0)
    scaling = Scaling("requests_in_house", 4.0, 1, 1, every_s=0.5, start_s=1.0, hold_s=1.0)
    result = played(
        requests, fleet(replicas=4, routing="least_loaded"), Operations(scaling=scaling)
    )
    others = result.replica > 0
    assert np.all(result.is_served)
    assert np.any(others)
    assert np.min(result.arrival_s[others]) >= 0.5 + 1.0
    assert np.all(result.totals.powered_s >= result.totals.busy_s - 1e-9)
    assert np.all(result.totals.powered_s[1:] < np.max(result.totals.end_s))


def test_a_fleet_that_may_not_shrink_is_the_fleet_without_a_scaler():
    """Asking a policy would change what it only watches."""
    requests, house = stream(100, 20.0), fleet(replicas=2)
    scaling = Scaling("busy_share", 1.0, least=2, first=2, every_s=0.3)
    assert same(
        played(requests, house, happens()), played(requests, house, Operations(scaling=scaling))
    )


def test_a_full_queue_turns_away_who_may_be():
    """Admission would shed the urgent, or let the queue grow past its bound."""
    ranks = np.array([1, 1, 1, 1, 0])
    requests = at_once([10] * 5, [3] * 5, ranks=ranks)
    house = fleet(max_batch=1, admission="queue_limit", most_waiting=2, shed_from_rank=1)
    result = played(requests, house, happens(), SECONDS)
    assert (result.refusal_code == NOT_ADMITTED).tolist() == [False, False, True, True, False]
    open_door = replace(house, most_waiting=10)
    assert np.all(played(requests, open_door, happens(), SECONDS).is_served)


def test_who_is_let_in_by_expected_wait_meets_it():
    """The door would promise what the queue behind it does not keep."""
    requests = stream(400, 100.0, longest=(2000, 2))
    house = fleet(max_context_tokens=4096, admission="expected_wait", most_wait_s=0.2)
    result = played(requests, house, happens())
    shed = np.mean(result.refusal_code == NOT_ADMITTED)
    assert 0.05 < shed < 0.95
    assert np.nanpercentile(result.ttft_s, 95) < 0.3
    everybody = played(requests, replace(house, admission="everyone"), happens())
    assert np.nanpercentile(everybody.ttft_s, 95) > 0.6


def test_the_urgent_go_first_and_the_others_in_order():
    """A class that pays for speed would wait behind one that does not."""
    requests = at_once([10] * 4, [1] * 4, ranks=np.array([1, 1, 0, 0]))
    result = played(requests, fleet(max_batch=1), happens(), SECONDS)
    assert result.finish_s.tolist() == [3.0, 4.0, 1.0, 2.0]


def test_the_less_urgent_leave_their_seat_only_where_they_have_to():
    """Preemption would wait for the end of an answer, or throw out somebody as urgent."""
    requests = Requests(
        np.array([0.0, 1.5]), np.array([10, 10]), np.array([4, 2]), ranks=np.array([1, 0])
    )
    waits, leaves = (
        played(requests, fleet(max_batch=1, evicts=evicts), happens(), SECONDS)
        for evicts in (False, True)
    )
    assert waits.finish_s.tolist() == [4.0, 6.0]
    assert leaves.finish_s.tolist() == [6.0, 4.0]
    assert leaves.preemptions.tolist() == [1, 0]
    alike = replace(requests, ranks=np.array([0, 0]))
    assert (
        played(alike, fleet(max_batch=1, evicts=True), happens(), SECONDS).preemptions.sum() == 0
    )


def test_one_rank_for_all_is_first_come_first_served():
    """Ranks that say nothing would change who is thrown out, or when."""
    requests, house = stream(150, 40.0), fleet(pool_blocks=150, evicts=True)
    ranked = replace(requests, ranks=np.full(150, 7))
    plain = played(requests, replace(house, evicts=False), happens())
    assert same(plain, played(ranked, house, happens()))
    assert np.sum(plain.preemptions) > 0


def test_a_session_stays_where_it_is_and_only_a_failed_replica_moves_its_own():
    """Conversations would lose their caches whenever any replica fails."""
    sessions = np.arange(300) % 40
    requests = replace(stream(300, 30.0), sessions=sessions)
    house = fleet(replicas=4, routing="session_sticky")
    before = played(requests, house, happens())
    failed = played(requests, house, happens(Outage((1,), 1e-9)))
    homes = {s: set(before.replica[sessions == s]) for s in range(40)}
    assert all(len(home) == 1 for home in homes.values())
    assert {one for home in homes.values() for one in home} == {0, 1, 2, 3}
    moved = before.replica != failed.replica
    assert np.all(before.replica[moved] == 1)
    assert not np.any(failed.replica == 1)


def test_a_router_that_foresees_looks_at_tokens_and_not_at_heads():
    """A replica with one huge prompt would look emptier than one with two small ones."""
    requests = at_once([1900, 20, 20, 30], [2, 2, 2, 2])
    by_count = played(requests, fleet(replicas=2, routing="least_loaded"), happens())
    by_tokens = played(requests, fleet(replicas=2, routing="slo_aware"), happens())
    assert by_count.replica.tolist() == [0, 1, 0, 1]
    assert by_tokens.replica.tolist() == [0, 1, 1, 1]


@pytest.mark.long
@pytest.mark.parametrize("seed", [0, 50, 100, 150])
def test_every_request_of_random_scenarios_is_accounted_for(seed):
    """Some mix of policies, failures and traffic would forget a request or never end."""
    wrong = {one: found for one in range(seed, seed + 50) if (found := accounted(one))}
    assert wrong == {}


def test_what_cannot_happen_is_refused():
    """A slip of the pen would be played as if nothing happened."""
    with pytest.raises(BadStudy, match="way 'fail'"):
        Outage((0,), 1.0, way="fail")
    with pytest.raises(BadStudy, match="rising times"):
        Outage((0,), 2.0, 1.0)
    with pytest.raises(BadStudy, match="fleet has 0 to 0"):
        played(stream(1), fleet(), happens(Outage((3,), 1.0)))
    with pytest.raises(UnknownName):
        Scaling("guess", 1.0)
    with pytest.raises(BadStudy, match="first"):
        Scaling("busy_share", 1.0, least=3, first=2)
