"""What can go wrong around a run: the command says it, leaves by contract, and nothing is lost."""

import os
import shutil
import signal
import tempfile
import threading
from pathlib import Path

import duckdb
import pytest
from small import DENSE, ended, planner, planner_process, with_lines

import costdata
from planner.archive import schema as archive_schema
from planner.archive.door import connect
from planner.archive.store import Archive
from planner.documents import answers as commands

NOBODY = 65534
FIVE = """
[study]
name = "bad"
kind = "train"

[workload.main]
model = "meta-llama--Meta-Llama-3.1-80B"
tokens = -1
tokens_per_sequence = 8192

[axes]
accelerator = "H1000-SXM"
devices = 64
tensor_paralel = [1, 2]
global_batch_sequences = 512

[limits]
dyas = 60
"""
SLOWLY = """
import sys, time
import planner.runs.run as run, planner.runs.work as work
whole = run.sweep
def slowly(*words):
    for result in whole(*words):
        yield result
        print("bill", result.index, file=sys.stderr, flush=True)
        time.sleep(0.02)
run.sweep = slowly
"""
"""A sweep that can be caught in the middle: it says each bill, then waits."""

AND_FLUSHED = f"{SLOWLY}work.FLUSH_S = 0.0\n"
"""The same, with every bill written at once."""

MANY = with_lines(DENSE, devices="devices = { from = 8, to = 512, step = 8 }", days="days = 9000")
"""128 bills: many more than wait their turn at once."""


def seen(process, words):
    """Wait until the process has said something; returns the line."""
    for line in process.stderr:
        if words in line:
            return line
    raise AssertionError(f"it ended without saying {words!r}")


@pytest.fixture
def study(tmp_path):
    """The small study in a folder of its own."""
    path = tmp_path / "x.toml"
    path.write_text(DENSE)
    return path


@pytest.fixture
def db(workspace, tmp_path):
    """A copy of a database with runs in it."""
    return Path(shutil.copy(workspace.db, tmp_path / "planner.duckdb"))


def is_whole(db, workspace):
    """The first run still reads as it was printed."""
    shown = planner("show", "1", "--db", db, "--json").document
    return shown == workspace.documents[0]


@pytest.mark.parametrize("command", ["run", "evaluate", "show"])
def test_five_mistakes_are_told_in_one_go_each_with_its_line(tmp_path, monkeypatch, command):
    """A person would mend a study one error at a time."""
    monkeypatch.chdir(tmp_path)
    Path("bad.toml").write_text(FIVE)
    answer = planner(command, "bad.toml", "--json")
    assert answer.code == 2
    assert answer.out == "" or answer.document["exit_code"] == answer.code
    lines = answer.err.splitlines()
    numbers = sorted(int(line.split(":")[2]) for line in lines)
    assert numbers == [7, 8, 12, 14, 18]
    assert all(line.startswith("error: bad.toml:") for line in lines)
    assert "Traceback" not in answer.err
    assert os.listdir() == ["bad.toml"], "nothing is written"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("run", "none.toml"), "cannot be read"),
        (("run", "."), "cannot be read"),
        (("run", "x.toml", "--budget", "soon"), "wanted candidates or seconds"),
        (("run", "x.toml", "--engine", "dask:host"), "wanted local, or dask:ADDRESS"),
        (("run", "x.toml", "--workers", "0"), "--workers"),
        (("run", "x.toml", "--seed", "-1"), "seed"),
        (("run", "x.toml", "--set", "axes.tp"), "has no value"),
        (("run",), "Missing argument"),
        (("fly",), "No such command"),
        (("runs", "--db", "none.duckdb"), "is not there"),
        (("show", "last", "--db", "none.duckdb"), "is not there"),
        (("stop", "last", "--db", "none.duckdb"), "is not there"),
        (("catalog", "show", "H1000"), "is not known"),
        (("catalog", "show", "none.json"), "cannot be read"),
        (("catalog", "list", "chips"), "is not known"),
        (("catalog", "lint", "none"), "is not a folder"),
        (("catalog", "add", "site", "here", "--to", "own"), "has no value"),
    ],
)
def test_a_slip_on_the_command_line_is_told_with_two(study, monkeypatch, words, said):
    """A person would see a traceback, or an empty answer taken for a result."""
    monkeypatch.chdir(study.parent)
    answer = planner(*words)
    assert answer.code == 2
    assert said in answer.err
    assert answer.out == "" or answer.document["exit_code"] == answer.code
    assert os.listdir() == ["x.toml"], "nothing is written"


