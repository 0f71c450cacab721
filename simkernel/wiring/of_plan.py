"""The fabric of a plan, from the same chips and decisions that the closed form reads.

Nothing is described twice: rates, shapes and counts are those of `hardware.Chips` and of the plan;
what a library reaches of a wire is that of its link curve.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from simkernel.hardware import OPERATIONS, SCALEOUT_FABRICS, TOPOLOGIES, Chips
from simkernel.wiring.description import Fabric, ScaleOut, ScaleUp


@dataclass(frozen=True)
class Wired:
    """Decisions of a plan that its wires follow from.

    Parameters
    ----------
    devices, domain_devices : in all, and in one scale-up domain
    fabric_code : index in SCALEOUT_FABRICS; the catalogue's is wired as a rail-optimised fat tree
    oversubscription : leaf ports down over leaf ports up
    rails, radix : ports of a host, and of a switch at the rate of such a port
    board_devices : below one first-level switch of a domain of two tiers
    hop_s : latency of a link, 0 where the steps of a curve hold it [s]
    """

    devices: int
    domain_devices: int
    fabric_code: int = 0
    oversubscription: float = 1.0
    rails: int = 0
    radix: int = 64
    board_devices: int = 8
    hop_s: float = 0.0


def fabric_of(chips: Chips, wired: Wired, operation: str = "") -> Fabric:
    """The fabric of one plan.

    Parameters
    ----------
    chips : one row, with the rates and the shape that the plan asks for
    operation : whose share of the wires is reached; "" for the wires themselves

    Notes
    -----
    A host has as many ports as devices unless `rails` says otherwise, or the largest part of them
    that shares out evenly; the rate of all ports of a host is that of its devices.
    """
    up_frac, out_frac = _reached(chips, wired, operation)
    per_host = int(chips.devices_per_host[0])
    rails = gcd(wired.rails, per_host) if wired.rails else per_host
    shape = SCALEOUT_FABRICS[max(wired.fabric_code, 1)]
    return Fabric(
        ScaleUp(
            shape=TOPOLOGIES[int(chips.scaleup_topology_code[0])],
            devices=wired.domain_devices,
            device_bytes_per_s=float(chips.scaleup_bytes_per_s[0]) * up_frac,
            peer_bytes_per_s=float(chips.scaleup_peer_bytes_per_s[0]) * up_frac,
            hop_s=wired.hop_s,
            group_devices=wired.board_devices,
        ),
        ScaleOut(
            shape=shape,
            hosts=-(-wired.devices // per_host),
            devices_per_host=per_host,
            rails=rails,
            port_bytes_per_s=float(chips.scaleout_bytes_per_s[0]) * per_host / rails * out_frac,
            radix=wired.radix,
            oversubscription=wired.oversubscription,
            hop_s=wired.hop_s,
            slice_hosts=max(wired.domain_devices // per_host, 1),
        ),
    )


def _reached(chips: Chips, wired: Wired, operation: str) -> tuple[float, float]:
    """Shares of the wire rate that large messages of all devices reach in a domain and outside."""
    if not operation:
        return 1.0, 1.0
    place = OPERATIONS.index(operation)
    up, out = chips.scaleup, chips.scaleout
    at_home = float(up.own_frac[0, place]) / max(wired.domain_devices - 1, 1)
    return float(up.wire_frac[0, place]) / (1.0 + at_home), float(out.wire_frac[0, place])
