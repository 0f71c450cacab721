"""The first page: what to buy, for how much, what may go wrong and what would change it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from costdata.tco import HOURS_PER_YEAR, MONTHS_PER_YEAR
from planner.documents.figures import figure, human, unit_of
from planner.exports.bill_of_materials import lead_weeks
from planner.metrics import is_at_least
from planner.report.blocks import Block, Heading, Points, Words
from planner.report.choice import ASKED, CHEAPEST, KNEE, RATIO, wanted_most
from planner.report.choice import MONEY as MONEY_METRICS
from planner.report.gather import DRAWS, MONEY, Gathered
from planner.report.validity import not_validated
from planner.report.what_if import SAME_FRAC
from planner.report.words import Say
from planner.study.pools import has_pools

MOST_CHANGERS = 3


def decision(got: Gathered, say: Say) -> Iterator[Block]:
    """The sentence with amount, saving and payback, and what would change it."""
    yield Heading(say("decision"))
    yield Words(_what(got, say), is_decision=True)
    lines = [
        _stale(got, say),
        _does(got, say),
        _replayed(got, say),
        *_at_risk(got, say),
        _share(got, say),
        _saving(got, say),
        _life(got, say),
        _lead(say),
        _odds(got, say),
    ]
    if got.swings:
        names = [say.name(swing.name) for swing in got.swings[:MOST_CHANGERS]]
        lines.append(say("changes", inputs=say.listed(names)))
    lines.append(_flips(got, say))
    lines.append(not_validated(got, say))
    yield Points([line for line in lines if line])
    yield Words(_rule(got, say))


def sentence(got: Gathered, language: str) -> str:
    """What to buy, in one sentence."""
    return _what(got, Say(language))


def plan_name(got: Gathered, row: int) -> str:
    """A row of the front as a reader types it."""
    return str(got.front["plan"][row])


def place(got: Gathered, row: int) -> str:
    """A row that was drawn, as a plan at a site."""
    at = int(got.drawn_rows[row])
    hardware = f"{figure(got.value('devices', at))} × {got.word('accelerator', at)}"
    return f"{hardware} ({named(got, at)})"


def named(got: Gathered, row: int) -> str:
    """A plan with its site: the same plan may be on the front at several."""
    site = got.word("site", row)
    return f"{plan_name(got, row)} @ {site}" if site else plan_name(got, row)


def period(got: Gathered, say: Say) -> str:
    """What the cost is of: the run, a year, the life."""
    return say(f"period_{got.study.kind}")


def banded(got: Gathered, name: str) -> tuple[str, str]:
    """Both ends of the band of a figure of the plan."""
    low, high = (known(got.value(f"{name}_{end}")) for end in ("low", "high"))
    return human(low, unit_of(name)), human(high, unit_of(name))


def money(value: float) -> str:
    """Dollars as read."""
    return human(known(value), "USD")


def known(value: float) -> float | None:
    """None for what is not known."""
    return None if np.isnan(value) else value


def _what(got: Gathered, say: Say) -> str:
    acquire = got.word("acquire")
    key = "buy" if acquire == "buy" else "lease" if acquire == "lease" else "rent"
    chip = got.word("accelerator")
    first = say("stale") if got.stale else ""
    first += "" if got.is_held_by_replay else say("not_ready")
    return (
        first
        + _case(got, say)
        + say(
            key,
            units=_units(got, say),
            devices=figure(got.value("devices")),
            chip=chip,
            rest=_rest(got, say),
            saving=_saved(got, say),
            site=got.word("site"),
            acquire=acquire,
            capex=money(got.value("capex_usd")),
            usd=money(got.value(MONEY)),
            period=period(got, say),
            band=_band(got, MONEY, say),
        )
    )


def _case(got: Gathered, say: Say) -> str:
    """Which of the study's cases the sentence is of; nothing where it has one."""
    words = got.word("scenario")
    return (
        say("case", scenario=say.case(words))
        if words and len(set(got.front["scenario"])) > 1
        else ""
    )


def _units(got: Gathered, say: Say) -> str:
    """Servers, or racks where a unit holds several, and devices of each; each size apart."""
    counts: dict[tuple[str, float], float] = {}
    for bill in got.ends.middle.bills:
        word = "racks" if bill.hosts_per_unit[0] > 1 else "servers"
        size = word, float(bill.devices_per_unit[0])
        counts[size] = counts.get(size, 0.0) + float((bill.purchase_units + bill.spare_units)[0])
    return say.listed(
        [say(word, count=figure(n), each=figure(each)) for (word, each), n in counts.items()]
    )