@pytest.mark.parametrize("name", ["9999", "", "r0001-xxxxxx"])
def test_a_run_that_is_not_there_is_told(workspace, name):
    """Another run would be shown than the one that was asked for."""
    for command in (("show", name), ("explain", name, "1"), ("diff", "1", name), ("stop", name)):
        answer = planner(*command, "--db", workspace.db)
        assert answer.code == 2, command
        assert "run" in answer.err


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ('carbon = "market"', "site us-tx has no market carbon intensity"),
        ('carbon = "market"', 'carbon = "location_average"'),
    ],
)
def test_a_missing_fact_leaves_with_three_before_the_sweep(study, change, said):
    """A sweep of a minute would end without an answer, or with zero for what is not known."""
    study.write_text(DENSE.replace("[limits]", f"{change}\n[limits]"))
    db = study.parent / "x.duckdb"
    for words in (("run", study, "--db", db), ("evaluate", study, "--set", "devices=64")):
        answer = planner(*words, "--json")
        assert answer.code == 3
        assert said in answer.err
        assert answer.out == "" or answer.document["exit_code"] == answer.code
    assert not db.exists()


def test_a_plan_that_only_lacks_a_price_leaves_with_three(study):
    """A script would take a plan for impossible that nobody could price."""
    study.write_text(DENSE.replace("[costing]", '[costing]\nacquire = "lease"'))
    words = ("evaluate", study, "--set", "devices=64", "--set", "accelerator=H100-SXM", "--json")
    answer = planner(*words)
    assert answer.code == 3
    assert [v["limit"] for v in answer.document["violations"]] == ["missing_fact"]
    answer = planner(*words, "--set", "limits.days=0.001")
    assert answer.code == 1
    limits = [v["limit"] for v in answer.document["violations"]]
    assert limits
    assert "missing_fact" not in limits


@pytest.mark.long
def test_a_run_leaves_as_its_plans_do(study):
    """A script would look for a softer limit where a price is all that is missing."""
    study.write_text(DENSE.replace("[costing]", '[costing]\nacquire = "lease"'))
    db = study.parent / "x.duckdb"
    answer = planner("run", study, "--db", db, "--json")
    assert answer.code == 3
    assert answer.document["physical_front"] > 0
    assert answer.document["nearest"]["lacks_facts"]
    priced = ("--set", "costing.acquire=buy")
    assert planner("run", study, "--db", db, *priced).code == 0
    assert planner("recost", "last", "--db", db, "--set", "costing.acquire=lease").code == 3
    assert planner("recost", "2", "--db", db, "--set", "limits.usd=1").code == 1
    assert planner("run", study, "--db", db, "--set", "limits.days=0.01").code == 1


def test_a_model_of_unknown_build_is_a_missing_fact(tmp_path):
    """An architecture that nobody knows would be counted as the one it resembles."""
    (tmp_path / "config.json").write_text('{"model_type": "foo", "hidden_size": 128}')
    answer = planner("catalog", "show", tmp_path / "config.json")
    assert answer.code == 3
    assert "num_hidden_layers" in answer.err


@pytest.mark.parametrize("rubbish", [b"hello", b"", b"\0" * 5000])
def test_a_file_that_is_no_database_is_left_alone(study, rubbish):
    """A mistyped --db would destroy a person's file."""
    file = study.parent / "notes.txt"
    file.write_bytes(rubbish)
    for words in (("run", study), ("runs",), ("show", "last"), ("stop", "last")):
        answer = planner(*words, "--db", file)
        assert answer.code == 2
        assert "is damaged or not a DuckDB file" in answer.err
    assert file.read_bytes() == rubbish


def test_a_damaged_database_is_left_alone(study, db):
    """What could be rescued would be overwritten."""
    damaged = bytearray(db.read_bytes())
    damaged[4096:4396] = bytes(300)
    db.write_bytes(damaged)
    for words in (("run", study), ("runs",), ("explain", "1", "1")):
        answer = planner(*words, "--db", db)
        assert answer.code == 2
        assert "damaged" in answer.err
    assert db.read_bytes() == damaged


