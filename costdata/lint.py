"""What makes a value wrong although it can be parsed: one function per check, every fault found.

Faults are refused; warnings are said. Peaks and link rates are held against the tables in
`tables/rules`, everything else against the range and unit that the schema names.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

from costdata.facts import (
    ALL_ROWS,
    TABLES,
    Cells,
    Field,
    Row,
    Table,
    Tables,
    header_faults,
    read_cells,
)
from costdata.overlay import lay_over, read_ours, read_overlay
from costdata.support import KERNELS
from costdata.times import too_fast
from simkernel.hardware import PRECISIONS

SHARE_TOLERANCE = 0.01  # printed shares are rounded to a per cent
SPARSE_TOLERANCE = 0.01  # printed peaks are rounded to four digits
USD_PER_DEVICE_HOUR = (0.05, 50.0)  # FAULTS: below or above this a rent asks to be confirmed
STALE_YEARS = 2.0  # prices of chips halve in about this time; a warning, never a fault
DAYS_PER_YEAR = 365.25
BOTH_DIRECTIONS = (1.9, 2.1)  # a total of both directions over one direction, rounding allowed

CARD = re.compile(r"\b(?:(\d) ?x ?)?(\d{2,3})G(?:bE)?\b")
"""Ports of a network card and the rate of one [Gb/s], as a row of chips words it."""

DATED = re.compile(r"\d{4}(-(0[1-9]|1[0-2])(-\d\d)?)?")

UNSAFE = re.compile(r"[\x00-\x1f\x7f<>]|\.\.")

SCALEUP = ("scaleup_gbytes_per_s_per_direction", "scaleup_peer_gbytes_per_s_per_direction")

SLIPS = {
    "W": ("kilowatts? Give watts", "milliwatts, or a sum? Give watts of one"),
    "GB/s": ("TB/s? Give GB/s", "Gb/s? Divide by 8"),
    "TFLOP/s": ("PFLOP/s? Give TFLOP/s", "GFLOP/s? Give TFLOP/s"),
    "USD": ("in thousands? Give dollars", "cents or another currency? Give dollars"),
    "bytes": ("GB? Give bytes", "give the bytes of one device"),
    "USD/kWh": ("per MWh divided twice? Give USD per kWh", "cents, or per MWh? Give USD per kWh"),
    "kgCO2e/kWh": ("give kgCO2e per kWh", "g per kWh? Divide by 1000"),
}
"""What a value below and above the range of its unit probably is."""

SPEAKS_OF = {
    "servers": ("accelerator", "accelerators"),
    "cloud_prices": ("accelerator", "accelerators"),
    "embodied": ("accelerators", "accelerators"),
    "support": ("accelerators", "accelerators"),
    "efficiency_gemm": ("accelerator", "accelerators"),
    "efficiency_attention": ("accelerator", "accelerators"),
    "efficiency_stream": ("accelerator", "accelerators"),
    "links": ("accelerator", "accelerators"),
    "power_curves": ("accelerator", "accelerators"),
    "product_times": ("accelerator", "accelerators"),
    "tile_curves": ("accelerator", "accelerators"),
    "part_times": ("accelerator", "accelerators"),
    "collective_times": ("accelerator", "accelerators"),
    "regions_electricity_maps": ("name", "regions"),
    "regions_ember": ("name", "regions"),
}
"""Tables whose column names rows of another table."""

OURS_ONLY = {
    "traces": 'a trace of your own is not listed but named by its file; write trace = "FILE"',
    "trace_formats": "formats are not added by tables; rename the columns to arrival_s, "
    "prompt_tokens, output_tokens",
}
"""Tables that an overlay cannot add to, and what to do instead."""

Check = Callable[[Tables, Tables], Iterable[str]]


def lint(folder: Path | None = None) -> list[str]:
    """Every fault of our tables, or of a user's folder of tables, or of one table of it.

    Raises
    ------
    BadFile : the folder or a file cannot be read at all
    """
    if folder is None:
        ours = read_ours()
        return [*_our_headers(), *faults_of(ours, ours)]
    theirs, faults = read_overlay(folder)
    return faults + faults_of(theirs, lay_over(read_ours(), theirs))


def old_prices(folder: Path | None, today: datetime.date) -> list[str]:
    """Warnings of our tables, or of a user's folder of tables, or of one table of it.

    Raises
    ------
    BadFile : the folder or a file cannot be read at all
    """
    return warnings_of(read_ours() if folder is None else read_overlay(folder)[0], today)


def faults_of(tables: Tables, whole: Tables) -> list[str]:
    """Faults of some tables; `whole` is what they are read with, for names of other tables."""
    return [fault for check in CHECKS for fault in check(tables, whole)]


def warnings_of(tables: Tables, today: datetime.date) -> list[str]:
    """What is no fault but must be said: prices older than two years at a date."""
    return [
        f"{_where(row)}: {name} is of {fact.as_of}, more than {STALE_YEARS:g} years old"
        for row in _rows(tables)
        for name, fact in row.facts.items()
        if name.split("_")[0] in ("price", "usd") and _age_years(fact.as_of, today) > STALE_YEARS
    ]


def unsafe_names(tables: Tables, whole: Tables) -> Iterator[str]:
    """A name that a spreadsheet would work out, a page would draw, or a path would climb by."""
    for row in _rows(tables):
        for name, spec in row.schema.items():
            text = str(row.cells.get(name, "")) if spec.is_key else ""
            if text.startswith(("=", "+", "-", "@")) or UNSAFE.search(text):
                yield (
                    f"{_where(row)}: {name} {text[:60]!r} may hurt where it is shown; begin names "
                    "with a letter or digit and leave out control characters, <, > and .."
                )


def out_of_range(tables: Tables, whole: Tables) -> Iterator[str]:
    """A value outside what its unit allows: kilowatts as watts, totals, Gb/s as GB/s."""
    for row in _rows(tables):
        for spec in row.schema.values():
            for value in _numbers(row, spec.name):
                if spec.least is not None and value / spec.factor < spec.least:
                    yield _outside(row, spec, value / spec.factor, f"below {spec.least:g}", 0)
                if spec.most is not None and value / spec.factor > spec.most:
                    yield _outside(row, spec, value / spec.factor, f"above {spec.most:g}", 1)


def disordered_bands(tables: Tables, whole: Tables) -> Iterator[str]:
    """A low above the typical value, or a typical above the high."""
    for row in _rows(tables):
        for name in row.schema:
            low, typical, high = (row.number(c) for c in (f"{name}_low", name, f"{name}_high"))
            if name == "value":
                low, high = row.number("low"), row.number("high")
            known = [value for value in (low, typical, high) if value is not None]
            if known != sorted(known):
                shown = " > ".join(f"{value:g}" for value in known)
                yield f"{_where(row)}: {name} has low > typ > high ({shown}); put them in order"


def sparse_peaks(tables: Tables, whole: Tables) -> Iterator[str]:
    """A peak that is a figure with 2:4 sparsity: a known one, or twice our dense one."""
    ours = read_ours()["accelerators"]
    for row in tables.get("accelerators", {}).values():
        for rule in _rules("sparse_peaks"):
            for name in _sparse_columns(row, rule):
                if _near(_peak(row, name), float(rule["tflop_per_s"])):
                    shown = f"{name} = {rule['tflop_per_s']} is {rule['whose']}"
                    yield f"{_where(row)}: {shown}; give the dense peak"
        for name, dense in _our_peaks(row, ours):
            if _near(_peak(row, name), 2 * dense):
                shown = f"{name} is twice the dense {dense:g} of our table, a sparse figure"
                yield f"{_where(row)}: {shown}; give the dense peak"


def peak_ratios(tables: Tables, whole: Tables) -> Iterator[str]:
    """Two peaks of one chip whose ratio is not that of its architecture: sparse beside dense."""
    for row in tables.get("accelerators", {}).values():
        for rule in _rules("peak_ratios"):
            above, below = _peak(row, rule["above"]), _peak(row, rule["below"])
            if rule["architecture"] != row.text("architecture") or not above or not below:
                continue
            wanted, slack = float(rule["ratio"]), float(rule["tolerance"])
            if abs(above / below - wanted) > slack:
                yield (
                    f"{_where(row)}: {rule['above']} over {rule['below']} is {above / below:.2f}, "
                    f"on {rule['architecture']} it is {wanted:g} +- {slack:g}; "
                    "one of them is a sparse figure or of another card"
                )


def two_way_rates(tables: Tables, whole: Tables) -> Iterator[str]:
    """A bandwidth that is the total of both directions where one direction is asked for."""
    for row in tables.get("accelerators", {}).values():
        most, link = _link_limit(row)
        for name in SCALEUP:
            rate = row.number(name) or 0.0
            shown = f"{_where(row)}: {name} = {rate / 1e9:g} GB/s"  # the unit of the file
            if _is_double(rate, _our_rate(row, name)):
                yield f"{shown} is twice the one-way rate of our table; give one direction"
            elif rate > most:
                limit = f"but {link} carries {most / 1e9:g} in one direction"
                yield f"{shown}, {limit}; give one direction, not the total"


def peers_over_total(tables: Tables, whole: Tables) -> Iterator[str]:
    """One direct peer that gets more than all peers together."""
    for row in tables.get("accelerators", {}).values():
        peer = row.number("scaleup_peer_gbytes_per_s_per_direction") or 0.0
        total = row.number("scaleup_gbytes_per_s_per_direction") or 0.0
        if peer > total:
            yield f"{_where(row)}: the rate to one peer is above the rate to all; swap them"


def cards_oversold(tables: Tables, whole: Tables) -> Iterator[str]:
    """A device given more than its share of the network cards of its host."""
    for row in tables.get("accelerators", {}).values():
        cards, devices = row.number("nics_per_host"), row.number("devices_per_host")
        rate = row.number("scaleout_gbytes_per_s_per_direction")
        stated = [int(n or 1) * int(each) / 8 for n, each in CARD.findall(row.text("nic"))]
        if not (cards and devices and rate and stated):
            continue
        most = max(stated) * cards / devices
        if rate / 1e9 > most * (1 + SHARE_TOLERANCE):
            yield (
                f"{_where(row)}: scaleout_gbytes_per_s_per_direction = {rate / 1e9:g}, but "
                f"{cards:g} cards of {max(stated):g} GB/s for {devices:g} devices are {most:g} "
                "each; give the share of one device"
            )


def hourly_prices(tables: Tables, whole: Tables) -> Iterator[str]:
    """A rent that looks monthly, or divided by 730, and is not confirmed."""
    least, most = USD_PER_DEVICE_HOUR
    for row in tables.get("cloud_prices", {}).values():
        price = row.number("usd_per_device_hour")
        if price is not None and not least <= price <= most and not row.values.get("confirmed"):
            yield (
                f"{_where(row)}: {price:g} USD per device and hour is outside {least:g} to "
                f"{most:g}: a monthly price, or that of a whole instance? "
                "Put yes under confirmed if it is meant"
            )


def server_power(tables: Tables, whole: Tables) -> Iterator[str]:
    """A server rated below what its chips alone may draw."""
    for row in tables.get("servers", {}).values():
        chip = whole["accelerators"].get((row.text("accelerator"),))
        chips_w = (row.number("devices") or 0) * ((chip.number("tdp_w") if chip else 0) or 0)
        rated_w = row.number("max_power_w")
        if rated_w is not None and rated_w < chips_w:
            yield (
                f"{_where(row)}: max_power_w = {rated_w:g} W is below the {chips_w:g} W of its "
                "chips; give the whole server, in watts"
            )


def whole_shares(tables: Tables, whole: Tables) -> Iterator[str]:
    """Shares of one whole that do not sum to 1."""
    touched = {row.text("share_of") for row in tables.get("facility", {}).values()} - {""}
    sums: dict[str, float] = dict.fromkeys(touched, 0.0)
    for row in whole.get("facility", {}).values():
        if row.text("share_of") in touched:
            sums[row.text("share_of")] += row.number("value") or 0.0
    for word, total in sums.items():
        if abs(total - 1.0) > SHARE_TOLERANCE:
            yield f"facility.csv: the shares of {word} sum to {total:.3f}; make them sum to 1"


def strange_names(tables: Tables, whole: Tables) -> Iterator[str]:
    """A row that speaks of a chip or a site that no table has."""
    for table, (column, known) in SPEAKS_OF.items():
        for row in tables.get(table, {}).values():
            for name in filter(None, row.text(column).split("|")):
                if (name,) not in whole.get(known, {}):
                    yield f"{_where(row)}: {column} {name!r} is not in {known}.csv; add it there"


def strange_words(tables: Tables, whole: Tables) -> Iterator[str]:
    """A rule of the support matrix that can never speak, for a word nobody uses."""
    used = {
        "architecture": {r.text("architecture") for r in whole["accelerators"].values()},
        "precisions": set(PRECISIONS),
        "kernels": set(KERNELS),
    }
    for row in tables.get("support", {}).values():
        for column, words in used.items():
            for word in sorted(set(row.text(column).split("|")) - words - {ALL_ROWS}):
                yield f"{_where(row)}: {column} {word!r} is none of {', '.join(sorted(words))}"


def empty_origins(tables: Tables, whole: Tables) -> Iterator[str]:
    """A provenance row for a field that is not there."""
    for row in tables.get("provenance", {}).values():
        table, name, column = row.key
        rows = whole.get(table, {})
        if column not in next(iter(rows.values())).schema if rows else True:
            yield f"{_where(row)}: {table}.csv has no column {column!r}"
        elif name != ALL_ROWS and name not in {other.name for other in rows.values()}:
            yield f"{_where(row)}: {table}.csv has no row {name!r}"


def ours_only(tables: Tables, whole: Tables) -> Iterator[str]:
    """A user's row of a table that only ours is read of: it would be listed and do nothing."""
    for row in _rows(tables):
        if row.is_user and row.table in OURS_ONLY:
            yield f"{_where(row)}: {OURS_ONLY[row.table]}"


