"""From seconds that somebody timed to what they are over the curves of the chips they are of.

A product is held against the curve of the kernel for itself, a collective against the fastest
algorithm on the chip's own links.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from simkernel.columns import Codes, Floats
from simkernel.exchange import fastest
from simkernel.hardware import OPERATIONS, PRECISION_BYTES, Chips, Columns
from simkernel.placement import Group
from simkernel.roofline import gemm_rates, gemm_work
from simkernel.timed import Line, Points, Timed
from simkernel.traffic import least_s, network

RESULT_BYTES = 2.0
"""Products return 16 bits, as those that curves are fitted to."""


@dataclass(frozen=True)
class ProductTimes(Columns):
    """Timed products; (p,) each. `is_in_step` is 1 where one was timed inside a whole step."""

    chip_code: Codes
    precision_code: Codes
    rows: Floats
    inner: Floats
    columns: Floats
    is_in_step: Floats
    seconds: Floats


@dataclass(frozen=True)
class MessageTimes(Columns):
    """Timed collectives; (p,) each. `inside` members of a group share a domain, of `domains`."""

    chip_code: Codes
    operation_code: Codes
    inside: Codes
    domains: Codes
    payload_bytes: Floats
    seconds: Floats


def timed_of(chips: Chips, products: ProductTimes, messages: MessageTimes) -> Timed:
    """What was timed on the chips of a table, over their curves.

    Notes
    -----
    A product and its transposed one do the same work on the same values: a time of one stands for
    the other where that was not timed.
    """
    products = _with_transposed(products)
    curve_s, _ = product_curve_s(chips, products)
    log_frac = np.log(products.seconds / curve_s)
    places = np.log2(np.stack([products.rows, products.inner, products.columns], axis=1))
    keys = np.stack([products.chip_code, products.precision_code], axis=1)
    points = {}
    for chip, precision in np.unique(keys, axis=0):
        is_here = (keys == (chip, precision)).all(axis=1)
        points[int(chip), int(precision)] = Points(
            places[is_here], log_frac[is_here], products.is_in_step[is_here]
        )
    return Timed(np.arange(len(chips)), points, _lines(chips, messages))


def _with_transposed(products: ProductTimes) -> ProductTimes:
    """Products, and after them those with rows and columns exchanged that are not among them."""
    other = replace(products, rows=products.columns, columns=products.rows)
    cells = [
        [getattr(one, name) for name in (*KEY, "is_in_step", "seconds")]
        for one in (products, other)
    ]
    both = np.concatenate([np.stack(columns, axis=1) for columns in cells])
    _, first = np.unique(both[:, : len(KEY)], axis=0, return_index=True)
    kept = np.arange(len(products)).tolist() + [int(i) for i in first if i >= len(products)]
    return ProductTimes(both[kept, 0].astype(int), both[kept, 1].astype(int), *both[kept, 2:].T)


KEY = ("chip_code", "precision_code", "rows", "inner", "columns")


def product_curve_s(chips: Chips, products: ProductTimes) -> tuple[Floats, Floats]:
    """Seconds of products by their chips' curves for themselves, and at the roofline; (p,) each.

    Roofline here is the dense peak alone: a small product that is timed again and again is read
    from a cache, which is faster than the memory.
    """
    rates = gemm_rates(chips.take(products.chip_code), products.precision_code)
    width = np.array(PRECISION_BYTES)[products.precision_code]
    work = gemm_work(
        rates, products.rows, products.inner, products.columns, (width, width, RESULT_BYTES)
    )
    return np.asarray(work.elapsed_s), np.asarray(work.peak_compute_s)


def message_curve_s(chips: Chips, messages: MessageTimes) -> tuple[Floats, Floats]:
    """Seconds of collectives by the fastest algorithm, and by the wires alone; (p,) each.

    The domain is as large as the group's part in it.
    """
    size = messages.inside * messages.domains
    group = Group(size, messages.inside)
    mine = chips.take(messages.chip_code)
    wires = network(mine, messages.inside, np.ones(len(size)))
    curve_s, wire_s = np.ones(len(size)), np.zeros(len(size))
    for code, operation in enumerate(OPERATIONS):
        here = np.flatnonzero(messages.operation_code == code)
        if not len(here):
            continue
        all_s = fastest(operation, wires.wires(operation, group), group, messages.payload_bytes)
        curve_s[here] = np.broadcast_to(all_s.elapsed_s, len(size))[here]
        near, far = least_s(
            operation, wires.wires(operation, group), group, messages.payload_bytes
        )
        wire_s[here] = np.broadcast_to(np.maximum(near, far), len(size))[here]
    return curve_s, wire_s


def _lines(chips: Chips, messages: MessageTimes) -> dict[tuple[int, str], tuple[Line, ...]]:
    """Lines by chip and operation, one for each shape of a group."""
    curve_s, _ = message_curve_s(chips, messages)
    log_frac = np.log(messages.seconds / curve_s)
    keys = np.stack(
        [messages.chip_code, messages.operation_code, messages.inside, messages.domains], axis=1
    )
    found: dict[tuple[int, str], tuple[Line, ...]] = {}
    for chip, operation, inside, domains in np.unique(keys, axis=0):
        here = np.flatnonzero((keys == (chip, operation, inside, domains)).all(axis=1))
        here = here[np.argsort(messages.payload_bytes[here])]
        line = Line(
            int(inside), int(domains), np.log2(messages.payload_bytes[here]), log_frac[here]
        )
        key = (int(chip), OPERATIONS[operation])
        found[key] = (*found.get(key, ()), line)
    return found
