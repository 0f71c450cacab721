"""The last pages: power, carbon, how far figures may be off, assumptions, what is left out."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from costdata.catalog import Catalog
from costdata.nulls import RESERVED
from planner.costing.tariff_money import tariff_prices
from planner.documents.figures import figure, human, unit_of
from planner.report.blocks import Block, Heading, Listing, Points, Table, Words
from planner.report.decision import banded, plan_name
from planner.report.gather import MONEY, Gathered
from planner.report.validity import not_validated
from planner.report.words import Say
from planner.study.parts import Costing
from planner.uncertainty.draws import QUANTILES

MOST_FACTS = 28
OF_CURVES = (".efficiency_", ".links.", ".power_curves.", ".engine_curves.", ".engines.")
"""Parts of the names of facts that only an expert can judge."""

DECIDED = ("facility.wacc.default", "facility.life.it", "facility.life.facility")
"""Facts that no draw moves: a buyer decides them, and their range is its source's alone."""

GRADES = ("guess", "estimate", "paper", "vendor", "measured")
LONGEST_SOURCE = 90
MOST_NOTE = 400
GIVEN = ("costing", "limits", "pin")
"""Tables of a study file whose figures stand beside those of the fact tables."""

PRICED, UNKNOWN = "price ", "NULL "
"""How the notes of a run begin that tell where a chip's price is from, and why a figure lacks."""

POWERS = (
    ("provisioned", "provisioned_w"),
    ("peak", "facility_peak_w"),
    ("average", "facility_mean_w"),
    ("energy", "facility_mwh"),
    ("water", "water_l"),
)
CARBONS = (
    ("location", "location_average_kgco2e"),
    ("market", "market_kgco2e"),
    ("embodied", "embodied_kgco2e"),
    ("total", "kgco2e"),
)
TIMES = (
    "days", "step_s", "ttft_s_p95", "tpot_s_p95", "usd", "capex_usd", "usd_per_mtoken", "kgco2e",
    "facility_mwh", "resident_bytes", "npv_usd",
)  # fmt: skip


def power(got: Gathered, say: Say) -> Iterator[Block]:
    """Three powers kept apart, energy and water, and the money that electricity is billed in."""
    yield Heading(say("power"))
    yield _figures(got, say, "power_table", POWERS)
    yield from electricity(got.study.costing, got.catalog, say)


def electricity(costing: Costing, catalog: Catalog, say: Say) -> Iterator[Block]:
    """Currency and year of every price of electricity; nothing where the rent holds it."""
    told = [
        say(f"tariff_{price.kind}", name=price.name, year=price.year or say("tariff_no_year"))
        for price in tariff_prices(costing, catalog)
    ]
    if told:
        yield Words(say("tariff", prices=say.listed(told)))


def carbon(got: Gathered, say: Say) -> Iterator[Block]:
    """Location- and market-based, and making."""
    yield Heading(say("carbon"))
    yield _figures(got, say, "carbon_table", CARBONS)


def _figures(got: Gathered, say: Say, title: str, names: tuple[tuple[str, str], ...]) -> Table:
    """Figures with their bands; one that is not known with why."""
    rows = []
    for key, name in names:
        value, has_band = got.value(name), np.isfinite(got.value(f"{name}_low"))
        unit = "kgCO2e" if name.endswith("_kgco2e") else unit_of(name)
        band = " – ".join(banded(got, name)) if has_band else ""
        why = got.plan["null_reasons"].get(name, "")
        lacking = say("not_known", why=why) if why else "–"
        rows.append([say(key), lacking if np.isnan(value) else human(value, unit), band])
    heads = [say(f"col_{name}") for name in ("figure", "value", "band")]
    return Table(say(title), heads, rows, (3, 2, 2))


def accuracy(got: Gathered, say: Say) -> Iterator[Block]:
    """Bands of the plan's figures, and what they rest on."""
    yield Heading(say("accuracy"))
    yield Words(not_validated(got, say) or say("accuracy_validated"))
    heads = [say("col_figure"), say("col_value"), say("col_band"), "P10", "P50", "P90"]
    at = got.drawn_at(got.choice.row)
    rows = []
    for name in TIMES:
        value = got.value(name)
        if np.isnan(value) or np.isnan(got.value(f"{name}_low")):
            continue
        cells = [say.metric(name), human(value, unit_of(name)), " – ".join(banded(got, name))]
        if name == "capex_usd" or name in got.odds.values:
            drawn = (
                got.odds.quantiles(name)[:, at]
                if name in got.odds.values
                else np.quantile(got.drawn_alone(name), QUANTILES)
            )
            cells += [human(float(x), unit_of(name)) for x in drawn]
        rows.append(cells + [""] * (len(heads) - len(cells)))
    yield Table(say("accuracy_table"), heads, rows, (2, 1.5, 2.4, 1.3, 1.3, 1.3))
    if got.study.kind == "train" and got.word("acquire") == "buy":
        count = figure(got.value("purchase_units"))
        yield Words(say("accuracy_units", count=count))
    elif got.study.kind == "serve" and got.word("acquire") == "buy":
        yield Words(say("accuracy_fleet"))


