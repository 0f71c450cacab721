"""The one folder that the app reads and writes: where its database lies.

Databases are chosen among those in it, studies and own tables are written below it, and a study
that names a file elsewhere on the machine is refused: the page may be open to somebody who may not
read that file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from planner.study.read import Study
from planner.study.written import study_document
from simkernel.errors import BadFile

DATABASE = "PLANNER_DB"
"""The environment variable by which `planner app --db FILE` names the file."""

STUDIES = "planner_studies"
"""Folder of the studies that were begun from the app."""

OWN_TABLES = "own_tables"
"""Folder of a user's own tables: `study.tables` of a study that takes them."""


def first_database() -> Path:
    """The file that the app was begun with."""
    return Path(os.environ.get(DATABASE, "planner.duckdb")).expanduser().resolve()


def folder() -> Path:
    """Where that file lies."""
    return first_database().parent


def studies() -> Path:
    """Folder of studies; need not be there."""
    return folder() / STUDIES


def own_tables() -> Path:
    """Folder of own tables; need not be there."""
    return studies() / OWN_TABLES


def databases() -> list[str]:
    """Names of the databases of the workspace, the one that the app was begun with first."""
    first = first_database()
    there = sorted(path.name for path in folder().glob("*.duckdb") if is_inside(path))
    return list(dict.fromkeys([first.name, *there]))


def database(name: str) -> Path:
    """A database by its name.

    Raises
    ------
    BadFile : a name that is none of the workspace's
    """
    if name not in databases():
        raise BadFile(
            f"{name!r} is no database of {folder()}; wanted one of {', '.join(databases())}"
        )
    return folder() / name


def is_inside(path: Path) -> bool:
    """True for a path that lies in the workspace, links followed."""
    return path.resolve().is_relative_to(folder())


def faults_of_paths(study: Study) -> list[str]:
    """Every file outside the workspace that a study names."""
    return [
        f"{name}: {path} lies outside the workspace {folder()}; put the file there"
        for name, path in _paths(study_document(study), "")
        if not is_inside(path)
    ]


def _paths(value: Any, name: str) -> Iterator[tuple[str, Path]]:
    """Absolute paths in a resolved study: reading a study has made every file one."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _paths(inner, f"{name}.{key}".lstrip("."))
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _paths(inner, name)
    elif isinstance(value, str) and Path(value).is_absolute():
        yield name, Path(value)
