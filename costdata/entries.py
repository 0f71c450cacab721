"""Single entries of the catalogue: listed, shown with their sources, added to a user's folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from costdata.catalog import Catalog
from costdata.facts import Row
from costdata.own_tables import add_rows
from simkernel.errors import unknown

SHOWN = {
    "accelerator": "accelerators",
    "server": "servers",
    "site": "regions",
    "part": "network",
    "facility": "facility",
    "embodied": "embodied",
    "rent": "cloud_prices",
    "trace": "traces",
    "import": "imports",
}
"""Kinds of thing that can be listed and shown, with their tables."""


def listing(catalog: Catalog) -> list[dict[str, object]]:
    """Everything that `show` knows, one short line each."""
    return [
        {"kind": kind, "name": row.name, "title": _title(row), "is_user": row.is_user}
        for kind, table in SHOWN.items()
        for row in catalog.tables.get(table, {}).values()
    ]


def show(catalog: Catalog, name: str) -> dict[str, object]:
    """One chip, server, site, part, figure or price with every fact's source; JSON-able.

    Raises
    ------
    UnknownName : nothing of that name
    """
    label = catalog.resolve("accelerator", name) or name
    for kind, table in SHOWN.items():
        row = catalog.tables.get(table, {}).get((label,))
        if row is not None:
            return _shown(catalog, kind, row)
    raise unknown("catalogue entry", name, (str(line["name"]) for line in listing(catalog)))


def _shown(catalog: Catalog, kind: str, row: Row) -> dict[str, object]:
    facts = dict(row.facts)
    extra: dict[str, object] = {}
    if kind == "site":
        site = catalog.site(row.name)
        facts, extra = dict(site.facts), {"basis": list(site.basis)}
    if kind == "accelerator":
        unit = catalog.purchase_unit(row.name)
        extra = {
            "missing": list(catalog.accelerator(row.name).missing),
            "bought_as": unit.name,
            "bought_as_devices": unit.devices,
            "bought_as_price_usd": list(unit.price_usd) if unit.price_usd else None,
            "bought_as_max_power_w": unit.max_power_w,
            "rent_only": unit.rent_only,
            "basis": unit.basis,
        }
    return {
        "kind": kind,
        "name": row.name,
        "title": _title(row),
        "note": row.text("note"),
        "is_user": row.is_user,
        **extra,
        "facts": {column: fact.as_dict() for column, fact in facts.items()},
    }


def add(folder: Path, kind: str, row: Mapping[str, str]) -> Path:
    """Append one checked row to a table in a user's folder; the path of the file written.

    Parameters
    ----------
    kind : name of the table, such as "accelerators", or of the thing, such as "accelerator"
    row : column to text, as in the table

    Raises
    ------
    UnknownName : no such table
    BadFile : every fault of the row; nothing is written
    """
    return add_rows(folder, SHOWN.get(kind, kind), [row])


def _title(row: Row) -> str:
    if row.table == "imports":
        return row.text("found")
    return row.text("title") or f"{row.text('vendor') or row.text('accelerator')}".strip()
