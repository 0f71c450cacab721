"""What `planner export` writes: a stored plan as cost rows, bill of materials or script."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from costdata import catalog as catalogue
from costdata.catalog import Catalog
from costdata.chips import AcceleratorFacts
from costdata.configs import model_facts, read_model
from planner.archive.store import Archive
from planner.archive.stored_plan import plan_asked, stored_plan
from planner.costing.terms import terms_of
from planner.documents.cells import harmless
from planner.exports import (
    bill_of_materials,
    bridge,
    focus,
    launch,
    purchase,
    serving,
    serving_pools,
)
from planner.fleet.document import refuse_purchases
from planner.report.replayed import replays_of
from planner.serving.load import serve_load
from planner.study.pools import POOLS, has_pools
from planner.study.read import Study
from simkernel.errors import BadStudy

DAYS_PER_YEAR = 365.0


@dataclass(frozen=True)
class Asked:
    """A stored plan with its study, the facts and when its run begins."""

    plan: Mapping[str, Any]
    study: Study
    catalog: Catalog
    start: datetime


def export(
    db: Path, name: str, plan: str, to: str, site: str, scenario: str, start: str
) -> dict[str, Any]:
    """A stored plan in another's form.

    Parameters
    ----------
    to : one of FORMS
    start : first day of the run, YYYY-MM-DD; "" for the day it was planned

    Returns
    -------
    {"run", "plan", "site", "to", "columns", "rows"}, or "text" in place of the last two

    Raises
    ------
    BadStudy : no such form, a day that is none, or nothing to list
    """
    if to not in FORMS:
        raise BadStudy(f"--to {to}: wanted {', '.join(FORMS)}")
    archive = Archive(db)
    found = stored_plan(archive, name, plan, site, scenario)
    record, study, _ = plan_asked(archive, name, plan, site, scenario)
    if record.start.kind == "fleet" and to == "bom":
        return {
            "run": found["run"], "plan": found["plan"], "site": site or "all", "to": to,
            "columns": list(purchase.COLUMNS), "rows": purchase.order_items(found),
        }  # fmt: skip
    refuse_purchases(record.start.kind, f"--to {to}")
    with archive.reading() as held:
        replayed = replays_of(held.sample(record.run)).get(str(found["plan"]))
    if replayed and replayed.is_short:
        raise BadStudy(
            f"plan {found['plan']} has {replayed.replicas:.0f} replicas, and its replay in this "
            f"run needs {replayed.needed:.0f}; run the study with --set replicas="
            f"{replayed.needed:.0f} and export that plan"
        )
    catalog = catalogue.load(Path(study.tables) if study.tables else None)
    when = record.started.replace(hour=0, minute=0, second=0, microsecond=0)
    asked = Asked(found, study, catalog, _day(start) if start else when)
    return {
        "run": found["run"], "plan": found["plan"], "site": found["site"], "to": to,
        **FORMS[to](asked),
    }  # fmt: skip


def exported_text(document: Mapping[str, Any]) -> str:
    """The file: a script as it is, rows as CSV."""
    if "text" in document:
        return str(document["text"])
    out = io.StringIO()
    writer = csv.DictWriter(out, document["columns"], lineterminator="\n")
    writer.writeheader()
    writer.writerows({n: harmless(cell) for n, cell in row.items()} for row in document["rows"])
    return out.getvalue().rstrip("\n")


def _focus(asked: Asked) -> dict[str, Any]:
    days = asked.plan["metrics"].get("days")
    if days is None:
        site = asked.study.costing.site.index(asked.plan["site"])
        days = float(terms_of(asked.study.costing, asked.catalog).it_life_years[site])
        days *= DAYS_PER_YEAR
    rows = focus.focus_rows(asked.plan, asked.study.name, asked.start, float(days))
    return {"columns": list(focus.COLUMNS), "rows": rows}


def _materials(asked: Asked) -> dict[str, Any]:
    rows = bill_of_materials.bill_rows(asked.study, asked.catalog, asked.plan)
    return {"columns": list(bill_of_materials.COLUMNS), "rows": rows}


def _launch(asked: Asked) -> dict[str, Any]:
    if asked.study.kind == "serve":
        return {"text": _serving(asked)}
    chip, per_host = _gpu(asked)
    script = launch.launch_script(asked.study, asked.plan, per_host, chip.facts["tdp_w"].number)
    return {"text": script}


def _bridge(asked: Asked) -> dict[str, Any]:
    chip, per_host = _gpu(asked)
    script = bridge.bridge_script(asked.study, asked.plan, per_host, chip.facts["tdp_w"].number)
    return {"text": script}


def _serving(asked: Asked) -> str:
    """The script of a serving plan, of one pool or of two."""
    if not has_pools(asked.study):
        return serving.serving_script(asked.study, asked.plan, _served(asked))
    served = {pool: _served(asked, f"{pool}.") for pool in POOLS}
    return serving_pools.pools_script(asked.study, asked.plan, served)


def _served(asked: Asked, pool: str = "") -> serving.Served:
    model = read_model(asked.study.serving.model)
    chip, per_host = _gpu(asked, pool)
    return serving.Served(
        model=hugging_face_id(asked.study.serving.model),
        weight_precision=model.weight_precision,
        has_experts=any(kind.mlp == "moe" for kind in model.kinds),
        longest_tokens=serve_load(asked.study).longest_tokens,
        devices_per_host=per_host,
        tdp_w=chip.facts["tdp_w"].number,
    )


def _gpu(asked: Asked, pool: str = "") -> tuple[AcceleratorFacts, int]:
    """The chip that a script is for, and how many of them a host has.

    Raises
    ------
    BadStudy : one of another maker
    """
    axes = asked.plan["axes"]
    chip = asked.catalog.accelerator(axes[f"{pool}accelerator"])
    if chip.vendor != launch.VENDOR:
        raise BadStudy(
            f"--to launch writes scripts for engines on CUDA, which does not run on {chip.name}; "
            f"export a plan on a GPU of {launch.VENDOR}"
        )
    return chip, int(axes.get(f"{pool}chassis_devices", chip.devices_per_host))


def hugging_face_id(model: str) -> str:
    """The publisher's name of a catalogue model; "" of a file."""
    return "" if model.endswith(".json") else model_facts(model).hf_id


def _day(text: str) -> datetime:
    try:
        return datetime.strptime(text, "%Y-%m-%d")
    except ValueError as error:
        raise BadStudy(f"--start {text}: wanted a day as 2027-01-31") from error


FORMS: Mapping[str, Callable[[Asked], dict[str, Any]]] = {
    "focus.csv": _focus,
    "bom": _materials,
    "launch": _launch,
    "launch-bridge": _bridge,
}
"""Forms that a plan can be exported in."""
