"""What a scale-up network of any domain size would cost, counted in switches and optics.

For domains that nobody sells: a host wires its own devices, above it a folded Clos of switches
joins all of them at the full rate. An estimate from list prices of Ethernet parts; what a chip
is sold with may hold a part of it already.
"""

from __future__ import annotations

import numpy as np

from simkernel.columns import Codes, Column, Floats


def scaleup_layers(domain_devices: Codes, devices_per_host: Codes, radix: Column) -> Floats:
    """Switch layers of a domain: none within a host, then as many as reach all devices.

    Parameters
    ----------
    domain_devices, devices_per_host : (n,)
    radix : (n,) or one, ports of a switch

    References
    ----------
    A folded Clos of t layers reaches 2 (R/2)^t ends: R, R^2/2 (Al-Fares, SIGCOMM 2008).
    """
    is_one_host = np.asarray(domain_devices) <= np.asarray(devices_per_host)
    layers = 1.0 + (np.asarray(domain_devices) > np.asarray(radix))
    return np.asarray(np.where(is_one_host, 0.0, layers))


def scaleup_usd_per_device(
    layers: Column, ports: Column, switch_port_usd: Column, optic_usd: Column
) -> Column:
    """Switch ports and optics of one device's share of a scale-up network.

    Parameters
    ----------
    layers : (n,) of switches
    ports : (n,) of one device into the network
    switch_port_usd : of one switch port [$]
    optic_usd : of one module; a cable has one at either end [$]

    Notes
    -----
    Without oversubscription every port of a device takes 2 t - 1 switch ports in t layers, and t
    cables.
    """
    switch_ports = np.maximum(2.0 * np.asarray(layers) - 1.0, 0.0)
    return np.asarray(ports * (switch_ports * switch_port_usd + 2.0 * layers * optic_usd))
