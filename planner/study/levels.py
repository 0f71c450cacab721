"""Values of an axis as written in a study: one, a list, a range or a word, turned into levels."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from planner.axes import ALIASES, Axis, Level, wanted

MOST_OF_ANY = 1e9  # our choice: beyond it a number is a slip, and codes would not fit
MOST_LEVELS = 100_000  # our choice: a longer axis is a slip of a step, not a design space


class BadLevel(ValueError):
    """An axis value that is no level; the text says why."""


class _Range(BaseModel):
    """A range: { from, to, step = "x2" | number }."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    start: Annotated[float, Field(alias="from", allow_inf_nan=False)]
    to: Annotated[float, Field(allow_inf_nan=False)]
    step: Annotated[float, Field(allow_inf_nan=False, gt=0)] | Annotated[str, Field(pattern="^x")]


def levels_of(axis: Axis, given: object) -> tuple[Level, ...]:
    """The levels of an axis, in the order given.

    Raises
    ------
    BadLevel : the value cannot mean levels of this axis; it says what is wrong, not what to do
    """
    if isinstance(given, dict):
        raw = _range_levels(axis, given)
    else:
        raw = tuple(given) if isinstance(given, list | tuple) else (given,)
    if not raw:
        raise BadLevel("the list is empty")
    levels = tuple(_level(axis, value, alone=len(raw) == 1) for value in raw)
    return _without_repeats(levels)


def _range_levels(axis: Axis, given: dict[str, object]) -> tuple[object, ...]:
    if axis.values == "name":
        raise BadLevel("names have no range")
    try:
        found = _Range.model_validate(given)
    except ValidationError as error:
        raise BadLevel(_range_fault(error)) from error
    if found.start > found.to:
        raise BadLevel(f"the range runs from {found.start:g} down to {found.to:g}")
    numbers = _steps(found.start, found.to, found.step)
    if axis.values == "integer":
        return tuple(int(number) if number.is_integer() else number for number in numbers)
    return tuple(numbers)


def _range_fault(error: ValidationError) -> str:
    """The first thing wrong with a range, in words."""
    first = error.errors()[0]
    key = ".".join(str(part) for part in first["loc"][:1])
    if first["type"] == "missing":
        return f"the range lacks '{key}'"
    if first["type"] == "extra_forbidden":
        return f"a range has no key '{key}'"
    return f"'{key}' of the range is {first['input']!r}"


def _steps(start: float, to: float, step: float | str) -> list[float]:
    if isinstance(step, str):
        return _geometric(start, to, step)
    count = math.floor((to - start) / step * (1 + 1e-12)) + 1  # 1e-12: float order only
    if count > MOST_LEVELS:
        raise BadLevel(f"the range has {count} values, more than {MOST_LEVELS}")
    return [float(f"{start + index * step:.12g}") for index in range(count)]


def _geometric(start: float, to: float, step: str) -> list[float]:
    try:
        factor = float(step[1:])
    except ValueError:
        raise BadLevel(f"the step {step!r} is no factor") from None
    if not 1 < factor < math.inf or start <= 0:
        raise BadLevel(f"a step {step!r} from {start:g} does not grow")
    count = math.floor(math.log(to / start) / math.log(factor) * (1 + 1e-12)) + 1
    if count > MOST_LEVELS:
        raise BadLevel(f"the range has {count} values, more than {MOST_LEVELS}")
    return [float(f"{start * factor**index:.12g}") for index in range(count)]


def _level(axis: Axis, value: object, *, alone: bool) -> Level:
    if isinstance(value, str):
        return _word(axis, value, alone=alone)
    if axis.values == "name" or isinstance(value, bool) or not isinstance(value, int | float):
        raise BadLevel(f"{value!r} is not a {_noun(axis)}")
    return _number(axis, value)


def _word(axis: Axis, value: str, *, alone: bool) -> Level:
    if axis.values != "name":
        if value not in axis.words:
            raise BadLevel(f"{value!r} is not a {_noun(axis)}")
        if not alone:
            raise BadLevel(f"{value!r} cannot stand in a list")
        return value
    name = ALIASES.get(axis.name, {}).get(value, value)
    if axis.names and name not in (*axis.names, *axis.default):
        raise BadLevel(f"{value!r} is not one of the names")
    return _ready(axis, name)


def _number(axis: Axis, value: int | float) -> Level:
    if axis.values == "integer":
        if isinstance(value, float) and not value.is_integer():
            raise BadLevel(f"{value!r} is not a whole number")
        value = int(value)
    most = min(axis.most, MOST_OF_ANY)
    if not axis.least <= value <= most:
        raise BadLevel(f"{value!r} is out of bounds, from {axis.least:g} to {most:g} here")
    return value


def _ready(axis: Axis, name: str) -> str:
    if axis.ready and name not in axis.ready:
        shown = " or ".join(repr(level) for level in axis.ready)
        raise BadLevel(f"{name!r} has no physics in this version yet, only {shown} has")
    return name


def _without_repeats(levels: Sequence[Level]) -> tuple[Level, ...]:
    repeated = sorted(str(level) for level, times in Counter(levels).items() if times > 1)
    if repeated:
        raise BadLevel(f"{', '.join(repeated)} stands there twice")
    return tuple(levels)


def _noun(axis: Axis) -> str:
    return {"integer": "whole number", "number": "number", "name": "name"}[axis.values]


def example_of(axis: Axis) -> str:
    """A line that would be right, for an error message."""
    if axis.values == "name":
        first = axis.ready[0] if axis.ready else (axis.names or ("H100-SXM",))[0]
        return f'{axis.name} = ["{first}"]'
    if axis.most < math.inf and axis.values == "number":
        return f"{axis.name} = [{axis.most:g}]"
    return f"{axis.name} = [1, 2, 4, 8]"


def what_to_do(axis: Axis) -> str:
    """What is wanted and a line that would be right, for an error message."""
    return f"wanted {wanted(axis)}; write e.g. {example_of(axis)}"
