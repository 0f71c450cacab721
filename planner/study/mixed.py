"""The table [mixed]: one cluster that serves by day and trains in the troughs, hour by hour."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field
from pydantic.dataclasses import dataclass

from planner.study.faults import Faults, part
from planner.study.parts import CONFIG, Amount, AtLeastZero, Count, Fraction


@dataclass(frozen=True, config=CONFIG)
class Wave:
    """Devices that serving needs: `mean` and `swing` of a sine that rises at midnight."""

    mean: Annotated[Amount, Field(description="devices, e.g. 800")]
    swing: Annotated[AtLeastZero, Field(description="devices, e.g. 400")]


@dataclass(frozen=True, config=CONFIG)
class Mixed:
    """The table [mixed].

    Serving needs `serving` devices, a wave or one number for each hour of a day, in whole nodes of
    `node_devices`, and keeps `reserve_frac` of that free for a rise within the hour. Training
    takes the rest in blocks of `block_devices`; a block that stops loses `stop_hours` of its work.
    """

    devices: Annotated[Count, Field(description="of the cluster, a whole number")]
    serving: Annotated[
        Wave | tuple[AtLeastZero, ...],
        Field(description="{ mean = 800, swing = 400 }, or devices for each hour of a day"),
    ]
    node_devices: Annotated[Count, Field(description="devices of a node, e.g. 8")] = 8
    block_devices: Annotated[
        tuple[Count, ...], Field(min_length=1, description="sizes of a block, e.g. [128, 256]")
    ] = (256,)
    reserve_frac: Annotated[
        tuple[Fraction, ...], Field(min_length=1, description="shares of the need, e.g. [0, 0.1]")
    ] = (0.0,)
    stop_hours: Annotated[
        AtLeastZero, Field(le=24, description="hours of work that a stop loses, 0 to 24")
    ] = 0.5


NONE = Mixed(devices=1, serving=(0.0,))
"""Of a study that is not mixed."""


def read_mixed(table: Mapping[str, Any], kind: str, faults: Faults) -> Mixed:
    """The table of a mixed study; faults are noted."""
    if kind != "mixed":
        if table:
            faults.say(("mixed",), f"a {kind} study mixes nothing", 'write kind = "mixed"')
        return NONE
    given = {
        name: [value] if name in ("block_devices", "reserve_frac") and not isinstance(value, list)
        else value
        for name, value in table.items()
    }  # fmt: skip
    found: Mixed = part(Mixed, given, ("mixed",), faults) or NONE
    if found is not NONE:
        _check(found, faults)
    return found


def _check(mixed: Mixed, faults: Faults) -> None:
    """What one number of the table forbids another."""
    most = mixed.serving.mean + mixed.serving.swing if isinstance(mixed.serving, Wave) else max(
        mixed.serving, default=0.0)  # fmt: skip
    if isinstance(mixed.serving, Wave) and mixed.serving.swing > mixed.serving.mean:
        faults.say(("mixed", "serving"), "a swing above the mean asks for fewer than no devices",
                   "wanted swing of at most mean")  # fmt: skip
    if not isinstance(mixed.serving, Wave) and not mixed.serving:
        faults.say(("mixed", "serving"), "no hours", "wanted devices for each hour of a day")
    if most > mixed.devices:
        faults.say(("mixed", "devices"), f"{mixed.devices} devices, and the busiest hour of "
                   f"serving needs {most:g}", "wanted enough for it")  # fmt: skip
    for block in mixed.block_devices:
        if block % mixed.node_devices:
            faults.say(("mixed", "block_devices"), f"a block of {block} is no whole nodes of "
                       f"{mixed.node_devices}", "wanted a multiple")  # fmt: skip
