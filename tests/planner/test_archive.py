"""The archive gives back what it was given, in words and numbers, and adds without changing."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import duckdb
import numpy as np
import pytest

from planner.archive.columns import design_keys, ledger_columns, ledgers_of
from planner.archive.runs import RunStart, RunSummary
from planner.archive.store import Archive
from simkernel.errors import BadFile, PlanError, UnknownName
from simkernel.ledger import Ledger

ROOT = Path(__file__).resolve().parents[2]
START = RunStart(
    study="small",
    kind="train",
    study_text='[study]\nname = "small"  # 名\n',
    resolved={"axes": {"devices": [8, 16]}, "seed": 1},
    seed=1,
    facts_hash="f0",
    versions={"planner": "0.1.0", "numpy": "2.4.6"},
)
SUMMARY = RunSummary(
    enumerated=10,
    masked={"divides": 4},
    evaluated=6,
    rejected={"memory": 2, "days": 1},
    seconds=0.5,
    evaluated_per_s_per_core=12.0,
    physical_front=3,
    front=2,
    front_hash="abc",
    notes={"memory": "least over: 3 GB"},
)


def columns(plans, **more):
    count = len(plans)
    return {
        "plan": np.array(plans),
        "design_key": np.arange(2**63, 2**63 + count, dtype=np.uint64),
        "accelerator": np.array(["H100-SXM"] * count),
        "devices": np.arange(8, 8 + count),
        "validated": np.arange(count) % 2 == 0,
        "step_s": np.linspace(1.0, 2.0, count),
        **more,
    }


@pytest.fixture
def archive(tmp_path):
    return Archive(tmp_path / "planner.duckdb", timeout_s=5.0)


def test_columns_come_back_as_they_went(archive):
    """A plan read tomorrow would differ from the plan found today."""
    run = archive.begin_run(START)
    given = columns(["p0", "p1", "p2"])
    archive.append_physical(run, given)
    found = archive.physical(run)
    assert list(found) == [*given, "status"]
    for name, values in given.items():
        assert np.array_equal(found[name], values), name
        assert found[name].dtype.kind == values.dtype.kind, name
    assert found["status"].tolist() == ["ok", "ok", "ok"]


def test_batches_come_back_in_order_as_one_front(archive):
    """A run that writes every few seconds would be read in pieces or shuffled."""
    run = archive.begin_run(START)
    for start in range(0, 50, 10):
        archive.append_physical(run, columns([f"p{i}" for i in range(start, start + 10)]))
    assert archive.physical(run)["plan"].tolist() == [f"p{i}" for i in range(50)]


def test_a_beaten_plan_leaves_the_physical_front(archive):
    """The physical front would hold plans that a later block has beaten."""
    run = archive.begin_run(START)
    archive.append_physical(run, columns(["p0", "p1", "p2"]))
    archive.supersede_physical(run, ["p1"])
    archive.supersede_physical(run, [])
    assert archive.physical(run)["plan"].tolist() == ["p0", "p2"]
    assert archive.plan(run, "p1")["physical"]["plan"].tolist() == ["p1"]


def test_a_missing_number_is_null_with_its_reason(archive):
    """NaN sorts as the greatest number in DuckDB and was picked as a best (duckdb#23676)."""
    run = archive.begin_run(START)
    capex_usd = np.ma.masked_array([1.0, 2.0, 3.0], [False, True, False])
    months = np.array([np.inf, np.nan, 5.0])
    words = np.array(["ok", "ok", "rent only"])
    archive.append_front(
        run,
        columns(["p0", "p1", "p2"], capex_usd=capex_usd, payback_months=months, status=words),
    )
    front = archive.front(run)
    assert np.ma.getmaskarray(front["capex_usd"]).tolist() == [False, True, False]
    assert np.ma.getmaskarray(front["payback_months"]).tolist() == [True, True, False]
    assert front["status"].tolist() == [
        "no value: payback_months",
        "no value: capex_usd, payback_months",
        "rent only",
    ]
    with duckdb.connect(str(archive.path), read_only=True) as connection:
        nans = connection.execute("SELECT count(*) FROM front WHERE isnan(payback_months)")
        assert nans.fetchall() == [(0,)]


def test_ledgers_come_back_term_by_term(archive):
    """An explanation read from the archive would not sum to the stored number."""
    step = Ledger("step_s", "s", {"compute": np.array([1.0, 2.0]), "bubble": np.array([0.5, 0.1])})
    cost = Ledger("usd_per_year", "usd_per_year", {"capital": np.array([7.0, 8.0]), "staff": 1.0})
    run = archive.begin_run(START)
    archive.append_physical(run, columns(["p0", "p1"], **ledger_columns([step, cost])))
    found = ledgers_of(archive.physical(run))
    assert list(found) == ["step_s", "usd_per_year"]
    assert found["step_s"].unit == "s"
    assert found["step_s"].total.tolist() == [1.5, 2.1]
    assert found["usd_per_year"].take(1).as_dict() == {"capital": 8.0, "staff": 1.0}


def test_readings_together_see_one_moment(archive):
    """A page would show the front of one run beside the plans of the next."""
    run = archive.begin_run(START)
    archive.append_physical(run, columns(["p0", "p1"]))
    with archive.reading() as held:
        assert held == archive
        assert held.run("last").run == run
        assert held.physical(run)["plan"].tolist() == ["p0", "p1"]
        with held.reading() as again:
            assert again.held is held.held
    archive.fail_run(run, "closed again: the file can be written")


@pytest.mark.long
def test_writing_loads_no_pandas(tmp_path):
    """Each small run would take a fifth longer."""
    body = (
        "import sys; from pathlib import Path; from planner.archive.store import Archive\n"
        "from planner.archive.runs import RunStart\n"
        "archive = Archive(Path(sys.argv[1]))\n"
        "run = archive.begin_run(RunStart('small', 'train', '', {}, 1, 'f0', {}))\n"
        "archive.append_front(run, {'plan': ['p0'], 'usd': [3.0], 'words': ['a']})\n"
        "print(archive.front(run)['usd'], 'pandas' in sys.modules)"
    )
    command = [sys.executable, "-c", body, str(tmp_path / "planner.duckdb")]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert answer.stdout.split() == ["[3.]", "False"]


def test_kinds_of_studies_share_a_file(archive):
    """A serving study's metrics would need another file, or spoil a training run's columns."""
    first = archive.begin_run(START)
    archive.append_physical(first, columns(["p0"]))
    second = archive.begin_run(START)
    archive.append_physical(second, {"plan": np.array(["q0"]), "ttft_s_p95": np.array([0.2])})
    assert list(archive.physical(second)) == ["plan", "ttft_s_p95", "status"]
    assert "ttft_s_p95" not in archive.physical(first)


def test_a_whole_number_column_may_later_hold_fractions(archive):
    """One study's micro-batch of 1 would forbid another's 0.5, or be read back as a fraction."""
    first, second = archive.begin_run(START), archive.begin_run(START)
    archive.append_physical(first, {"plan": ["p0"], "size": np.array([3])})
    archive.append_physical(second, {"plan": ["p0"], "size": np.array([0.5])})
    archive.append_physical(first, {"plan": ["p1"], "size": np.array([4])})
    assert archive.physical(first)["size"].tolist() == [3, 4]
    assert archive.physical(first)["size"].dtype.kind == "i"
    assert archive.physical(second)["size"].tolist() == [0.5]


def test_words_under_a_number_column_are_refused(archive):
    """Text would silently become NULL or zero."""
    run = archive.begin_run(START)
    archive.append_physical(run, columns(["p0"]))
    with pytest.raises(BadFile, match="step_s of physical is DOUBLE in earlier runs and VARCHAR"):
        archive.append_physical(run, columns(["p1"], step_s=np.array(["fast"])))
    assert archive.physical(run)["plan"].tolist() == ["p0"]


def test_every_fault_of_a_batch_is_said_at_once(archive):
    """A caller would mend one column after another."""
    run = archive.begin_run(START)
    with pytest.raises(PlanError) as caught:
        archive.append_physical(
            run, {"plan": np.array(["p0", "p1"]), "a": np.zeros(3), "b": np.zeros((2, 2))}
        )
    assert len(caught.value.faults) == 2
    with pytest.raises(PlanError, match="need a column plan"):
        archive.append_physical(run, {"a": np.zeros(3)})


def test_a_run_tells_how_it_began_and_ended(archive):
    """Nobody could say next year what a number rests on."""
    run = archive.begin_run(START)
    assert archive.run(run).state(archive.run(run).started) == "running"
    archive.finish_run(run, SUMMARY)
    record = archive.run("last")
    assert record.start == START
    assert record.summary == SUMMARY
    assert record.state(record.started) == "finished"
    assert record.ended >= record.started
    assert [
        (row["stage"], row["reason"], row["candidates"]) for row in archive.rejections(run)
    ] == [
        ("rule", "divides", 4),
        ("limit", "memory", 2),
        ("limit", "days", 1),
    ]
    assert archive.rejections(run)[1]["note"] == "least over: 3 GB"


def test_a_failed_and_a_stopped_run_say_so(archive):
    """A half-done front would pass for a whole one."""
    failed, stopped = archive.begin_run(START), archive.begin_run(START)
    archive.fail_run(failed, "step_s is negative")
    archive.finish_run(stopped, SUMMARY, state="stopped")
    records = archive.runs()
    assert [record.state(record.started) for record in records] == ["failed", "stopped"]
    assert records[0].events[-1].payload == {"message": "step_s is negative"}
    assert records[0].summary is None
    assert records[1].summary == SUMMARY


def test_facts_keep_their_source(archive):
    """A price could not be traced to where it came from."""
    price = SimpleNamespace(
        value=25000.0,
        unit="usd",
        source="list, 2024",
        as_of="2024-03",
        grade="estimate",
        low=22000.0,
        high=None,
        verified=False,
        licence="facts",
    )
    words = SimpleNamespace(**{**vars(price), "value": "fat tree", "unit": ""})
    run = archive.begin_run(START)
    archive.append_facts(run, {"H100-SXM.price_usd": price, "H100-SXM.topology": words})
    first, second = archive.facts(run)
    assert first == {"name": "H100-SXM.price_usd", "words": "", **vars(price)}
    assert (second["value"], second["words"]) == (None, "fat tree")


def test_a_repriced_run_shows_its_parents_physics(archive):
    """New prices would need a new simulation."""
    parent = archive.begin_run(START)
    archive.append_physical(parent, columns(["p0"]))
    child = archive.begin_run(RunStart(**{**vars(START), "parent": parent}))
    archive.append_front(child, {"plan": ["p0"], "usd": [3.0]})
    assert archive.physical(child)["plan"].tolist() == ["p0"]
    assert archive.plan(child, "p0")["front"]["usd"].tolist() == [3.0]


@pytest.mark.long
def test_runs_are_found_by_what_a_person_types(archive):
    """A person would have to copy whole ids."""
    runs = [archive.begin_run(START) for _ in range(11)]
    assert runs[0].startswith("r0001-")
    assert archive.run("last").run == runs[-1]
    assert archive.run("1").run == runs[0]
    assert archive.run("r0011").run == runs[10]
    with pytest.raises(UnknownName, match="may be r0001"):
        archive.run("r00")
    with pytest.raises(UnknownName, match="not known"):
        archive.run("nonsense")


def test_equal_inputs_share_their_six_digits(archive):
    """Two machines could not see that they ran the same thing."""
    other = RunStart(**{**vars(START), "seed": 2})
    commented = RunStart(**{**vars(START), "study_text": "# other words\n"})
    marks = [archive.begin_run(start)[-6:] for start in (START, START, commented, other)]
    assert marks[0] == marks[1] == marks[2] != marks[3]


def test_an_unknown_plan_is_answered_with_near_names(archive):
    """A slip of the finger would look like an empty plan."""
    run = archive.begin_run(START)
    archive.append_physical(run, columns(["p000017"]))
    with pytest.raises(UnknownName, match="did you mean p000017"):
        archive.plan(run, "p00017")


def test_design_keys_know_a_design_by_its_choices():
    """A design would be evaluated twice, or two designs taken for one."""
    tensor_parallel = np.array([1, 2, 2])
    axes = {"tensor_parallel": tensor_parallel, "precision": np.array(["bf16", "bf16", "fp8"])}
    keys = design_keys(axes)
    assert np.array_equal(design_keys({**axes, "tensor_parallel": 1.0 * tensor_parallel}), keys)
    assert len(set(keys.tolist())) == 3
    assert np.array_equal(design_keys(dict(reversed(axes.items()))), keys)
    swapped = design_keys({"a": np.array([1]), "b": np.array([2])})
    assert swapped != design_keys({"a": np.array([2]), "b": np.array([1])})
    assert keys[0] == 2339895193441742499