def register(got: Gathered, say: Say) -> Iterator[Block]:
    """The facts of the run, the weakest first."""
    yield Heading(say("register"))
    used, chip = got.plan["facts_used"], got.word("accelerator")
    facts = weakest_first([fact for fact in got.facts if fact["name"] in used])
    unverified = sum(not fact["verified"] for fact in facts)
    heads = [say(f"col_{n}") for n in ("fact", "value", "band", "grade", "as_of", "source")]
    rows = [fact_row(fact) for fact in facts[:MOST_FACTS]]
    counts = {"count": len(facts), "unverified": unverified, "all": len(got.facts)}
    title = say("register_table", **{name: figure(n) for name, n in counts.items()})
    yield Table(title, heads, rows, (3, 1.3, 1.6, 1.1, 1, 3.4))
    if len(facts) > MOST_FACTS:
        yield Words(say("register_rest", count=figure(len(facts) - MOST_FACTS)))
    ways = [f"{chip}.{of}.price_usd" for of in ("servers", "accelerators")]
    if set(ways) <= {fact["name"] for fact in facts}:
        yield Words(say("which_price", unit=ways[0], device=ways[1]))
    given = given_rows(got.record.start.study_text)
    if given:
        heads = [say(f"col_{n}") for n in ("given", "value")]
        yield Table(say("given_table"), heads, given, (3, 5))
    terms = got.ends.middle.terms
    decided = [
        say("life", years=figure(float(terms.it_life_years[0]))),
        say("interest", wacc=f"{float(terms.wacc_frac[0]):.2%}") + _range_of(facts, say),
        say("use", used=f"{float(terms.utilisation_frac[0]):.0%}"),
    ]
    yield Words(say("decided", terms=say.listed(decided)))


def _range_of(facts: list[dict[str, Any]], say: Say) -> str:
    """The range that the source of the interest gives; "" where the study decides it."""
    wacc = next((fact for fact in facts if fact["name"] == DECIDED[0]), None)
    if wacc is None or wacc["low"] is None:
        return ""
    ends = {end: f"{float(wacc[end]):.2%}" for end in ("low", "high")}
    return say("not_drawn", **ends)


def given_rows(text: str) -> list[list[str]]:
    """What a study gives by itself of money, sites, limits and pinned figures, line by line.

    Parameters
    ----------
    text : of the study file
    """
    tables = tomllib.loads(text)
    rows = []
    for table in GIVEN:
        for key, value in tables.get(table, {}).items():
            inside = value.items() if isinstance(value, dict) else [("", value)]
            for name, one in inside:
                shown = ", ".join(map(figure, one)) if isinstance(one, list) else figure(one)
                rows.append([f"{table}.{key}{'.' if name else ''}{name}", shown])
    return rows


def weakest_first(facts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Guesses first, unchecked before checked; words, curves and what is decided last."""

    def rank(fact: Mapping[str, Any]) -> tuple[bool, bool, bool, int, bool, str]:
        grade = fact["grade"]
        place = GRADES.index(grade) if grade in GRADES else len(GRADES)
        name = str(fact["name"])
        is_curve = any(part in name for part in OF_CURVES)
        is_word = bool(fact["words"]) or fact["low"] is None
        is_decided = name in DECIDED
        return is_decided, is_curve, is_word, place, bool(fact["verified"]), name

    return sorted(facts, key=rank)


def fact_row(fact: Mapping[str, Any]) -> list[str]:
    """A fact as a line: name, value, band, grade, date, source."""
    unit = "" if fact["unit"] in (None, "1", "count") else str(fact["unit"])
    value = fact["words"] or f"{figure(fact['value'])} {unit}".strip()
    ends = [fact[end] for end in ("low", "high") if fact[end] is not None]
    source = str(fact["source"])
    short = source if len(source) <= LONGEST_SOURCE else source[: LONGEST_SOURCE - 1] + "…"
    band = " – ".join(figure(end) for end in ends)
    return [str(fact["name"]), str(value), band, str(fact["grade"]), str(fact["as_of"]), short]


def left_out(got: Gathered, say: Say) -> Iterator[Block]:
    """What no figure holds, and what a reader has to know of those there are."""
    yield Heading(say("left_out"))
    notes = got.record.summary.notes if got.record.summary else {}
    told = ("search", "sweep_s", "priced", "resumed", "electricity")
    chips = {got.word("accelerator", row) for row in got.choice.rows}
    lines = [
        _note(name, text, say)
        for name, text in notes.items()
        if name not in told and (not name.startswith(PRICED) or name.removeprefix(PRICED) in chips)
    ]
    always = [say("left_out_always"), say("left_out_use")]
    yield Points([*always, *(line[:MOST_NOTE] for line in lines)])


def _note(name: str, text: str, say: Say) -> str:
    """A note of a run in words."""
    if name.startswith(UNKNOWN):
        key = "note_none" if text.startswith(RESERVED) else "note_unknown"
        return say(key, metric=say.metric(name.removeprefix(UNKNOWN)), why=text)
    return f"{name.replace('_', ' ')}: {text}"


def reproduce(got: Gathered, say: Say) -> Iterator[Block]:
    """How the same figures come out again."""
    yield Heading(say("reproduce"))
    start, summary = got.record.start, got.record.summary
    versions = start.versions.get("planner", "")
    yield Points(
        [
            say("reproduce_run", seed=start.seed, facts=start.facts_hash[:12], version=versions),
            say(
                "reproduce_hash",
                hash=summary.front_hash if summary else "",
                run=got.record.run,
                plan=plan_name(got, got.choice.row),
                site=got.word("site"),
            ),
            say("money_basis", metric=say.metric(MONEY)),
        ]
    )
    yield Listing(start.study_text.strip())
