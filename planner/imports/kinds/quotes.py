"""Spreadsheets of quotes, saved as CSV: rents become catalogue rows, prices a line of a study.

One quote a row: `accelerator` and `provider`, then `usd_per_device_hour` or
`usd_per_instance_hour` for a rent, `usd_per_device` for a purchase. No formula is worked out: a
cell that begins with one is refused.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from costdata.facts import NUMBER, as_cells, schema_of
from planner.imports.found import Found, Given, Rows, told_later
from planner.imports.numbers import limits
from planner.imports.text_files import read_text
from simkernel.errors import BadFile, PlanError

SETTINGS: dict[str, str] = {}

NEEDED = ("accelerator", "provider")
RENTS = ("usd_per_device_hour", "usd_per_instance_hour")
PRICE = "usd_per_device"
OTHERS = ("instance", "devices", "region", "plan", "as_of", "note")
PLANS = schema_of("cloud_prices")["plan"].choices
LEAST_USD, MOST_USD = limits("accelerators", "price_usd")
"""What one device can cost, as our table holds it."""


def read(paths: Sequence[Path], given: Given) -> Found:
    """Rents as rows of cloud_prices.csv, and purchase prices as a line for `[costing]`.

    Raises
    ------
    BadFile : every fault of all files
    """
    rents: Rows = []
    prices: dict[str, list[float]] = defaultdict(list)
    faults: list[str] = []
    for path in paths:
        with told_later(faults):
            header, rows = as_cells(path.name, read_text(path))
            wrong = _header_faults(path.name, header)
            for line, row in enumerate([] if wrong else rows, start=2):
                try:
                    _add(row, f"{path.name} line {line}", given, rents, prices)
                except PlanError as error:
                    wrong += error.faults
            faults += wrong
    if not rents and not prices and not faults:
        faults.append(f"{', '.join(path.name for path in paths)}: no quote was found")
    if faults:
        raise BadFile(*faults)
    least = ", ".join(f'"{chip}" = {min(usd):g}' for chip, usd in sorted(prices.items()))
    notes = [f"for a study: [costing] price_usd = {{ {least} }}"] if prices else []
    tables = {"cloud_prices": rents} if rents else {}
    return Found(tables, f"{len(rents)} rents, {sum(map(len, prices.values()))} prices", {}, notes)


def _header_faults(name: str, header: Sequence[str]) -> list[str]:
    lacking = [column for column in NEEDED if column not in header]
    faults = [f"{name} lacks {', '.join(lacking)}"] if lacking else []
    if not any(column in header for column in (*RENTS, PRICE)):
        faults.append(f"{name} lacks a price: {', '.join((*RENTS, PRICE))}")
    known = (*NEEDED, *RENTS, PRICE, *OTHERS)
    strange = [column for column in header if column not in known]
    if strange:
        faults.append(f"{name} has columns {', '.join(strange)}; known: {', '.join(known)}")
    return faults


def _add(
    row: Mapping[str, str],
    where: str,
    given: Given,
    rents: Rows,
    prices: dict[str, list[float]],
) -> None:
    """One quote, with the rents or with the prices.

    Raises
    ------
    BadFile, UnknownName : what is wrong with it
    """
    if any(text.startswith(("=", "+", "@", "-")) for text in row.values()):
        raise BadFile(f"{where} has a cell that begins with a formula; give values")
    chip = given.catalog.accelerator_name(row["accelerator"])
    given_prices = [name for name in (*RENTS, PRICE) if row.get(name)]
    if len(given_prices) != 1:
        raise BadFile(
            f"{where} has {len(given_prices)} prices; wanted one of {', '.join((*RENTS, PRICE))}"
        )
    kind = given_prices[0]
    usd = _number(row[kind], f"{where}, {kind}")
    if kind == PRICE:
        if not LEAST_USD <= usd <= MOST_USD:
            raise BadFile(
                f"{where}: {usd:g} USD for one {chip}, wanted {LEAST_USD:g} to {MOST_USD:g}; is "
                "it of a server, in thousands or in another currency?"
            )
        prices[chip].append(usd)
        return
    devices = _number(row.get("devices") or "1", f"{where}, devices")
    if kind == "usd_per_instance_hour" and not row.get("devices"):
        raise BadFile(f"{where} prices an instance; give its devices")
    plan = row.get("plan") or "on_demand"
    if plan not in PLANS:
        raise BadFile(f"{where}: plan {plan!r} is none of {', '.join(PLANS)}")
    instance, region = row.get("instance") or chip, row.get("region") or "any"
    hourly = usd / devices if kind == "usd_per_instance_hour" else usd
    rents.append(
        {
            "name": f"{row['provider']}/{instance}/{chip}/{region}/{plan}",
            "provider": row["provider"],
            "instance": instance,
            "accelerator": chip,
            "devices": f"{devices:g}",
            "region": region,
            "plan": plan,
            "usd_per_device_hour": f"{hourly:.6g}",
            "grade": "vendor",
            **({"as_of": row["as_of"]} if row.get("as_of") else {}),
            **({"note": row["note"]} if row.get("note") else {}),
        }
    )


def _number(text: str, where: str) -> float:
    if not NUMBER.fullmatch(text) or not 0.0 < float(text) < float("inf"):
        raise BadFile(f"{where}: {text!r} is no number above zero; write 2.5, without a currency")
    return float(text)
