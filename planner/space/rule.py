"""What a rule is, what it sees of a combination, and group sizes that follow from its axes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from planner.axes import Level

Mask = npt.NDArray[np.bool_] | bool
Columns = Mapping[str, Any]
"""Axis name to integers, shape (n,) or one number; a name axis holds codes of its levels."""


@dataclass(frozen=True)
class ModelCounts:
    """What the rules need of a model and its training run.

    `heads` and `kv_heads` go together, one pair per kind of attention; `kv_heads` is 0 where the
    cache is latent and every rank keeps it whole. `experts` is 0 for a dense model. `selects_keys`
    says that an index picks the keys a query meets.
    """

    layers: int
    heads: tuple[int, ...]
    kv_heads: tuple[int, ...]
    mlp_widths: tuple[int, ...]
    experts: int
    expert_widths: tuple[int, ...]
    tokens_per_sequence: int
    selects_keys: bool = False


@dataclass(frozen=True)
class ChipSizes:
    """What the rules need of a chip.

    `unit_devices` is what is sold as one piece, 0 for a host, and `ports_per_host` scale-out ports
    of a host, 0 for one each device; `chassis_options` are hosts of other sizes that a study takes
    for a what-if, `topology` the shape of its domains as sold. `precisions` are the matrix
    precisions it has; () for all. `has_host` says that memory of the host and the link to it are
    known, `has_pool` the same of a memory pool.
    """

    domain_options: tuple[int, ...]
    devices_per_host: int
    precisions: tuple[str, ...] = ()
    has_host: bool = True
    has_pool: bool = False
    unit_devices: int = 0
    ports_per_host: int = 0
    chassis_options: tuple[int, ...] = ()
    topology: str = "switched"


@dataclass(frozen=True)
class Context:
    """What is the same for all candidates of one hardware bill."""

    model: ModelCounts
    chip: ChipSizes
    levels: Mapping[str, tuple[Level, ...]]


@dataclass(frozen=True)
class Rule:
    """A condition on some axes.

    Parameters
    ----------
    name : under which removed candidates are counted
    axes : what it reads; it is applied as soon as all of these are bound
    allows : (columns, context) to True where the combination can exist
    reason : for a person
    """

    name: str
    axes: tuple[str, ...]
    allows: Callable[[Columns, Context], Mask]
    reason: str


SPLIT = ("tensor_parallel", "pipeline_parallel", "context_parallel")
EXPERT = ("expert_parallel", "expert_tensor_parallel")
BATCH = ("micro_batch_sequences", "global_batch_sequences")


def split(c: Columns) -> Any:
    """Ranks of one replica: tensor x pipeline x context."""
    return c["tensor_parallel"] * c["pipeline_parallel"] * c["context_parallel"]


def stage_ranks(c: Columns) -> Any:
    """Ranks that hold one pipeline stage: tensor x context x data."""
    return c["devices"] // c["pipeline_parallel"]


def expert_ranks(c: Columns) -> Any:
    """Ranks over which one copy of the experts is spread."""
    return c["expert_parallel"] * c["expert_tensor_parallel"]


def replicas(c: Columns) -> Any:
    """Copies of the model that work on batches of their own."""
    return np.maximum(c["devices"] // split(c), 1)


def micro_batch_of_all(c: Columns) -> Any:
    """Sequences that all replicas work on at a time."""
    return replicas(c) * c["micro_batch_sequences"]
