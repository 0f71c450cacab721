"""Carbon of making what a plan buys, as columns: devices, hosts, networks.

A network is counted from the description of its links: those between hosts and those of domains
above a unit by the counts of the bill, those inside a rack that is sold whole by its row of
scaleup_parts.csv. Boards of eight come with their switches in the maker's figure.
"""

from __future__ import annotations

import numpy as np

from costdata.catalog import Catalog
from costdata.domain_cost import domain_cost, row_of_unit, whole_domain
from costdata.domain_network import COPPER, FIBRE, OPTIC
from costdata.ends import TYPICAL, end_of
from costdata.facts import Fact
from costdata.hardware_cost import EmbodiedFactors
from costdata.offers import Part
from costdata.quotes import OPTICS_PER_LINK, Quoted, fitting
from simkernel.errors import MissingFact

HOST_DEVICES = 8.0  # EcoLogits: the 5,700 kg host carries eight devices


def embodied_factors(
    catalog: Catalog, accelerator: str, method: str = "pcf", end: int = TYPICAL
) -> Quoted[EmbodiedFactors]:
    """Carbon of making a device, its host and what stands beside, by one method.

    Notes
    -----
    Hosts are of one published eight-device server, by devices; a switch or management server
    counts as a plain rack server. A cable between switches has a module at both ends and a fibre,
    as its watts have; the same factors by every method.

    Raises
    ------
    UnknownName : no such chip or method
    MissingFact : a part of the network without a factor
    """
    name = catalog.accelerator_name(accelerator)
    made = catalog.embodied(name, method)
    host, rack = (catalog.embodied_factor(f) for f in ("boavizta/server-8gpu", "ccf/server"))
    devices = catalog.accelerator(name).devices_per_host
    host_kgco2e = 0.0 if made.has_host_share else end_of(host, end) * devices / HOST_DEVICES
    parts = {part: made_of(catalog, catalog.parts[part]) for part in (OPTIC, COPPER, FIBRE)}
    optic, share = _optic_of_link(catalog, name)
    module = made_of(catalog, optic)
    link_kgco2e = (OPTICS_PER_LINK * end_of(module, end) + end_of(parts[FIBRE], end)) * share
    inside_kgco2e, inside = _inside_unit(catalog, name, end)
    table = EmbodiedFactors(
        device_kgco2e=np.array([made.kgco2e[end]]),
        host_kgco2e=np.array([host_kgco2e]),
        support_kgco2e=np.array([end_of(rack, end)]),
        link_kgco2e=np.array([link_kgco2e]),
        unit_network_kgco2e=np.array([inside_kgco2e]),
        domain_optic_kgco2e=np.array([end_of(parts[OPTIC], end)]),
        domain_cable_kgco2e=np.array([end_of(parts[COPPER], end)]),
        domain_fibre_kgco2e=np.array([end_of(parts[FIBRE], end)]),
    )
    used = {f"embodied.{key}": fact for key, fact in made.facts.items()}
    used |= {"embodied.boavizta/server-8gpu": host, "embodied.ccf/server": rack, **inside}
    used |= {f"embodied.{catalog.parts[part].embodied}": fact for part, fact in parts.items()}
    used[f"embodied.{optic.embodied}"] = module
    return Quoted(table, (f"{name}: {made.basis}",), used)


def made_of(catalog: Catalog, part: Part) -> Fact:
    """The factor of making one part of network.csv.

    Raises
    ------
    MissingFact : none is named
    """
    if not part.embodied:
        raise MissingFact(
            f"{part.name} has no carbon of making in network.csv; name a row of embodied.csv"
        )
    return catalog.embodied_factor(part.embodied)


def _optic_of_link(catalog: Catalog, accelerator: str) -> tuple[Part, float]:
    """The module at an end of a cable between hosts, and the share of it that a port takes."""
    facts = catalog.accelerator(accelerator)
    rails = facts.nics_per_host or facts.devices_per_host
    device_bytes_per_s = float(catalog.chips([accelerator]).scaleout_bytes_per_s[0])
    port_bytes_per_s = device_bytes_per_s * facts.devices_per_host / rails
    optic = fitting(catalog, "optic", port_bytes_per_s)
    return optic, min(port_bytes_per_s / optic.port_bytes_per_s, 1.0)


def _inside_unit(catalog: Catalog, accelerator: str, end: int) -> tuple[float, dict[str, Fact]]:
    """Of the scale-up network that is sold inside a unit, and what it rests on."""
    row = row_of_unit(catalog, catalog.purchase_unit(accelerator).name)
    if row is None:
        return 0.0, {}
    cost = domain_cost(catalog, row.name, whole_domain(row), end)
    return sum(cost.kgco2e.values()), dict(cost.facts)