CHECKS: tuple[Check, ...] = (
    ours_only,
    unsafe_names,
    out_of_range,
    disordered_bands,
    sparse_peaks,
    peak_ratios,
    two_way_rates,
    peers_over_total,
    cards_oversold,
    hourly_prices,
    server_power,
    whole_shares,
    strange_names,
    strange_words,
    empty_origins,
    too_fast,
)


def _our_headers() -> list[str]:
    return [
        fault
        for name in read_ours()
        for fault in header_faults(name, read_cells(TABLES / f"{name}.csv")[0])
    ]


def _rows(tables: Tables) -> Iterator[Row]:
    for table in tables.values():
        yield from table.values()


def _where(row: Row) -> str:
    return f"{row.table}.csv, {row.name}"


def _numbers(row: Row, name: str) -> tuple[float, ...]:
    value = row.values.get(name)
    if isinstance(value, tuple):
        return tuple(float(part) for part in value if isinstance(part, int))
    return (float(value),) if isinstance(value, int | float) and value is not True else ()


def _outside(row: Row, spec: Field, written: float, where: str, end: int) -> str:
    slip = SLIPS.get(spec.unit, ("check its unit", "check its unit"))[end]
    return f"{_where(row)}: {spec.name} = {written:g} is {where} {spec.unit}: {slip}"


