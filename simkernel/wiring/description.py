"""A fabric in a few numbers: the shape of a scale-up domain, and of the network between domains.

Everything else comes from these: links and routes for a replay, switches, cables and optics for a
bill. Rates are of one direction. What parts cost is not known here.
"""

from __future__ import annotations

from dataclasses import dataclass

from simkernel.errors import BadStudy, unknown
from simkernel.hardware import SCALEOUT_FABRICS, TOPOLOGIES

SCALEOUT_SHAPES = SCALEOUT_FABRICS[1:]
"""Networks between domains that can be wired: those with a shape of their own."""

TORUS_AXES = {"torus2d": 2, "torus3d": 3}

TIERS_MOST = 3
"""Switch layers of a fat tree."""


@dataclass(frozen=True)
class ScaleUp:
    """One scale-up domain.

    Parameters
    ----------
    shape : one of TOPOLOGIES
    devices : in the domain
    device_bytes_per_s : all links of a device together [bytes/s]
    peer_bytes_per_s : one direct link of a mesh or a torus [bytes/s]
    hop_s : latency of one link with the switch behind it [s]
    group_devices : two_tier: devices below one switch of the first level
    oversubscription : two_tier: rate into a first-level switch over its rate to the second
    """

    shape: str
    devices: int
    device_bytes_per_s: float
    peer_bytes_per_s: float
    hop_s: float = 0.0
    group_devices: int = 8
    oversubscription: float = 1.0

    def __post_init__(self) -> None:
        if self.shape not in TOPOLOGIES:
            raise unknown("scale-up shape", self.shape, TOPOLOGIES)
        _check_counts(devices=self.devices, group_devices=self.group_devices)
        _check_rates(self.device_bytes_per_s, self.peer_bytes_per_s, self.oversubscription)

    @property
    def sides(self) -> tuple[int, ...]:
        """Devices along each axis of a torus, longest first."""
        return torus_sides(self.devices, TORUS_AXES[self.shape])


@dataclass(frozen=True)
class ScaleOut:
    """The network between domains.

    Parameters
    ----------
    shape : one of SCALEOUT_SHAPES
    hosts, devices_per_host : that are wired
    rails : ports of a host; device d of a host has port d x rails // devices_per_host
    port_bytes_per_s : of one host port [bytes/s]
    radix : ports of a switch at that rate
    oversubscription : leaf ports down over leaf ports up, 1 for full bisection
    hop_s : latency of one link with the switch behind it [s]
    slice_hosts : dcn: hosts of a slice
    trunk_s : dcn: latency of a trunk, on top [s]
    """

    shape: str
    hosts: int
    devices_per_host: int
    rails: int
    port_bytes_per_s: float
    radix: int = 64
    oversubscription: float = 1.0
    hop_s: float = 0.0
    slice_hosts: int = 1
    trunk_s: float = 0.0

    def __post_init__(self) -> None:
        if self.shape not in SCALEOUT_SHAPES:
            raise unknown("scale-out shape", self.shape, SCALEOUT_SHAPES)
        counts = {"hosts": self.hosts, "rails": self.rails, "radix": self.radix}
        _check_counts(**counts, devices_per_host=self.devices_per_host)
        _check_rates(self.port_bytes_per_s, self.port_bytes_per_s, self.oversubscription)
        if self.devices_per_host % self.rails:
            raise BadStudy(
                f"a host has {self.devices_per_host} devices and {self.rails} ports; "
                "give as many ports as devices, or a part of them"
            )
        if self.shape == "fat_tree" and self.down_ports < self.rails:
            raise BadStudy(
                f"a leaf has {self.down_ports} ports down and a host {self.rails}; "
                "give switches of more ports, or a rail_fat_tree"
            )

    @property
    def tiers(self) -> int:
        """Switch layers it needs: 0 for one host alone; more than TIERS_MOST cannot be wired.

        References
        ----------
        A folded Clos of t layers reaches 2 (R/2)^t ends (Al-Fares, SIGCOMM 2008).
        """
        if self.shape == "dcn":
            return 2
        ends = self.hosts if self.shape == "rail_fat_tree" else self.hosts * self.rails
        reach = [2.0 * (self.radix / 2.0) ** t for t in range(1, TIERS_MOST + 1)]
        return int(self.hosts > 1) + sum(ends > most for most in reach)

    @property
    def down_ports(self) -> int:
        """Ports of a leaf that go to hosts, where there is a layer above."""
        return int(self.radix * self.oversubscription / (1.0 + self.oversubscription))

    @property
    def leaf_hosts(self) -> int:
        """Hosts below one leaf, or in one slice."""
        if self.shape == "dcn":
            return self.slice_hosts
        if self.tiers <= 1:
            return self.hosts
        return self.down_ports if self.shape == "rail_fat_tree" else self.down_ports // self.rails

    @property
    def leaf_up_bytes_per_s(self) -> float:
        """Rate of a full leaf's, or a slice's, hosts to the layer above [bytes/s]."""
        ports = self.leaf_hosts * (1 if self.shape == "rail_fat_tree" else self.rails)
        return ports * self.port_bytes_per_s / self.oversubscription

    @property
    def up_ports(self) -> int:
        """Ports of a leaf that go up."""
        return max(round(self.leaf_up_bytes_per_s / self.port_bytes_per_s), 1)

    @property
    def leaves(self) -> int:
        """Leaf switches, of one rail where leaves are of a rail."""
        return -(-self.hosts // self.leaf_hosts)

    @property
    def pod_leaves(self) -> int:
        """Leaves, of one rail or of all, below one group of second-layer switches."""
        return max(self.radix // 2, 1)

    @property
    def rails_meet(self) -> bool:
        """Some switch joins ports of different rails: spines are shared while they reach all."""
        if self.shape != "rail_fat_tree" or self.rails == 1:
            return True
        return self.tiers == 2 and self.rails * self.leaves <= self.radix


@dataclass(frozen=True)
class Fabric:
    """All domains and what is between them."""

    scaleup: ScaleUp
    scaleout: ScaleOut

    @property
    def devices(self) -> int:
        """All that are wired."""
        return self.scaleout.hosts * self.scaleout.devices_per_host

    @property
    def domains(self) -> int:
        """Scale-up domains, the last of which may be a part of one."""
        return -(-self.devices // self.scaleup.devices)


def torus_sides(devices: int, axes: int) -> tuple[int, ...]:
    """Sides of the torus nearest to a square or a cube, longest first."""
    if axes == 1:
        return (devices,)
    shortest = max(
        side for side in range(1, devices + 1) if devices % side == 0 and side**axes <= devices
    )
    return (*torus_sides(devices // shortest, axes - 1), shortest)


def _check_counts(**counts: int) -> None:
    low = {name: count for name, count in counts.items() if count < 1}
    if low:
        raise BadStudy(f"a fabric has {low}; give at least 1 of each")


def _check_rates(device: float, peer: float, oversubscription: float) -> None:
    if not (device > 0 and peer > 0 and oversubscription > 0):
        raise BadStudy(
            f"a fabric has links of {device} and {peer} bytes/s and oversubscription "
            f"{oversubscription}; give numbers above 0"
        )
