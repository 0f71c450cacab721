"""What a reader of one format hands to the door, and what the door hands to a reader."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from costdata.catalog import Catalog
from simkernel.errors import BadFile

Rows = list[dict[str, str]]
"""Rows of one of our tables, cells as text, without their source: the door adds it."""


@dataclass(frozen=True)
class Given:
    """What stands beside the files of an import.

    Parameters
    ----------
    catalog : with the tables of the user's folder over ours
    settings : by name, as text; only names that the kind knows
    """

    catalog: Catalog
    settings: Mapping[str, str]

    def text(self, name: str) -> str:
        """A setting, "" where it was not given."""
        return self.settings.get(name, "")


@dataclass(frozen=True)
class Found:
    """What was made of the files of one import.

    Parameters
    ----------
    tables : table to rows
    summary : in one line, for the list of imports
    told : figures and words for the reader, JSON-able
    notes : what a reader must know
    files : further files to write beside the tables, by name, as text: rows of measurements that
        `planner validate` takes
    """

    tables: Mapping[str, Rows]
    summary: str
    told: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()
    files: Mapping[str, str] = field(default_factory=dict)


@contextmanager
def told_later(faults: list[str]) -> Iterator[None]:
    """Faults of what is read inside join the others, so that all files are told at once."""
    try:
        yield
    except BadFile as error:
        faults += error.faults


def shown(path: Path) -> str:
    """A file as faults name it: without the folders that only this machine has."""
    return path.name
