"""Which hardware bills can exist: sizes as sold, joined domains that hold servers whole."""

from __future__ import annotations

from planner.space.rule import Columns, Context, Rule
from simkernel.hardware import TOPOLOGIES

JOINED_MOST = {"none": 1, "bridge": 2}
"""Devices that a shape can join: none without links, a pair with a bridge (NVIDIA NVLink bridges
connect two PCIe cards; accelerators.csv: pairs only)."""


def bill_rules() -> tuple[Rule, ...]:
    """Rules on what is bought; they read one bill at a time."""
    return (
        Rule(
            "supernode_not_offered",
            ("accelerator", "supernode_devices"),
            lambda c, x: c["supernode_devices"] in x.chip.domain_options,
            "the chip is not sold in scale-up domains of this size",
        ),
        Rule(
            "supernode_larger_than_job",
            ("accelerator", "supernode_devices", "devices"),
            _is_smallest_useful_domain,
            "a smaller domain already holds all devices",
        ),
        Rule(
            "scaleup_topology_does_not_join_domain",
            ("accelerator", "scaleup_topology", "supernode_devices"),
            _is_joined,
            "a domain of several devices has no links between them (none), or a bridge would join "
            "more than two; take a smaller domain, or a shape that joins it",
        ),
        Rule(
            "chassis_not_offered",
            ("accelerator", "chassis_devices"),
            lambda c, x: (
                c["chassis_devices"] in (x.chip.devices_per_host, *x.chip.chassis_options)
            ),
            "the chip is not sold in servers of this size; network.any_chassis takes any, what if",
        ),
        Rule(
            "chassis_cuts_domains",
            ("accelerator", "chassis_devices", "supernode_devices"),
            _is_whole_in,
            "domains, servers and what is sold as one piece do not hold each other whole, or a "
            "server has a part of a network port",
        ),
    )


def _is_whole_in(values: Columns, context: Context) -> bool:
    """Of server and domain one holds the other whole, racks hold whole servers, ports are whole.

    The chip's own server is as it is sold, whatever its domains are.
    """
    chip = context.chip
    chassis, domain = int(values["chassis_devices"]), int(values["supernode_devices"])
    if chassis == chip.devices_per_host:
        return True
    is_rack = chip.unit_devices > chip.devices_per_host
    ports = (chip.ports_per_host or chip.devices_per_host) * chassis
    return (
        max(domain, chassis) % min(domain, chassis) == 0
        and ports % chip.devices_per_host == 0
        and not (is_rack and chip.unit_devices % chassis)
    )


def _is_smallest_useful_domain(c: Columns, x: Context) -> bool:
    smaller = [size for size in x.chip.domain_options if size < c["supernode_devices"]]
    return not smaller or max(smaller) < c["devices"]


def _is_joined(c: Columns, x: Context) -> bool:
    """The shape asked for, or else the chip's own, reaches every device of the domain."""
    asked = str(c["scaleup_topology"])
    shape = asked if asked in TOPOLOGIES else x.chip.topology
    return c["supernode_devices"] <= JOINED_MOST.get(shape, c["supernode_devices"])
