"""The house as its files say it: floors, rooms, imports, functions; read without running them."""

import ast
import sys
from dataclasses import dataclass
from functools import cache, cached_property
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

    @cached_property
    def nodes(self):
        """Every node of the tree."""
        return list(ast.walk(self.tree))

    @cached_property
    def imports(self):
        """Every module it imports, wherever in the file, with the line."""
        found = []
        for node in self.nodes:
            if isinstance(node, ast.Import):
                found += [(alias.name, node.lineno) for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                found.append((node.module if node.level == 0 else self.floor, node.lineno))
        return found

    @cached_property
    def functions(self):
        """Every function and method, with the classes and functions around it."""
        return list(_functions(self.tree, ()))


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
    if floors:
        return [room for room in rooms() if room.floor in floors]
    paths = []
    for floor in FLOORS:
        single = ROOT / f"{floor}.py"
        paths += [single] if single.exists() else sorted((ROOT / floor).rglob("*.py"))
    return [Room(path, ast.parse(path.read_text())) for path in paths]


def is_ours(module):
    return module.split(".")[0] in FLOORS


def is_stdlib(module):
    return module.split(".")[0] in sys.stdlib_module_names


def is_public(names):
    return LOCAL not in names and not any(name.startswith("_") for name in names)
