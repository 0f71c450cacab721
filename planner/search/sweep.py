"""The exhaustive sweep: every candidate that can exist, a few hardware bills at a time.

The candidates of a bill are enumerated in blocks, evaluated, and only those that no other plan of
the same bill beats are kept (the physical front). Bills share nothing but blocks, so processes
take them in batches and memory stays flat in the number of candidates.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np

from planner.archive.columns import ledger_columns
from planner.costing.price_desk import desk_of
from planner.costing.targets import is_ranked_by_targets
from planner.evaluated import Evaluated, Limit
from planner.metrics import find_metric, is_at_least
from planner.pareto import nondominated
from planner.runs.physics import physics_of, replays_of
from planner.search.bounds import broken_by
from planner.search.near import Band, Memo, no_memo
from planner.search.workforce import Workforce, spread
from planner.space.blocks import Bill, Block, bill_at, bills, blocks, columns
from planner.space.named import WHOLE, named_axis
from planner.space.plan_keys import plan_name
from planner.study.read import Study
from planner.training.engine import Engine
from planner.training.evaluate import is_step_given
from simkernel.columns import Codes, Floats

BLOCK_ROWS = 16384
"""Measured on the shipped studies: layouts shared by plans of a block are priced once, and below
8,192 rows the fixed cost of a block shows."""

BATCH_BILLS = 8
"""Bills of one chip evaluated together: enough to fill a block, few enough to stop soon."""

LEAST_KEPT = 10
"""Least-violating candidates remembered per bill, for a study where nothing is feasible."""

FOLLOWS_FROM_FRONT = frozenset(
    {
        "days", "device_hours", "tokens_per_s", "tokens_per_s_per_device", "goodput_frac",
        "model_flop_per_s_per_device", "devices", "nodes", "supernodes",
        "it_mean_w", "it_peak_w", "provisioned_w",
    }
)  # fmt: skip
"""Metrics that within one bill grow or shrink with time, mean power, peak power or units alone."""


LARGE_BILL = 1 << 20
"""Combinations of a bill that keep a core busy for themselves: each is handed out alone."""

Compared = Callable[[], Floats]
"""What the front compares of what was evaluated, (n, k), all to be minimised."""

Named = Callable[[Codes], dict[str, Any]]
"""Picked rows of what was evaluated, as a person reads them."""

Item = tuple[tuple[int, ...], bool]
"""Bills by their places in the space, and whether it is the second pass over them."""


@dataclass
class BillResult:
    """What one bill came to.

    Parameters
    ----------
    index : of the bill
    evaluated, masked, rejected : counts; masked by rule, rejected by limit
    skipped : candidates that a bound proves to break a limit, by limit; below 0 where they were
        evaluated after all
    front : columns of the bill's physical front: "key", axes, metrics, ledger terms
    nearest : the same for the least-violating candidates when the bill has no feasible one
    seconds : of processor time [s]
    beaten : design keys told in a `front` before that are on it no more; a search only
    new_keys : design keys whose scores are to be kept: all that a search evaluates, `near`
    near : plans within the guard band of the front of their chip, where plans are replayed
    is_settled : nothing that was evaluated waits to be told of, so the run can be kept up to here
    """

    index: int
    evaluated: int = 0
    masked: Counter[str] = field(default_factory=Counter)
    rejected: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    front: dict[str, Any] = field(default_factory=dict)
    nearest: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    beaten: tuple[int, ...] = ()
    new_keys: list[int] = field(default_factory=list)
    is_settled: bool = True
    near: Memo = field(default_factory=no_memo)


def sweep(
    engine: Engine,
    workers: int | Workforce,
    is_stopped: Callable[[], bool],
    done: Container[int] = frozenset(),
) -> Iterator[BillResult]:
    """Results of all bills, in the order they are done.

    Parameters
    ----------
    workers : processes, 1 stays in this one; or who else does it
    is_stopped : asked between batches of bills; True ends the sweep early
    done : indices of bills to leave out
    """
    return _passed(engine, workers, is_stopped, done, is_second=False)


def sweep_left_out(
    engine: Engine,
    workers: int | Workforce,
    is_stopped: Callable[[], bool],
    done: Container[int] = frozenset(),
) -> Iterator[BillResult]:
    """The second pass: what bounds left out of the sweep, for a study where nothing is feasible.

    Which plans come nearest to feasible is only known once all are evaluated. Bills have indices
    of their own in it; arguments as of `sweep`.
    """
    return _passed(engine, workers, is_stopped, done, is_second=True)


def _passed(
    engine: Engine,
    workers: int | Workforce,
    is_stopped: Callable[[], bool],
    done: Container[int],
    *,
    is_second: bool,
) -> Iterator[BillResult]:
    first = len(engine.space.bill_codes) if is_second else 0
    few = BATCH_BILLS if engine.space.plans_per_bill < LARGE_BILL else 1
    todo = batches([bill for bill in bills(engine.space) if first + bill.index not in done], few)
    items = [(tuple(bill.index for bill in batch), is_second) for batch in todo]
    for results in spread(engine, sweep_batch, items, workers, is_stopped):
        yield from results


def sweep_batch(engine: Engine, item: Item) -> list[BillResult]:
    """The work of a batch, wherever it is done."""
    indices, is_second = item
    return sweep_bills(engine, [bill_at(engine.space, i) for i in indices], is_second=is_second)


def batches(todo: Sequence[Bill], few: int) -> list[list[Bill]]:
    """Bills of one chip, a few at a time: small bills share the fixed cost of a block."""
    found = []
    for _, group in groupby(todo, key=lambda bill: bill.values["accelerator"]):
        of_chip = list(group)
        found += [of_chip[at : at + few] for at in range(0, len(of_chip), few)]
    return found


def sweep_bill(engine: Engine, bill: Bill) -> BillResult:
    """Every candidate of one bill, evaluated; its physical front."""
    return sweep_bills(engine, [bill])[0]


def sweep_bills(
    engine: Engine, batch: Sequence[Bill], *, is_second: bool = False
) -> list[BillResult]:
    """Every candidate of some bills of one chip, evaluated; the physical front of each bill.

    Those that a bound proves infeasible are only counted. In the second pass these alone are
    evaluated, for a study where nothing is feasible, and counted anew.
    """
    started = time.thread_time()
    first = len(engine.space.bill_codes) if is_second else 0
    states = {bill.index: _State(BillResult(first + bill.index)) for bill in batch}
    band = _band(engine, str(batch[0].values["accelerator"]))
    waiting: list[tuple[int, Block]] = []
    for bill in batch:
        for whole in blocks(engine.space, bill, BLOCK_ROWS):
            block = _left_by_bounds(engine, bill, whole, states[bill.index].result, is_second)
            if len(block):
                waiting.append((bill.index, block))
            if sum(len(b) for _, b in waiting) >= BLOCK_ROWS:
                waiting = _evaluated(engine, states, waiting, band)
    _evaluated(engine, states, waiting, band)
    results = [state.closed() for state in states.values()]
    if band:
        _share_near(engine, batch, results, band.closed())
    rows = max(sum(result.evaluated for result in results), 1)
    for result in results:
        result.seconds = (time.thread_time() - started) * result.evaluated / rows
    return results


def _left_by_bounds(
    engine: Engine, bill: Bill, block: Block, result: BillResult, is_second: bool
) -> Block:
    """What is to be evaluated of a block; the rest is counted."""
    if not is_second:
        result.masked.update(block.masked)
    if not len(block):
        return block
    chip = str(bill.values["accelerator"])
    broken = broken_by(engine, columns(engine.space, block), chip)
    is_out = np.zeros(len(block), dtype=bool)
    for limit, is_broken in broken.items():
        result.skipped[limit] += int(is_broken.sum()) * (-1 if is_second else 1)
        is_out |= is_broken
    return block.take(is_out == is_second)


def _band(engine: Engine, accelerator: str) -> Band | None:
    """Where the plans of one chip are kept that a replay may want; None where there is none."""
    if not replays_of(engine.study):
        return None
    desk = desk_of(engine.study, engine.catalog, [accelerator])
    return Band(desk, accelerator, engine.space.levels)


def _share_near(
    engine: Engine, batch: Sequence[Bill], results: Sequence[BillResult], near: Memo
) -> None:
    """To every bill its own plans of the guard band."""
    size = engine.space.plans_per_bill
    for bill, result in zip(batch, results, strict=True):
        result.near = near.take(near.keys // size == bill.key // size)
        result.new_keys = result.near.keys.tolist()


@dataclass
class _State:
    """A bill in work: its result so far and the points of its front."""

    result: BillResult
    points: Floats = field(default_factory=lambda: np.empty((0, 0)))

    def closed(self) -> BillResult:
        """The result, without nearest candidates where one is feasible."""
        if self.result.front:
            self.result.nearest = _nothing()
        return self.result


def _evaluated(
    engine: Engine,
    states: Mapping[int, _State],
    waiting: Sequence[tuple[int, Block]],
    band: Band | None,
) -> list[tuple[int, Block]]:
    """Evaluate waiting blocks as one and share the rows out; returns what waits now: nothing."""
    if not waiting:
        return []
    parts = [columns(engine.space, block) for _, block in waiting]
    rows = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    accelerator = str(engine.space.levels["accelerator"][rows["accelerator"][0]])
    found = physics_of(engine.study).evaluate(engine, rows, accelerator)
    if band:
        band.add(np.concatenate([block.keys for _, block in waiting]), rows, found)
    start = 0
    for (index, block), part in zip(waiting, parts, strict=True):
        own = found.take(slice(start, start + len(block)))
        start += len(block)
        _share_out(engine, states[index], block, part, own)
    return []


def _share_out(
    engine: Engine, state: _State, block: Block, rows: Mapping[str, Any], found: Evaluated
) -> None:
    """The rows of one block go to its bill: counts, nearest candidates, front."""
    result = state.result
    result.evaluated += len(block)
    count_rejections(result.rejected, found.limits)

    def named(picked: Codes) -> dict[str, Any]:
        return named_rows(engine, block.keys, rows, found, picked)

    if not result.front:
        remember_nearest(result, found, named)
    compared = partial(criteria, engine.study, found.metrics)
    result.front, state.points = merged(result.front, state.points, found, compared, named)


def criteria(study: Study, metrics: Mapping[str, Floats]) -> Floats:
    """What the physical front compares, all to be minimised; (n, k).

    Time, mean power, peak power and units bought; any cost that grows with these has its optimum
    inside. What does not follow from them is one more criterion. Plans whose step the study gives
    tie in all of these: among them the one that would be fastest by itself wins. Figures are
    compared to 12 digits, below which they are order of summation.
    """
    compared = [metrics[n] for n in ("days", "it_mean_w", "it_peak_w", "purchase_units")]
    compared += [sign * metrics[name] for name, sign in further_criteria(study).items()]
    if is_step_given(study):
        compared.append(metrics["unpinned_step_s"])
    return to_twelve_digits(np.stack(compared, axis=1))


def to_twelve_digits(values: Floats) -> Floats:
    """Values rounded to twelve significant digits: below them is order of summation."""
    size = np.floor(np.log10(np.maximum(np.abs(values), 1e-200)))
    scale = 10.0 ** (11 - size)
    return np.asarray(np.round(values * scale) / scale)


def further_criteria(study: Study) -> dict[str, float]:
    """Physical metrics that a study compares and that the others do not settle, with their sign.

    Its objectives, the targets that they rank by, and the metrics whose band it limits: bands come
    with costing, after the front is made. A band grows with its metric.
    """
    wanted = [(name, 1.0) for name in study.objectives.minimise]
    wanted += [(name, -1.0) for name in study.objectives.maximise]
    bands = [name for name in study.limits if name.endswith(("_low", "_high"))]
    bands += study.targets if is_ranked_by_targets(study) else ()
    wanted += [(name, -1.0 if is_at_least(name) else 1.0) for name in bands]
    owners = [(find_metric(name), sign) for name, sign in wanted]
    return {
        metric.name: sign
        for metric, sign in owners
        if metric.stage == "physics" and metric.name not in FOLLOWS_FROM_FRONT
    }


def _nothing() -> dict[str, Any]:
    return {}


def count_rejections(rejected: Counter[str], limits: Mapping[str, Limit]) -> None:
    """Each limit's own count: a candidate that breaks two is counted under both."""
    for name, limit in limits.items():
        broken = int((limit.excess > 0).sum())
        if broken:
            rejected[name] += broken