def test_a_database_of_a_newer_program_is_left_alone(study, db):
    """An old program would write what the new one cannot read."""
    with duckdb.connect(str(db)) as connection:
        newer = len(archive_schema.MIGRATIONS) + 1
        connection.execute("INSERT INTO meta VALUES (?, '9.9', now()::TIMESTAMP)", [newer])
    before = db.read_bytes()
    for words in (("run", study), ("runs",), ("show", "1")):
        answer = planner(*words, "--db", db)
        assert answer.code == 2
        assert f"version {newer}" in answer.err
    assert db.read_bytes() == before


def test_a_place_where_no_file_can_be_is_told(study):
    """A person would see the words of a library, after the sweep."""
    folder = study.parent
    for place, said in (
        (folder / "no" / "x.duckdb", "folder that is not there"),
        (study / "x.duckdb", "folder that is not there"),
        (folder, "is a folder"),
    ):
        answer = planner("run", study, "--db", place)
        assert answer.code == 2
        assert said in answer.err
    assert os.listdir(folder) == ["x.toml"]


def test_a_locked_database_names_who_holds_it(study, db, workspace, monkeypatch):
    """A person would not know what to wait for, or lose the runs that are there."""
    monkeypatch.setattr(commands, "Archive", lambda path: Archive(path, timeout_s=0.05))
    holder = planner_process(
        study.parent, before=f"import duckdb, sys\nheld = duckdb.connect({str(db)!r})\n"
        "print('inside', file=sys.stderr, flush=True)\nimport time\ntime.sleep(60)"
    )  # fmt: skip
    try:
        seen(holder, "inside")
        for words in (("run", study), ("runs",), ("show", "1")):
            answer = planner(*words, "--db", db)
            assert answer.code == 2
            assert f"is being written by process {holder.pid}" in answer.err
    finally:
        holder.kill()
        holder.communicate()
    assert is_whole(db, workspace)


LOWER = f"""
import importlib, os, pkgutil
import planner.cli, planner.commands.progress, planner.documents.front_text, typer
import planner.documents.plan_text, planner.runs.run
from planner.documents import answers as commands
for module in pkgutil.walk_packages(typer.__path__, "typer."):
    if not module.name.endswith(("__main__", "_winconsole")):
        importlib.import_module(module.name)
commands.evaluate("x.toml", [])  # nobody may not read where Python's own files lie
os.chmod("planner.duckdb", 0o444)
os.chmod(".", 0o555)
if os.getuid() == 0:
    os.setuid({NOBODY})
"""


def is_open_to_all(path):
    """Whether a user without rights may enter a folder and all above it."""
    return all(os.stat(folder).st_mode & 0o005 == 0o005 for folder in (path, *path.parents))


@pytest.mark.long
def test_a_read_only_folder_is_told(workspace):
    """A person would see the words of a library, after the sweep."""
    if os.getuid() == 0 and not is_open_to_all(Path(costdata.__file__).parent):
        pytest.skip("the checkout lies where a user with fewer rights may not read our tables")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.chmod(folder, 0o755)
        shutil.copy(workspace.db, folder / "planner.duckdb")
        (folder / "x.toml").write_text(DENSE)
        answer = ended(planner_process(folder, "run", "x.toml", "--json", before=LOWER))
        os.chmod(folder, 0o755)
        assert answer.code == 2
        assert "the file or its folder is read-only" in answer.err
        assert answer.out == "" or answer.document["exit_code"] == answer.code
        assert "Traceback" not in answer.err
        assert is_whole(folder / "planner.duckdb", workspace)
        assert sorted(os.listdir(folder)) == ["planner.duckdb", "x.toml"]


FULL = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({most}, {most}))\n"


