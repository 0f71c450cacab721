"""A serving run whose replays need larger fleets: its report sells those, and says so."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from small_serve import chat

import planner.search.replays as replays_room
from planner.archive.store import Archive
from planner.documents.figures import figure, human
from planner.evaluated import CLOSED_FORM, REPLAY, Replay
from planner.metrics import METRICS
from planner.report.blocks import Points, Table, Words
from planner.report.candidates import candidates
from planner.report.decision import decision, sentence
from planner.report.gather import gather
from planner.report.replayed import front_of
from planner.report.settings import rent
from planner.report.validity import not_validated, outside
from planner.report.words import Say
from planner.runs.kinds import prepare
from planner.runs.physics import PHYSICS
from planner.runs.run import run_study
from simkernel.errors import UnknownName

SHORT = ("workload.chat.trace.duration_s=30", "workload.chat.peak_window_s=10")
MORE = 2
"""Replicas that the replay of these tests asks for beyond the closed form's."""


def larger(engine, columns, accelerator):
    """A replay of a millisecond: the closed form at a larger fleet, with slower first tokens."""
    closed = PHYSICS["serve"].evaluate(engine, columns, accelerator)
    fleet = closed.metrics["replicas"] + MORE
    found = PHYSICS["serve"].evaluate(engine, columns, accelerator, fleet)
    slow = {"ttft_s_p95": found.metrics["ttft_s_p95"] * 1.2}
    told = {
        "replicas": float(fleet[0] - MORE), "needed_replicas": float(fleet[0]), "broken": "",
    }  # fmt: skip
    return Replay(replace(found, metrics={**found.metrics, **slow}), told)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The archive and the id of a run with some plans replayed."""
    archive = Archive(tmp_path_factory.mktemp("replayed") / "x.duckdb")
    with pytest.MonkeyPatch.context() as patch:
        quick = replace(PHYSICS["serve"], replay=larger)
        patch.setattr(replays_room, "physics_of", lambda study: quick)
        engine = prepare(chat(*SHORT, "search.replay=4", "accelerator=H100-SXM"))
        return archive, run_study(engine, archive, workers=1).run


@pytest.fixture(scope="module")
def got(run):
    """What its report tells of."""
    return gather(*run)


def said(got):
    """What the first page says, and the titles of its tables."""
    lines = []
    for block in (*decision(got, Say("en")), *candidates(got, Say("en"))):
        lines += [block.text] if isinstance(block, Words) else []
        lines += block.lines if isinstance(block, Points) else []
        lines += [block.title] if isinstance(block, Table) else []
    return " ".join(lines)


def test_the_fleet_of_the_replay_is_what_is_sold(run, got):
    """A manager would order the fleet that the replay found too small, or nothing at all."""
    archive, name = run
    sample = archive.sample(name)
    at = list(sample["plan"]).index(got.word("plan"))
    assert got.fidelity == REPLAY
    assert got.value("replicas") == sample["needed_replicas"][at] == sample["replicas"][at] + MORE
    assert sentence(got, "en").startswith("Buy ")
    assert f"with {figure(got.value('devices'))} H100-SXM at work" in sentence(got, "en")
    assert sentence(got, "zh").startswith("在 ")


def test_its_cost_is_that_of_its_own_fleet_on_every_page(got):
    """The first page would price one fleet and the pages of money another."""
    assert got.plan["ledgers"]["usd"]["total"] == pytest.approx(got.value("usd"), rel=1e-9)
    assert got.plan["metrics"]["replicas"] == got.value("replicas")
    assert got.plan["metrics"]["ttft_s_p95"] == got.value("ttft_s_p95")
    assert got.outcomes[0].value == pytest.approx(got.value("usd"), rel=1e-9)
    assert not got.stale


def test_the_closed_form_is_told_apart_and_never_compared(got):
    """A cheaper price that nobody has replayed would beat one that holds."""
    words = said(got)
    assert {str(f) for f in got.front["fidelity"]} == {REPLAY}
    least = float(np.nanmin(np.asarray(got.closed["usd"], float)))
    assert least < got.value("usd")
    assert "By the closed form alone" in words
    assert "so it is not held against the choice" in words
    assert "on the front of what was replayed" in words


@pytest.mark.long
def test_a_plan_that_was_not_replayed_can_be_asked_for_as_what_it_is(run, got):
    """Somebody who names a plan would get another, or it would be sold as held up."""
    archive, name = run
    plans = [str(plan) for plan in got.closed["plan"] if str(plan) not in got.replays]
    found = gather(archive, name, plans[0])
    assert (found.fidelity, found.word("plan")) == (CLOSED_FORM, plans[0])
    assert sentence(found, "en").startswith("Do not order yet")
    held = str(got.front["plan"][-1])
    assert gather(archive, name, held).fidelity == REPLAY
    with pytest.raises(UnknownName, match="not on the front"):
        gather(archive, name, "pzzzz")


def test_what_breaks_a_limit_when_replayed_is_not_chosen(run, got):
    """The cheapest replayed plan would be ordered though its replay says that it fails."""
    archive, name = run
    rows = {n: np.ma.getdata(c) for n, c in archive.replayed(name).items()}
    broken = {**rows, "keeps": rows["plan"] != got.word("plan")}
    found = front_of(name, got.study, got.closed, broken)
    assert got.word("plan") not in set(found.columns["plan"])
    nothing = {**rows, "keeps": np.zeros(len(rows["plan"]), dtype=bool)}
    assert front_of(name, got.study, got.closed, nothing).fidelity == CLOSED_FORM


def test_what_lies_outside_the_measured_says_why_and_what_to_do(got):
    """A board would read of an unmeasured chip where a prefix cache is what nobody measured."""
    say, other = Say("en"), {n: np.array(c) for n, c in got.front.items()}
    other["validated"] = np.zeros(len(other["plan"]))
    words = not_validated(replace(got, front=other), say)
    assert "No plan of the front is held to measurements" in words
    assert "have one replica tested under this traffic" in words
    row = {"accelerator": "GB300", "precision": "fp8"}
    assert "GB300 in fp8" in outside(got.study, row, say)
    assert "prefix cache" in outside(got.study, {**row, "prefix_cache": "lru"}, say)
    assert "GB300" not in outside(got.study, {**row, "prefix_cache": "lru"}, say)


def test_every_metric_and_limit_goes_by_words():
    """A manager would read `usd_per_mtoken_input` or `prompt_in_a_step` in a table."""
    rooms = Path(replays_room.__file__).parents[1].rglob("*.py")
    limits = {n for room in rooms for n in re.findall(r'"([\w: ]+)": Limit\(', room.read_text())}
    assert {"memory", "kernels", "decode: room"} <= limits
    for language in ("en", "zh"):
        say = Say(language)
        names = {*METRICS, *limits, "usd_high", "prefill.devices"}
        raw = sorted(name for name in names if say.metric(name) == name.replace("_", " "))
        assert set(raw) <= ({"devices", "memory", "racks"} if language == "en" else set())
    assert Say("en").metric("prefill.devices") == "devices (prompt pool)"
    assert Say("en").metric("ttft_s_p95 of an empty replica").endswith("on an empty replica")


def test_rent_of_whole_units_is_told_with_the_rent_by_device(got):
    """A buyer would hold owning against renting idle devices that nobody has to rent."""
    words = " ".join(block.text for block in rent(got, Say("en")) if isinstance(block, Words))
    devices, units = got.value("devices"), got.ends.middle.bill
    rented = float((units.purchase_units * units.devices_per_unit)[0])
    assert rented > devices
    assert f"{figure(rented)} devices are paid for, {figure(devices)} of them work" in words
    single = got.value("rent_usd") * devices / rented
    assert f"by the device it would be {human(single, 'USD')}" in words
