"""Which chip runs which product and which layer: precision x kernel, with the reason.

A "no" in support.csv is stronger than a "yes"; where nothing is said, the answer is no, because a
plan that rests on a kernel nobody has shown is worse than a plan left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from costdata.facts import ALL_ROWS, Row, Table
from simkernel.columns import Masks
from simkernel.errors import unknown
from simkernel.hardware import PRECISIONS

KERNELS = ("gqa", "mla", "moe", "window", "state")
"""Softmax attention over shared heads, latent attention, experts, sliding window, state layers."""


@dataclass(frozen=True)
class Support:
    """The answer to "does it run", true or false as it stands, with its reason."""

    is_supported: bool
    reason: str
    source: str
    as_of: str
    grade: str

    def __bool__(self) -> bool:
        return self.is_supported


def support(rules: Table, chip: Row, precision: str, kernel: str) -> Support:
    """Whether a chip runs a kernel with its products in a precision.

    Parameters
    ----------
    rules : support.csv
    chip : row of accelerators.csv

    Raises
    ------
    UnknownName : no such precision or kernel
    """
    if precision not in PRECISIONS:
        raise unknown("precision", precision, PRECISIONS)
    if kernel not in KERNELS:
        raise unknown("kernel", kernel, KERNELS)
    spoken = list(_spoken(rules.values(), chip, precision, kernel))
    denied = [rule for rule in spoken if not rule.values["is_supported"]]
    if denied:
        return _answer(denied[0], is_supported=False)
    if chip.number(f"{precision}_tflop_per_s") is None:
        return _silent(f"accelerators.csv gives no dense {precision} peak for {chip.name}")
    if spoken:
        return _answer(spoken[0], is_supported=True)
    what = f"the {kernel} kernel in {precision} on {chip.text('architecture')}"
    return _silent(f"no row of support.csv speaks of {what}")


def support_mask(rules: Table, chips: Sequence[Row]) -> Masks:
    """True where it runs; shape (chips, len(PRECISIONS), len(KERNELS))."""
    answers = [
        bool(support(rules, chip, precision, kernel))
        for chip in chips
        for precision in PRECISIONS
        for kernel in KERNELS
    ]
    return np.array(answers, dtype=np.bool_).reshape(len(chips), len(PRECISIONS), len(KERNELS))


def _spoken(rules: Iterable[Row], chip: Row, precision: str, kernel: str) -> Iterable[Row]:
    asked = {
        "architecture": chip.text("architecture"),
        "accelerators": chip.name,
        "precisions": precision,
        "kernels": kernel,
    }
    return (rule for rule in rules if all(_meets(rule, *pair) for pair in asked.items()))


def _meets(rule: Row, column: str, word: str) -> bool:
    words = rule.values.get(column, (ALL_ROWS,))
    return isinstance(words, tuple) and (word in words or ALL_ROWS in words)


def _answer(rule: Row, is_supported: bool) -> Support:
    texts = (rule.text(column) for column in ("reason", "source", "as_of", "grade"))
    return Support(is_supported, *texts)


def _silent(reason: str) -> Support:
    return Support(False, reason, "", "", "")
