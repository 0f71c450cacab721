"""The replay of a training plan as a document, a timeline, a command and a tier of a search."""

import json

import numpy as np
import pytest
from small import MOE, planner, study_of

from planner.archive.store import Archive
from planner.bands import GAP_HIGH, GAP_LOW, bands, gap_band, joined, regime_of, with_bands
from planner.costing.recost import recost
from planner.documents.training_replay import training_replay_document
from planner.runs.physics import PHYSICS
from planner.runs.refine import SPREAD
from planner.runs.run import run_study
from planner.space.blocks import values_of
from planner.space.plan_keys import codes_of
from planner.study.network import Degraded
from planner.study.settings import with_settings
from planner.training.engine import catalogue_names, prepare
from planner.training.replay import _outages
from simkernel.errors import BadStudy
from simkernel.replay.phases import INSIDE, OUTSIDE, OWN_LINKS

PIPED = ("accelerator=H100-SXM", "devices=64", "supernode_devices=8", "ep=8", "pp=4", "tp=1")


def study(*settings):
    """A small study of experts in a pipeline."""
    return with_settings(study_of(MOE), [*PIPED, *settings], catalogue_names())


@pytest.fixture(scope="module")
def document(tmp_path_factory):
    """One plan replayed, with its timeline."""
    path = tmp_path_factory.mktemp("timeline") / "out.json"
    return {**training_replay_document(study(), seeds=2, timeline=path), "path": path}


def test_the_gap_is_explained_term_by_term(document):
    """SimAI 90: nobody could see where the exposed time comes from."""
    found = document["replay"]
    whole_s = found["closed_form_s"] + sum(found["gap_s"].values())
    assert whole_s == pytest.approx(found["step_s"]["value"], rel=1e-9)
    assert sum(found["closed_form_terms_s"].values()) == pytest.approx(found["closed_form_s"])
    assert found["gap"]["step_s"] == pytest.approx(found["closed_form_s"] / whole_s - 1.0)
    assert {"pipeline", "data_parallel", "expert_imbalance", "stragglers", "shared_ports"} <= set(
        found["gap_s"]
    )


def test_the_critical_path_is_as_long_as_the_step_and_stages_fill_it(document):
    """Terms would be missing from the path, or a stage work longer than the step."""
    found = document["replay"]
    first_s = sum(found["critical_path"]["seconds"].values())
    assert found["first_seed"] == study().seed
    assert first_s == pytest.approx(found["first_step_s"], rel=1e-9)
    assert found["step_s"]["low"] * 0.95 <= first_s <= found["step_s"]["high"] * 1.05
    optimiser_s = found["critical_path"]["seconds"]["optimiser"]
    for line in found["stages"]:
        parts_s = line["busy_s"] + line["idle_s"] + line["data_parallel_s"] + optimiser_s
        assert parts_s == pytest.approx(first_s, rel=1e-9)
        assert line["idle_s"] >= -1e-9
    runs = found["critical_path"]["runs"]
    assert all(b["from_s"] >= a["to_s"] - 1e-9 for a, b in zip(runs, runs[1:], strict=False))
    assert all(0.0 <= line["scaleout_port_busy_frac"] <= 1.0 for line in found["links"])


