"""Which facts a run rests on, by name, and one hash of all tables in force."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import costdata
from costdata.catalog import Catalog
from planner.costing.facts_given import chip_facts, fabric_facts, planning_facts, site_facts
from planner.study.read import Study


def facts_used(study: Study, catalog: Catalog, columns: Mapping[str, Any]) -> dict[str, Any]:
    """Facts of every chip and site among the plans, and the planning figures, by full name.

    Those that the study replaces by its own figures are not among them. Plans that are not costed
    stand at all sites of the study.
    """
    if study.kind == "mixed":  # its devices are the buyer's own figures
        return {}
    found: dict[str, Any] = dict(planning_facts(study, catalog))
    pooled = [columns[name] for name in columns if name.endswith(".accelerator")]
    chips = np.concatenate([np.ravel(c) for c in pooled or [columns.get("accelerator", [])]])
    for chip in np.unique(chips.astype(str)):
        for name, fact in chip_facts(study, catalog, str(chip)).items():
            found[f"{chip}.{name}"] = fact
    for fabric in np.unique(np.asarray(columns.get("scaleout_fabric", []), dtype=str)):
        for name, fact in fabric_facts(catalog, str(fabric)).items():
            found[f"{fabric}.{name}"] = fact
    for site in np.unique(np.asarray(columns.get("site", study.costing.site), dtype=str)):
        for name, fact in site_facts(study, catalog, str(site)).items():
            found[f"{site}.{name}"] = fact
    return found


def facts_hash(catalog: Catalog) -> str:
    """One hash of all fact tables, a user's rows included."""
    digest = hashlib.sha256()
    for path in sorted((Path(costdata.__file__).parent / "tables").rglob("*")):
        if path.is_file():
            digest.update(path.name.encode() + path.read_bytes())
    users = [
        f"{row.table} {row.key} {sorted(row.cells.items())}"
        for table in catalog.tables.values()
        for row in table.values()
        if row.is_user
    ]
    digest.update("\n".join(sorted(users)).encode())
    return digest.hexdigest()
