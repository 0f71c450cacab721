"""From wishes to plans that can exist: nearest legal codes, random ones, and how many there are.

The axes of a space are bound step by step, as enumeration binds them, so every combination that is
proposed has passed every rule before it costs an evaluation. No axis is known by name here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from planner.axes import AXES
from planner.space.blocks import Ints, Space, Step, bills, blocks, rules_in_order
from planner.space.rule import Context, Rule
from simkernel.columns import Floats, Masks

Rng = np.random.Generator
ACCELERATOR = "accelerator"

MOST_CELLS = 1 << 20
"""Rows x combinations looked at together: 8 MB a column stays in a third-level cache."""

ROWS_PER_LISTED = 100
"""Rows that enumeration may look at on its way to a candidate: ten million a second pass."""

TRIES = 8
"""Wishes that lead nowhere are shaken so often, from the third time on with another bill."""


@dataclass(frozen=True)
class Layouts:
    """The candidates of a space that can exist.

    Parameters
    ----------
    space : with its rules
    bill_codes : (bills, bill axes) of the bills that no rule forbids
    is_name : (axes,) True where levels have no order
    of_chips : names of rules that ask what the chip is; the others need no telling apart
    """

    space: Space
    bill_codes: Ints
    is_name: Masks
    of_chips: frozenset[str]

    def __len__(self) -> int:
        return len(self.bill_codes)


@dataclass(frozen=True)
class Count:
    """An estimate of the size of a space.

    Parameters
    ----------
    candidates : that can exist, mean over random descents
    rows : that enumeration looks at on its way to them
    error_frac : standard error of `candidates` over itself
    """

    candidates: float
    rows: float
    error_frac: float


def layouts_of(space: Space) -> Layouts:
    """The legal part of a space."""
    allowed = [bill.codes for bill in bills(space) if not bill.masked_by]
    return Layouts(
        space,
        np.array(allowed, dtype=np.int32).reshape(len(allowed), len(space.bill_axes)),
        np.array([AXES[name.rpartition(".")[2]].values == "name" for name in space.axes]),
        frozenset(rule.name for rule in rules_in_order(space) if _asks_for_chip(space, rule)),
    )


def random_codes(layouts: Layouts, rows: int, rng: Rng) -> Ints:
    """Wishes: a legal bill and any level on every other axis; (rows, axes)."""
    space = layouts.space
    plans = [rng.integers(0, len(space.levels[name]), rows) for name in space.plan_axes]
    bought = layouts.bill_codes[rng.integers(0, len(layouts), rows)]
    return np.concatenate([bought, np.array(plans, np.int32).reshape(-1, rows).T], axis=1)


def repaired(layouts: Layouts, wishes: Ints, rng: Rng, tries: int = TRIES) -> tuple[Ints, Masks]:
    """The legal candidate near each wish.

    Parameters
    ----------
    wishes : (n, axes) level codes, legal or not
    rng : breaks ties, and shakes wishes that lead nowhere
    tries : how often; a try costs about the same for one wish and for a hundred

    Returns
    -------
    (n, axes) codes and (n,) True where they are legal; a legal wish stays as it is
    """
    codes = _with_bills(layouts, wishes, rng)
    is_legal = np.zeros(len(codes), dtype=bool)
    for shake in range(tries):
        rows = np.flatnonzero(~is_legal)
        if not len(rows):
            break
        wanted = _shaken(layouts, codes[rows], shake > 2, rng) if shake else codes[rows]
        found, is_found = _descended(layouts, wanted, rng)
        codes[rows[is_found]] = found[is_found]
        is_legal[rows[is_found]] = True
    return codes, is_legal


def counted(layouts: Layouts, rng: Rng, draws: int = 512) -> Count:
    """How many candidates can exist, and what listing them would cost.

    Every draw walks down the steps at random; the product of the choices it had is an unbiased
    estimate of the leaves below it.

    References
    ----------
    Knuth, Estimating the efficiency of backtrack programs, Math. Comp. 29(129), 1975.
    """
    if not len(layouts):
        return Count(0.0, 0.0, 0.0)
    codes = random_codes(layouts, draws, rng)
    weight = np.full(draws, float(len(layouts)))
    rows = np.zeros(draws)
    for step in layouts.space.steps:
        alive = np.flatnonzero(weight)
        rows[alive] += weight[alive] * step.codes.shape[1]
        allowed, picked = _chosen(layouts, step, codes[alive], None, rng)
        codes[alive] = picked
        weight[alive] *= allowed
    mean = float(weight.mean())
    error = float(weight.std(ddof=1) / np.sqrt(draws) / mean) if mean else 0.0
    return Count(mean, float(rows.mean()), error)


def listed(layouts: Layouts, most: int) -> Ints | None:
    """Every candidate that can exist, (n, axes) codes; None where there are too many to list.

    Parameters
    ----------
    most : candidates to list; their number is estimated first
    """
    count = counted(layouts, np.random.default_rng(0))
    if count.candidates > most or count.rows > ROWS_PER_LISTED * most:
        return None
    found = [block.codes for bill in bills(layouts.space) for block in blocks(layouts.space, bill)]
    none = np.empty((0, len(layouts.space.axes)), dtype=np.int32)
    return np.concatenate([none, *found])


def _with_bills(layouts: Layouts, wishes: Ints, rng: Rng) -> Ints:
    """The wishes with the nearest legal bill each; the first bill axis is kept where it can be."""
    codes = wishes.astype(np.int32, copy=True)
    width = layouts.bill_codes.shape[1]
    size = max(1, MOST_CELLS // max(len(layouts), 1))
    for start in range(0, len(codes), size):
        part = codes[start : start + size, :width]
        apart = _distance(part[:, None, :], layouts.bill_codes[None], layouts.is_name[:width])
        apart += 1e3 * (part[:, None, 0] != layouts.bill_codes[None, :, 0])
        apart += 0.5 * rng.random(apart.shape) * (apart > 0)
        codes[start : start + size, :width] = layouts.bill_codes[apart.argmin(axis=1)]
    return codes


def _distance(wanted: Any, offered: Any, is_name: Masks) -> Floats:
    """Levels apart on ordered axes, 1 where a name differs, summed over the last dimension."""
    apart = np.abs(wanted - offered)
    found: Floats = np.where(is_name, np.minimum(apart, 1), apart).sum(axis=-1) * 1.0
    return found


def _shaken(layouts: Layouts, codes: Ints, with_bills: bool, rng: Rng) -> Ints:
    """Wishes with about half of the axes of use at random levels, and perhaps another bill."""
    others = random_codes(layouts, len(codes), rng)
    is_new = rng.random(codes.shape) < 0.5
    is_new[:, : layouts.bill_codes.shape[1]] = with_bills
    return np.where(is_new, others, codes)


def _descended(layouts: Layouts, codes: Ints, rng: Rng) -> tuple[Ints, Masks]:
    """Wishes made legal step by step; False where a step has nothing to offer."""
    codes = codes.copy()
    is_alive = np.ones(len(codes), dtype=bool)
    for step in layouts.space.steps:
        rows = np.flatnonzero(is_alive)
        allowed, picked = _chosen(layouts, step, codes[rows], codes[rows], rng)
        codes[rows] = picked
        is_alive[rows] = allowed > 0
    return codes, is_alive


def _chosen(
    layouts: Layouts, step: Step, codes: Ints, wishes: Ints | None, rng: Rng
) -> tuple[Floats, Ints]:
    """Rows with one allowed combination of a step bound, and how many were allowed.

    The nearest to the wish, or any where there is no wish.
    """
    counts, out = np.zeros(len(codes)), codes.copy()
    at = [layouts.space.axes.index(name) for name in step.axes]
    size = max(1, MOST_CELLS // step.codes.shape[1])
    for start in range(0, len(codes), size):
        part = slice(start, start + size)
        allowed = _allowed(layouts, step, codes[part])
        apart = rng.random(allowed.shape)
        if wishes is not None:
            wanted = wishes[part][:, at]
            far = _distance(wanted[:, None, :], step.codes.T[None], layouts.is_name[at])
            apart = far + 0.5 * apart * (far > 0)
        best = np.where(allowed, apart, np.inf).argmin(axis=1)
        counts[part] = allowed.sum(axis=1)
        out[part, at] = step.codes.T[best]
    return counts, out


def _allowed(layouts: Layouts, step: Step, codes: Ints) -> Masks:
    """Which combinations of a step each row may take; (rows, combinations)."""
    space, many = layouts.space, step.codes.shape[1]
    allowed = np.ones((len(codes), many), dtype=bool)
    for rule in step.rules:
        for members, context in _contexts(layouts, rule, codes):
            shape = (len(members), many)
            view = {name: _seen(space, step, name, codes[members]) for name in rule.axes}
            flat = {name: np.broadcast_to(column, shape).ravel() for name, column in view.items()}
            told = np.broadcast_to(np.asarray(rule.allows(flat, context)), shape[0] * many)
            allowed[members] &= told.reshape(shape)
    return allowed


def _seen(space: Space, step: Step, name: str, codes: Ints) -> npt.NDArray[Any]:
    """An axis as a rule sees it: down the rows where it is bound, else along the step."""
    values = space.values[name]
    if name in step.axes:
        return values[step.codes[step.axes.index(name)]][None, :]
    return values[codes[:, space.axes.index(name)]][:, None]


def _contexts(
    layouts: Layouts, rule: Rule, codes: Ints
) -> Iterator[tuple[npt.NDArray[Any], Context]]:
    """Rows of one chip together where a rule asks for it; all rows where it does not."""
    space = layouts.space
    chips = codes[:, space.bill_axes.index(ACCELERATOR)]
    names = [str(level) for level in space.levels[ACCELERATOR]]
    if rule.name not in layouts.of_chips:
        any_chip = space.chips[names[0]]
        yield np.arange(len(codes)), Context(space.model, any_chip, space.levels)
        return
    for code in np.unique(chips):
        one = space.chips[names[code]]
        yield np.flatnonzero(chips == code), Context(space.model, one, space.levels)


def _asks_for_chip(space: Space, rule: Rule) -> bool:
    """The rule looks at the chip: told by handing it none."""
    first = {name: space.values[name][:1] for name in rule.axes}
    nothing: Any = object()
    try:
        rule.allows(first, Context(space.model, nothing, space.levels))
    except AttributeError:
        return True
    return False


def is_legal(layouts: Layouts, codes: Ints) -> Masks:
    """True where a candidate breaks no rule; (n,) for codes (n, axes)."""
    width = layouts.bill_codes.shape[1]
    known = {row.tobytes() for row in np.ascontiguousarray(layouts.bill_codes)}
    bought = np.ascontiguousarray(codes[:, :width].astype(np.int32))
    is_sold = np.array([row.tobytes() in known for row in bought], dtype=bool)
    found, is_found = _descended(layouts, codes, np.random.default_rng(0))
    is_kept: Masks = is_sold & is_found & (found == codes).all(axis=1)
    return is_kept


def neighbours(layouts: Layouts, codes: Ints) -> Ints:
    """Candidates that can exist and differ on one axis from one of some plans; each once."""
    space = layouts.space
    found = []
    for column, name in enumerate(space.axes):
        levels = len(space.levels[name])
        changed = np.repeat(codes, levels, axis=0)
        changed[:, column] = np.tile(np.arange(levels, dtype=codes.dtype), len(codes))
        found.append(changed[changed[:, column] != np.repeat(codes[:, column], levels)])
    every = np.unique(np.concatenate(found), axis=0)
    return every[is_legal(layouts, every)]
