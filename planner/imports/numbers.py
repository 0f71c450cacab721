"""What counts as a number in a file that somebody brings, and how large one can be."""

from __future__ import annotations

import math
import sys
from functools import cache
from typing import TypeGuard

from costdata.facts import schema_of

MOST_DIGITS = 18
"""Of a whole number: what 64 bits hold, whatever the digits."""


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value of JSON is a number that a float can hold: no flag, no infinity, no NaN."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) <= sys.float_info.max


def whole_number(text: str) -> int | None:
    """A count as a log writes it; None where a text is none, or has more than `MOST_DIGITS`."""
    is_one = text.isascii() and text.isdecimal() and len(text) <= MOST_DIGITS
    return int(text) if is_one else None


@cache
def limits(table: str, column: str) -> tuple[float, float]:
    """Least and most that a column of our tables can hold, in the unit of its file.

    Infinite where the column is open.
    """
    field = schema_of(table)[column]
    return (
        -math.inf if field.least is None else field.least,
        math.inf if field.most is None else field.most,
    )
