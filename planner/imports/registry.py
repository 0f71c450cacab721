"""Kinds of file that can be imported: the folder `kinds` says which."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from types import ModuleType

from planner.imports import kinds
from simkernel.errors import unknown


@cache
def kind_names() -> tuple[str, ...]:
    """Words of `planner import`, sorted."""
    found = (module.name for module in pkgutil.iter_modules(kinds.__path__))
    return tuple(sorted(name.replace("_", "-") for name in found))


def reader(kind: str) -> ModuleType:
    """The module that reads a kind of file.

    Raises
    ------
    UnknownName : no such kind, with the nearest
    """
    word = kind.replace("_", "-")
    if word not in kind_names():
        raise unknown("kind of file", kind, kind_names())
    return importlib.import_module(f"{kinds.__name__}.{word.replace('-', '_')}")
