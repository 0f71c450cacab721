"""Chips, their efficiency curves and their links, as columns.

One frozen dataclass serves as the whole catalogue, as a batch of candidates and as one chip:
`take` turns one into another. What a chip costs is not known here.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from simkernel.columns import Codes, Floats
from simkernel.tiles import TileCurve
from simkernel.timed import Timed

PRECISIONS = ("bf16", "fp16", "fp8", "fp8_block", "mxfp8", "nvfp4", "mxfp4", "int8")
"""GEMM precisions; a precision axis stores the index. fp8_block: 128 x 128 block scales."""

PRECISION_BYTES = (2.0, 2.0, 1.0, 1.03, 1.03, 0.5625, 0.53125, 1.0)
"""Bytes of one GEMM input value with its scales: a fp32 scale per 128 for fp8_block, one byte per
32 for mxfp8 and mxfp4 and per 16 for nvfp4 (OCP Microscaling Formats v1.0; NVIDIA NVFP4)."""

OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send")
"""What a link is asked to do; link curves have one column each."""

TOPOLOGIES = ("switched", "full_mesh", "torus2d", "torus3d", "bridge", "none", "two_tier")
"""Shape of a scale-up domain; a topology axis stores the index. two_tier: switches of a board
below those of the domain (CloudMatrix)."""

SCALEOUT_FABRICS = ("catalogue", "rail_fat_tree", "fat_tree", "dcn")
"""Networks between domains; a fabric axis stores the index.

catalogue : a rail-optimised fat tree whose latency is that of the measured curves, however large
rail_fat_tree : a leaf switch serves one port of many hosts, so equal ports are neighbours
fat_tree : a leaf switch serves all ports of a few hosts
dcn : each domain (a slice) has its own switch layer and one trunk to all others
"""

T = TypeVar("T", bound="Columns")


@dataclass(frozen=True)
class Columns:
    """Base of the column tables: every field is an array whose first axis is the row."""

    def take(self: T, rows: Codes | int) -> T:
        """The same table for some rows, in the order given."""
        return type(self)(**{f.name: getattr(self, f.name)[rows] for f in fields(self)})

    def __len__(self) -> int:
        return len(getattr(self, fields(self)[0].name))


@dataclass(frozen=True)
class GemmCurve(Columns):
    """Time of a matrix product, per chip and precision.

    seconds = floor_s + max(flop / (peak x frac), bytes / (HBM rate x hbm_frac)),
    frac = flop_frac_max x m/(m+rows_half) x n/(n+columns_half) x k/(k+inner_half), and
    most_flop_frac at the most: no product that was timed reached more.
    All fields have shape (n, len(PRECISIONS)); NaN where the chip lacks the precision.
    """

    flop_frac_max: Floats
    rows_half: Floats
    columns_half: Floats
    inner_half: Floats
    hbm_frac: Floats
    floor_s: Floats
    most_flop_frac: Floats


@dataclass(frozen=True)
class AttentionCurve(Columns):
    """Time of the attention core (prefill or training form), per chip; shape (n,).

    seconds = floor_s + max(flop / (bf16 peak x flop_frac_max x s/(s+tokens_half)),
    bytes / (HBM rate x hbm_frac)); the backward pass reaches backward_frac of the forward rate.
    """

    flop_frac_max: Floats
    tokens_half: Floats
    hbm_frac: Floats
    floor_s: Floats
    backward_frac: Floats


@dataclass(frozen=True)
class StreamCurve(Columns):
    """Time of memory-bound element-wise kernels, per chip; shape (n,)."""

    hbm_frac: Floats
    floor_s: Floats


@dataclass(frozen=True)
class LinkCurve(Columns):
    """Time of one collective on one tier, pipelined in the best number of chunks.

    seconds = base_s + step_s x steps + moving + 2 sqrt(chunk_s x moving), moving = moved /
    (wire x wire_frac); moved is what a device sends, and own_frac of its own part, which it copies
    at home. A message in c chunks that are each copied in and sent on takes (c + 1) chunk_s +
    (c + 1) / c moving; the best c leaves the root and a chunk_s, which base_s holds. All fields
    have shape (n, len(OPERATIONS)).

    References
    ----------
    Pipelining in the best number of blocks: Sanders, Speck and Traff, Two-tree algorithms for
    full bandwidth broadcast, reduction and scan, Parallel Computing 2009.
    """

    wire_frac: Floats
    base_s: Floats
    step_s: Floats
    chunk_s: Floats
    own_frac: Floats


@dataclass(frozen=True)
class PowerCurve(Columns):
    """Watts of one device from what it is doing; shape (n,).

    w = min(cap, context_w + memory_w x u_mem^memory_exponent
                 + compute_w x u_comp^compute_exponent + communication_w x u_comm).
    Shares of the host and, where air cools it, of its fans stand beside: idle_w + span_w x busy.
    """

    idle_w: Floats
    context_w: Floats
    memory_w: Floats
    memory_exponent: Floats
    compute_w: Floats
    compute_exponent: Floats
    communication_w: Floats
    cap_w: Floats
    host_idle_w: Floats
    host_span_w: Floats
    fan_idle_w: Floats
    fan_span_w: Floats


@dataclass(frozen=True)
class Chips(Columns):
    """Accelerators: one row each; shape (n,) unless said.

    `memory_bytes` is what the driver reports. `peak_flop_per_s` (n, len(PRECISIONS)) is dense,
    NaN where unsupported. `scaleup_bytes_per_s` is per device and direction to all peers
    together, `scaleup_peer_bytes_per_s` per direct link; `scaleout_bytes_per_s` per device and
    direction. Host memory, what a device may have of a memory pool (CXL and its kin) with the rate
    at which it gets there and back, and host watts in `power` are shares of one device; NaN where
    nobody states them. `timed` is None where kernel times come from the curves alone,
    `tiles` where products are not priced tile by tile.
    """

    name: npt.NDArray[np.str_]
    memory_bytes: Floats
    hbm_bytes_per_s: Floats
    peak_flop_per_s: Floats
    scaleup_bytes_per_s: Floats
    scaleup_peer_bytes_per_s: Floats
    scaleup_topology_code: Codes
    scaleout_bytes_per_s: Floats
    host_link_bytes_per_s: Floats
    host_memory_bytes: Floats
    host_memory_bytes_per_s: Floats
    pool_memory_bytes: Floats
    pool_bytes_per_s: Floats
    devices_per_host: Codes
    gemm: GemmCurve
    attention: AttentionCurve
    stream: StreamCurve
    scaleup: LinkCurve
    scaleout: LinkCurve
    power: PowerCurve
    timed: Timed | None = None
    tiles: TileCurve | None = None

    def take(self, rows: Codes | int) -> Chips:
        """The same table for some rows, curves included."""
        picked: dict[str, Any] = {
            f.name: value.take(rows)
            if isinstance(value, Columns | Timed | TileCurve)
            else value[rows]
            for f in fields(self)
            for value in (getattr(self, f.name),)
            if value is not None
        }
        return Chips(**picked)
