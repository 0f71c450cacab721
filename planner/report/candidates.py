"""The plans to choose from: the few beside the choice, every case of the study, the trade-off."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from planner.decide.robust import beats_frac
from planner.documents.figures import figure, human, unit_of
from planner.metrics import find_metric
from planner.report import charts
from planner.report.blocks import Block, Heading, Picture, Table, Words
from planner.report.choice import MONEY as MONEY_METRICS
from planner.report.choice import NEAR_FRAC, chosen
from planner.report.decision import known, plan_name
from planner.report.gather import MONEY, Gathered
from planner.report.what_if import SAME_FRAC
from planner.report.words import Say

MOST_COMPARED = 3
UP_FRONT = "capex_usd"


def candidates(got: Gathered, say: Say) -> Iterator[Block]:
    """The few plans it has to be held against, and what each gains or loses."""
    yield Heading(say("candidates"))
    names = list(got.signs)
    names += [n for n in (MONEY, UP_FRONT) if n not in names and n in got.front]
    first = [say(f"col_{n}") for n in ("place", "plan", "hardware", "site")]
    heads = [*first, *(say.metric(n) for n in names), say("col_why")]
    rows = [
        [
            str(place + 1),
            plan_name(got, row),
            f"{figure(got.value('devices', row))} × {got.word('accelerator', row)}",
            got.word("site", row),
            *(human(known(got.value(n, row)), unit_of(n)) for n in names),
            _why(got, row, say),
        ]
        for place, row in enumerate(got.choice.rows)
    ]
    key = "candidates_replayed" if got.is_as_replayed else "candidates_table"
    title = say(key, count=len(rows), front=figure(len(got.front["plan"])))
    shares = [0.6, 1.4, 2.4, 1.1, *(1.4 for _ in names), 3.2]
    yield Table(title, heads, rows, shares, marked=0)
    yield from _cases(got, say, names)


def _cases(got: Gathered, say: Say, names: Sequence[str]) -> Iterator[Block]:
    """What the same rule takes in each case of the study, where it has several."""
    if "scenario" not in got.front:
        return
    cases = list(dict.fromkeys(map(str, got.front["scenario"])))
    if len(cases) < 2:
        return
    words = np.asarray(got.front["scenario"]).astype(str)
    places = [chosen(got.study, got.front, np.flatnonzero(words == c), None).row for c in cases]
    rows = [
        [
            say.case(case),
            f"{figure(got.value('devices', row))} × {got.word('accelerator', row)}",
            got.word("site", row),
            *(human(known(got.value(n, row)), unit_of(n)) for n in names),
        ]
        for case, row in zip(cases, places, strict=True)
    ]
    first = [say(f"col_{n}") for n in ("case", "hardware", "site")]
    heads = [*first, *(say.metric(n) for n in names)]
    own = got.word("scenario")
    shares = [3.0, 2.4, 1.1, *(1.5 for _ in names)]
    yield Table(say("cases_table"), heads, rows, shares, marked=cases.index(own))


def _why(got: Gathered, row: int, say: Say) -> str:
    """Why a candidate is in the table, and what it gains and loses against the choice."""
    best = got.choice.best_in.get(row, ())
    why = (
        say("best_in", metrics=say.listed([say.metric(n) for n in best]))
        if best
        else say("exchange", most=f"{NEAR_FRAC:.0%}")
        if row == got.choice.exchange
        else say("balanced")
    )
    if row == got.choice.row:
        return say.listed([say("is_chosen"), why]) if best else say("is_chosen")
    parts = [why, *_against(got, row, say)]
    cheaper = beats_frac(*(got.odds.values[MONEY][:, got.drawn_at(r)]
                           for r in (row, got.choice.row)))  # fmt: skip
    parts.append(say("beaten_odds", share=f"{cheaper:.0%}"))
    return "; ".join(parts)


def _against(got: Gathered, row: int, say: Say) -> Iterator[str]:
    """What a candidate has more and less of than the choice."""
    names = dict.fromkeys([MONEY, *got.signs])
    for name in list(names)[:MOST_COMPARED]:
        own, base = got.value(name, row), got.value(name)
        if np.isnan(own) or np.isnan(base) or abs(own - base) <= SAME_FRAC * abs(base):
            continue
        gap = human(abs(own - base), unit_of(name))
        words = (
            gap
            if find_metric(name).unit in ("USD", "kgCO2e", "day")
            else f"{gap} {say.metric(name)}"
        )
        yield say("more" if own > base else "less", figure=words)


def trade_off(got: Gathered, say: Say) -> Iterator[Block]:
    """The front as a picture, and why the rest lost."""
    yield Heading(say("front"))
    pair = _pair(got)
    if pair:
        yield _front_picture(got, say, pair)
    summary = got.record.summary
    if summary:
        masked, rejected = sum(summary.masked.values()), sum(summary.rejected.values())
        skipped = sum(summary.skipped.values())
        rest = summary.enumerated - masked - skipped - summary.evaluated
        yield Words(
            say(
                "lost",
                enumerated=figure(summary.enumerated),
                masked=figure(masked),
                evaluated=figure(summary.evaluated),
                broke=say("lost_broke", count=figure(rejected)) if rejected else "",
                skipped=say("lost_skipped", count=figure(skipped)) if skipped else "",
                rest=say("lost_rest", count=figure(rest)) if rest > 0 else "",
                front=figure(len(got.closed["plan"])),
            )
        )
        if got.is_as_replayed:
            counts = {"all": len(got.replays), "held": len(got.held)}
            counts["front"] = len(got.front["plan"])
            yield Words(say("lost_replayed", **{n: figure(c) for n, c in counts.items()}))
        limits = [f"{say.metric(name)} ({figure(n)})" for name, n in summary.rejected.items() if n]
        text = say("limits_removed", limits=say.listed(limits)) if limits else ""
        yield Words(text or say("no_limits_removed"))
    binds = [f"{say.metric(n)}: {say.term(words)}" for n, words in got.plan["binds"].items()]
    yield Words(say("binds", binds=say.listed(binds)))


def _pair(got: Gathered) -> tuple[str, str] | None:
    """What the chart is of: money upward, the objective that money buys along."""
    names = list(got.signs)
    if len(names) < 2 or len(got.front["plan"]) < 2:
        return None
    cost = next((n for n in MONEY_METRICS if n in names), names[0])
    others = [n for n in names if n != cost and np.ptp(np.asarray(got.front[n], float)) > 0]
    return (others[0], cost) if others else None


def _front_picture(got: Gathered, say: Say, pair: tuple[str, str]) -> Picture:
    other, cost = pair
    rows = np.asarray(
        [got.value(cost, r) * got.signs[cost] for r in range(len(got.front["plan"]))]
    )
    least = float(np.nanmin(rows))
    own = float(rows[got.choice.row])
    is_own = own - least <= SAME_FRAC * abs(least)
    best = got.choice.row if is_own else int(np.nanargmin(rows))
    hardware = f"{figure(got.value('devices', best))} × {got.word('accelerator', best)}"
    named_best = f"{hardware} @ {got.word('site', best)}"
    named = {row: str(i + 1) for i, row in enumerate(got.choice.rows)}
    chips = {str(name) for name in got.front["accelerator"]}
    colour = "accelerator" if len(chips) > 1 else "site"
    if "scenario" in got.front and len({str(s) for s in got.front["scenario"]}) > 1:
        colour = "scenario"
    words = say("front_words", count=figure(len(rows)), x=say.metric(other), y=say.metric(cost))
    title = say("front_title", best=named_best, count=figure(len(rows)))
    return Picture(
        title,
        words,
        charts.front(got.front, pair, got.choice.row, named, colour, say, _bounds(got, pair)),
    )


def _bounds(got: Gathered, pair: tuple[str, str]) -> tuple[float | None, float | None]:
    """Limits of the study along both directions of the chart; None where it sets none."""
    x, y = (got.study.limits.get(name) for name in pair)
    return x, y
