"""Imports go down, each library has its room, and rooms are small and named by their idea."""

import ast
import re
import statistics
import subprocess
import tomllib
from fnmatch import fnmatch

import pytest
from rooms import FLOORS, ROOT, is_ours, is_stdlib, rooms

ROOMS_OF = {
    "numpy": ("simkernel/*", "costdata/*", "planner/*", "app.py"),
    "numba": ("simkernel/replay/*",),
    "moocore": ("planner/pareto.py",),
    "highspy": ("planner/fleet/highs.py",),
    "duckdb": (
        "planner/archive/*",
        "planner/calibration/engine_timings.py",
        "planner/imports/kinds/operator_tables.py",
    ),
    "pyarrow": ("planner/archive/*",),
    "pydantic": ("planner/study/*",),
    "typer": ("planner/cli.py", "planner/commands/*"),
    "rich": ("planner/cli.py", "planner/commands/*", "planner/documents/*"),
    "pymoo": ("planner/search/*",),
    "optuna": ("planner/search/*",),
    "dask": ("planner/search/*",),
    "distributed": ("planner/search/*",),
    "cloudpickle": ("planner/search/*",),  # comes with Dask
    "pandas": ("planner/ingest/*", "planner/exports/*", "planner/report/*", "planner/pages/*"),
    "altair": ("planner/charts/*", "planner/report/*", "planner/pages/*"),
    "streamlit": ("app.py", "planner/pages/*"),
    "typst": ("planner/report/*",),
    "vl_convert": ("planner/report/*",),
    "xlsxwriter": ("planner/report/*",),
    "pylopdf_fonts_zh_cn": ("planner/report/*",),
    "SALib": ("planner/uncertainty/*",),
}
"""Which rooms may import which library; a library that is not here has no room yet."""

AT_THE_ROOT = {
    *("pyproject.toml", "planner", "simkernel", "costdata", "studies", "app.py", "tests"),
    *("README.md", "check", ".ci", "CHANGELOG.md", "LICENSE", "docs", ".streamlit"),
}

WORDS_WITHOUT_AN_IDEA = {"utils", "helpers", "common", "base", "manager", "misc", "tools", "core"}
LONGEST_ROOM_LINES = 500
LONGEST_FUNCTION_LINES = 60

IMPORT_BY_NAME = ("simkernel/plugins.py", "planner/imports/registry.py")
"""Rooms that may import what a string names: the folder is the registry there."""


@pytest.mark.parametrize("room", rooms(), ids=lambda room: room.name)
def test_imports_only_go_down(room):
    """Physics would know a price, or a fact would depend on a study."""
    allowed = FLOORS[: FLOORS.index(room.floor) + 1]
    up = [
        f"{room.name}:{line} imports {module}"
        for module, line in room.imports
        if is_ours(module) and module.split(".")[0] not in allowed
    ]
    assert not up


def test_pages_are_opened_by_the_app_alone():
    """A report could not be set where no browser is served, or a page not be taken out."""
    inwards = [
        f"{room.name}:{line} imports {module}"
        for room in rooms()
        for module, line in room.imports
        if module.startswith("planner.pages")
        and room.name != "app.py"
        and not room.name.startswith("planner/pages/")
    ]
    assert not inwards


@pytest.mark.parametrize("room", rooms(), ids=lambda room: room.name)
def test_each_library_is_imported_in_its_rooms_only(room):
    """Changing a library would mean changing the house."""
    strangers = [
        f"{room.name}:{line} imports {module}"
        for module, line in room.imports
        if not is_stdlib(module)
        and not is_ours(module)
        and module.split(".")[0] != "studies"
        and not any(fnmatch(room.name, rule) for rule in ROOMS_OF.get(module.split(".")[0], ()))
    ]
    assert not strangers


@pytest.mark.parametrize("room", rooms(), ids=lambda room: room.name)
def test_nothing_is_imported_by_a_string(room):
    """An import written as text would pass every check above."""
    calls = [
        f"{room.name}:{node.lineno}"
        for node in room.nodes
        if isinstance(node, ast.Name | ast.Attribute)
        and (getattr(node, "id", "") or getattr(node, "attr", ""))
        in ("import_module", "__import__")
    ]
    assert not calls or room.name in IMPORT_BY_NAME


def test_every_declared_library_has_a_room():
    """A dependency would be installed by everybody and used by nobody knows whom."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    declared = project["dependencies"] + extras["report"] + extras["cluster"]
    names = {re.match(r"[A-Za-z0-9_-]+", line)[0].replace("-", "_") for line in declared}
    assert names - {"vl_convert_python"} <= set(ROOMS_OF)


def test_the_root_holds_what_was_agreed():
    """A person would not find their way in from the top."""
    found = subprocess.run(
        ["git", "ls-tree", "--name-only", "HEAD"], cwd=ROOT, capture_output=True, text=True
    )
    if found.returncode:
        pytest.skip("not a git checkout")
    extra = {name for name in found.stdout.split() if not name.startswith(".git")} - AT_THE_ROOT
    assert not extra


def test_rooms_are_small_and_named_by_an_idea():
    """Nobody could read a room at one sitting, or say in one word what is in it."""
    large = [
        f"{room.name}: {room.lines} lines" for room in rooms() if room.lines > LONGEST_ROOM_LINES
    ]
    nameless = [
        room.name for room in rooms() if set(room.path.stem.split("_")) & WORDS_WITHOUT_AN_IDEA
    ]
    assert not large
    assert not nameless


@pytest.mark.long
def test_functions_are_small(capsys):
    """Formulas would hide in long functions, as in the tools that went before."""
    with capsys.disabled():
        print()
        for floor in FLOORS:
            found = rooms(floor)
            lengths = sorted(_length(f) for room in found for _, f in room.functions)
            if lengths:
                print(_line(floor, found, lengths))
    long = [
        f"{room.name}:{function.lineno} {'.'.join(names)}: {_length(function)} lines"
        for room in rooms()
        for names, function in room.functions
        if _length(function) > LONGEST_FUNCTION_LINES
    ]
    assert len(long) <= len(rooms()) // 20, long


def _length(function):
    """Lines of code from def to end, the docstring not counted."""
    first = function.body[0]
    has_docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    said = first.end_lineno - first.lineno + 1 if has_docstring else 0
    return function.end_lineno - function.lineno + 1 - said


def _line(floor, found, lengths):
    return (
        f"{floor:>10}: {len(found):3} rooms, {sum(room.lines for room in found):6} lines, "
        f"{len(lengths):4} functions, median {statistics.median(lengths):.0f} lines, "
        f"90% within {lengths[int(0.9 * (len(lengths) - 1))]}, longest {lengths[-1]}"
    )


def test_no_two_test_files_have_one_name():
    """Pytest would collect the first and stop at the second: half of the suite, or none."""
    names = [path.name for path in (ROOT / "tests").glob("*/test_*.py")]
    assert sorted(names) == sorted(set(names))