def _rest(got: Gathered, say: Say) -> str:
    """Devices that are paid for and do not work: those left over in their units, and spares."""
    bills = got.ends.middle.bills
    counts = {
        "left_over": [bill.stranded_devices for bill in bills],
        "spare": [bill.spare_devices for bill in bills],
    }
    found = {key: sum(float(np.asarray(n)[0]) for n in each) for key, each in counts.items()}
    parts = [say(key, count=figure(n)) for key, n in found.items() if n > 0]
    return say("rest", parts=say.listed(parts)) if parts else ""


def _saved(got: Gathered, say: Say) -> str:
    """Saving and payback in few words; nothing where there is none, or no rent is known."""
    rent, own = _rent_and_own(got)
    months = got.value("payback_months")
    if got.word("acquire") != "buy" or not rent > own or not _is_repaid(got):
        return ""
    key = "saved_worth" if got.study.kind == "hardware" else "saved"
    return say(key, saved=money(rent - own), months=figure(months))


def _rent_and_own(got: Gathered) -> tuple[float, float]:
    """What renting the same and owning it cost, on one basis [$]."""
    if got.study.kind == "hardware":
        return got.value("rent_npv_usd"), got.value("own_npv_usd")
    return got.value("rent_usd"), got.value(MONEY)


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
            ttft=human(known(got.value("ttft_s_p95")), "s"),
            tpot=human(known(got.value("tpot_s_p95")), "s"),
            per_mtoken=money(got.value("usd_per_mtoken_total")),
        )
    return say(
        "does_hardware",
        flops=human(known(got.value("peak_flop_per_s")), "flop/s"),
        mw=human(known(got.value("facility_peak_w")), "W"),
    )


def _saving(got: Gathered, say: Say) -> str:
    """What renting the same would cost, for what is bought."""
    if got.word("acquire") != "buy":
        return ""
    rent, own = _rent_and_own(got)
    if np.isnan(rent):
        return say("no_rent")
    months = got.value("payback_months")
    key = "saves_never" if rent <= own else "saves" if _is_repaid(got) else "saves_end"
    return say(
        key,
        rent=money(rent),
        own=money(own),
        period=say("period_worth") if got.study.kind == "hardware" else period(got, say),
        saved=money(abs(rent - own)),
        months=figure(months),
    )


def _is_repaid(got: Gathered) -> bool:
    """Owning has paid for itself before its life ends, whatever it is worth then."""
    life = float(got.ends.middle.terms.it_life_years[0])
    return bool(got.value("payback_months") <= life * MONTHS_PER_YEAR)


def _life(got: Gathered, say: Say) -> str:
    """All that owning costs over its life, as the years of the cash flow come to."""
    flow = got.cash
    if flow is None:
        return ""
    parts = {"capex": flow.paid.sum(), "running": flow.running.sum(), "left": flow.left.sum()}
    total = parts["capex"] + parts["running"] - parts["left"]
    return say(
        "owned_life",
        years=figure(float(flow.years[-1])),
        total=money(total),
        rent=money(float(flow.rent.sum())),
        **{name: money(float(value)) for name, value in parts.items()},
    )


def _replayed(got: Gathered, say: Say) -> str:
    """What replaying the plan found; that nobody has, where its kind has requests to replay."""
    if got.study.kind != "serve":
        return ""
    found = got.replayed
    if got.is_as_replayed:
        return " ".join([_fleet(got, say), *_beside_closed(got, say)])
    if found is None:
        key = "not_replayed_pools" if has_pools(got.study) else "not_replayed"
        return " ".join([say(key), *_others_replayed(got, say)])
    if not found.is_short:
        return say("replayed_kept", replicas=figure(found.replicas))
    needed, own = figure(found.needed), figure(found.replicas)
    return say("replayed_short", needed=needed, replicas=own, broken=found.broken or "–")


def _fleet(got: Gathered, say: Say) -> str:
    """The fleet that the replay holds up, and the closed form's where it is another."""
    needed, closed = got.value("replicas"), ""
    if got.replayed and got.replayed.replicas != needed:
        closed = say("replayed_closed", replicas=figure(got.replayed.replicas))
    return say(
        "replayed_fleet",
        needed=figure(needed),
        devices=figure(got.value("devices")),
        closed=closed,
    )


def _beside_closed(got: Gathered, say: Say) -> Iterator[str]:
    """What was replayed and holds, and why a cheaper price of the closed form does not count."""
    yield say("only_replayed", held=figure(len(got.held)), all=figure(len(got.replays)))
    closed = got.closed
    row = int(np.nanargmin(np.asarray(closed[MONEY], float)))
    value, plan = float(closed[MONEY][row]), str(closed["plan"][row])
    if value >= got.value(MONEY) * (1.0 - SAME_FRAC):
        return
    known = got.replays.get(plan)
    state = (
        say("closed_unseen")
        if known is None
        else say("closed_short", needed=figure(known.needed), replicas=figure(known.replicas))
        if known.is_short
        else say("closed_same")
    )
    yield say(
        "closed_cheaper",
        hardware=f"{figure(float(closed['devices'][row]))} × {closed['accelerator'][row]}",
        site=closed["site"][row],
        plan=plan,
        value=money(value),
        front=figure(len(closed["plan"])),
        state=state,
    )


