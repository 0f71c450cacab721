"""Watts of whole nodes in training: devices by how busy a run is, a host, fans where air cools.

Two figures of the host are fitted on metered nodes, with priors from parts and from another
site; which class of run is how busy is given (rules/utilisation_classes.csv), not fitted.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from costdata.catalog import Catalog
from planner.calibration.curves import robust_fit
from planner.calibration.kernels import TABLES
from planner.validation.power_truth import NODE_PEAK_W, NodeFigure
from simkernel.columns import Floats
from simkernel.power import fan_w, host_w, mean_device_w

HOSTS = TABLES / "rules" / "node_hosts.csv"
DEVICES_PER_NODE = 8
AIR = "air"

PRIOR_LOG = 0.1
"""Pull of a prior: a figure off by its spread weighs as a node off by a tenth."""


@dataclass(frozen=True)
class Hosts:
    """Watts per device of a host at full load, and what fans add to it; (2,) each."""

    names: tuple[str, ...]
    prior_w: Floats
    spread_log: Floats
    fitted_w: Floats
    rows: tuple[Mapping[str, str], ...]


def read_hosts(path: Path = HOSTS) -> Hosts:
    """The table of host figures."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    prior, spread, fitted = (
        np.array([float(r[n]) for r in rows]) for n in ("prior", "spread_log", "fitted")
    )
    return Hosts(tuple(row["parameter"] for row in rows), prior, spread, fitted, tuple(rows))


def node_w(figures: Sequence[NodeFigure], catalog: Catalog, watts: Floats) -> Floats:
    """Predicted watts of nodes of eight; (n,).

    Parameters
    ----------
    figures : what is asked of each: the mean of its run, or the peak, which is full load
    watts : (2,) of host and fans at full load, a device's share [W]

    Notes
    -----
    Of host and fans, the share that follows the load is the chip's own span over all of it.
    Kernels of training draw the device's limit (tests/anchors/training_power.toml).
    """
    return np.array([_one_w(figure, catalog, watts) for figure in figures])


def fit_hosts(figures: Sequence[NodeFigure], catalog: Catalog, hosts: Hosts) -> Floats:
    """Watts of host and fans (2,) from mean figures, every site of equal weight."""
    means = [figure for figure in figures if figure.metric != NODE_PEAK_W]
    sites = [figure.case.row.text("source_group") for figure in means]
    weight = np.sqrt([1.0 / sites.count(site) for site in sites])
    measured = np.array([figure.watts for figure in means])

    def log_errors(x: Floats) -> Floats:
        pull = PRIOR_LOG * np.log(x / hosts.prior_w) / hosts.spread_log
        return np.concatenate([weight * np.log(node_w(means, catalog, x) / measured), pull])

    low, start, high = (tuple(hosts.prior_w * scale) for scale in (0.25, 1.0, 4.0))
    return robust_fit(log_errors, [start], low, high)


def left_out_w(
    figures: Sequence[NodeFigure], catalog: Catalog, hosts: Hosts, groups: Sequence[str]
) -> Floats:
    """Predicted watts of every node, its host fitted without the nodes of its group; (n,)."""
    found = np.zeros(len(figures))
    for group in sorted(set(groups)):
        others = [f for f, g in zip(figures, groups, strict=True) if g != group]
        watts = fit_hosts(others, catalog, hosts)
        mine = [i for i, g in enumerate(groups) if g == group]
        found[mine] = node_w([figures[i] for i in mine], catalog, watts)
    return found


def _one_w(figure: NodeFigure, catalog: Catalog, watts: Floats) -> float:
    case, power = figure.case, catalog.chips([figure.case.accelerator]).power
    busy = 1.0 if figure.metric == NODE_PEAK_W else case.busy_frac
    is_air = 1.0 * (case.cooling == AIR)
    own_w = host_w(power, busy) / host_w(power, 1.0) * watts[0]
    own_w = own_w + fan_w(power, busy, is_air) / fan_w(power, 1.0, 1.0) * watts[1]
    device_w = mean_device_w(power, busy, power.cap_w)
    return float(np.asarray(DEVICES_PER_NODE * (device_w + own_w)).item())
