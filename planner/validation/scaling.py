"""Published runs of one configuration on few and on many devices.

A scaling pair is the smallest and the largest run of one configuration, at the same global batch
or at the same batch per device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np

from planner.validation.training import Prediction
from simkernel.columns import Floats

SETTINGS = (
    "n_accel", "tp", "pp", "vpp", "cp", "ep", "seq_len", "global_batch_seqs", "micro_batch",
    "recompute", "zero_stage", "precision", "software_release", "stack",
)  # fmt: skip
"""Settings of a training row."""

OWNERS = ("source_group", "model", "accelerator", "metric")
"""What runs have in common before their settings are looked at."""

T = TypeVar("T")


def keyed(
    values: Iterable[T], key: Callable[[T], tuple[Any, ...]]
) -> dict[tuple[Any, ...], list[T]]:
    """Values by their key, in the order of first appearance."""
    groups: dict[tuple[Any, ...], list[T]] = {}
    for value in values:
        groups.setdefault(key(value), []).append(value)
    return groups


def scaling_pairs(runs: Sequence[Prediction]) -> list[tuple[list[int], list[int]]]:
    """Places of the runs on few and on many devices of every pair; several where repeated.

    Parameters
    ----------
    runs : of training; a configuration with several stacks has a pair per stack
    """
    fixed = [name for name in SETTINGS if name not in ("n_accel", "global_batch_seqs")]

    def configuration(i: int) -> tuple[Any, ...]:
        cells = (runs[i].row.text(name) for name in (*OWNERS, *fixed))
        return (*cells, runs[i].case.overlaps)

    def devices(i: int) -> int:
        return int(runs[i].plan["devices"])

    def batch(i: int) -> tuple[float]:
        return (runs[i].plan["global_batch_sequences"],)

    def batch_per_device(i: int) -> tuple[float]:
        return (runs[i].plan["global_batch_sequences"] / runs[i].plan["devices"],)

    found = []
    for group in keyed(range(len(runs)), configuration).values():
        for of in (batch, batch_per_device):
            for same in keyed(group, of).values():
                sizes = [devices(i) for i in same]
                if min(sizes) < max(sizes):
                    few = [i for i in same if devices(i) == min(sizes)]
                    found.append((few, [i for i in same if devices(i) == max(sizes)]))
    return found


def contrasts(runs: Sequence[Prediction]) -> Floats:
    """What each pair takes of the runs: their mean on many devices less that on few.

    Returns
    -------
    (pairs, n)
    """
    pairs = scaling_pairs(runs)
    found = np.zeros((len(pairs), len(runs)))
    for row, (few, many) in zip(found, pairs, strict=True):
        row[few], row[many] = -1.0 / len(few), 1.0 / len(many)
    return found
