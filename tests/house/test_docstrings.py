"""Every public function says what it is, and nothing is left for later."""

import ast
import re

import pytest
from rooms import is_public, rooms


def public(room):
    for names, function in room.functions:
        if is_public(names):
            yield ".".join(names), function


@pytest.mark.parametrize("room", rooms(), ids=lambda room: room.name)
def test_every_public_function_has_a_docstring(room):
    """A reader would have to run the code to know what it gives."""
    bare = [
        f"{room.name}:{function.lineno} {name}"
        for name, function in public(room)
        if not ast.get_docstring(function)
    ]
    assert not bare
    assert room.path.name == "__init__.py" or ast.get_docstring(room.tree), room.name


@pytest.mark.parametrize("room", rooms(), ids=lambda room: room.name)
def test_nothing_is_left_for_later(room):
    """A note to oneself would pass for a finished room."""
    notes = [
        f"{room.name}:{number}"
        for number, line in enumerate(room.path.read_text().splitlines(), start=1)
        if re.search(r"\b(TODO|FIXME|XXX|HACK)\b", line)
    ]
    assert not notes
