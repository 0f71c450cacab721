"""Titles of the charts of a purchase report: what the chart shows, in figures of the plan."""

import pytest

from planner.report.purchase_findings import emitted, powered, served, spent
from planner.report.words import Say

EN = Say("en")


def load(year, what, multiples, stream="chat"):
    """A row of capacity or demand."""
    return {"year": year, "what": what, "multiples": multiples, "stream": stream}


def test_the_stream_that_is_served_least_is_named():
    """A board would read "capacity" over a chart in which a stream goes without."""
    rows = [load(y, w, m) for y, w, m in (
        (0.0, "capacity", 1.0), (0.0, "demand", 1.0), (1.0, "capacity", 1.5), (1.0, "demand", 2.0),
    )]  # fmt: skip
    assert served(rows, EN) == "chat is served least in year 1: 75% of what is asked"
    assert served(rows[:2], EN).startswith("Everything that is asked is served")
    assert served([load(0.0, "demand", 0.0), load(0.0, "capacity", 0.0)], EN)


def test_what_is_spent_is_the_end_of_each_line():
    """The title would give another total than the chart below it."""
    rows = [
        {"year": y, "spent": usd, "plan": plan}
        for plan, line in (("this plan", (0.4, 5.0)), ("rent everything", (0.3, 3.5)))
        for y, usd in enumerate(line, 1)
    ]
    assert "5 M$ are spent by the end, 3.5 M$ when everything is rented" in spent(rows, EN)
    assert spent(rows[:2], EN) == "5 M$ are spent by the end"


@pytest.mark.parametrize("language", ["en", "zh"])
def test_power_and_carbon_are_those_of_the_worst_site_and_year(language):
    """A title would praise a site that is at its cap."""
    say = Say(language)
    rows = [{"year": 0, "MW": mw, "site": site, "what": "provided"}
            for site, mw in (("se", 0.5), ("us-tx", 2.0))]  # fmt: skip
    assert "us-tx" in powered(rows, say)
    cap = {"year": 0, "MW": 3.0, "site": "us-tx", "what": "cap"}
    assert "3 MW" in powered([*rows, cap], say)
    tonnes = [{"year": y, "t": t, "what": "emitted"} for y, t in ((0, 10.0), (1, 30.0))]
    assert "30 tCO2e" in emitted(tonnes, say)
    assert emitted([], say) == say("fleet_carbon")
