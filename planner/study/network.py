"""The table [network] of a study: what its links are taken to be, where that is not measured.

And [presets.NAME]: tables that a study lays over its own when `study.preset` names them, with the
sentence that says what is then assumed. `--set study.preset=NAME` does the same.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import field
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from planner.study.faults import Faults, nearest
from simkernel.link_rules import LinkRules

ASSUMES = "assumes"
"""Key of a preset that is a sentence, not a table."""


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Degraded:
    """A port of one device along the pipeline that is slow, or down, for a part of a step.

    `port` is the device's own in its domain or between domains; `left_frac` of its rate is left
    from `from_s` of the step until `until_s`, None for good. Played by replays alone.
    """

    stage: Annotated[int, Field(ge=0, strict=True, description="a whole number, 0 for the first")]
    port: Annotated[Literal["domain", "scaleout"], Field(description='"domain" or "scaleout"')]
    left_frac: Annotated[
        float, Field(ge=0, lt=1, allow_inf_nan=False, description="a share from 0 to below 1")
    ]
    from_s: Annotated[float, Field(ge=0, allow_inf_nan=False, description="seconds")] = 0.0
    until_s: Annotated[
        float | None, Field(gt=0, allow_inf_nan=False, description="seconds, or left out")
    ] = None


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Network:
    """The table [network]; a study need not have it.

    `link_rule` "group_size" is a modelling fault of other simulators that published figures rest
    on: replicas share a domain where they are no more than it has devices. Its plans carry
    `unphysical_link_rule`, are on no front and can be bought by nobody. `any_supernode` takes
    domain sizes that nobody sells, as a what-if, `any_chassis` servers of such sizes.
    `all_to_all_frac` is by domain size what an
    all-to-all inside it reaches of what its topology gives. `degraded` ports are those of a step
    that is replayed.
    """

    link_rule: Annotated[
        Literal["physical", "group_size"], Field(description='"physical" or "group_size"')
    ] = "physical"
    any_supernode: Annotated[bool, Field(strict=True, description="true or false")] = False
    any_chassis: Annotated[bool, Field(strict=True, description="true or false")] = False
    all_to_all_frac: Annotated[
        Mapping[
            Annotated[str, Field(pattern="^[1-9][0-9]*$")],
            Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)],
        ],
        Field(description='shares by domain size, { "64" = 0.5 }'),
    ] = field(default_factory=dict)
    degraded: Annotated[
        tuple[Degraded, ...],
        Field(description='tables { stage = 1, port = "scaleout", left_frac = 0.5 }'),
    ] = ()

    @property
    def rules(self) -> LinkRules:
        """What the physics reads of it."""
        fracs = {int(size): frac for size, frac in self.all_to_all_frac.items()}
        return LinkRules(self.link_rule == "group_size", tuple(sorted(fracs.items())))


def with_preset(document: Mapping[str, Any], faults: Faults | None = None) -> dict[str, Any]:
    """A study's document with the tables of the preset it names laid over its own, key by key.

    Parameters
    ----------
    faults : told where there is no such preset; without it that is left for later
    """
    header, presets = document.get("study", {}), document.get("presets", {})
    name = header.get("preset", "") if isinstance(header, Mapping) else ""
    if not name or not isinstance(presets, Mapping):
        return dict(document)
    preset = presets.get(name)
    if not isinstance(preset, Mapping):
        if faults is not None:
            faults.say(
                ("study", "preset"), f"there is no [presets.{name}]", nearest(name, presets)
            )
        return dict(document)
    laid = copy.deepcopy(dict(document))
    for section, table in preset.items():
        if section != ASSUMES:
            laid[section] = _over(laid.get(section, {}), table)
    return laid


def _over(own: Any, preset: Any) -> Any:
    """One table over another, key by key; what is no table takes its place."""
    if not isinstance(own, Mapping) or not isinstance(preset, Mapping):
        return preset
    both = dict(own)
    for key, value in preset.items():
        both[key] = _over(both[key], value) if key in both else value
    return both