@pytest.mark.long
def test_a_full_disk_keeps_what_was_there(db, workspace):
    """A full disk at night would take the earlier runs with it."""
    (db.parent / "x.toml").write_text(DENSE)
    most = 30_000
    answer = ended(
        planner_process(db.parent, "run", "x.toml", "--workers", 1, before=FULL.format(most=most))
    )
    assert answer.code == 2
    assert "the disk is full" in answer.err
    assert "Traceback" not in answer.err
    assert is_whole(db, workspace)
    states = [entry["state"] for entry in planner("runs", "--db", db, "--json").document["runs"]]
    assert states[:2] == ["finished", "finished"]
    assert set(states[2:]) <= {"finished", "failed", "interrupted"}
    assert states[-1] in ("failed", "interrupted")


@pytest.mark.long
def test_an_interrupt_keeps_what_is_done(tmp_path):
    """Ctrl-C in a long run would throw away the hours before it."""
    (tmp_path / "x.toml").write_text(MANY)
    words = ("run", "x.toml", "--workers", 2, "--json")
    process = planner_process(tmp_path, *words, before=SLOWLY)
    seen(process, "bill")
    os.killpg(process.pid, signal.SIGINT)
    answer = ended(process)
    assert answer.code == 0
    assert answer.out.count("\n") == 1
    document = answer.document
    assert document["state"] == "stopped"
    counts = document["candidates"]
    assert 0 < counts["evaluated"] < counts["enumerated"] - sum(counts["masked"].values())
    assert document["front"]
    assert all(line.startswith("bill") for line in answer.err.splitlines())
    shown = planner("show", "last", "--db", tmp_path / "planner.duckdb", "--json").document
    assert shown == document
    text = planner("show", "last", "--db", tmp_path / "planner.duckdb").out
    assert text.startswith("STOPPED EARLY: ")


@pytest.mark.long
def test_a_stop_from_another_process_ends_the_run(tmp_path):
    """A run on another screen could only be killed."""
    (tmp_path / "x.toml").write_text(MANY)
    process = planner_process(
        tmp_path, "run", "x.toml", "--workers", 1, "--json", before=AND_FLUSHED
    )
    seen(process, "bill 0")
    db = tmp_path / "planner.duckdb"
    answer = planner("stop", "last", "--db", db)
    assert answer.code == 0
    assert "was asked to stop" in answer.err
    ending = ended(process)
    assert ending.code == 0
    assert ending.document["state"] == "stopped"
    counts = ending.document["candidates"]
    assert 0 < counts["evaluated"] < counts["enumerated"] - sum(counts["masked"].values())
    again = planner("stop", "last", "--db", db)
    assert again.code == 0
    assert "is not running" in again.err
    assert planner("runs", "--db", db, "--json").document["runs"][0]["state"] == "stopped"


@pytest.mark.long
def test_a_killed_run_is_told_and_its_file_opens(tmp_path):
    """A power cut would leave a run that looks alive for ever, or a file that does not open."""
    (tmp_path / "x.toml").write_text(MANY)
    process = planner_process(tmp_path, "run", "x.toml", "--workers", 1, before=AND_FLUSHED)
    seen(process, "bill 2")
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    db = tmp_path / "planner.duckdb"
    (entry,) = planner("runs", "--db", db, "--json").document["runs"]
    assert (entry["state"], entry["evaluated"]) == ("interrupted", None)
    shown = planner("show", "last", "--db", db, "--json")
    assert shown.code == 0
    assert shown.document["state"] == "interrupted"
    assert shown.document["front"] == []
    text = planner("show", "last", "--db", db).out
    assert "interrupted" in text
    assert "Nothing is feasible" not in text
    assert len(Archive(db).physical("last")["plan"]) > 0, "the bills before are kept"
    after = planner("run", tmp_path / "x.toml", "--db", db, "--workers", 1, "--json")
    assert after.code == 0
    states = [entry["state"] for entry in planner("runs", "--db", db, "--json").document["runs"]]
    assert states == ["interrupted", "finished"]
    with connect(db, True) as connection:
        (count,) = connection.execute("SELECT count(*) FROM runs").fetchone()
    assert count == 2


@pytest.mark.long
def test_a_run_in_a_thread_needs_no_signals(study):
    """The app could not run a study beside its pages."""
    answers = []
    words = ("run", study, "--db", study.parent / "x.duckdb", "--workers", 1, "--json")
    thread = threading.Thread(target=lambda: answers.append(planner(*words)))
    thread.start()
    thread.join()
    assert answers[0].code == 0
