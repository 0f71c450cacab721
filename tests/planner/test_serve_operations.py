"""What happens to a fleet, from a study to the answer: keys, reasons, figures."""

import numpy as np
import pytest
from small_serve import CHAT, chat

from planner.documents.replay_text import replay_text
from planner.documents.serving import replay_document
from planner.pools.engine import prepare as prepare_pools
from planner.serving.engine import prepare, serving_notes
from planner.serving.operations import operations_of, survivors
from planner.serving.slo_minutes import minutes_lost
from planner.study.operations import Failure, ServeOperations
from planner.study.slo import Bound
from planner.study.written import study_from_json, study_sha256, study_to_json
from simkernel.errors import BadStudy

ONE = ("accelerator=H100-SXM", "tensor_parallel=1", "max_batch=64", "token_budget=2048")
KEY = "workload.chat.operations."
FAILURE = KEY + "failures=[{ at_s = 5, hosts = 1, for_s = 8, noticed_s = 1.0 }]"
CLASSES = (
    "workload.chat.slo={ fast = { share_frac = 0.5, ttft_s_p95 = 1.0 }, "
    "slow = { share_frac = 0.5, ttft_s_p95 = 9.0 } }"
)


def test_an_answer_says_what_a_failure_costs_and_what_is_left():
    """A host would fail in the busiest minute and nobody would be told of minutes or survivors."""
    document = replay_document(chat(*ONE, FAILURE, "replicas=16"), 1)
    found = document["operations"]
    assert found["window_minutes"] == pytest.approx(1 / 3)
    assert 0 <= found["slo_minutes_lost"] <= found["window_minutes"]
    assert found["lost_frac"] == found["shed_frac"] == 0.0
    (left,) = found["survivors"]
    assert left["replicas_left"] == 8
    assert "failures: only replays play it" in found["note"]
    assert "minutes" in replay_text(document)


def test_a_fleet_that_turns_everybody_away_is_no_plan():
    """Latencies of nobody keep every bound: an impossible plan would look perfect."""
    settings = (KEY + 'admission={ policy = "queue_limit", most_waiting = 0 }', "replicas=4")
    found = replay_document(chat(*ONE, *settings), 1)["replay"]
    assert {"shed_frac", "served"} <= {one["limit"] for one in found["violations"]}


def test_survivors_are_busy_n_over_n_less_k_as_much():
    """A check of N-1 and N-k would pass fleets that the failure fills."""
    rows = survivors(60.0, 10.0, 9.0, replicas=10, lost=1, hosts=4)
    assert [row["utilisation_frac"] for row in rows] == pytest.approx(
        [0.6 * 10 / (10 - k) for k in (1, 2, 3, 4)]
    )
    assert [row["keeps_bounds"] for row in rows] == [True, True, True, False]
    assert survivors(60.0, 10.0, 9.0, 1, 1, 1)[0]["utilisation_frac"] is None


def test_hosts_that_fail_one_after_another_are_others():
    """A second failure would hit the host that is already down, and cost nothing."""
    asked = ServeOperations(failures=(Failure(at_s=1.0), Failure(at_s=2.0, hosts=2)))
    first, second = operations_of(asked, 120.0, replicas=4, lanes=2, lost_with_host=1).outages
    assert first.replicas == (0, 1)
    assert second.replicas == (2, 3, 4, 5)
    assert (first.from_s, second.from_s) == (121.0, 122.0)


def test_minutes_lost_by_hand():
    """A request that nobody served would improve the percentiles of its minute."""
    ttft_s = np.array([0.1, 0.1, 5.0, 0.1, np.inf, 0.1])
    blocks = np.array([0, 0, 1, 2, 3, 4])
    checks = [(-1, "", Bound("ttft_s", "p90", 1.0))]
    classes = np.array([0, 0, 0, 0, 1, 0])
    assert minutes_lost({"ttft_s": ttft_s}, blocks, classes, checks, 30.0) == 1.0
    own = [(1, "slow.", Bound("ttft_s", "mean", 1.0))]
    assert minutes_lost({"ttft_s": ttft_s}, blocks, classes, own, 30.0) == 0.5


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ((KEY + "ranks={ fast = 0 }",), "classes of slo are none"),
        ((CLASSES, KEY + "ranks={ fast = 0 }"), "give every class a rank"),
        ((KEY + "preempts=true",), "one rank"),
    ],
)
def test_ranks_that_mean_nothing_are_refused(settings, reason):
    """A class without a rank would be served last, or first, without a word."""
    with pytest.raises(BadStudy, match=reason):
        prepare(chat(*settings))


def test_an_unknown_key_is_refused_with_its_neighbours():
    """A failure written at_seconds would never happen."""
    with pytest.raises(BadStudy, match="at_seconds"):
        chat(KEY + "failures=[{ at_seconds = 5 }]")


def test_pools_apart_refuse_what_they_do_not_play():
    """A pair of pools would survive a failure that nobody played."""
    pair = ("axes.prefill.tensor_parallel=1", "axes.decode.tensor_parallel=2")
    with pytest.raises(BadStudy, match="not played on pools apart"):
        prepare_pools(chat(*pair, FAILURE))


def test_the_closed_form_says_what_it_does_not_know():
    """Its figures would be taken for those of the fleet that fails."""
    study = chat(FAILURE)
    assert "only replays play it" in serving_notes(study, prepare(study).catalog)["operations"]
    assert "operations" not in serving_notes(chat(), prepare(study).catalog)


def test_a_stored_study_keeps_what_happens():
    """A run that is resumed would play a fleet to which nothing happens."""
    study = chat(FAILURE)
    again = study_from_json(study_to_json(study))
    assert again.serving.operations == study.serving.operations
    assert study_sha256(study) != study_sha256(chat())
    assert "operations" not in CHAT
