"""From a study to blocks of candidates: every combination that can exist, and counts of the rest.

Axes are bound one after another and each rule is applied as soon as its axes are bound, so a
combination that cannot exist is never expanded further: it is counted by the size of what it
would have become. Memory depends on the block size, not on the number of candidates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from planner.axes import ALL, AXES, CATALOGUE, COUNTS, DERIVED, OFFERED, Level
from planner.space.bill_rules import bill_rules
from planner.space.rule import ChipSizes, Context, ModelCounts, Rule
from planner.space.rules import train_rules
from planner.study.read import Study
from simkernel.errors import BadStudy, unknown

Ints = npt.NDArray[np.int32]
Keys = npt.NDArray[np.int64]

CHUNK_ROWS = 1 << 15  # our choice: a chunk of 25 integer columns stays in the second-level cache
MOST_KEYS = 1 << 62  # design keys are signed 64-bit integers


@dataclass(frozen=True)
class Step:
    """Some axes bound together, and the rules that can be applied then.

    `codes` has shape (axes, combinations); `after` is how many candidates each row becomes later.
    """

    axes: tuple[str, ...]
    codes: Ints
    rules: tuple[Rule, ...]
    after: int


@dataclass(frozen=True)
class Space:
    """All candidates of a study.

    Parameters
    ----------
    levels : axis to its values; a code in a column is an index into them. A rate that is the
        catalogue's own is NaN as a value and "catalogue" here.
    bill_codes : (bills, bill axes) levels of every hardware bill, outermost
    bill_axes, plan_axes : names, in the order of a block's columns
    values : axis to what stands in a column for each code, as `columns` gives it
    steps : how plan axes are bound
    model, chips : what the rules read
    bill_rules : that a hardware bill must keep
    """

    levels: Mapping[str, tuple[Level, ...]]
    bill_axes: tuple[str, ...]
    plan_axes: tuple[str, ...]
    bill_codes: Ints
    values: Mapping[str, npt.NDArray[Any]]
    steps: tuple[Step, ...]
    model: ModelCounts
    chips: Mapping[str, ChipSizes]
    bill_rules: tuple[Rule, ...]

    @property
    def axes(self) -> tuple[str, ...]:
        """Names of a block's columns."""
        return (*self.bill_axes, *self.plan_axes)

    @property
    def plans_per_bill(self) -> int:
        """Combinations of the plan axes."""
        return _product(len(self.levels[name]) for name in self.plan_axes)

    @property
    def key_count(self) -> int:
        """Design keys are below this; above `enumerated` where bills are no full product."""
        return _product(len(self.levels[name]) for name in self.axes)

    @property
    def enumerated(self) -> int:
        """Combinations of all axes: bills times plans."""
        return len(self.bill_codes) * self.plans_per_bill


@dataclass(frozen=True)
class Bill:
    """What is bought: one value per bill axis; `masked_by` names the rule that forbids it.

    `key` is the design key of its first plan.
    """

    index: int
    key: int
    codes: tuple[int, ...]
    values: Mapping[str, Level]
    masked_by: str


@dataclass(frozen=True)
class Block:
    """Candidates of one bill.

    Parameters
    ----------
    codes : (n, axes) level codes, columns in the order of `Space.axes`
    keys : (n,) design keys, the same whenever the same study is enumerated
    masked : rule to number of combinations removed since the block before
    """

    codes: Ints
    keys: Keys
    masked: Mapping[str, int]

    def __len__(self) -> int:
        return len(self.keys)

    def take(self, rows: npt.NDArray[np.bool_]) -> Block:
        """The same counts with some of the candidates."""
        return Block(self.codes[rows], self.keys[rows], self.masked)


