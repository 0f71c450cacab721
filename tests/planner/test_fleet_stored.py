"""What a purchase run keeps: its decisions, read back whole, and its sweeps, solved anew."""

import json
from dataclasses import asdict, replace
from datetime import date
from pathlib import Path

import duckdb
import numpy as np
import pytest
from fleet_cases import asset, buy, lot_of, problem, rent, solved
from small import planner

from planner.archive.store import Archive
from planner.archive.stored_purchase import decided
from planner.fleet.carried import carried, kept_as_decided
from planner.fleet.check import broken
from planner.fleet.follow import books
from planner.fleet.problem import Horizon, Option, Run
from planner.fleet.program import COST, Program
from planner.fleet.resumed import resumed
from planner.fleet.stored import plan_read, plan_text, problem_read, problem_text
from planner.fleet.tree import Branch, tree_of
from simkernel.errors import PlanError

FLEET = (Path(__file__).parent / "grow.toml").read_text()
FUTURES = [Branch("boom", 1, 0.5, {"chat": 2.0}, 1), Branch("calm", 1, 0.5)]


def whole():
    """Held units that are moved and sold, futures, a run in blocks, spares, rent: all there is."""
    assets = [asset(held={4: 2.0}, kept_frac=0.5, move_usd=1.0, idle_w=10.0),
              asset(site="z", kept_frac=0.5, move_usd=1.0), lot_of()]  # fmt: skip
    deals = [buy([30.0, 20, 10, 10]), buy([30.0, 20, 10, 10], place=1), rent(9.0, 2, 4)]
    run = Run("train", 0, 3, [Option("b", 0, 2.0, periods=1.5, block_units=1.0)], stop_hours=1.0)
    one = problem(assets, deals, [1, 5, 5, 5, 0, 6, 0], tree=tree_of(4, FUTURES), runs=[run],
                  site_w={"s": 4000.0})  # fmt: skip
    stream = replace(one.streams[0], by_hour=np.array([1.0, 0.4]))
    return replace(one, streams=[stream], horizon=Horizon(4, 1.0, 0.1, date(2027, 1, 1)))


def test_a_plan_that_is_read_back_has_the_same_books():
    """A stored plan would be replayed, or priced, as another one."""
    one = whole()
    plan = solved(one)
    assert plan.left
    again = problem_read(problem_text(one))
    read = plan_read(again, plan_text(plan))
    assert problem_text(again) == problem_text(one)
    assert json.loads(plan_text(read)) == json.loads(plan_text(plan))
    before, after = asdict(books(one, plan)), asdict(books(again, read))
    assert before.keys() == after.keys()
    for name, values in before.items():
        np.testing.assert_equal(after[name], values, err_msg=name)
    assert broken(again, read, books(again, read)) == []


def test_a_plan_is_carried_to_other_places_of_the_same_things():
    """A plan kept under other prices would order another chip."""
    one = whole()
    plan = solved(one)
    order = [2, 0, 1]
    back = {old: new for new, old in enumerate(order)}
    other = replace(
        one,
        assets=[one.assets[i] for i in order],
        deals=[replace(d, asset=back[d.asset]) for d in reversed(one.deals)],
        streams=[replace(s, options=[replace(o, asset=back[o.asset]) for o in reversed(s.options)])
                 for s in one.streams],
        runs=[replace(r, options=[replace(o, asset=back[o.asset]) for o in r.options])
              for r in one.runs],
    )  # fmt: skip
    moved = carried(one, plan, other)
    kept = books(other, moved)
    assert broken(other, moved, kept) == []
    assert kept.npv_cost_usd == pytest.approx(books(one, plan).npv_cost_usd, rel=1e-12)
    dearer = replace(other, deals=[replace(d, usd=d.usd * 2) for d in other.deals])
    told = kept_as_decided(one, plan, dearer)
    assert told["capex_usd"] == pytest.approx(2 * kept.mean(kept.capex_usd, one.tree.chance))


def test_a_plan_that_cannot_be_kept_says_why():
    """A plan over its budget, or of a chip that is gone, would be compared as if it stood."""
    one = problem([asset()], [buy([10.0, 10.0])], [1, 1])
    plan = solved(one)
    poorer = replace(one, limits=replace(one.limits, capex_usd=5.0))
    assert "capital in all" in kept_as_decided(one, plan, poorer)["why"]
    gone = replace(one, deals=[])
    assert "why" in kept_as_decided(one, plan, gone)
    with pytest.raises(PlanError, match="another calendar"):
        carried(one, plan, problem([asset()], [buy([10.0] * 3)], [1, 1, 1]))


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """The study run, solved anew under a lower price, and run afresh with it."""
    folder = tmp_path_factory.mktemp("stored")
    study, db = folder / "grow.toml", folder / "p.duckdb"
    study.write_text(FLEET)
    cheaper = ("--set", "costing.price_usd.H100-SXM=15000")
    answers = [
        planner("run", study, "--db", db, "--json"),
        planner("recost", "1", *cheaper, "--db", db, "--json"),
        planner("run", study, *cheaper, "--db", db, "--json"),
    ]
    assert [answer.code for answer in answers] == [0, 0, 0], answers[1].err
    return db, [answer.document for answer in answers]


