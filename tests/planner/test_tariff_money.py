"""Currency and year of every kind of tariff, in notes, in an explanation and in both reports."""

import pytest
from small import planner

from costdata import catalog as catalogue
from planner.costing.notes import costing_notes
from planner.costing.tariff_money import tariff_prices
from planner.costing.terms import supply_given
from planner.report.basis import electricity
from planner.report.words import Say
from planner.study.settings import with_settings

CATALOG = catalogue.load()
SITE_YEAR, OTHER_YEAR = "2023", "2025"  # EIA revenue a kWh; Ember wholesale price
OF_SITE = f"price of us-tx per kWh, of {SITE_YEAR}"
YEAR = "costing.bill_year=2027"
DEMAND = "costing.demand_usd_per_kw_month=9"
PEAK = "costing.time_of_use=[{ from_hour = 14, to_hour = 20, usd_per_kwh = 0.2 }]"
ALL_DAY = "costing.time_of_use=[{ from_hour = 0, to_hour = 24, usd_per_kwh = 0.2 }]"
TIERS = (
    "costing.energy_tiers=[{ up_to_kwh_per_month = 1e6, usd_per_kwh = 0.1 }, "
    "{ usd_per_kwh = 0.07 }]"
)
WIND = 'costing.sources=[{ name = "wind", mw = 2, usd_per_kwh = 0.045, shape = "wind" }]'
UNSAID = "of a year that the study does not say (costing.bill_year)"
KINDS = {
    "flat, the site's": ((), [OF_SITE], [f"us-tx每千瓦时电价（{SITE_YEAR}）"]),
    "flat, of two sites": (
        ('costing.site=["us-tx", "de"]',), [OF_SITE, f"price of de per kWh, of {OTHER_YEAR}"],
        [f"de每千瓦时电价（{OTHER_YEAR}）"],
    ),
    "flat, the study's": (
        ("costing.usd_per_kwh=0.06", YEAR), ["the study's price per kWh, of 2027"],
        ["研究自定每千瓦时电价（2027）"],
    ),
    "flat, of no year": (
        ("costing.usd_per_kwh=0.06",), [f"the study's price per kWh, {UNSAID}"], ["未注明年份"],
    ),
    "demand": (
        (DEMAND, YEAR), [OF_SITE, "demand charge, of 2027"], ["需量电费（2027）"],
    ),
    "demand, of no year": ((DEMAND,), [OF_SITE, f"demand charge, {UNSAID}"], ["未注明年份"]),
    "by the hour": (
        (PEAK, YEAR), ["prices by the hour, of 2027", OF_SITE], ["分时电价（2027）"],
    ),
    "by every hour": ((ALL_DAY, YEAR), ["prices by the hour, of 2027"], ["分时电价（2027）"]),
    "in tiers": ((TIERS, YEAR), ["prices in tiers, of 2027"], ["阶梯电价（2027）"]),
    "contract": (
        (WIND, YEAR), ["contract or plant wind, of 2027", OF_SITE], ["自备电源wind（2027）"],
    ),
    "leased": (("costing.acquire=lease",), [OF_SITE], [f"us-tx每千瓦时电价（{SITE_YEAR}）"]),
}  # fmt: skip
"""Settings of a tariff, and what its note and its Chinese report say of its money."""


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_tariff_says_its_currency_and_its_year(dense, kind):
    """Prices of 2023 and of 2027 would be added up with nothing said."""
    given, english, chinese = KINDS[kind]
    study = with_settings(dense.engine.study, ["costing.site=us-tx", *given])
    wanted = f"billed in US dollars: {'; '.join(english)}"
    assert costing_notes(study, CATALOG, None)["electricity"] == wanted
    (of_report,) = electricity(study.costing, CATALOG, Say("en"))
    assert of_report.text == f"Electricity is billed in US dollars: {', '.join(english)}."
    (translated,) = electricity(study.costing, CATALOG, Say("zh"))
    assert translated.text.startswith("电费以美元计：")
    assert all(words in translated.text for words in chinese)


@pytest.mark.parametrize("acquire", ["reserved", "on_demand", "spot"])
def test_rent_holds_electricity(dense, acquire):
    """A price that nobody pays would be told as paid."""
    study = with_settings(dense.engine.study, [f"costing.acquire={acquire}"])
    assert tariff_prices(study.costing, CATALOG) == []
    assert "electricity" not in costing_notes(study, CATALOG, None)
    assert list(electricity(study.costing, CATALOG, Say("en"))) == []


def test_the_year_of_a_flat_price_bills_no_calendar(dense):
    """Saying the year of a price would change the bill."""
    study = with_settings(dense.engine.study, ["costing.usd_per_kwh=0.06", YEAR])
    assert supply_given(study.costing) is None


@pytest.mark.long
def test_a_run_and_an_explanation_tell_it(workspace):
    """The money of the bill would be told in one place and looked for in another."""
    told = workspace.documents[0]["notes"]["electricity"]
    assert told.startswith(f"billed in US dollars: {OF_SITE}; price of se per kWh, of 20")
    shown, at_se = (
        " ".join(planner(*words, "--db", workspace.db).out.split())
        for words in (("show", "1"), ("explain", "1", "1", "--site", "se"))
    )
    assert f"electricity: {told}" in shown
    assert "electricity: billed in US dollars: price of se per kWh, of 20" in at_se


def test_an_evaluation_tells_it(workspace):
    """Whoever tries a tariff before a run would not see the years that it mixes."""
    words = ("--set", "costing.site=us-tx", "--set", DEMAND, "--set", YEAR, "--json")
    notes = planner("evaluate", workspace.study, *words).document["notes"]
    assert notes["electricity"] == f"billed in US dollars: {OF_SITE}; demand charge, of 2027"