def test_a_timeline_is_a_chrome_trace_of_stages_links_and_the_critical_path(document):
    """Perfetto would open an empty page: complete events need ts, dur, pid and tid."""
    events = json.loads(document["path"].read_text())["traceEvents"]
    assert document["timeline"]["events"] == len(events)
    bars = [event for event in events if event["ph"] == "X"]
    assert all(event["dur"] >= 0 and event["ts"] >= 0 for event in bars)
    names = {e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert names == {"stages", "links", "critical path"}
    by_group = {pid: [e for e in bars if e["pid"] == pid] for pid in range(3)}
    assert all(by_group.values())
    critical = sum(e["args"].get("critical", False) for e in by_group[0])
    assert critical == len(by_group[2])
    for row in {event["tid"] for event in by_group[0]}:
        own = sorted((e["ts"], e["dur"]) for e in by_group[0] if e["tid"] == row)
        assert all(b[0] >= a[0] + a[1] - 1e-3 for a, b in zip(own, own[1:], strict=False))


def test_bars_of_one_row_of_a_timeline_follow_each_other(document):
    """A viewer nests bars of a row, and would show one that overlaps another as a part of it."""
    events = json.loads(document["path"].read_text())["traceEvents"]
    rows = {}
    for event in (event for event in events if event["ph"] == "X"):
        rows.setdefault((event["pid"], event["tid"]), []).append((event["ts"], event["dur"]))
    for own in map(sorted, rows.values()):
        assert all(b[0] >= a[0] + a[1] - 1e-3 for a, b in zip(own, own[1:], strict=False))
    named = {(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name"}
    assert {row for row in rows if row[0] < 2} <= named


def test_the_same_seed_is_the_same_replay_and_what_is_decreed_marks_the_plan(document):
    """A plan could not be replayed twice, or be balanced without anybody having written so."""
    again = training_replay_document(study(), seeds=2)["replay"]
    assert again == document["replay"]
    assert not again["marks"]
    even = training_replay_document(
        study("workload.main.expert_imbalance=1.0", "workload.main.stragglers=1.0"), seeds=1
    )["replay"]
    assert set(even["marks"]) == {"even_experts", "given_stragglers"}
    assert even["step_s"]["value"] < again["step_s"]["value"]


def test_scarce_uplinks_lengthen_a_replayed_step_no_more_than_the_closed_form_has_it():
    """Every group pays for a thin spine in closed form; in a replay only those that meet do."""
    thin = training_replay_document(study("oversubscription=4", "ep=16"), seeds=1)["replay"]
    full = training_replay_document(study("ep=16"), seeds=1)["replay"]
    assert full["step_s"]["value"] < thin["step_s"]["value"]
    assert thin["closed_form_s"] > full["closed_form_s"]
    assert thin["gap_s"]["pipeline"] == pytest.approx(full["gap_s"]["pipeline"], abs=0.02)
    assert thin["gap_s"]["thin_spine"] != 0.0 == full["gap_s"]["thin_spine"]
    assert thin["links"][-1]["uplink"] == 0
    assert 0.0 < thin["links"][-1]["busy_frac"] <= 1.0 + 1e-9


def test_a_tier_of_replays_gets_every_metric_at_the_replayed_step():
    """The loop would compare a replayed step with days of the closed form."""
    engine = prepare(study())
    columns = values_of(engine.space, codes_of(engine.space, np.array([0])))
    replay = PHYSICS["train"].replay(engine, columns, "H100-SXM")
    closed = PHYSICS["train"].evaluate(engine, columns, "H100-SXM")
    assert set(replay.found.metrics) == set(closed.metrics)
    ratio = replay.told["replayed_step_s"] / closed.metrics["step_s"][0]
    assert replay.found.metrics["step_s"][0] == pytest.approx(replay.told["replayed_step_s"])
    assert replay.found.metrics["days"][0] == pytest.approx(closed.metrics["days"][0] * ratio)
    assert replay.told["gap_step_s"] == pytest.approx(1.0 / ratio - 1.0)


def test_a_study_that_gives_the_step_has_nothing_to_replay():
    """A replay would be stretched to what the study says, and confirm it."""
    with pytest.raises(BadStudy, match="nothing to replay"):
        training_replay_document(study("pin.mfu_frac=0.4"), seeds=1)


def test_the_command_replays_a_training_study(tmp_path):
    """The documented command would refuse the studies it is documented for."""
    file = tmp_path / "moe.toml"
    file.write_text(MOE)
    settings = [word for setting in PIPED for word in ("--set", setting)]
    result = planner("replay", file, *settings, "--seeds", 1)
    assert result.code == 0
    assert "critical path" in result.out
    assert "alone, a step of" in result.out
    told = planner("replay", file, *settings, "--seeds", 1, "--json").document["replay"]
    over = told["step_s"]["value"] / told["closed_form_s"] - 1.0
    assert f"({over:+.2%} of the closed form)" in result.out
    assert planner("replay", file, *settings, "--size").code == 2


@pytest.mark.long
def test_a_run_replays_training_plans_and_keeps_their_gaps(tmp_path):
    """The loop of tiers would serve requests alone, and the gap of a plan be forgotten."""
    asked = study("tp=[1, 2]", "search.replay=2")
    archive = Archive(tmp_path / "runs.duckdb")
    run = run_study(prepare(asked), archive, workers=1).run
    rows = archive.sample(run)
    assert len(rows["plan"]) == 2
    for step_s, low_s, high_s, gap in zip(
        *(rows[f"replayed_step_s{end}"] for end in ("", "_low", "_high")),
        rows["gap_step_s"],
        strict=True,
    ):
        assert low_s <= step_s <= high_s
        assert -0.2 < gap < 0.2
    assert np.isfinite(rows["gap_shared_ports_s"]).all()


@pytest.mark.long
def test_gaps_of_a_run_widen_the_bands_of_its_plans_priced_anew_too(tmp_path):
    """What replays found the closed form to be off by would be kept, and believed by nobody."""
    axes = ("tp=[1, 2]", "mbs=[1, 2]", "recompute=['selective', 'full']")
    asked = study(*axes, "search.replay=5", "search.driver=sample")  # replays all it is asked for
    archive = Archive(tmp_path / "runs.duckdb")
    done = run_study(prepare(asked), archive, workers=1)
    band = done.summary.tiers[SPREAD]
    gaps = np.array(archive.sample(done.run)["gap_step_s"], dtype=float)
    assert band["plans"] == len(gaps) >= 5
    assert (band["low_frac"], band["high_frac"]) == gap_band(gaps)
    front, low, high = done.front, *bands(regime_of(asked))["days"]
    wide = joined((low, high), (band["low_frac"], band["high_frac"]))
    assert band["low_frac"] < 1.0 or band["high_frac"] > 1.0
    for end, factor in zip(("low", "high"), wide, strict=True):
        assert front[f"days_{end}"] == pytest.approx(front["days"] * factor, rel=1e-12)
    again = recost(archive, done.run, ["costing.usd_per_kwh=0.2"])
    assert again.front["days_high"] == pytest.approx(again.front["days"] * wide[1], rel=1e-12)


@pytest.mark.parametrize(
    ("name", "wider"),
    [("days", [False, True]), ("mfu_frac", [True, False]), ("capex_usd", [False, False])],
)
def test_a_rate_is_as_much_less_as_a_step_is_longer_and_prices_are_neither(name, wider):
    """A slow step would widen the wrong end, or make hardware dearer."""
    plain = {name: np.array([0.5]), "validated": np.ones(1)}
    gap = {GAP_LOW: np.array([1.0]), GAP_HIGH: np.array([1.2])}
    before, after = with_bands("train", plain), with_bands("train", {**plain, **gap})
    changed = [1.0 - after[f"{name}_low"][0] / before[f"{name}_low"][0]]
    changed += [after[f"{name}_high"][0] / before[f"{name}_high"][0] - 1.0]
    assert [change > 1e-9 for change in changed] == wider
    assert min(changed) > -1e-9


SLOW = "network.degraded=[{{stage = 1, port = '{}', left_frac = {}}}]"


def test_a_slow_port_lengthens_the_step_by_what_needs_it_and_says_so(document):
    """A study could name a broken cable and read the step of a whole machine."""
    healthy_s = document["replay"]["step_s"]["value"]
    steps = []
    for left_frac in (0.9, 0.5, 0.25):
        found = training_replay_document(study(SLOW.format("scaleout", left_frac)), seeds=2)
        told = found["replay"]
        assert told["gap_s"]["degraded_links"] == pytest.approx(
            told["step_s"]["value"] - healthy_s, abs=1e-9 * healthy_s
        )
        assert "scaleout port of stage 1" in told["marks"]["degraded_links"]
        steps.append(told["step_s"]["value"])
    assert healthy_s <= steps[0] <= steps[1] < steps[2]


def test_domain_ports_at_half_cost_no_less_than_domains_at_half_their_rate():
    """Tensor traffic between products would be spread over the pass, and hidden beside it.

    No less: a slow port holds up the latencies of a collective as well.
    """
    own = ("workload.main.expert_imbalance=1.0", "workload.main.stragglers=1.0", "tp=4", "dp=4")
    slow = ", ".join(f"{{stage = {i}, port = 'domain', left_frac = 0.5}}" for i in range(4))
    whole, half, ports = (
        training_replay_document(study(*own, *more), seeds=1)["replay"]["step_s"]["value"]
        for more in ((), ("scaleup_gbytes_per_s=225",), (f"network.degraded=[{slow}]",))
    )
    assert whole < half <= ports < 2.0 * whole


def test_a_port_that_is_down_for_a_while_costs_no_more_than_that_while(document):
    """Flows on it would be lost, or wait for ever."""
    healthy_s = document["replay"]["step_s"]["value"]
    outage = "[{stage = 1, port = 'domain', left_frac = 0.0, from_s = 0.0, until_s = 0.5}]"
    found = training_replay_document(study(f"network.degraded={outage}"), seeds=2)["replay"]
    assert healthy_s < found["step_s"]["value"] <= healthy_s + 0.5 * 1.001


def test_faults_of_one_port_add_up_while_both_last_and_end_one_by_one():
    """The last entry would heal a worse fault, and the end of one would mend the other."""
    faults = (
        Degraded(1, "domain", 0.25, 0.0, 4.0),
        Degraded(1, "domain", 0.5, 1.0, 2.0),
        Degraded(0, "scaleout", 0.5, 1.0),
        Degraded(1, "domain", 0.75, 4.0, 5.0),
    )
    found = _outages(faults, devices=2)
    inside, outside = OWN_LINKS + INSIDE, OUTSIDE
    assert list(zip(*(column.tolist() for column in found), strict=True)) == [
        (0.0, inside, 0.25),
        (1.0, outside, 0.5),
        (1.0, inside, 0.125),
        (2.0, inside, 0.25),
        (4.0, inside, 0.75),
        (5.0, inside, 1.0),
    ]


@pytest.mark.parametrize(
    ("fault", "wanted"),
    [
        ("left_frac = 2", "a share from 0 to below 1"),
        ("left_frac = 0.5, from_s = nan", "wanted seconds"),
        ("left_frac = 0.5, x = 3", "tables {"),
    ],
)
def test_a_fault_in_a_list_of_tables_says_what_its_key_wants(fault, wanted):
    """A user would be told to write None."""
    with pytest.raises(BadStudy) as refused:
        study(f"network.degraded=[{{stage = 1, port = 'domain', {fault}}}]")
    assert wanted in str(refused.value)
    assert "wanted None" not in str(refused.value)


def test_ports_that_are_not_there_or_never_come_back_are_refused_together():
    """One fault at a time, or a replay that never ends."""
    bad = "[{stage = 9, port = 'domain', left_frac = 0.0}]"
    with pytest.raises(BadStudy) as refused:
        training_replay_document(study(f"network.degraded={bad}"), seeds=1)
    assert "stage 9 of 4" in str(refused.value)
    assert "give until_s" in str(refused.value)


def test_a_price_is_no_wider_for_want_of_a_measurement_of_speed():
    """Racks that are decided would seem to cost less than their own lowest price."""
    plain = {"capex_usd": np.ones(2), "step_s": np.ones(2), "validated": np.array([1.0, 0.0])}
    found = with_bands("train", plain)
    assert found["capex_usd_low"][0] == found["capex_usd_low"][1]
    assert found["step_s_low"][0] > found["step_s_low"][1]
