"""Text that somebody brings, plain or gzipped, read piece by piece and never more than agreed."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from simkernel.errors import BadFile

MOST_BYTES = 8_000_000_000
"""Unpacked; own choice, far above traces of whole steps: more is a bomb or a mistake."""

MOST_LOG_BYTES = 200_000_000
"""The same of files that are read line by line."""

MOST_LINE = 1_000_000
"""Letters of one line of a log; own choice."""

GZIP = b"\x1f\x8b"


@contextmanager
def unpacked(path: Path) -> Iterator[IO[bytes]]:
    """A file's bytes, unpacked on the way where it is gzipped.

    Raises
    ------
    BadFile : it cannot be read, or ends in the middle of its packing; also where that shows while
        it is read
    """
    try:
        with path.open("rb") as raw:
            is_packed = raw.peek(2)[:2] == GZIP
            yield gzip.GzipFile(fileobj=raw) if is_packed else raw  # type: ignore[misc]
    except EOFError as error:
        raise BadFile(f"{path.name} is truncated: its packing ends too early") from error
    except (OSError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise BadFile(f"{path.name} cannot be read ({reason}); name a file") from error


@contextmanager
def opened(path: Path) -> Iterator[IO[str]]:
    """A file as UTF-8 text, unpacked on the way where it is gzipped.

    Raises
    ------
    BadFile : as `unpacked`, or it is not UTF-8
    """
    try:
        with (
            unpacked(path) as plain,
            io.TextIOWrapper(plain, encoding="utf-8-sig", newline=None) as text,
        ):
            yield text
    except UnicodeDecodeError as error:
        raise BadFile(
            f"{path.name} is not UTF-8 text (near byte {error.start} of a piece); give the file "
            "as it was written"
        ) from error


def read_lines(path: Path) -> Iterator[str]:
    """Lines without their ends.

    Raises
    ------
    BadFile : as `opened`, or longer than agreed
    """
    with opened(path) as text:
        total = 0
        while line := text.readline(MOST_LINE + 1):
            total += len(line)
            if len(line) > MOST_LINE or total > MOST_LOG_BYTES:
                raise BadFile(
                    f"{path.name} has a line of more than {MOST_LINE:,} letters or more than "
                    f"{MOST_LOG_BYTES:,} in all; give the log alone"
                )
            yield line.rstrip("\n")


def read_text(path: Path) -> str:
    """A whole file of text.

    Raises
    ------
    BadFile : as `opened`, or longer than agreed
    """
    with opened(path) as text:
        found = text.read(MOST_LOG_BYTES + 1)
    if len(found) > MOST_LOG_BYTES:
        raise BadFile(f"{path.name} has more than {MOST_LOG_BYTES:,} letters; give one run")
    return found
