"""What can happen to a file on a disk: the message names it, and nothing written is lost."""

import os
import signal
import subprocess
import sys
import tempfile
import textwrap
from contextlib import contextmanager
from pathlib import Path

import duckdb
import numpy as np
import pytest

from planner.archive import schema as archive_schema
from planner.archive.door import connect, transaction
from planner.archive.runs import RunStart
from planner.archive.store import Archive
from simkernel.errors import BadFile

START = RunStart("small", "train", "", {}, 1, "f0", {})
ROOT = Path(__file__).resolve().parents[2]
NOBODY = 65534

PREAMBLE = """
import sys
from pathlib import Path
import numpy as np
from planner.archive.store import Archive
from planner.archive.door import connect
from planner.archive.runs import RunStart
archive = Archive(Path(sys.argv[1]), timeout_s=5.0)
START = RunStart("small", "train", "", {}, 1, "f0", {})
def rows(first, count):
    step_s = np.random.default_rng(1).random(count)
    return {"plan": np.arange(first, first + count), "step_s": step_s}
"""


@contextmanager
def beside(path, body):
    """Another process that works on the same file; ended with the test."""
    process = subprocess.Popen(
        [sys.executable, "-c", PREAMBLE + textwrap.dedent(body), str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def finished(process):
    """Its output, when it ended by itself."""
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    return out


def output(path, body):
    with beside(path, body) as process:
        return finished(process)


@pytest.fixture
def written(tmp_path):
    """A file with one run of two plans."""
    archive = Archive(tmp_path / "planner.duckdb", timeout_s=5.0)
    run = archive.begin_run(START)
    archive.append_physical(run, {"plan": ["p0", "p1"], "step_s": np.array([1.0, 2.0])})
    archive.fail_run(run, "done")
    return archive


def still_there(archive):
    return archive.physical("1")["plan"].tolist() == ["p0", "p1"]


@pytest.mark.long
def test_a_killed_run_keeps_every_batch_it_committed(tmp_path):
    """A power cut would lose a night's work, or leave a file that does not open."""
    path = tmp_path / "planner.duckdb"
    body = """
        run = archive.begin_run(START)
        for batch in range(1000):
            archive.append_physical(run, rows(100 * batch, 100))
            print(batch, flush=True)
        """
    with beside(path, body) as process:
        said = [process.stdout.readline() for _ in range(5)]
        process.send_signal(signal.SIGKILL)
    committed = 100 * (int(said[-1]) + 1)
    archive = Archive(path, timeout_s=5.0)
    plans = archive.physical("last")["plan"]
    assert len(plans) >= committed
    assert len(plans) % 100 == 0
    assert plans.tolist() == [str(i) for i in range(len(plans))]
    record = archive.run("last")
    assert record.state(record.started) == "interrupted"
    archive.append_physical(record.run, {"plan": ["after"], "step_s": [1.0]})
    assert archive.physical("last")["plan"][-1] == "after"


def test_a_kill_inside_a_batch_loses_that_batch_only(written):
    """Half a batch would be read as a whole one."""
    body = """
        from planner.archive.door import transaction
        with connect(archive.path, False) as connection, transaction(connection):
            connection.execute("INSERT INTO physical BY NAME SELECT 'r' AS run, 'x' AS plan")
            print("inside", flush=True)
            sys.stdin.read()
        """
    with beside(written.path, body) as process:
        assert process.stdout.readline() == "inside\n"
        process.send_signal(signal.SIGKILL)
    assert still_there(written)
    with connect(written.path, True) as connection:
        assert connection.execute("SELECT count(*) FROM physical").fetchall() == [(2,)]


@pytest.mark.long
def test_a_kill_between_errands_of_one_opening_keeps_those_done(written):
    """Batches written together would be lost together, or a column with the rows before it."""
    body = """
        with archive.writing() as held:
            run = held.begin_run(START)
            held.append_physical(run, rows(0, 100))
            held.append_front(run, {"plan": np.array(["f0"]), "usd": np.array([3.0])})
            print("inside", flush=True)
            sys.stdin.read()
        """
    with beside(written.path, body) as process:
        assert process.stdout.readline() == "inside\n"
        process.send_signal(signal.SIGKILL)
    assert len(written.physical("last")["plan"]) == 100
    assert written.front("last")["usd"].tolist() == [3.0]
    assert still_there(written)


def test_a_locked_file_names_who_holds_it(written):
    """A person would not know which process to wait for or stop."""
    body = """
        with connect(archive.path, False):
            print("inside", flush=True)
            sys.stdin.read()
        """
    impatient = Archive(written.path, timeout_s=0.05)
    with beside(written.path, body) as process:
        assert process.stdout.readline() == "inside\n"
        with pytest.raises(BadFile, match=f"process {process.pid} .* 0.05 s; wait .* --db"):
            impatient.runs()
        with pytest.raises(BadFile, match=f"process {process.pid}"):
            impatient.begin_run(START)
    assert still_there(written)


@pytest.mark.long
def test_whoever_waits_gets_in(written):
    """An app that looks while a run writes would show an error instead of a moment's delay."""
    body = """
        run = archive.begin_run(START)
        for batch in range(6):
            archive.append_physical(run, rows(100 * batch, 100))
        """
    seen = []
    with beside(written.path, body) as process:
        while process.poll() is None:
            seen.append(len(written.physical("last").get("plan", ())))
        finished(process)
    assert seen[0] == 2
    assert all(count % 100 == 0 for count in seen if count != 2)
    assert len(written.physical("last")["plan"]) == 600


@pytest.mark.long
def test_two_writers_take_turns(written):
    """Two runs in one workspace would lose rows or share a number."""
    body = """
        run = archive.begin_run(START)
        for batch in range(4):
            archive.append_physical(run, rows(100 * batch, 100))
        print(run)
        """
    with beside(written.path, body) as first, beside(written.path, body) as second:
        runs = [finished(process).strip() for process in (first, second)]
    assert sorted(run[:5] for run in runs) == ["r0002", "r0003"]
    for run in runs:
        assert written.physical(run)["plan"].tolist() == [str(i) for i in range(400)]


def test_a_missing_file_is_said(tmp_path):
    """`planner runs` in the wrong folder would make an empty archive there."""
    with pytest.raises(BadFile, match="is not there; `planner run STUDY` makes it"):
        Archive(tmp_path / "planner.duckdb").runs()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(BadFile, match="folder that is not there"):
        Archive(tmp_path / "no" / "planner.duckdb").begin_run(START)
    with pytest.raises(BadFile, match="is a folder"):
        Archive(tmp_path).begin_run(START)


@pytest.mark.parametrize("offset", [8, 100, 4096, 8192, 12288])
def test_a_damaged_file_is_said_and_left_alone(written, offset):
    """Bad bytes would be read as numbers, or be overwritten before a copy can be restored."""
    damaged = bytearray(written.path.read_bytes())
    damaged[offset : offset + 300] = bytes(byte ^ 0x5A for byte in damaged[offset : offset + 300])
    written.path.write_bytes(damaged)
    with pytest.raises(BadFile, match="damaged .* left as it is"):
        written.physical("1")
    with pytest.raises(BadFile, match="damaged"):
        written.begin_run(START)
    assert written.path.read_bytes() == damaged


@pytest.mark.parametrize("text", [b"", b"hello, this is a text file", b"\0" * 100_000])
def test_a_file_of_something_else_is_said_and_left_alone(tmp_path, text):
    """A mistyped --db would destroy a person's file."""
    path = tmp_path / "notes.txt"
    path.write_bytes(text)
    with pytest.raises(BadFile, match="not a DuckDB file"):
        Archive(path).begin_run(START)
    assert path.read_bytes() == text


def test_a_cut_file_is_said(written):
    """A half-copied archive would be taken for the whole."""
    written.path.write_bytes(written.path.read_bytes()[:20_000])
    with pytest.raises(BadFile, match="damaged"):
        written.runs()


def test_a_database_of_something_else_is_left_alone(tmp_path):
    """Our tables would be put among another program's."""
    path = tmp_path / "other.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE sales (usd DOUBLE)")
    with pytest.raises(BadFile, match="not a planner archive"):
        Archive(path).begin_run(START)
    with duckdb.connect(str(path)) as connection:
        assert connection.execute("SELECT table_name FROM duckdb_tables()").fetchall() == [
            ("sales",)
        ]


def test_a_newer_archive_is_left_alone(written):
    """An old program would write rows that the new one cannot read."""
    newer = len(archive_schema.MIGRATIONS) + 1
    with duckdb.connect(str(written.path)) as connection:
        connection.execute("INSERT INTO meta VALUES (?, '9.9', now()::TIMESTAMP)", [newer])
    before = written.path.read_bytes()
    for errand in (written.runs, lambda: written.begin_run(START)):
        with pytest.raises(BadFile, match=f"version {newer}, this program knows {newer - 1}; up"):
            errand()
    assert written.path.read_bytes() == before


def test_migrations_run_in_order_and_once(tmp_path):
    """An older archive would lose columns or gain them twice."""
    path = tmp_path / "planner.duckdb"
    steps = (
        ("CREATE TABLE a (x BIGINT)", "INSERT INTO a VALUES (1)"),
        ("ALTER TABLE a ADD COLUMN y BIGINT", "INSERT INTO a VALUES (2, 3)"),
        ("CREATE TABLE b AS SELECT x + coalesce(y, 0) AS z FROM a",),
    )
    for known in (steps[:1], steps[:1], steps[:2], steps):
        with connect(path, False) as connection, transaction(connection):
            archive_schema.migrate(connection, path, "test", known)
    with connect(path, True) as connection:
        assert connection.execute("SELECT z FROM b ORDER BY z").fetchall() == [(1,), (5,)]
        versions = connection.execute("SELECT schema_version FROM meta ORDER BY 1").fetchall()
        assert versions == [(1,), (2,), (3,)]


def test_a_broken_migration_changes_nothing(written):
    """A file would be left between two versions, readable by neither program."""
    broken = (*archive_schema.MIGRATIONS, ("CREATE TABLE extra (x BIGINT)", "SELECT nonsense"))
    with (
        pytest.raises(duckdb.BinderException),
        connect(written.path, False) as connection,
        transaction(connection),
    ):
        archive_schema.migrate(connection, written.path, "test", broken)
    with connect(written.path, True) as connection:
        assert archive_schema.schema_version(connection) == len(archive_schema.MIGRATIONS)
        assert ("extra",) not in connection.execute(
            "SELECT table_name FROM duckdb_tables()"
        ).fetchall()
    assert still_there(written)


@pytest.fixture
def public_folder():
    """A folder that every user of the machine may enter."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)
        os.chmod(folder, 0o755)


@pytest.mark.long
def test_a_read_only_folder_is_said(public_folder):
    """A person would see a stack of internals instead of which permission is missing."""
    body = f"""
        import os
        from simkernel.errors import BadFile
        archive.begin_run(START)
        os.chmod(archive.path, 0o444)
        os.chmod(archive.path.parent, 0o555)
        if os.getuid() == 0:
            os.setuid({NOBODY})
        for path in (archive.path, archive.path.parent / "new.duckdb"):
            try:
                Archive(path).begin_run(START)
            except BadFile as fault:
                print(fault)
        print(len(archive.runs()))
        """
    first, second, seen = output(public_folder / "planner.duckdb", body).splitlines()
    assert "planner.duckdb cannot be opened for writing: the file or its folder is" in first
    assert "new.duckdb cannot be opened for writing" in second
    assert seen == "1"


FILL = """
from simkernel.errors import BadFile
run = archive.begin_run(START)
try:
    for batch in range(1000):
        archive.append_physical(run, rows(20000 * batch, 20000))
        print(batch, flush=True)
except BadFile as fault:
    print(fault)
"""


@pytest.mark.long
def test_a_full_disk_loses_only_the_batch_in_flight(tmp_path):
    """A full disk at night would take the earlier hours with it."""
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (3_000_000, 3_000_000))"
    path = tmp_path / "planner.duckdb"
    *batches, message = output(path, limit + FILL).splitlines()
    assert "the disk is full; what was written before is kept" in message
    plans = Archive(path).physical("last")["plan"]
    assert plans.tolist() == [str(i) for i in range(20_000 * len(batches))]


@pytest.mark.long
@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="mounting needs root")
def test_a_full_file_system_loses_only_the_batch_in_flight(tmp_path):
    """The same on a real file system without room, where the log cannot grow either."""
    mount = ["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", str(tmp_path)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("this machine may not mount")
    try:
        path = tmp_path / "planner.duckdb"
        *batches, message = output(path, FILL).splitlines()
        assert "the disk is full; what was written before is kept" in message
        plans = Archive(path).physical("last")["plan"]
        assert plans.tolist() == [str(i) for i in range(20_000 * len(batches))]
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def test_no_bar_is_drawn_into_what_a_command_prints(tmp_path):
    """A slow disk would break the JSON of who runs the planner from a notebook or `python -c`."""
    code = (
        "from pathlib import Path; from planner.archive.door import connect\n"
        f"with connect(Path({str(tmp_path / 'x.duckdb')!r}), read_only=False) as inside:\n"
        "    print(inside.execute(\"SELECT current_setting('enable_progress_bar')\").fetchall())"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout == "[(False,)]\n"
