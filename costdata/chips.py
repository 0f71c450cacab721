"""Chips as the physics sees them: rows of accelerators.csv joined with their fitted curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from costdata.facts import Fact, Row, Tables
from costdata.sites import Band
from simkernel.columns import Codes, Floats
from simkernel.errors import MissingFact
from simkernel.hardware import (
    OPERATIONS,
    PRECISIONS,
    TOPOLOGIES,
    AttentionCurve,
    Chips,
    Columns,
    GemmCurve,
    LinkCurve,
    PowerCurve,
    StreamCurve,
)


@dataclass(frozen=True)
class AcceleratorFacts:
    """One chip as a buyer and a planner see it.

    Parameters
    ----------
    domain_options : sizes of scale-up domain that can be bought, small to large
    prices_usd : band of one device without its host, None where not known
    tdp_w, idle_w, die_area_mm2 : None where not known
    facts : every value with its source, by name with the inside unit
    missing : facts that a plan would want and the tables do not have
    """

    name: str
    vendor: str
    architecture: str
    launch_year: int
    domain_options: tuple[int, ...]
    devices_per_host: int
    nics_per_host: int
    prices_usd: Band | None
    price_basis: str
    tdp_w: float | None
    idle_w: float | None
    process: str
    die_area_mm2: float | None
    facts: Mapping[str, Fact]
    missing: tuple[str, ...]


WANTED = ("price_usd", "tdp_w", "idle_w", "die_area_mm2")


def accelerator_facts(chip: Row) -> AcceleratorFacts:
    """The facts of one row of accelerators.csv."""
    options = chip.values["domain_options"]
    return AcceleratorFacts(
        name=chip.name,
        vendor=chip.text("vendor"),
        architecture=chip.text("architecture"),
        launch_year=int(chip.need("launch_year")),
        domain_options=tuple(int(n) for n in options) if isinstance(options, tuple) else (),
        devices_per_host=int(chip.need("devices_per_host")),
        nics_per_host=int(chip.need("nics_per_host")),
        prices_usd=chip.band("price_usd"),
        price_basis=chip.text("price_basis"),
        tdp_w=chip.number("tdp_w"),
        idle_w=chip.number("idle_w"),
        process=chip.text("process"),
        die_area_mm2=chip.number("die_area_mm2"),
        facts=chip.facts,
        missing=tuple(name for name in WANTED if chip.number(name) is None),
    )


def chips_of(tables: Tables, rows: Sequence[Row]) -> Chips:
    """The chips of some rows, in their order, with curves joined by name.

    Raises
    ------
    MissingFact : every curve that is not there, by chip and table
    """
    lacking = curve_faults(tables, rows)
    if lacking:
        raise MissingFact(*lacking)
    return Chips(
        name=np.array([row.name for row in rows]),
        memory_bytes=_column(rows, "memory_bytes"),
        hbm_bytes_per_s=_column(rows, "hbm_gbytes_per_s"),
        peak_flop_per_s=_peaks(rows),
        scaleup_bytes_per_s=_column(rows, "scaleup_gbytes_per_s_per_direction"),
        scaleup_peer_bytes_per_s=_column(rows, "scaleup_peer_gbytes_per_s_per_direction"),
        scaleup_topology_code=_codes([TOPOLOGIES.index(r.text("scaleup_topology")) for r in rows]),
        scaleout_bytes_per_s=_column(rows, "scaleout_gbytes_per_s_per_direction"),
        host_link_bytes_per_s=_host_link(tables, rows),
        host_memory_bytes=_host_column(tables, rows, "host_memory_gbytes"),
        host_memory_bytes_per_s=_host_column(tables, rows, "host_memory_gbytes_per_s"),
        pool_memory_bytes=_host_column(tables, rows, "pool_memory_gbytes"),
        pool_bytes_per_s=_host_column(tables, rows, "pool_gbytes_per_s"),
        devices_per_host=_codes([int(row.need("devices_per_host")) for row in rows]),
        gemm=_products(tables, rows),
        attention=AttentionCurve(**_flat(tables, "efficiency_attention", AttentionCurve, rows)),
        stream=StreamCurve(**_flat(tables, "efficiency_stream", StreamCurve, rows)),
        scaleup=_links(tables, rows, "scaleup"),
        scaleout=_links(tables, rows, "scaleout"),
        power=PowerCurve(**_flat(tables, "power_curves", PowerCurve, rows)),
    )


def _products(tables: Tables, rows: Sequence[Row]) -> GemmCurve:
    """Product curves of any software, which end at their own flop_frac_max."""
    keys = _gemm_keys(rows)
    cells = _curve(tables, "efficiency_gemm", GemmCurve, keys, without=("most_flop_frac",))
    return GemmCurve(**cells, most_flop_frac=np.ones((len(rows), len(PRECISIONS))))


def _host_link(tables: Tables, rows: Sequence[Row]) -> Floats:
    """Rate of copies between a device and its host: what PCIe reaches of its nominal rate.

    Links between chips of one package (NVLink-C2C) are taken as the catalogue has them.
    """
    reached = tables["defaults"][("host_link_frac",)].need("value")
    is_slotted = np.array([row.text("host_link").startswith("PCIe") for row in rows])
    nominal = _column(rows, "host_link_gbytes_per_s_per_direction")
    return np.where(is_slotted, nominal * reached, nominal)


def curve_faults(tables: Tables, rows: Sequence[Row]) -> list[str]:
    """Every row of a curve table that some chips need and the tables do not have."""
    both_tiers = (_link_keys(rows, "scaleup"), _link_keys(rows, "scaleout"))
    wanted = {
        "efficiency_gemm": _gemm_keys(rows),
        "efficiency_attention": _flat_keys(rows),
        "efficiency_stream": _flat_keys(rows),
        "links": [a + b for a, b in zip(*both_tiers, strict=True)],
        "power_curves": _flat_keys(rows),
    }
    return [
        f"{row.name}: no row {'/'.join(key)} in {table}.csv; add one to your own {table}.csv"
        for table, lines in wanted.items()
        for row, line in zip(rows, lines, strict=True)
        for key in line
        if key is not None and key not in tables.get(table, {})
    ]


Keys = list[list[tuple[str, ...] | None]]
"""Row keys of a curve table, (chips, columns); None where the chip lacks the column."""


def _column(rows: Sequence[Row], name: str) -> Floats:
    return np.array([_or_nan(row.number(name)) for row in rows])


def _host_column(tables: Tables, rows: Sequence[Row], name: str) -> Floats:
    """A column of hosts.csv: the chip's own row, else its architecture's, else NaN."""
    hosts = tables["hosts"]
    scopes = [((row.name,), (row.text("architecture"),)) for row in rows]
    found = [next((hosts[key] for key in keys if key in hosts), None) for keys in scopes]
    return np.array([_or_nan(None if row is None else row.number(name)) for row in found])


def _or_nan(value: float | None) -> float:
    return float("nan") if value is None else value


def _codes(values: list[int]) -> Codes:
    return np.array(values, dtype=np.int64)


def _peaks(rows: Sequence[Row]) -> Floats:
    """Dense peaks, (chips, len(PRECISIONS)), NaN where the chip lacks the precision."""
    return np.stack([_column(rows, f"{name}_tflop_per_s") for name in PRECISIONS], axis=1)


def _gemm_keys(rows: Sequence[Row]) -> Keys:
    return [
        [(r.name, p) if r.number(f"{p}_tflop_per_s") is not None else None for p in PRECISIONS]
        for r in rows
    ]


def _link_keys(rows: Sequence[Row], tier: str) -> Keys:
    return [[(row.name, tier, operation) for operation in OPERATIONS] for row in rows]


def _links(tables: Tables, rows: Sequence[Row], tier: str) -> LinkCurve:
    """Curves of one tier; a row without chunks and own part is a plain line."""
    cells = _curve(tables, "links", LinkCurve, _link_keys(rows, tier))
    for name in ("chunk_s", "own_frac"):
        cells[name] = np.nan_to_num(cells[name])
    return LinkCurve(**cells)


def _flat_keys(rows: Sequence[Row]) -> Keys:
    return [[(row.name,)] for row in rows]


def _flat(tables: Tables, table: str, kind: type[Columns], rows: Sequence[Row]) -> dict[str, Any]:
    """Fields of a curve with one row a chip, shape (chips,)."""
    wide = _curve(tables, table, kind, _flat_keys(rows))
    return {name: values[:, 0] for name, values in wide.items()}


def _curve(
    tables: Tables, table: str, kind: type[Columns], keys: Keys, without: Sequence[str] = ()
) -> dict[str, Any]:
    """Fields of a curve, shape (chips, columns), without some."""
    found = tables[table]
    return {
        spec.name: np.array(
            [
                [_or_nan(None if key is None else found[key].number(spec.name)) for key in line]
                for line in keys
            ]
        )
        for spec in fields(kind)
        if spec.name not in without
    }
