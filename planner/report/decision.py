"""The first page: what to buy, why this one, what stands against it, and the trade-off."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from costdata.tco import HOURS_PER_YEAR
from planner.decide.robust import beats_frac
from planner.documents.figures import figure, human, unit_of
from planner.exports.bill_of_materials import lead_weeks
from planner.metrics import find_metric, is_at_least
from planner.report import charts
from planner.report.blocks import Block, Heading, Picture, Points, Table, Words
from planner.report.choice import ASKED, CHEAPEST, KNEE
from planner.report.choice import MONEY as MONEY_METRICS
from planner.report.gather import DRAWS, MONEY, Gathered
from planner.report.words import Say

MOST_CHANGERS = 3
MOST_COMPARED = 3
SAME_FRAC = 5e-4
"""Figures closer than this are told as alike."""


def decision(got: Gathered, say: Say) -> Iterator[Block]:
    """The sentence with amount, saving and payback, and what would change it."""
    yield Heading(say("decision"))
    yield Words(_what(got, say), is_decision=True)
    lines = [
        _does(got, say),
        _replayed(got, say),
        *_at_risk(got, say),
        _share(got, say),
        _saving(got, say),
        _lead(say),
        _odds(got, say),
    ]
    if got.swings:
        names = [say.name(swing.name) for swing in got.swings[:MOST_CHANGERS]]
        lines.append(say("changes", inputs=say.listed(names)))
    lines.append(_flips(got, say))
    if got.value("validated") == 0:
        lines.append(say("accuracy_transferred"))
    yield Points([line for line in lines if line])
    yield Words(_rule(got, say))


def sentence(got: Gathered, language: str) -> str:
    """What to buy, in one sentence."""
    return _what(got, Say(language))


def candidates(got: Gathered, say: Say) -> Iterator[Block]:
    """The few plans it has to be held against, and what each gains or loses."""
    yield Heading(say("candidates"))
    names = list(got.signs)
    if MONEY not in names:
        names.append(MONEY)
    first = [say(f"col_{n}") for n in ("place", "plan", "hardware", "site")]
    heads = [*first, *(say.metric(n) for n in names), say("col_why")]
    rows = [
        [
            str(place + 1),
            plan_name(got, row),
            f"{figure(got.value('devices', row))} × {got.word('accelerator', row)}",
            got.word("site", row),
            *(human(_known(got.value(n, row)), unit_of(n)) for n in names),
            _why(got, row, say),
        ]
        for place, row in enumerate(got.choice.rows)
    ]
    title = say("candidates_table", count=len(rows), front=figure(len(got.front["plan"])))
    shares = [0.6, 1.4, 2.4, 1.1, *(1.5 for _ in names), 3.6]
    yield Table(title, heads, rows, shares, marked=0)


def trade_off(got: Gathered, say: Say) -> Iterator[Block]:
    """The front as a picture, and why the rest lost."""
    yield Heading(say("front"))
    pair = _pair(got)
    if pair:
        yield _front_picture(got, say, pair)
    summary = got.record.summary
    if summary:
        masked, rejected = sum(summary.masked.values()), sum(summary.rejected.values())
        yield Words(
            say(
                "lost",
                enumerated=figure(summary.enumerated),
                masked=figure(masked),
                evaluated=figure(summary.evaluated),
                rejected=figure(rejected),
                front=figure(len(got.front["plan"])),
            )
        )
        limits = [f"{name} ({figure(n)})" for name, n in summary.rejected.items() if n]
        text = say("limits_removed", limits=say.listed(limits)) if limits else ""
        yield Words(text or say("no_limits_removed"))
    binds = [f"{name}: {term}" for name, term in got.plan["binds"].items()]
    yield Words(say("binds", binds=say.listed(binds)))


def plan_name(got: Gathered, row: int) -> str:
    """A row of the front as a reader types it."""
    return str(got.front["plan"][row])


def place(got: Gathered, row: int) -> str:
    """A row that was drawn, as a plan at a site."""
    at = int(got.drawn_rows[row])
    return f"{plan_name(got, at)} @ {got.word('site', at)}"


def period(got: Gathered, say: Say) -> str:
    """What the cost is of: the run, a year, the life."""
    return say(f"period_{got.study.kind}")


def banded(got: Gathered, name: str) -> tuple[str, str]:
    """Both ends of the band of a figure of the plan."""
    low, high = (_known(got.value(f"{name}_{end}")) for end in ("low", "high"))
    return human(low, unit_of(name)), human(high, unit_of(name))


def money(value: float) -> str:
    """Dollars as read."""
    return human(_known(value), "USD")


def _known(value: float) -> float | None:
    return None if np.isnan(value) else value


def _what(got: Gathered, say: Say) -> str:
    acquire = got.word("acquire")
    key = "buy" if acquire == "buy" else "lease" if acquire == "lease" else "rent"
    return say(
        key,
        units=say("units", count=figure(got.value("purchase_units"))),
        devices=figure(got.value("devices")),
        chip=got.word("accelerator"),
        site=got.word("site"),
        acquire=acquire,
        capex=money(got.value("capex_usd")),
        usd=money(got.value(MONEY)),
        period=period(got, say),
        band=_band(got, MONEY, say),
    )


def _band(got: Gathered, name: str, say: Say) -> str:
    """The band of a figure in words; nothing where it is given."""
    low, high = banded(got, name)
    return "" if low == high else say("band", low=low, high=high)


def _does(got: Gathered, say: Say) -> str:
    if got.study.kind == "train":
        days = human(got.value("days"), "day")
        return say("does_train", days=days, band=_band(got, "days", say))
    if got.study.kind == "serve":
        return say(
            "does_serve",
            ttft=human(_known(got.value("ttft_s_p95")), "s"),
            tpot=human(_known(got.value("tpot_s_p95")), "s"),
            per_mtoken=money(got.value("usd_per_mtoken_total")),
        )
    return say(
        "does_hardware",
        flops=human(_known(got.value("peak_flop_per_s")), "flop/s"),
        mw=human(_known(got.value("facility_peak_w")), "W"),
    )


def _saving(got: Gathered, say: Say) -> str:
    """What renting the same would cost, for what is bought."""
    if got.word("acquire") != "buy":
        return ""
    if got.study.kind == "hardware":
        rent, own = got.value("rent_npv_usd"), got.value("own_npv_usd")
    else:
        rent, own = got.value("rent_usd"), got.value(MONEY)
    if np.isnan(rent):
        return say("no_rent")
    months = got.value("payback_months")
    is_ahead = rent > own and np.isfinite(months)
    return say(
        "saves" if is_ahead else "saves_never",
        rent=money(rent),
        period=period(got, say),
        saved=money(abs(rent - own)),
        months=figure(months),
    )


def _replayed(got: Gathered, say: Say) -> str:
    """What replaying the plan found; that nobody has, where its kind has requests to replay."""
    if got.study.kind != "serve":
        return ""
    found = got.replayed
    if found is None:
        return say("not_replayed")
    if not found.is_short:
        return say("replayed_kept", replicas=figure(found.replicas))
    needed, own = figure(found.needed), figure(found.replicas)
    return say("replayed_short", needed=needed, replicas=own, broken=found.broken or "–")


def _at_risk(got: Gathered, say: Say) -> Iterator[str]:
    """Limits that the plan keeps in the middle of its band and breaks at the end of it."""
    for name, bound in got.study.limits.items():
        end = "low" if is_at_least(name) else "high"
        worst = got.value(f"{name}_{end}")
        if np.isfinite(worst) and (worst < bound if end == "low" else worst > bound):
            figures = (human(value, unit_of(name)) for value in (worst, bound))
            yield say("at_risk", **dict(zip(("worst", "bound"), figures, strict=True)),
                      metric=say.metric(name))  # fmt: skip


def _share(got: Gathered, say: Say) -> str:
    """That a run pays its share of what is bought, and who must use the rest."""
    if got.study.kind != "train" or got.word("acquire") != "buy":
        return ""
    life_hours = float(got.ends.middle.terms.it_life_years[0]) * HOURS_PER_YEAR
    share = float(got.ends.middle.run.hours[0]) / life_hours
    used = float(got.ends.middle.terms.utilisation_frac[0])
    return say("share", usd=money(got.value(MONEY)), share=f"{share:.1%}", used=f"{used:.0%}")


def _lead(say: Say) -> str:
    """Weeks until servers are there, where a source says."""
    weeks = lead_weeks().get("servers")
    if not weeks:
        return ""
    return say("lead", low=weeks["lead_low_weeks"], high=weeks["lead_high_weeks"])


def _odds(got: Gathered, say: Say) -> str:
    at = got.drawn_at(got.choice.row)
    front = got.odds.front_frac()[at]
    return say("odds", draws=figure(DRAWS), front=f"{front:.0%}")


def _flips(got: Gathered, say: Say) -> str:
    """Scenarios in which another plan is cheaper; or that one is as things are."""
    first, *others = got.outcomes
    cases = [
        (say.name(one.name), place(got, one.best_row), money(one.regret))
        for one in got.outcomes
        if one.regret > SAME_FRAC * abs(one.value)
    ]
    if cases and cases[0][0] == say.name(first.name):
        return say("flips_now", plan=cases[0][1], less=cases[0][2])
    if cases:
        told = [say("flip_case", scenario=n, plan=plan, less=less) for n, plan, less in cases]
        return say("flips", cases=say.listed(told), count=len(others) - len(cases))
    names = say.listed([say.name(one.name) for one in others])
    return say("flips_never", count=len(others), scenarios=names) if others else ""


def _rule(got: Gathered, say: Say) -> str:
    names = list(got.signs)
    metric = next((n for n in MONEY_METRICS if n in names), names[0])
    rule = say(f"rule_{got.choice.rule}", metric=say.metric(metric))
    rule += _not_measured(got, say, metric)
    if got.choice.rule not in (ASKED, CHEAPEST, KNEE):
        return rule
    picks = {name: plan_name(got, row) for name, row in got.choice.picks.items()}
    return rule + (" " if say.language == "en" else "") + say("rule_others", **picks)


def _not_measured(got: Gathered, say: Say, metric: str) -> str:
    """That a better plan was passed over, since nobody has measured its chip."""
    best = next(iter(row for row in got.choice.rows if metric in got.choice.best_in[row]), -1)
    is_passed = best >= 0 and best != got.choice.row and got.value("validated", best) == 0
    if got.choice.rule == ASKED or not is_passed:
        return ""
    apart = " " if say.language == "en" else ""
    return apart + say(
        "rule_passed", plan=plan_name(got, best), chip=got.word("accelerator", best)
    )


def _why(got: Gathered, row: int, say: Say) -> str:
    """Why a candidate is in the table, and what it gains and loses against the choice."""
    best = got.choice.best_in.get(row, ())
    why = (
        say("best_in", metrics=say.listed([say.metric(n) for n in best]))
        if best
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
    best = plan_name(got, int(np.nanargmin(rows)))
    named = {row: str(i + 1) for i, row in enumerate(got.choice.rows)}
    chips = {str(name) for name in got.front["accelerator"]}
    colour = "accelerator" if len(chips) > 1 else "site"
    if "scenario" in got.front and len({str(s) for s in got.front["scenario"]}) > 1:
        colour = "scenario"
    words = say("front_words", count=figure(len(rows)), x=say.metric(other), y=say.metric(cost))
    title = say("front_title", best=best, count=figure(len(rows)))
    return Picture(title, words, charts.front(got.front, pair, got.choice.row, named, colour, say))