def merged(
    front: dict[str, Any], points: Floats, found: Evaluated, compared: Compared, named: Named
) -> tuple[dict[str, Any], Floats]:
    """The front and the block's feasible rows, less what is beaten; the first of equals stays.

    Parameters
    ----------
    front, points : columns of the front so far, and what is compared of it; (f, k)
    found, compared : the block, (n,) rows, and what is compared of it, asked once one is feasible
    named : columns of picked rows of the block

    Returns
    -------
    the same as `front` and `points`, with the block
    """
    feasible = np.flatnonzero(found.is_feasible)
    if not len(feasible):
        return front, points
    new_points = compared()[feasible]
    best = nondominated(new_points)
    feasible, new_points = feasible[best], new_points[best]
    new = named(feasible)
    if not front:
        return new, new_points
    all_points = np.concatenate([points, new_points])
    kept = nondominated(all_points)
    both = {name: np.concatenate([front[name], new[name]])[kept] for name in new}
    return both, all_points[kept]


def named_rows(
    engine: Engine, keys: Any, rows: Mapping[str, Any], found: Evaluated, picked: Any
) -> dict[str, Any]:
    """Picked rows of a block as a person reads them: names for codes, every metric and ledger."""
    out: dict[str, Any] = {"key": keys[picked]}
    out["plan"] = np.array([plan_name(int(key)) for key in out["key"]], dtype=object)
    for name in engine.space.axes:
        out[name] = named_axis(engine, name, rows)[picked]
    if engine.study.kind == "train":
        out["data_parallel"] = rows["data_parallel"][picked]
    out |= {name: value[picked] for name, value in {**found.metrics, **found.traffic}.items()}
    out |= {name: np.rint(out[name]).astype(np.int64) for name in WHOLE}
    shape = 0.0 * found.metrics["days"]
    for name, value in ledger_columns(found.ledgers.values()).items():
        out[name] = (value + shape)[picked]
    return out


def remember_nearest(result: BillResult, found: Evaluated, named: Named) -> None:
    """Keep the candidates whose worst violation is smallest, until the bill has a feasible one.

    Parameters
    ----------
    named : columns of picked rows of what was found
    """
    excess = np.stack([limit.excess for limit in found.limits.values()])
    worst = excess.max(axis=0)
    if np.any(worst <= 0):
        return
    order = np.argsort(worst, kind="stable")[:LEAST_KEPT]
    new = named(order)
    new["worst_excess"] = worst[order]
    new["binding"] = np.array(list(found.limits), dtype=object)[excess.argmax(axis=0)[order]]
    if result.nearest:
        new = {name: np.concatenate([result.nearest[name], new[name]]) for name in new}
        best = np.argsort(new["worst_excess"], kind="stable")[:LEAST_KEPT]
        new = {name: value[best] for name, value in new.items()}
    result.nearest = new