def test_prices_solved_anew_give_the_front_of_a_fresh_run(stored):
    """A person would order by a plan that a fresh run contradicts."""
    db, (first, again, fresh) = stored
    assert again["parent"] == first["run"]
    assert again["front_hash"] == fresh["front_hash"] != first["front_hash"]
    text = planner("diff", again["run"], fresh["run"], "--db", db, "--json").document
    assert (text["changed"], text["same"]) == ({}, 2)
    told = planner("show", again["run"], "--db", db).out
    assert f"purchases of run {first['run']} solved anew, its sweeps kept" in told


def test_the_plan_of_before_is_told_beside_the_one_of_now(stored):
    """A person would not know whether changed prices are worth changed orders."""
    db, (first, again, _) = stored
    found = planner("explain", again["run"], "1", "--db", db, "--json").document
    before = found["baselines"]["as decided before"]
    archive = Archive(db)
    old, plan = decided(archive.front(first["run"]), 0, first["run"])
    new, now = decided(archive.front(again["run"]), 0, again["run"])
    assert before["own_npv_usd"] == pytest.approx(
        books(new, carried(old, plan, new)).npv_cost_usd, rel=1e-12
    )
    assert before["own_npv_usd"] >= now.value * (1 - 1e-9)
    assert (
        "keeping to what was decided before"
        in planner("explain", again["run"], "1", "--db", db).out
    )


@pytest.mark.long
def test_another_calendar_is_solved_from_the_same_sweeps(stored):
    """A budget would need the sweeps again, or be taken in silence as the old one."""
    db, (first, _, _) = stored
    found = planner("recost", "1", "--set", "fleet.may_buy=false", "--set", "fleet.points=1",
                    "--db", db, "--json")  # fmt: skip
    assert found.code == 0, found.err
    (row,) = found.document["front"]
    assert row["purchase_units"] == 0
    assert row["own_npv_usd"] == pytest.approx(first["front"][0]["rent_npv_usd"], rel=0.1)
    for setting in ("axes.devices=128", "workload.pretrain.tokens=1e11"):
        answer = planner("recost", "1", "--set", setting, "--db", db)
        assert answer.code == 2
        assert "changes what was simulated" in answer.err


def test_the_stored_decisions_are_those_of_the_calendar(stored):
    """The plan that is replayed would not be the one that was shown."""
    db, (first, _, _) = stored
    front = Archive(db).front(first["run"])
    for row in range(2):
        one, plan = decided(front, row, first["run"])
        kept = books(one, plan)
        assert broken(one, plan, kept) == []
        assert kept.npv_cost_usd == pytest.approx(front["own_npv_usd"][row], rel=1e-12)
        assert kept.mean(kept.kgco2e, one.tree.chance) == pytest.approx(front["kgco2e"][row])
    assert not {"decided", "asked"} & set(first["front"][0])


@pytest.mark.long
def test_a_stored_plan_is_replayed_without_solving(stored):
    """A replay would be of a plan that nobody has seen."""
    db, (first, _, _) = stored
    found = planner("replay", "1", "p1", "--db", db, "--seeds", "1", "--json")
    assert found.code in (0, 1), found.err
    document = found.document
    assert (document["run"], document["plan"]) == (first["run"], "p1")
    one, plan = decided(Archive(db).front(first["run"]), 1, first["run"])
    node = int(np.argmax(one.streams[0].demand))
    used = {one.streams[0].options[o].plan for o in np.flatnonzero(plan.replicas["chat"][:, node])}
    assert {part["plan"] for part in document["streams"][0]["parts"]} == used
    assert document["gap_frac"] == plan.gap_frac
    for words, said in (
        (("replay", "1", "p9"), "p9"),
        (("replay", "1", "p1", "--set", "tp=8"), "as it was decided"),
        (("replay", "1", "p1", "--size"), "of one plan"),
    ):
        answer = planner(*words, "--db", db)
        assert answer.code == 2
        assert said in answer.err


def test_a_run_of_an_earlier_version_says_what_it_lacks(stored, tmp_path):
    """An old archive would end in a traceback, or be solved in silence as another plan."""
    db, _ = stored
    old = tmp_path / "old.duckdb"
    old.write_bytes(db.read_bytes())
    with duckdb.connect(str(old)) as connection:
        connection.execute(
            "DELETE FROM run_columns WHERE name IN ('decided', 'asked', 'workload')"
        )
    assert planner("explain", "1", "1", "--db", old).code == 0
    for words in (("replay", "1", "1"), ("recost", "1", "--set", "costing.wacc_frac=0.1")):
        answer = planner(*words, "--db", old)
        assert answer.code == 2
        assert "run its study again" in answer.err.replace("\n", " ")


def test_a_search_begins_with_what_was_decided_before():
    """Each change of a price would wait for a search from nothing, and forget what it found."""
    one = whole()
    plan = solved(one)
    dearer = replace(one, deals=[replace(d, usd=d.usd * 1.1) for d in one.deals])
    program = Program(dearer)
    start = resumed(one, replace(plan, columns=np.zeros(0)), program, 20.0)
    kept = books(dearer, start)
    assert broken(dearer, start, kept) == []
    assert kept.npv_cost_usd == pytest.approx(program.figure(COST, start.columns), rel=1e-9)
    assert start.left == plan.left
    again = program.solve(COST, 1e-6, start=start)
    assert again.value == pytest.approx(program.solve(COST, 1e-6).value, rel=1e-5)
    poorer = replace(dearer, limits=replace(one.limits, capex_usd=1.0))
    assert resumed(one, plan, Program(poorer), 20.0) is None
    assert resumed(one, plan, Program(replace(one, deals=one.deals[2:])), 20.0) is None
