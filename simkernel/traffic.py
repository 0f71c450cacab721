"""What a collective asks of the two network tiers, and the wires it is asked of."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from simkernel.columns import Codes, Column, Floats
from simkernel.fabrics import any_pair_bytes_per_s, neighbour_bytes_per_s, spanned_axes
from simkernel.hardware import OPERATIONS, Chips, LinkCurve, LinkProtocols
from simkernel.link_rules import PHYSICAL, LinkRules
from simkernel.placement import Group

PLAIN_PROTOCOLS = LinkProtocols(
    np.zeros(1), np.ones(1), np.zeros(1), np.ones(1), np.zeros(1), np.zeros(1)
)
"""The wire itself, without a protocol."""


@dataclass(frozen=True)
class Wires:
    """Rates and curves of both tiers for one operation and one group; (n,) or numbers.

    Rates are wire rates per device and direction; `*_frac` of them is reached, after `*_base_s`
    once and `*_step_s` per step. `inside_axes` of a torus are spanned by the group, 1 elsewhere;
    `inside_protocols` are those of the operation.
    """

    inside_bytes_per_s: Column
    inside_frac: Column
    inside_base_s: Column
    inside_step_s: Column
    outside_bytes_per_s: Column
    outside_frac: Column
    outside_base_s: Column
    outside_step_s: Column
    inside_axes: Column = 1.0
    inside_protocols: LinkProtocols = PLAIN_PROTOCOLS


@dataclass(frozen=True)
class Traffic:
    """One collective: busy seconds per tier, elapsed seconds alone, bytes sent per tier; (n,)."""

    inside_s: Column
    outside_s: Column
    elapsed_s: Column
    inside_bytes: Column
    outside_bytes: Column


@dataclass(frozen=True)
class Network:
    """Both tiers as one candidate sees them; (n,) or numbers. Oversubscription is applied."""

    topology_code: Codes
    scaleup_bytes_per_s: Column
    peer_bytes_per_s: Column
    scaleout_bytes_per_s: Column
    domain_devices: Codes
    scaleup: LinkCurve
    scaleout: LinkCurve
    protocols: LinkProtocols
    links: LinkRules = PHYSICAL

    def wires(self, operation: str, group: Group) -> Wires:
        """The wires a group's operation runs on."""
        spread = any_pair_bytes_per_s if operation == "all_to_all" else neighbour_bytes_per_s
        inside = spread(
            self.topology_code,
            self.scaleup_bytes_per_s,
            self.peer_bytes_per_s,
            group.inside,
            self.domain_devices,
        )
        if operation == "all_to_all" and self.links.exchange_frac:
            inside = inside * self.links.exchange_frac_of(self.domain_devices)
        i = OPERATIONS.index(operation)
        up, out = self.scaleup, self.scaleout
        return Wires(
            inside,
            up.wire_frac[..., i],
            up.base_s[..., i],
            up.step_s[..., i],
            self.scaleout_bytes_per_s,
            out.wire_frac[..., i],
            out.base_s[..., i],
            out.step_s[..., i],
            spanned_axes(self.topology_code, group.inside, self.domain_devices),
            LinkProtocols(
                *(getattr(self.protocols, f.name)[..., i] for f in fields(self.protocols))
            ),
        )


def network(
    chips: Chips, domain_devices: Codes, oversubscription: Column, links: LinkRules = PHYSICAL
) -> Network:
    """The two tiers of a chip (one item or a batch), with the scale-out rate shared down."""
    return Network(
        chips.scaleup_topology_code,
        chips.scaleup_bytes_per_s,
        chips.scaleup_peer_bytes_per_s,
        chips.scaleout_bytes_per_s / oversubscription,
        domain_devices,
        chips.scaleup,
        chips.scaleout,
        chips.protocols,
        links,
    )


def two_tiers(
    wires: Wires,
    group: Group,
    inside_bytes: Column,
    outside_bytes: Column,
    inside_steps: Column,
    outside_steps: Column,
    *,
    together: bool,
) -> Traffic:
    """Traffic from bytes and steps per tier; tiers run `together` or one after the other.

    A tier without traffic costs nothing: no base, no step.
    """
    has_inside = group.inside > 1
    has_outside = group.domains > 1
    inside_s = inside_bytes / (wires.inside_bytes_per_s * wires.inside_frac)
    outside_s = outside_bytes / (wires.outside_bytes_per_s * wires.outside_frac)
    inside_latency_s = np.where(
        has_inside, wires.inside_base_s + wires.inside_step_s * inside_steps, 0.0
    )
    outside_latency_s = np.where(
        has_outside, wires.outside_base_s + wires.outside_step_s * outside_steps, 0.0
    )
    if together:
        elapsed = np.maximum(inside_s + inside_latency_s, outside_s + outside_latency_s)
    else:
        elapsed = inside_s + inside_latency_s + outside_s + outside_latency_s
    return Traffic(inside_s, outside_s, elapsed, inside_bytes, outside_bytes)


def nothing(like: Floats) -> Traffic:
    """No traffic, shaped like a column."""
    zero = np.zeros_like(like, dtype=float)
    return Traffic(zero, zero, zero, zero, zero)
