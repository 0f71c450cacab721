"""Nothing is feasible: how far each limit has to give, held to the study with the new limit."""

import pytest
from small import DENSE, planner, study_of, with_lines
from small_hardware import OPEN
from small_serve import chat

from planner.archive.store import Archive
from planner.documents.front_text import _nearest_lines
from planner.runs import relaxed
from planner.runs.kinds import prepare
from planner.runs.relaxed import Bound, bounds_of, relaxations
from planner.runs.run import run_study
from planner.search.choice import Choice

CHAT = ("workload.chat.trace.duration_s=30", "workload.chat.peak_window_s=10", "search.replay=0")

BROKEN = {
    "days": study_of(with_lines(DENSE, days="days = 3")),
    "money": study_of(with_lines(DENSE, days="usd = 2e4")),
    "either of two": study_of(with_lines(DENSE, days="days = 90\nusd = 2e4")),
    "a least speed": study_of(with_lines(DENSE, days="tokens_per_s = 5e6")),
    "the end of a band": study_of(with_lines(DENSE, days="days_high = 3")),
    "a latency": chat(*CHAT, "workload.chat.slo.tpot_s_p95=0.003"),
    "a latency and money": chat(*CHAT, "workload.chat.slo.tpot_s_p95=0.012", "limits.usd=2e5"),
    "a fleet's power": chat(*CHAT, "limits.it_peak_w=1000"),
    "hardware of a given count": study_of(OPEN.replace('"most"', "16").replace("50e6", "1e5")),
    "as much hardware as fits": study_of(OPEN.replace("50e6", "1e5")),
}
"""Studies without a feasible plan, of every kind."""


def is_feasible(study, folder):
    """Whether a run of the study has a front."""
    return bool(run_study(prepare(study), Archive(folder / "x.duckdb"), workers=1).front)


def said(study, folder):
    """What the run of a study says of its limits, by name."""
    done = run_study(prepare(study), Archive(folder / "x.duckdb"), workers=1)
    assert not done.front
    return {line["limit"]: line for line in done.summary.nearest["relaxations"]}


@pytest.mark.long
@pytest.mark.parametrize("name", BROKEN)
def test_a_limit_relaxed_as_said_is_enough_and_a_per_cent_less_is_not(name, tmp_path):
    """A person would ask for a month more, and be told no again; or for more than it takes."""
    study, found = BROKEN[name], said(BROKEN[name], tmp_path)
    bounds = {bound.name: bound for bound in bounds_of(study)}
    assert set(found) == set(bounds)
    helped = [line for line in found.values() if line["needed"] is not None]
    assert helped
    for line in helped:
        bound = bounds[line["limit"]]
        assert line["is_smallest"]
        less = line["needed"] * (1.01 if bound.is_at_least else 0.99)
        assert is_feasible(bound.moved(study, line["needed"]), tmp_path)
        assert not is_feasible(bound.moved(study, less), tmp_path)


@pytest.mark.long
def test_two_limits_that_forbid_everything_each_give_together(tmp_path):
    """A person would relax one limit after the other, and neither would help."""
    study = study_of(with_lines(DENSE, days="days = 3\nusd = 2e4"))
    found = relaxations(study, None)
    assert [line["needed"] for line in found["relaxations"]] == [None, None]
    share = found["together"]["change_frac"]
    for factor, is_enough in ((share, True), (share * 0.98, False)):
        both = study
        for bound in bounds_of(study):
            both = bound.moved(both, bound.given * (1 + factor))
        assert is_feasible(both, tmp_path) == is_enough


@pytest.mark.long
def test_what_would_have_to_give_is_told_in_text_and_in_the_document(tmp_path):
    """The answer would be an empty front and a shrug."""
    study, db = tmp_path / "x.toml", tmp_path / "x.duckdb"
    study.write_text(with_lines(DENSE, days="days = 3"))
    answer = planner("run", study, "--db", db, "--json")
    assert answer.code == 1
    (line,) = answer.document["nearest"]["relaxations"]
    assert (line["limit"], line["given"], line["unit"]) == ("days", 3, "day")
    assert line["change_frac"] == pytest.approx(line["needed"] / 3 - 1)
    text = planner("show", "last", "--db", db).out
    assert f"relax days from 3 to {line['needed']:.4g} day" in " ".join(text.split())
    assert f"then {line['plan']} on {line['devices']} " in " ".join(text.split())


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [("days", 12.34567, 12.35), ("days", 12.35, 12.35), ("tokens_per_s", 98765.0, 98760.0)],
)
def test_a_relaxed_limit_is_rounded_to_the_safe_side(name, value, wanted):
    """The limit as printed would forbid the plan it was made for."""
    assert Bound(name, 1.0).outward(value) == pytest.approx(wanted, rel=1e-12)


@pytest.mark.long
def test_a_space_too_large_to_sweep_is_searched_and_says_so(tmp_path, monkeypatch):
    """Hours of sweeps would follow a run, or a relaxation found by luck be sold as the least."""
    monkeypatch.setattr(relaxed, "chosen", lambda *given: Choice("evolve", "for a test"))
    (line,) = relaxations(BROKEN["days"], None)["relaxations"]
    assert not line["is_smallest"]
    (bound,) = bounds_of(BROKEN["days"])
    assert is_feasible(bound.moved(BROKEN["days"], line["needed"]), tmp_path)
    assert "perhaps less is enough" in nearest_text(line)


def nearest_text(line):
    """What a person is told of a relaxation."""
    return "\n".join(_nearest_lines({"relaxations": [line]}))
