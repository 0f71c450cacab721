"""The folder is the registry: a file's name is the name used in a study.

A new algorithm is one new file in `collectives/` or `schedules/`; nothing else is edited.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from functools import cache
from operator import attrgetter
from types import ModuleType

import numpy as np

from simkernel.columns import Codes, Masks
from simkernel.errors import unknown


@cache
def names(folder: str) -> tuple[str, ...]:
    """Names of all algorithms in a folder such as "schedules", sorted; the index is the code."""
    package = importlib.import_module(f"simkernel.{folder}")
    found = (module.name for module in pkgutil.iter_modules(package.__path__))
    return tuple(sorted(name for name in found if not name.startswith("_")))


@cache
def find(folder: str, name: str) -> ModuleType:
    """The module of one algorithm.

    Raises
    ------
    UnknownName : no file of that name in the folder
    """
    if name not in names(folder):
        raise unknown(folder, name, names(folder))
    return importlib.import_module(f"simkernel.{folder}.{name}")


def code(folder: str, name: str) -> int:
    """The integer that stands for a name in a column of choices."""
    find(folder, name)
    return names(folder).index(name)


@cache
def _constants(folder: str, constant: str) -> Codes:
    read = attrgetter(constant)
    return np.array([read(find(folder, name)) for name in names(folder)])


def constants(folder: str, constant: str, codes: Codes) -> Codes:
    """A constant of the module of every code, or a field of one ("TRAITS.runs_pairs"); (n,)."""
    return _constants(folder, constant)[codes]


def present(folder: str, codes: Codes) -> Iterator[tuple[ModuleType, Masks]]:
    """The modules that a column of codes names, each with the mask of its rows."""
    for i in np.flatnonzero(np.bincount(codes)):
        yield find(folder, names(folder)[i]), codes == i
