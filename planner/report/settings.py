"""How the chosen plan is split and run, its terms and its rent: figures to repeat it by."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from costdata.offers import Rent
from costdata.own_or_rent import rented_devices
from costdata.quotes import rents_of
from planner.documents.figures import figure, human, unit_of
from planner.documents.text import DECISIONS
from planner.report.blocks import Block, Heading, Table, Words
from planner.report.decision import money
from planner.report.gather import MONEY, Gathered
from planner.report.sums import cost_lines
from planner.report.words import Say

REACHED = ("step_s", "tokens_per_s", "mfu_frac", "goodput_frac")
TERMS = ("usd_per_kwh", "pue", "residual_frac", "maintenance_frac", "colo_usd_per_kw_month")
"""Terms of cost that are told beside the settings, by the names of the spreadsheet."""

LONGEST_SOURCE = 120


def settings(got: Gathered, say: Say) -> Iterator[Block]:
    """Every decision of the plan, what it reaches, and the terms that it is costed at."""
    yield Heading(say("settings"))
    cells = [(n, got.front[n][got.choice.row]) for n in DECISIONS if n in got.front]
    shown = [(name, figure(value)) for name, value in cells if _is_there(value)]
    shown += [
        (name, human(got.value(name), unit_of(name)))
        for name in REACHED
        if np.isfinite(got.value(name))
    ]
    lines = {line.name: line for line in cost_lines(got.ends.middle)}
    shown += [
        (name, f"{figure(lines[name].value)} {lines[name].unit}".removesuffix(" 1"))
        for name in TERMS
    ]
    half = (len(shown) + 1) // 2
    blank = ("", "")
    pairs = zip(shown[:half], [*shown[half:], blank][:half], strict=True)
    heads = [say("col_setting"), say("col_value")] * 2
    yield Table(say("settings_table"), heads, [[*a, *b] for a, b in pairs], (2.4, 2, 2.4, 2))


def rent(got: Gathered, say: Say) -> Iterator[Block]:
    """The rent that owning is held against: how much, of what term, from where."""
    one = got.ends.middle
    usd = float(one.prices.rent_usd_per_device_hour[0])
    told = _whole_units(got, say)
    if told and usd > 0:
        yield Words(told)
    if got.word("acquire") != "buy" or not usd > 0:
        return
    plan, found = _offers(got, usd)
    yield Words(
        say(
            "rent_used",
            usd=figure(usd),
            basis=say("rent_plan", plan=plan) if plan else say("rent_own"),
            sources=_sources(found, say) if plan else "",
        )
    )
    if bool(one.prices.rent_is_by_hour[0]):
        yield Words(say("rent_by_hour"))
        return
    if got.study.kind != "train":
        yield Words(say("rent_reserved"))
        return
    days, share = human(got.value("days"), "day"), money(got.value("rent_usd"))
    yield Words(say("rent_reserved_run", days=days, usd=share))
    offers = got.catalog.rent(got.word("accelerator"), "on_demand")
    if offers:
        each = float(np.median([offer.usd_per_device_hour for offer in offers]))
        whole = each * float(rented_devices(one.bill)[0]) * float(one.run.hours[0])
        yield Words(say("rent_on_demand", each=figure(each), usd=money(whole),
                        sources=_sources(offers, say)))  # fmt: skip


def _whole_units(got: Gathered, say: Say) -> str:
    """That rent is of whole units, and what it is by the device; "" where all devices work."""
    bills, devices = got.ends.middle.bills, got.value("devices")
    rented = sum(float(rented_devices(bill)[0]) for bill in bills)
    if rented <= devices or got.word("acquire") == "lease":
        return ""
    told = say("rent_whole", rented=figure(rented), devices=figure(devices))
    rent_usd = got.value("rent_usd" if got.word("acquire") == "buy" else MONEY)
    if len(bills) > 1 or got.study.kind == "hardware" or not np.isfinite(rent_usd):
        return told
    apart = " " if say.language == "en" else ""
    if got.word("acquire") != "buy":
        less = got.plan["ledgers"][MONEY]["terms"].get("rent", 0.0) * (1.0 - devices / rented)
        return told + apart + say("rent_by_device_alone", less=money(less)) if less else told
    by_device_usd = rent_usd * devices / rented
    more = by_device_usd - got.value(MONEY)
    gap = say("more" if more > 0 else "less", figure=money(abs(more)))
    return told + apart + say("rent_by_device", usd=money(by_device_usd), gap=gap)


def _is_there(value: Any) -> bool:
    """A decision that the plan has: no NULL, no empty word."""
    return value == value and str(value) != ""


def _offers(got: Gathered, usd: float) -> tuple[str, list[Rent]]:
    """The kind of rent that is compared with, and the prices that it is the median of.

    "" and none where the study, or the case of it that the plan is of, gives the rent itself.
    """
    study = next(one for one in got.parts if got.drawn_at(got.choice.row) in one.rows).study
    if study.costing.rent_usd_per_device_hour is not None:
        return "", []
    wanted = study.costing.rent_plan or "buy"
    plan, found = rents_of(got.catalog, got.word("accelerator"), wanted)
    is_it = found and np.isclose(np.median([offer.usd_per_device_hour for offer in found]), usd)
    return (plan, found) if is_it else ("", [])


def _sources(offers: list[Rent], say: Say) -> str:
    """Where prices are from: provider, date and source of each."""
    told = [
        f"{one.provider} {one.as_of}, {one.source[:LONGEST_SOURCE]}, {one.grade}"
        for one in offers[:2]
    ]
    return say("rent_sources", count=len(offers), sources="; ".join(told))