def make_space(
    study: Study,
    model: ModelCounts,
    chips: Mapping[str, ChipSizes],
    plan_rules: Sequence[Rule] | None = None,
    of_bills: Sequence[Rule] | None = None,
) -> Space:
    """The space of a study of work.

    Parameters
    ----------
    study : its axes
    model : counts of its model (`planner.space.rules.model_counts`)
    chips : sizes of every accelerator of the study; of all there are, for "all"
    plan_rules, of_bills : rules on plans and on bills; None for those of training

    Raises
    ------
    UnknownName : an accelerator without sizes
    BadStudy : more combinations than a 64-bit key can number
    """
    bill_axes = tuple(n for n in study.axes if AXES[n].is_bill and n not in COUNTS)
    bill_axes = (bill_axes[0], "devices", *bill_axes[1:])
    plan_axes = tuple(n for n in study.axes if not AXES[n].is_bill)
    bills = _bill_values(study, chips, bill_axes)
    levels = {name: _distinct(bill[i] for bill in bills) for i, name in enumerate(bill_axes)}
    levels |= {name: study.axes[name] for name in plan_axes}
    _check_keys(levels)
    return Space(
        levels=MappingProxyType(levels),
        bill_axes=bill_axes,
        plan_axes=plan_axes,
        bill_codes=_codes_of(bills, [levels[name] for name in bill_axes]),
        values={name: _column(name, axis) for name, axis in levels.items()},
        steps=_steps(levels, plan_axes, bill_axes, plan_rules or train_rules()),
        model=model,
        chips=chips,
        bill_rules=tuple(of_bills or bill_rules()),
    )


def bills(space: Space) -> Iterator[Bill]:
    """Every hardware bill, the forbidden ones too, in the order of the study."""
    return (bill_at(space, index) for index in range(len(space.bill_codes)))


def bill_at(space: Space, index: int) -> Bill:
    """One hardware bill by its place in the study."""
    codes = tuple(int(code) for code in space.bill_codes[index])
    values = {n: space.levels[n][c] for n, c in zip(space.bill_axes, codes, strict=True)}
    context = Context(space.model, space.chips[str(values["accelerator"])], space.levels)
    broken = (rule.name for rule in space.bill_rules if not rule.allows(values, context))
    key = _bill_key(space, codes)
    return Bill(index, key, codes, MappingProxyType(values), next(broken, ""))


def blocks(space: Space, bill: Bill, size: int = 4096) -> Iterator[Block]:
    """The candidates of one bill that can exist, in blocks of at most `size`.

    Every block but the last is full, and keys ascend. The last one, perhaps empty, carries the
    counts that remain, so that the rows and the masked counts of all blocks of all bills sum to
    `Space.enumerated`.
    """
    if bill.masked_by:
        yield _block(space, bill, _NO_ROWS, Counter({bill.masked_by: space.plans_per_bill}))
        return
    masked: Counter[str] = Counter()
    rest = _NO_ROWS
    for table in _tables(space, bill, masked):
        rest = _joined(rest, table)
        whole = len(rest) - len(rest) % size
        for start in range(0, whole, size):
            yield _block(space, bill, rest.take(slice(start, start + size)), masked)
            masked.clear()
        rest = rest.take(slice(whole, None))
    if len(rest) or masked:
        yield _block(space, bill, rest, masked)


def columns(space: Space, block: Block) -> dict[str, npt.NDArray[Any]]:
    """Values of a block by axis name.

    Returns
    -------
    counts as (n,) int64, quantities as (n,) float64 with NaN for the catalogue's own, names as
    (n,) int64 codes of `space.levels[name]`; data_parallel is derived
    """
    return values_of(space, block.codes)


