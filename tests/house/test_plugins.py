"""The folder is the registry: every file of a plug-in folder offers the same functions."""

import ast
import inspect

import pytest
from rooms import ROOT, rooms

from simkernel import plugins

MUST_HOLD = {
    "collectives": 3,
    "schedules": 3,
    "batching": 5,
    "routing": 6,
    "admission": 3,
    "autoscaling": 3,
}
"""Plug-in folders and the least number of algorithms in each."""

FOLDERS = [
    folder
    for folder in ("collectives", "schedules", "batching", "routing", "admission", "autoscaling")
    if (ROOT / "simkernel" / folder).exists()
]


def offered(module):
    """Its own public functions with their parameters, and its public constants."""
    functions = {
        name: tuple(inspect.signature(value).parameters)
        for name, value in vars(module).items()
        if inspect.isfunction(value)
        and value.__module__ == module.__name__
        and not name.startswith("_")
    }
    constants = {name: "constant" for name in vars(module) if name.isupper()}
    return functions | constants


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_file_of_a_folder_offers_the_same(folder):
    """A new algorithm would fail in the middle of a study, for want of a function."""
    files = {path.stem for path in (ROOT / "simkernel" / folder).glob("[!_]*.py")}
    assert files == set(plugins.names(folder))
    assert len(files) >= MUST_HOLD.get(folder, 1)
    offers = {name: offered(plugins.find(folder, name)) for name in sorted(files)}
    first = offers[min(offers)]
    assert any(value != "constant" for value in first.values())
    assert offers == dict.fromkeys(offers, first)


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_name_of_a_folder_has_one_code(folder):
    """Two algorithms would share a column value."""
    names = plugins.names(folder)
    assert [plugins.code(folder, name) for name in names] == list(range(len(names)))


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_other_room_names_an_algorithm_to_branch_on_it(folder):
    """A new file would not be enough: some other room would have to learn its name."""
    names = set(plugins.names(folder))
    told = [
        f"{room.name}:{node.lineno}"
        for room in rooms("simkernel")
        if f"/{folder}/" not in room.name
        for node in room.nodes
        if isinstance(node, ast.Compare)
        for side in (node.left, *node.comparators)
        if isinstance(side, ast.Constant) and side.value in names
    ]
    assert not told