def _others_replayed(got: Gathered, say: Say) -> Iterator[str]:
    """What replays found of other plans of the run: how short they were, and the cheapest held."""
    short = {name: one for name, one in got.replays.items() if one.is_short and one.replicas}
    if short:
        most = max(one.needed / one.replicas - 1.0 for one in short.values())
        yield say("others_short", count=len(short), all=len(got.replays), most=f"{most:.0%}")
    summary = got.record.summary
    held = list(summary.tiers.get("front", ())) if summary else []
    metric = next((n for n in MONEY_METRICS if got.signs.get(n) == 1.0), "")
    known = [row for row in held if metric and row.get(metric) is not None]
    if known:
        best = min(known, key=lambda row: float(row[metric]))
        yield say(
            "cheapest_replayed",
            hardware=f"{figure(best['devices'])} × {best['accelerator']}",
            site=best["site"],
            plan=best["plan"],
            value=human(float(best[metric]), unit_of(metric)),
            metric=say.metric(metric),
            replicas=figure(got.replays[best["plan"]].needed)
            if best["plan"] in got.replays
            else "–",
        )


def _at_risk(got: Gathered, say: Say) -> Iterator[str]:
    """Limits that the plan keeps in the middle of its band and breaks at the end of it."""
    for name, bound in got.study.limits.items():
        end = "low" if is_at_least(name) else "high"
        worst = got.value(f"{name}_{end}")
        if np.isfinite(worst) and (worst < bound if end == "low" else worst > bound):
            figures = (human(value, unit_of(name)) for value in (worst, bound))
            drawn = got.drawn_alone(name)
            missed = np.mean(drawn < bound if end == "low" else drawn > bound)
            yield say("at_risk", **dict(zip(("worst", "bound"), figures, strict=True)),
                      metric=say.metric(name), missed=f"{missed:.0%}",
                      draws=figure(DRAWS))  # fmt: skip


def _share(got: Gathered, say: Say) -> str:
    """That a run pays its share of what is bought, and who must use the rest."""
    if got.study.kind != "train" or got.word("acquire") != "buy":
        return ""
    life_hours = float(got.ends.middle.terms.it_life_years[0]) * HOURS_PER_YEAR
    share = float(got.ends.middle.run.hours[0]) / life_hours
    used = float(got.ends.middle.terms.utilisation_frac[0])
    told = say("share", usd=money(got.value(MONEY)), share=f"{share:.1%}", used=f"{used:.0%}")
    is_reserved = np.isfinite(got.value("rent_usd")) and not bool(
        got.ends.middle.prices.rent_is_by_hour[0]
    )
    apart = " " if say.language == "en" else ""
    return told + (apart + say("share_reserved") if is_reserved else "")


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
        if one.is_beaten
    ]
    if cases and cases[0][0] == say.name(first.name):
        return say("flips_now", plan=cases[0][1], less=cases[0][2])
    if cases:
        told = [say("flip_case", scenario=n, plan=plan, less=less) for n, plan, less in cases]
        return say("flips", cases=say.listed(told), count=len(others) - len(cases))
    names = say.listed([say.name(one.name) for one in others])
    return say("flips_never", count=len(others), scenarios=names) if others else ""


def _stale(got: Gathered, say: Say) -> str:
    """How far the facts of now have left the stored run; "" where they have not."""
    told = [words.partition(": every figure")[0] for words in got.stale.values()]
    return say("stale_how", how="; ".join(told)) if told else ""


def _rule(got: Gathered, say: Say) -> str:
    names = list(got.signs)
    metric = next((n for n in MONEY_METRICS if n in names), names[0])
    most = wanted_most(got.signs)
    per = say.metric(most) if most else ""
    rule = say(f"rule_{got.choice.rule}", metric=say.metric(metric), per=per)
    rule += _not_measured(got, say, metric)
    if got.choice.rule not in (ASKED, CHEAPEST, RATIO, KNEE):
        return rule
    picks = {name: named(got, row) for name, row in got.choice.picks.items()}
    return rule + (" " if say.language == "en" else "") + say("rule_others", **picks)


def _not_measured(got: Gathered, say: Say, metric: str) -> str:
    """That a better plan was passed over, since nobody has measured its chip."""
    best = next(iter(row for row in got.choice.rows if metric in got.choice.best_in[row]), -1)
    is_passed = best >= 0 and best != got.choice.row and got.value("validated", best) == 0
    if got.choice.rule == ASKED or not is_passed:
        return ""
    apart = " " if say.language == "en" else ""
    return apart + say("rule_passed", plan=named(got, best), chip=got.word("accelerator", best))
