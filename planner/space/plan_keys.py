"""Design keys: the number of a candidate in its space, its name, neighbours and faults."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from planner.axes import DERIVED
from planner.space.blocks import Ints, Keys, Space, rules_in_order
from planner.space.rule import Context
from simkernel.errors import UnknownName

_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"
"""Base 32 without i, l, o, u (Crockford), so a plan name can be read aloud."""


def codes_of(space: Space, keys: Keys) -> Ints:
    """Rows of codes (n, axes) of design keys (n,); undoes `keys_of`."""
    codes = np.empty((len(space.axes), len(keys)), dtype=np.int32)
    for column in range(len(space.axes) - 1, -1, -1):
        keys, codes[column] = np.divmod(keys, len(space.levels[space.axes[column]]))
    return codes.T


def plan_name(key: int) -> str:
    """A short name of a plan, from its design key."""
    digits = ""
    while key or not digits:
        key, digit = divmod(key, 32)
        digits = _DIGITS[digit] + digits
    return f"p{digits}"


def plan_key(name: str) -> int:
    """The design key of a plan's name.

    Raises
    ------
    UnknownName : no such name
    """
    if not name.startswith("p") or not name[1:] or set(name[1:]) - set(_DIGITS):
        raise UnknownName(f"plan {name!r} is not known; wanted p and base-32 digits, e.g. p7k2q")
    key = 0
    for digit in name[1:]:
        key = key * 32 + _DIGITS.index(digit)
    return key


def broken_rules(space: Space, row: Ints) -> tuple[str, ...]:
    """Names of all rules that one candidate breaks, none if it can exist.

    Parameters
    ----------
    row : (axes,) level codes of the candidate
    """
    values = dict(zip(space.axes, row, strict=True))
    bill = {name: space.levels[name][values[name]] for name in space.bill_axes}
    plan = {name: space.values[name][values[name]] for name in space.plan_axes}
    context = Context(space.model, space.chips[str(bill["accelerator"])], space.levels)
    rules = (*space.bill_rules, *rules_in_order(space))
    return tuple(r.name for r in rules if not np.all(r.allows({**plan, **bill}, context)))


def neighbours(space: Space, row: Ints) -> Iterator[tuple[str, Ints]]:
    """Every candidate that differs on one axis, as (axis, (axes,) level codes).

    Those that cannot exist are among them: `broken_rules` says why they cannot.
    """
    for column, name in enumerate(space.axes):
        if space.levels[name] == (DERIVED,):
            continue
        for code in range(len(space.levels[name])):
            if code != row[column]:
                changed = row.copy()
                changed[column] = code
                yield name, changed
