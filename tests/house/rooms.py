"""The house as its files say it: floors, rooms, imports, functions; read without running them."""

import ast
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

FLOORS = ("simkernel", "costdata", "planner", "app")
"""From the ground up: a floor may import itself and those before it."""

LOCAL = "<locals>"


@dataclass(frozen=True)
class Room:
    """One source file."""

    path: Path
    tree: ast.Module

    @property
    def name(self):
        """The path as the tables write it, e.g. "simkernel/roofline.py"."""
        return self.path.relative_to(ROOT).as_posix()

    @property
    def module(self):
        """The name to import it by."""
        dotted = self.name.removesuffix(".py").replace("/", ".")
        return dotted.removesuffix(".__init__")

    @property
    def floor(self):
        return self.module.split(".")[0]

    @property
    def lines(self):
        return len(self.path.read_text().splitlines())

    def imports(self):
        """Every module it imports, wherever in the file, with the line."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from ((alias.name, node.lineno) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                yield (node.module if node.level == 0 else self.floor), node.lineno

    def functions(self):
        """Every function and method, with the classes and functions around it."""
        yield from _functions(self.tree, ())


def _functions(node, around):
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield (*around, child.name), child
            yield from _functions(child, (*around, child.name, LOCAL))
        elif isinstance(child, ast.ClassDef):
            yield from _functions(child, (*around, child.name))


@cache
def rooms(*floors):
    """All rooms of some floors; of all when none is named."""
    paths = []
    for floor in floors or FLOORS:
        single = ROOT / f"{floor}.py"
        paths += [single] if single.exists() else sorted((ROOT / floor).rglob("*.py"))
    return [Room(path, ast.parse(path.read_text())) for path in paths]


def is_ours(module):
    return module.split(".")[0] in FLOORS


def is_stdlib(module):
    return module.split(".")[0] in sys.stdlib_module_names


def is_public(names):
    return LOCAL not in names and not any(name.startswith("_") for name in names)
