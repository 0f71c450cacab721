"""The pages on money: cash flow and payback, what the cost hangs on, scenarios, where it goes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from costdata.tco import MONTHS_PER_YEAR
from planner.documents.figures import figure
from planner.report import charts
from planner.report.blocks import Block, Heading, Picture, Table, Words
from planner.report.decision import money, place
from planner.report.gather import MONEY, Gathered
from planner.report.what_if import DEARER_RENT, SCENARIOS, Outcome
from planner.report.words import Say
from planner.uncertainty.figures import figures_of


def cash(got: Gathered, say: Say) -> Iterator[Block]:
    """Owning against renting, year by year."""
    yield Heading(say("cash"))
    flow = got.cash
    if flow is None:
        yield Words(say("no_cash"))
        return
    months, total = got.value("payback_months"), float(flow.cumulative[-1])
    is_repaid = bool(months <= flow.years[-1] * MONTHS_PER_YEAR)
    key = "cash_title" if is_repaid else "cash_title_end" if total > 0 else "cash_title_never"
    title = say(key, months=figure(months), total=money(abs(total)))
    words = say("cash_words", capex=money(flow.paid[0]), left=money(flow.left[-1]))
    yield Picture(title, words, charts.cash(flow, say))
    terms = got.ends.middle.terms
    yield Words(
        say(
            "cash_npv",
            wacc=f"{flow.wacc_frac:.2%}",
            years=figure(float(flow.years[-1])),
            npv=money(flow.npv_usd),
            used=f"{float(terms.utilisation_frac[0]):.0%}",
        )
    )


def sensitivity(got: Gathered, say: Say) -> Iterator[Block]:
    """Every uncertain input at both of its ends."""
    yield Heading(say("tornado"))
    if not got.swings:
        yield Words(say("tornado_none"))
        return
    first = got.swings[0]
    low, high = sorted((first.at_low, first.at_high))
    title = say("tornado_title", first=say.name(first.name), low=money(low), high=money(high))
    yield Picture(title, say("tornado_words"), charts.tornado(got.swings, got.value(MONEY), say))
    yield from _sources(got, say)


def _sources(got: Gathered, say: Say) -> Iterator[Block]:
    """Which share of the spread each input brings, all of them at random together."""
    if not got.sources:
        return
    heads = [say(f"col_{n}") for n in ("input", "share_alone", "share_total", "effect", "uneven")]
    rows = [
        [
            say.name(one.name),
            f"{one.alone_frac:.1%}",
            f"{one.total_frac:.1%}",
            money(one.mean_size),
            money(one.spread),
        ]
        for one in got.sources
    ]
    first = got.sources[0]
    title = say("sources_title", first=say.name(first.name), share=f"{first.total_frac:.0%}")
    yield Table(title, heads, rows, (2.4, 1.4, 1.6, 1.6, 1.6), marked=0)
    alone = sum(one.alone_frac for one in got.sources)
    total = sum(one.total_frac for one in got.sources)
    yield Words(say("sources_words", alone=f"{alone:.0%}", total=f"{total:.0%}"))


def scenarios(got: Gathered, say: Say) -> Iterator[Block]:
    """The plan when things turn out differently, and what another would have saved."""
    yield Heading(say("what_if"))
    base = got.outcomes[0].value
    heads = [say(f"col_{n}") for n in ("scenario", "cost", "change", "best", "regret")]
    rows = [
        [
            say.name(one.name),
            money(one.value),
            f"{one.value / base - 1.0:+.0%}" if one is not got.outcomes[0] else "",
            _best_of(got, one),
            money(one.regret) if one.is_beaten else "–",
        ]
        for one in got.outcomes
    ]
    yield Table(say("what_if_table"), heads, rows, (2.4, 1.6, 1, 2.4, 1.4), marked=0)
    beaten = [one.regret for one in got.outcomes if one.is_beaten]
    if beaten:
        yield Words(say("worst_regret", regret=money(max(beaten))))
    else:
        yield Words(say("no_regret"))
    if got.idle:
        told = _dearer_rent(got, say)
        names = [say.name(name) for name in got.idle if not told or name != DEARER_RENT]
        if names:
            yield Words(say("idle", names=say.listed(names)))
        if told:
            yield Words(told)


def _dearer_rent(got: Gathered, say: Say) -> str:
    """What a dearer rent does to the saving and the payback of what is bought; "" if unknown."""
    rented = "rent_npv_usd" if got.study.kind == "hardware" else "rent_usd"
    own = got.value("own_npv_usd" if got.study.kind == "hardware" else MONEY)
    if DEARER_RENT not in got.idle or got.word("acquire") != "buy":
        return ""
    study = next(one for one in got.parts if got.drawn_at(got.choice.row) in one.rows).study
    found = figures_of(SCENARIOS[DEARER_RENT](got.ends.middle), study)
    usd, months = (float(found[name][0]) for name in (rented, "payback_months"))
    if not np.isfinite(usd):
        return ""
    paid = figure(months) if np.isfinite(months) else "–"
    return say("dearer_rent", scenario=say.name(DEARER_RENT), rent=money(usd),
               saved=money(usd - own), months=paid)  # fmt: skip


def _best_of(got: Gathered, one: Outcome) -> str:
    """The cheapest plan of a scenario: the choice itself where none is cheaper by a figure."""
    at = got.drawn_at(got.choice.row)
    return place(got, one.best_row if one.is_beaten else at)


def bridge(got: Gathered, say: Say) -> Iterator[Block]:
    """What the cost consists of."""
    yield Heading(say("bridge"))
    ledger = got.plan["ledgers"][MONEY]
    first, value = max(ledger["terms"].items(), key=lambda term: term[1])
    title = say("bridge_title", first=say.name(first), share=f"{value / ledger['total']:.0%}")
    words = say("bridge_words", unit=money(ledger["total"]))
    yield Picture(title, words, charts.bridge(ledger["terms"], say))
    yield Words(_unit_costs(got, say))


def _unit_costs(got: Gathered, say: Say) -> str:
    """The cost by the unit that a reader compares: a million tokens, a device for an hour."""
    names = {
        "usd_per_mtoken": "$/Mtoken",
        "usd_per_mtoken_input": "$/Mtoken in",
        "usd_per_mtoken_output": "$/Mtoken out",
        "usd_per_device_hour": "$/device-hour",
    }
    found = [
        f"{words} {figure(got.value(name))}"
        for name, words in names.items()
        if np.isfinite(got.value(name))
    ]
    return say("unit_costs", costs=say.listed(found))