def values_of(space: Space, codes: Ints) -> dict[str, npt.NDArray[Any]]:
    """Values of rows of codes (n, axes); as `columns`."""
    found = {name: space.values[name][codes[:, i]] for i, name in enumerate(space.axes)}
    split = found["tensor_parallel"] * found["pipeline_parallel"] * found["context_parallel"]
    return {**found, "data_parallel": found["devices"] // split}


def keys_of(space: Space, codes: Ints) -> Keys:
    """Design keys (n,) of rows of codes (n, axes): the row read as a number of mixed radix."""
    return mixed_radix([len(space.levels[name]) for name in space.axes], codes)


def mixed_radix(counts: Sequence[int], codes: Ints) -> Keys:
    """Rows of codes (n, axes) as numbers (n,) of so many levels an axis."""
    keys = np.zeros(len(codes), dtype=np.int64)
    for column, count in enumerate(counts):
        keys = keys * count + codes[:, column]
    return keys


def rules_in_order(space: Space) -> tuple[Rule, ...]:
    """Rules on plans in the order they are applied: a removed candidate counts for the first."""
    return tuple(rule for step in space.steps for rule in step.rules)


def _bill_key(space: Space, codes: Sequence[int]) -> int:
    key = 0
    for name, code in zip(space.bill_axes, codes, strict=True):
        key = key * len(space.levels[name]) + code
    return key * space.plans_per_bill


def _product(counts: Iterable[int]) -> int:
    total = 1
    for count in counts:
        total *= count
    return total


def _bill_values(
    study: Study, chips: Mapping[str, ChipSizes], bill_axes: Sequence[str]
) -> list[tuple[Level, ...]]:
    """Values of every bill; a size that depends on the chip is taken from the chip."""
    names = study.axes["accelerator"]
    chosen = tuple(chips) if names == (ALL,) else tuple(str(name) for name in names)
    rest = [study.axes[name] for name in bill_axes[4:]]
    found: list[tuple[Level, ...]] = []
    for name in chosen:
        if name not in chips:
            raise unknown("accelerator", name, chips)
        domains, boxes = study.axes["supernode_devices"], study.axes["chassis_devices"]
        offered = chips[name].domain_options if domains == (OFFERED,) else domains
        sold = (chips[name].devices_per_host,) if boxes == (OFFERED,) else boxes
        for count, domain, chassis in product(_counts(study), offered, sold):
            devices = count[1] * _unit(count[0], int(chassis), int(domain))
            found.extend((name, devices, domain, chassis, *more) for more in product(*rest))
    return found


def _counts(study: Study) -> list[tuple[str, int]]:
    (axis,) = (name for name in COUNTS if name in study.axes)
    if study.axes[axis] == (DERIVED,):
        return [(axis, 0)]
    return [(axis, int(count)) for count in study.axes[axis]]


def _unit(axis: str, chassis: int, domain: int) -> int:
    """Devices in one of what is counted."""
    return {"devices": 1, "nodes": chassis, "supernodes": domain}[axis]


def _distinct(values: Iterable[Level]) -> tuple[Level, ...]:
    return tuple(dict.fromkeys(values))


def _codes_of(rows: Sequence[tuple[Level, ...]], levels: Sequence[tuple[Level, ...]]) -> Ints:
    indices = [{level: code for code, level in enumerate(axis)} for axis in levels]
    coded = [[index[v] for index, v in zip(indices, row, strict=True)] for row in rows]
    return np.array(coded, dtype=np.int32).reshape(len(rows), len(levels))


def _check_keys(levels: Mapping[str, tuple[Level, ...]]) -> None:
    combinations = _product(len(values) for values in levels.values())
    if combinations > MOST_KEYS:
        raise BadStudy(
            f"the axes have {combinations:.3g} combinations; wanted at most {MOST_KEYS:.3g}; "
            "give fewer levels"
        )


def _steps(
    levels: Mapping[str, tuple[Level, ...]],
    plan_axes: Sequence[str],
    bill_axes: Sequence[str],
    rules: Sequence[Rule],
) -> tuple[Step, ...]:
    """Axes up to and including the next one that lets a rule be applied, bound together."""
    waiting = list(rules)
    sizes = {name: len(levels[name]) for name in plan_axes}
    after = _product(sizes.values())
    bound, steps = set(bill_axes), []
    for group in _groups(sizes, waiting, bound):
        bound.update(group)
        ready = tuple(rule for rule in waiting if bound.issuperset(rule.axes))
        waiting = [rule for rule in waiting if rule not in ready]
        codes = _grid([sizes[name] for name in group])
        after //= codes.shape[1]
        steps.append(Step(group, codes, ready, after))
    return tuple(steps)


def _groups(
    sizes: Mapping[str, int], rules: Sequence[Rule], known: set[str]
) -> Iterator[tuple[str, ...]]:
    """Runs of axes that end where a rule can be applied, or before they get too many."""
    bound = set(known)
    group: tuple[str, ...] = ()
    for name, size in sizes.items():
        if group and _product(sizes[n] for n in group) * size > CHUNK_ROWS:
            yield group
            group = ()
        bound.add(name)
        group = (*group, name)
        if any(name in rule.axes and bound.issuperset(rule.axes) for rule in rules):
            yield group
            group = ()
    if group:
        yield group


def _grid(counts: Sequence[int]) -> Ints:
    """Every combination of codes, the last axis fastest; shape (axes, combinations)."""
    return np.indices(counts, dtype=np.int32).reshape(len(counts), -1)


@dataclass(frozen=True)
class _Table:
    """Rows on their way to candidates: keys (n,), and codes (n,) of bound axes that vary."""

    keys: Keys
    codes: Mapping[str, Ints]

    def __len__(self) -> int:
        return len(self.keys)

    def take(self, rows: Any) -> _Table:
        """The same table for some rows: a slice or a mask."""
        return _Table(self.keys[rows], {name: codes[rows] for name, codes in self.codes.items()})

    def times(self, step: Step) -> _Table:
        """Every row with every combination of a step."""
        count, rows = step.codes.shape[1], len(self)
        keys = np.repeat(self.keys * count, count) + np.tile(np.arange(count), rows)
        codes = {name: np.repeat(column, count) for name, column in self.codes.items()}
        bound = zip(step.axes, step.codes, strict=True)
        return _Table(keys, codes | {name: np.tile(c, rows) for name, c in bound if c.any()})


_NO_ROWS = _Table(np.zeros(0, dtype=np.int64), {})


def _joined(first: _Table, second: _Table) -> _Table:
    if not len(first):
        return second
    codes = {name: np.concatenate((first.codes[name], c)) for name, c in second.codes.items()}
    return _Table(np.concatenate((first.keys, second.keys)), codes)


def _tables(space: Space, bill: Bill, masked: Counter[str]) -> Iterator[_Table]:
    """Tables of the combinations that pass every rule; counts the others."""
    context = Context(space.model, space.chips[str(bill.values["accelerator"])], space.levels)
    start = _Table(np.zeros(1, dtype=np.int64), {})
    yield from _expand(space, bill, context, start, 0, masked)


def _expand(
    space: Space, bill: Bill, context: Context, table: _Table, depth: int, masked: Counter[str]
) -> Iterator[_Table]:
    """Bind the axes of one step to every row, piece by piece, and go on with what remains."""
    if depth == len(space.steps):
        yield table
        return
    step = space.steps[depth]
    rows = max(1, CHUNK_ROWS // step.codes.shape[1])
    for start in range(0, len(table), rows):
        piece = table.take(slice(start, start + rows)).times(step)
        piece = _filtered(space, bill, context, step, piece, masked)
        if len(piece):
            yield from _expand(space, bill, context, piece, depth + 1, masked)


def _filtered(
    space: Space, bill: Bill, context: Context, step: Step, piece: _Table, masked: Counter[str]
) -> _Table:
    """Rows that pass the rules of a step; the others are counted under the first they break."""
    for rule in step.rules:
        if not len(piece):
            break
        view = {**_rule_columns(space, piece, rule.axes), **bill.values}
        allowed = np.broadcast_to(np.asarray(rule.allows(view, context)), len(piece))
        kept = int(np.count_nonzero(allowed))
        if kept < len(piece):
            masked[rule.name] += (len(piece) - kept) * step.after
            piece = piece.take(allowed)
    return piece


def _rule_columns(space: Space, piece: _Table, names: Sequence[str]) -> dict[str, Any]:
    """What a rule reads of a table; an axis that does not vary is one number."""
    return {
        name: space.values[name][piece.codes.get(name, 0)]
        for name in names
        if name in space.plan_axes
    }


def _column(name: str, levels: tuple[Level, ...]) -> npt.NDArray[Any]:
    """What stands in a column for each code of an axis."""
    axis = AXES[name]
    if axis.values == "name" or levels in ((DERIVED,), (OFFERED,)):
        return np.arange(len(levels))
    if axis.values == "integer":
        return np.array(levels, dtype=np.int64)
    return np.array([np.nan if x == CATALOGUE else x for x in levels], dtype=np.float64)


def _block(space: Space, bill: Bill, table: _Table, masked: Mapping[str, int]) -> Block:
    codes = np.zeros((len(space.axes), len(table)), dtype=np.int32)
    codes[: len(space.bill_axes)] = np.array(bill.codes, dtype=np.int32)[:, None]
    for row, name in enumerate(space.axes):
        if name in table.codes:
            codes[row] = table.codes[name]
    return Block(codes.T, table.keys + bill.key, dict(masked))