def _peak(row: Row, name: str) -> float | None:
    value = row.number(name)
    return None if value is None else value / 1e12  # TFLOP/s, as printed in the rules


def _near(value: float | None, wanted: float) -> bool:
    return value is not None and abs(value - wanted) <= SPARSE_TOLERANCE * wanted


def _sparse_columns(row: Row, rule: Cells) -> list[str]:
    """Columns in which a sparse figure is looked for: FP16 beside BF16, on its architectures."""
    words = rule["architectures"].split("|")
    if ALL_ROWS not in words and row.text("architecture") not in words:
        return []
    return sorted({rule["column"], rule["column"].replace("bf16", "fp16")})


def _our_peaks(row: Row, ours: Table) -> list[tuple[str, float]]:
    """Dense peaks that we print for a chip a user gives again; none for our own rows."""
    mine = ours.get(row.key) if row.is_user else None
    names = [name for name in row.schema if name.endswith("tflop_per_s")]
    return [(name, peak) for name in names if mine and (peak := _peak(mine, name))]


def _our_rate(row: Row, name: str) -> float:
    mine = read_ours()["accelerators"].get(row.key) if row.is_user else None
    return (mine.number(name) if mine else None) or 0.0


def _is_double(rate: float, one_way: float) -> bool:
    least, most = BOTH_DIRECTIONS
    return one_way > 0 and least < rate / one_way < most


def _link_limit(row: Row) -> tuple[float, str]:
    """What the link a row names carries in one direction [bytes/s], endless if not known."""
    note = row.text("scaleup_note")
    for rule in _rules("link_rates"):
        if note.startswith(rule["link"]):
            return float(rule["most_gbytes_per_s_per_direction"]) * 1e9, rule["link"]
    return float("inf"), ""


@cache
def _rules(name: str) -> tuple[dict[str, str], ...]:
    return tuple(read_cells(TABLES / "rules" / f"{name}.csv")[1])


def _age_years(as_of: str, today: datetime.date) -> float:
    """Age of the last day that a date can mean; 0 of none, which is a fault of its own."""
    if not DATED.fullmatch(as_of):
        return 0.0
    year, month, day = ([int(part) for part in as_of.split("-")] + [12, 28])[:3]
    return (today - datetime.date(year, month, min(max(day, 1), 28))).days / DAYS_PER_YEAR
