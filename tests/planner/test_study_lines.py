"""Lines of keys and elements in a TOML text."""

from __future__ import annotations

import tomllib

import pytest

from planner.study.lines import line_of, lines_of

TEXT = '''# a comment = [1]
[study]
name = "a # no comment"   # a comment
[workload."deep.seek"]
long = """
first = 1
"""
axes.inner.x = 1
when = 1979-05-27 07:32:00
[axes]
tp = [1,
  2, # two
  "three"]
cap = { from = 1, to = [2, 3], "odd key" = 'x' }
[[many]]
a = 1
[[many]]
a = """quote " and \\""" inside"""""
'''


def every_path(value, path=()):
    """Every path in a parsed document."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield (*path, key)
            yield from every_path(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield (*path, index)
            yield from every_path(item, (*path, index))


def test_every_key_and_element_of_a_hard_text_has_a_line():
    """A fault would point to the wrong line, or to none."""
    lines = lines_of(TEXT)
    assert set(every_path(tomllib.loads(TEXT))) == set(lines)


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("study",), 2),
        (("study", "name"), 3),
        (("workload", "deep.seek", "long"), 5),
        (("workload", "deep.seek", "axes", "inner", "x"), 8),
        (("axes", "tp"), 11),
        (("axes", "tp", 2), 13),
        (("axes", "cap", "to", 1), 14),
        (("axes", "cap", "odd key"), 14),
        (("many", 1, "a"), 18),
    ],
)
def test_the_line_is_where_the_key_stands(path, line):
    """A user would look for the mistake in the wrong place."""
    assert lines_of(TEXT)[path] == line


def test_a_missing_key_has_the_line_of_its_table():
    """A key that is not there has no line of its own."""
    lines = lines_of(TEXT)
    assert line_of(lines, ("axes", "devices")) == 10
    assert line_of(lines, ("limits", "days")) == 1
