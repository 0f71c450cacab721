"""Tables of own times (product_times.csv, collective_times.csv): curves fitted to them.

Where a study takes the tables, the fitted rows of efficiency_gemm.csv and links.csv stand before
ours, with `compute = "roofline"` too: few parameters within physical bounds, which also speak for
shapes and groups that nobody timed. A fifth of the times is held out, drawn at random: a curve
that is no nearer to them than ours is told and not kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from costdata.facts import as_cells, parse_table
from costdata.times import COLLECTIVES, PRODUCTS, message_times, product_times
from planner.calibration.curves import Fit, Messages, Products, fit_gemm, fit_link
from planner.calibration.kernels import RESULT_BYTES, has_steps
from planner.imports.found import Found, Given, Rows, told_later
from planner.imports.text_files import read_text
from simkernel.columns import Codes, Floats
from simkernel.errors import BadFile
from simkernel.hardware import (
    OPERATIONS,
    PRECISION_BYTES,
    PRECISIONS,
    Chips,
    GemmCurve,
    LinkCurve,
)
from simkernel.timed_over_curves import (
    MessageTimes,
    ProductTimes,
    message_curve_s,
    product_curve_s,
)

SETTINGS: dict[str, str] = {}

HELD_OUT_FRAC = 0.2
LEAST_TIMES = 25
"""Of one curve of six parameters; below, the priors of the fit say more than the times."""


def read(paths: Sequence[Path], given: Given) -> Found:
    """Curves of every chip, precision and operation that was timed often enough.

    Raises
    ------
    BadFile : no such table, every fault of its rows, or nothing that could be fitted
    """
    rows = _rows(paths)
    names = sorted({row.text("accelerator") for table in rows.values() for row in table})
    chips = given.catalog.chips(names) if names else None
    told: list[dict[str, Any]] = []
    gemm: Rows = []
    links: Rows = []
    notes: list[str] = []
    if chips is not None:
        products = product_times(rows[PRODUCTS], names)
        in_step = int(products.is_in_step.sum())
        if in_step:
            notes.append(f"{in_step} times inside steps are left out: a curve is of the kernel")
        gemm = _gemm_rows(chips, products.take(np.flatnonzero(products.is_in_step == 0)), told)
        links = _link_rows(chips, message_times(rows[COLLECTIVES], names), told)
    if not told:
        raise BadFile(
            f"nothing was timed {LEAST_TIMES} times or more; give product_times.csv or "
            "collective_times.csv with more rows"
        )
    tables = {"efficiency_gemm": gemm, "links": links}
    kept = len(gemm) + len(links)
    summary = f"{kept} curves of {len(told)} are nearer to what was held out"
    return Found({n: r for n, r in tables.items() if r}, summary, {"curves": told}, notes)


def _rows(paths: Sequence[Path]) -> Mapping[str, list[Any]]:
    found: dict[str, list[Any]] = {PRODUCTS: [], COLLECTIVES: []}
    faults: list[str] = []
    for path in paths:
        with told_later(faults):
            header, cells = as_cells(path.name, read_text(path))
            table = PRODUCTS if "inner" in header else COLLECTIVES if "operation" in header else ""
            if not table:
                raise BadFile(
                    f"{path.name} is neither product_times.csv nor collective_times.csv; give "
                    "one that an import wrote"
                )
            rows, wrong = parse_table(table, cells, {}, is_user=True)
            faults += wrong
            found[table] += rows.values()
    if faults:
        raise BadFile(*faults)
    return found


def _gemm_rows(chips: Chips, times: ProductTimes, told: list[dict[str, Any]]) -> Rows:
    kept: Rows = []
    for chip, precision in _keys(times.chip_code, times.precision_code):
        here = (times.chip_code == chip) & (times.precision_code == precision)
        mine = times.take(np.flatnonzero(here))
        if len(mine) < LEAST_TIMES:
            continue
        shown, held = _split(len(mine))
        used = mine.take(shown)
        width = PRECISION_BYTES[precision]
        fit = fit_gemm(
            Products(used.rows, used.inner, used.columns, used.seconds),
            float(chips.peak_flop_per_s[chip, precision]),
            float(chips.hbm_bytes_per_s[chip]),
            (width, width, RESULT_BYTES),
        )
        left = mine.take(held)
        fitted_s, _ = product_curve_s(_with_gemm(chips, chip, precision, fit), left)
        ours_s, _ = product_curve_s(chips, left)
        name = str(chips.name[chip])
        head = {"accelerator": name, "precision": PRECISIONS[precision]}
        one = _judged(f"{name} products {PRECISIONS[precision]}", left.seconds, ours_s, fitted_s)
        told.append({**one, "times": len(mine)})
        if one["is_kept"]:
            kept.append({**head, **_cells(fit, left.seconds, fitted_s)})
    return kept


def _link_rows(chips: Chips, times: MessageTimes, told: list[dict[str, Any]]) -> Rows:
    kept: Rows = []
    times = times.take(np.flatnonzero(times.domains == 1))
    for chip, code in _keys(times.chip_code, times.operation_code):
        mine = times.take(
            np.flatnonzero((times.chip_code == chip) & (times.operation_code == code))
        )
        if len(mine) < LEAST_TIMES:
            continue
        shown, held = _split(len(mine))
        operation = OPERATIONS[code]
        fit = fit_link(
            _messages(mine.take(shown), operation),
            float(chips.scaleup_bytes_per_s[chip]),
            has_steps(operation),
        )
        left = mine.take(held)
        fitted_s, _ = message_curve_s(_with_link(chips, chip, code, fit), left)
        ours_s, _ = message_curve_s(chips, left)
        name = str(chips.name[chip])
        one = _judged(f"{name} {operation} in a domain", left.seconds, ours_s, fitted_s)
        told.append({**one, "times": len(mine)})
        if one["is_kept"]:
            head = {"accelerator": name, "tier": "scaleup", "operation": operation}
            kept.append({**head, **_cells(fit, left.seconds, fitted_s)})
    return kept


def _messages(times: MessageTimes, operation: str) -> Messages:
    """What each member of a group sends, keeps and waits for, as curves are fitted to."""
    rounds = 2.0 if operation == "all_reduce" else 1.0
    own = rounds * times.payload_bytes / times.inside
    steps = rounds * (times.inside - 1.0)
    if operation == "send":
        return Messages(times.payload_bytes, 0.0 * own, 0.0 * own + 1.0, times.seconds)
    return Messages(own * (times.inside - 1.0), own, steps, times.seconds)


def _keys(*codes: Codes) -> Iterable[tuple[int, int]]:
    pairs = np.unique(np.stack(codes, axis=1), axis=0)
    return [(int(a), int(b)) for a, b in pairs]


def _split(count: int) -> tuple[Codes, Codes]:
    """Times that are fitted to, and those held out."""
    order = np.random.default_rng(0).permutation(count)
    held = max(int(count * HELD_OUT_FRAC), 1)
    return np.sort(order[held:]), np.sort(order[:held])


def _judged(what: str, timed_s: Floats, ours_s: Floats, fitted_s: Floats) -> dict[str, Any]:
    """Errors on what was held out, before and after."""
    before, after = (np.abs(s / timed_s - 1.0) for s in (ours_s, fitted_s))
    return {
        "curve": what,
        "before_median_frac": float(np.median(before)),
        "after_median_frac": float(np.median(after)),
        "before_p90_frac": float(np.quantile(before, 0.9)),
        "after_p90_frac": float(np.quantile(after, 0.9)),
        "is_kept": bool(np.median(after) < np.median(before)),
    }


def _cells(fit: Fit, timed_s: Floats, fitted_s: Floats) -> dict[str, str]:
    errors = np.abs(fitted_s / timed_s - 1.0)
    return {
        **{name: f"{value:.4g}" for name, value in fit.values.items()},
        "basis": "measured",
        "median_error_frac": f"{min(float(np.median(errors)), 5.0):.4g}",
        "p90_error_frac": f"{min(float(np.quantile(errors, 0.9)), 5.0):.4g}",
    }


def _with_gemm(chips: Chips, chip: int, precision: int, fit: Fit) -> Chips:
    cells = {
        name: _changed(getattr(chips.gemm, name), (chip, precision), value)
        for name, value in fit.values.items()
    }
    return replace(chips, gemm=GemmCurve(**{**vars(chips.gemm), **cells}))


def _with_link(chips: Chips, chip: int, code: int, fit: Fit) -> Chips:
    cells = {
        name: _changed(getattr(chips.scaleup, name), (chip, code), value)
        for name, value in fit.values.items()
    }
    return replace(chips, scaleup=LinkCurve(**{**vars(chips.scaleup), **cells}))


def _changed(column: Floats, at: tuple[int, int], value: float) -> Floats:
    found = np.array(column, dtype=float)
    found[at] = value
    return found
