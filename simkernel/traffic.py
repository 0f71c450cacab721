"""What a collective asks of the two network tiers, and the wires it is asked of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simkernel.columns import Codes, Column, Floats
from simkernel.fabrics import any_pair_bytes_per_s, neighbour_bytes_per_s, spanned_axes
from simkernel.hardware import OPERATIONS, Chips, LinkCurve
from simkernel.link_rules import PHYSICAL, LinkRules
from simkernel.placement import Group
from simkernel.timed import Timed


@dataclass(frozen=True)
class Wires:
    """Rates and curves of both tiers for one operation and one group; (n,) or numbers.

    Rates are wire rates per device and direction; `*_frac` of them is reached, after `*_base_s`
    once and `*_step_s` per step; `*_chunk_s` and `*_own_frac` as in hardware.LinkCurve.
    `inside_axes` of a torus are spanned by the group, 1 elsewhere.
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
    inside_chunk_s: Column = 0.0
    inside_own_frac: Column = 0.0
    outside_chunk_s: Column = 0.0
    outside_own_frac: Column = 0.0


@dataclass(frozen=True)
class Traffic:
    """One collective: busy seconds per tier, elapsed seconds alone, bytes sent per tier; (n,).

    Of the elapsed seconds times of such collectives speak for `timed_s` and not for `guessed_s`.
    """

    inside_s: Column
    outside_s: Column
    elapsed_s: Column
    inside_bytes: Column
    outside_bytes: Column
    timed_s: Column = 0.0
    guessed_s: Column = 0.0

    @property
    def has_times(self) -> bool:
        """Somebody timed such a collective, here or elsewhere."""
        return isinstance(self.guessed_s, np.ndarray)


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
    links: LinkRules = PHYSICAL
    timed: Timed | None = None

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
            up.chunk_s[..., i],
            up.own_frac[..., i],
            out.chunk_s[..., i],
            out.own_frac[..., i],
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
        links,
        chips.timed,
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

    A tier without traffic costs nothing: no base, no step. A link is busy while a device copies
    its own part as well; waiting for chunks leaves it free.
    """
    inside_s = _with_own(inside_bytes, wires.inside_own_frac, group.inside) / (
        wires.inside_bytes_per_s * wires.inside_frac
    )
    outside_s = _with_own(outside_bytes, wires.outside_own_frac, group.domains) / (
        wires.outside_bytes_per_s * wires.outside_frac
    )
    inside_wait_s = wires.inside_base_s + wires.inside_step_s * inside_steps
    outside_wait_s = wires.outside_base_s + wires.outside_step_s * outside_steps
    inside_latency_s = np.where(
        group.inside > 1, inside_wait_s + _chunks_s(wires.inside_chunk_s, inside_s), 0.0
    )
    outside_latency_s = np.where(
        group.domains > 1, outside_wait_s + _chunks_s(wires.outside_chunk_s, outside_s), 0.0
    )
    if together:
        elapsed = np.maximum(inside_s + inside_latency_s, outside_s + outside_latency_s)
    else:
        elapsed = inside_s + inside_latency_s + outside_s + outside_latency_s
    return Traffic(inside_s, outside_s, elapsed, inside_bytes, outside_bytes)


def two_levels(
    operation: str,
    wires: Wires,
    group: Group,
    payload_bytes: Column,
    inside_steps: Column,
    outside_steps: Column,
) -> Traffic:
    """A reduction, gather or scatter inside every domain, then of the q-th part between domains.

    Bytes are the least there are: (q-1)/q of the payload inside and (k-1)/k of the q-th part
    outside, of q members in each of k domains, twice for an all_reduce.

    Parameters
    ----------
    inside_steps, outside_steps : (n,) of one pass; an all_reduce takes them twice
    """
    rounds = 2 if operation == "all_reduce" else 1
    inside, domains = group.inside, group.domains
    return two_tiers(
        wires,
        group,
        rounds * payload_bytes * (inside - 1) / inside,
        rounds * payload_bytes / inside * (1 - 1 / domains),
        rounds * inside_steps,
        rounds * outside_steps,
        together=False,
    )


def _with_own(sent_bytes: Column, own_frac: Column, members: Codes) -> Column:
    """Bytes sent to the other members, and what copying a device's own part is worth."""
    return sent_bytes * (1.0 + own_frac / np.maximum(members - 1, 1))


def _chunks_s(chunk_s: Column, moving_s: Column) -> Column:
    """What the best number of chunks costs, but for the one that `base_s` holds."""
    return 2.0 * np.sqrt(chunk_s * moving_s)


def as_timed(
    chosen: Traffic,
    timed: Timed,
    operation: str,
    wires: Wires,
    group: Group,
    payload_bytes: Column,
    remote_frac: Column = 1.0,
) -> Traffic:
    """A collective as it was timed; never faster than its bytes over the wire rates."""
    inside_s, outside_s = least_s(operation, wires, group, payload_bytes, remote_frac)
    frac, unknown_frac = timed.message_frac(operation, group, payload_bytes)
    elapsed_s = np.maximum(chosen.elapsed_s * frac, np.maximum(inside_s, outside_s))
    return Traffic(
        np.minimum(chosen.inside_s, elapsed_s),
        np.minimum(chosen.outside_s, elapsed_s),
        elapsed_s,
        chosen.inside_bytes,
        chosen.outside_bytes,
        elapsed_s * (1.0 - unknown_frac),
        elapsed_s * unknown_frac,
    )


def least_s(
    operation: str, wires: Wires, group: Group, payload_bytes: Column, remote_frac: Column = 1.0
) -> tuple[Column, Column]:
    """Seconds that the wires of both tiers need for what has to cross them; (n,) each.

    Notes
    -----
    An all_reduce sends its payload once where switches add up (NVLS, SHARP), so no rounds are
    counted; (q-1)/q of it is less still.
    """
    inside, domains = group.inside, group.domains
    is_alone = group.size <= 1
    if operation == "send":
        near = np.where(is_alone | (domains > 1), 0.0, payload_bytes)
        far = np.where(domains > 1, payload_bytes, 0.0)
    elif operation == "all_to_all":
        near = payload_bytes / group.size * (inside - 1)
        far = payload_bytes * (1 - 1 / domains) * remote_frac
    else:
        near = np.where(domains > 1, 0.0, payload_bytes * (inside - 1) / inside)
        far = payload_bytes / inside * (1 - 1 / domains)
    return near / wires.inside_bytes_per_s, far / wires.outside_bytes_per_s


def nothing(like: Floats) -> Traffic:
    """No traffic, shaped like a column."""
    zero = np.zeros_like(like, dtype=float)
    return Traffic(zero, zero, zero, zero, zero)
