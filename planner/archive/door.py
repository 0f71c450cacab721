"""The only door to the archive's file: opened for one errand, closed right after.

DuckDB lets one process write and nobody read meanwhile, so every visit is short and whoever finds
the door locked waits a random, growing while. What goes wrong with the file is said here in words.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb

from simkernel.errors import BadFile

FIRST_WAIT_S = 0.01
LONGEST_WAIT_S = 0.5
CONFIG = {
    "memory_limit": "512MB",  # a run stays below 1 GB resident; a large batch spills to disk
    "threads": "2",  # each pins a block of 256 KB per column: 250 columns are 64 MB per thread
    "autoinstall_known_extensions": "false",  # no network: JSON and Parquet are built in
    "autoload_known_extensions": "false",
}

QUIET = "SET enable_progress_bar = false"
"""Where Python runs no file, DuckDB draws a bar on stdout after two seconds, into the JSON."""


@contextmanager
def connect(
    path: Path, read_only: bool, timeout_s: float = 30.0
) -> Iterator[duckdb.DuckDBPyConnection]:
    """An open connection for one errand.

    Parameters
    ----------
    path : the DuckDB file; made when it is not there and `read_only` is false
    read_only : many readers may be inside at once, a writer only alone
    timeout_s : how long to wait for whoever holds the file [s]

    Raises
    ------
    BadFile : missing, locked for too long, corrupt, from a newer DuckDB, not writable, disk full;
        what was committed before stays in the file
    """
    connection = _opened(path, read_only, timeout_s)
    try:
        yield connection
    except duckdb.ProgrammingError:
        raise  # wrong SQL is our fault, not the file's
    except duckdb.Error as fault:
        raise BadFile(_said(path, str(fault))) from fault
    finally:
        connection.close()


@contextmanager
def transaction(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """All of the statements inside, or none of them."""
    connection.execute("BEGIN")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        _roll_back(connection)
        raise


def _roll_back(connection: duckdb.DuckDBPyConnection) -> None:
    """Undo, unless the failed commit has already ended the transaction."""
    try:
        connection.execute("ROLLBACK")
    except duckdb.Error:
        return


def _opened(path: Path, read_only: bool, timeout_s: float) -> duckdb.DuckDBPyConnection:
    """Open at the first moment nobody else is in the way."""
    deadline_s = time.monotonic() + timeout_s
    wait_s = FIRST_WAIT_S
    while True:
        try:
            connection = duckdb.connect(str(path), read_only=read_only, config=dict(CONFIG))
            connection.execute(QUIET)
            return connection
        except duckdb.Error as fault:
            left_s = deadline_s - time.monotonic()
            if not _is_locked(str(fault)) or left_s <= 0:
                raise BadFile(_said(path, str(fault), timeout_s)) from fault
        time.sleep(min(left_s, random.uniform(0.5, 1.5) * wait_s))
        wait_s = min(2 * wait_s, LONGEST_WAIT_S)


def _is_locked(message: str) -> bool:
    """Held by another process, or by this one in the other mode."""
    return "Could not set lock" in message or "different configuration" in message


def _said(path: Path, message: str, waited_s: float = 0.0) -> str:
    """The fault in words: given, wanted, do."""
    for pattern, words in _FAULTS:
        found = re.search(pattern, message, re.IGNORECASE | re.DOTALL)
        if found:
            holder = found.groupdict().get("pid") or "unknown"
            return f"{path} {words.format(pid=holder, waited=f'{waited_s:g}')}"
    return f"{path} cannot be used: {message.strip().splitlines()[0]}"


_FAULTS = (
    (
        r"Could not set lock.*?(?:PID (?P<pid>\d+)|$)",
        "is being written by process {pid} and stayed locked for {waited} s; wait for that run, "
        "stop it with `planner stop`, or name another file with --db",
    ),
    (
        r"different configuration",
        "is open in this very process for another purpose; close that connection first",
    ),
    (
        r"No space left|File too large|disk quota|ENOSPC|not enough (?:disk )?space",
        "could not grow: the disk is full; what was written before is kept, this batch is not; "
        "free some space, then run again",
    ),
    (
        r"database does not exist",
        "is not there; `planner run STUDY` makes it, --db names another",
    ),
    (
        r"No such file or directory|Not a directory",
        "lies in a folder that is not there; make the folder or name another file with --db",
    ),
    (
        r"Permission denied|Read-only file system|Operation not permitted",
        "cannot be opened for writing: the file or its folder is read-only; change its "
        "permissions or name another file with --db",
    ),
    (
        r"Out of Memory",
        "holds more at once than the memory given to it; ask for fewer plans or columns, or write "
        "smaller batches",
    ),
    (r"Is a directory", "is a folder; name a file with --db"),
    (
        r"version number|newer version|unsupported version",
        "was written by another DuckDB version than this program's; update the program "
        "(pip install -U cluster-planner), the file is unchanged",
    ),
    (
        r"not a valid DuckDB database|corrupt|checksum|could not read enough bytes|"
        r"failed to deserialize|serialization error|WAL file",
        "is damaged or not a DuckDB file; it is left as it is: restore a copy, or name another "
        "file with --db",
    ),
)
