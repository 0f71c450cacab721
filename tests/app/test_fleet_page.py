"""The page of purchase plans, on a plan with gates and on a study that has none."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from planner.archive.store import Archive
from planner.archive.stored_purchase import decided
from planner.documents import answers as commands
from planner.documents import purchase_rows
from planner.fleet.follow import books
from planner.report.blocks import Heading, Listing, Picture, Points, Table, Words
from planner.report.purchase import decision_of, purchase_bytes, purchase_paper, reported

ROOT = Path(__file__).resolve().parents[2]


def opened(db, monkeypatch, name="fleet"):
    """A page of the app on a database."""
    monkeypatch.setenv("PLANNER_DB", str(db))
    page = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60).run()
    page.switch_page(f"planner/pages/{name}.py").run()
    assert not page.exception
    return page


@pytest.mark.long
def test_a_purchase_plan_is_told_whole(gated, monkeypatch):
    """A buyer would not see what to order by when, or what it is compared with."""
    page = opened(gated, monkeypatch)
    heads = [head.value for head in page.subheader]
    for words in (
        "Beside other ways",
        "Purchase calendar",
        "Order list",
        "Cash flow and payback",
        "Capacity against demand",
        "Power against its caps",
        "Carbon of each year",
    ):
        assert words in heads  # fmt: skip
    told = " ".join(line.value for line in page.markdown)
    assert "gate at period 1 (boom or calm)" in told
    assert "renting everything would cost" in told


@pytest.mark.long
def test_each_future_has_a_calendar_of_its_own(gated, monkeypatch):
    """What waits for an observation would be shown as if it were sure."""
    page = opened(gated, monkeypatch)
    document = commands.explain(gated, "1", "1")
    assert purchase_rows.futures_of(document) == ["boom", "calm"]
    boom, calm = (purchase_rows.way(document, name) for name in ("boom", "calm"))
    assert [node["period"] for node in boom] == [0, 1, 2] == [node["period"] for node in calm]
    assert boom[0] == calm[0]
    assert boom[2]["demand"]["chat"] == pytest.approx(2 * calm[2]["demand"]["chat"])
    page.selectbox(key="keep_future").set_value("calm").run()
    assert not page.exception


def test_rows_of_charts_are_the_documents_own_figures(gated):
    """A chart would show other dollars than the plan costs."""
    document = commands.explain(gated, "1", "1")
    cash = [r for r in purchase_rows.cash_rows(document) if r["plan"] == purchase_rows.THIS]
    assert cash[-1]["spent"] == pytest.approx(sum(document["cash_usd"]) / 1e6)
    nodes = purchase_rows.way(document, "boom")
    carbon = sum(r["t"] for r in purchase_rows.carbon_rows(document, nodes))
    assert carbon == pytest.approx(sum(n["kgco2e"] for n in nodes) / 1e3)
    caps = {r["site"]: r["MW"] for r in purchase_rows.power_rows(document, nodes)
            if r["what"] == "cap"}  # fmt: skip
    assert caps == {"us-tx": 1.0}
    names = [row["plan"] for row in purchase_rows.compared_rows(document)]
    assert names == ["this plan", "rent everything", "all at once", "do nothing"]


@pytest.mark.long
def test_other_pages_open_on_a_purchase_plan(gated, monkeypatch):
    """A page would end in a traceback for want of a training run."""
    for name in ("front", "why", "removed", "assumptions"):
        assert not opened(gated, monkeypatch, name).error


@pytest.mark.long
def test_other_runs_are_told_what_the_page_is_for(stored, monkeypatch):
    """A training run would end in a traceback."""
    page = opened(stored.db, monkeypatch)
    assert "purchase plans" in page.info[0].value


@pytest.mark.long
def test_a_purchase_plan_is_reported_on_the_page(gated, monkeypatch):
    """The page would refuse what the command writes."""
    page = opened(gated, monkeypatch, "report")
    assert not page.error
    assert any("worth today" in info.value for info in page.info)
    page.button(key="make_report").click().run()
    assert not page.exception
    assert page.session_state["report"][1].startswith(b"%PDF")


@pytest.mark.long
def test_a_purchase_report_says_what_to_order_and_what_it_assumes(gated):
    """A board would read a number of servers and not of which chip, and no source of a price."""
    got = reported(Archive(gated), "1")
    record, document = got.record, got.document
    said = decision_of(document)
    assert said.startswith("Order whatever comes, the first ")
    bought = {o["chip"] for o in document["orders"] if o["how"] == "buy" and not o["future"]}
    assert all(f"racks of {chip} for" in said for chip in bought)
    blocks = purchase_paper(got).blocks
    heads = [block.text for block in blocks if isinstance(block, Heading)]
    assert heads[-3:] == ["Assumptions", "What was left out", "How to reproduce"]
    assert blocks[-1] == Listing(record.start.study_text.strip())


LEFT_IN_ENGLISH = re.compile(
    r"worth today|renting|order by|arrives|period|rented|nothing|below the gap|Beside|Decision"
)


@pytest.mark.long
def test_a_purchase_report_is_there_in_chinese(gated):
    """A board would be shown a page in two languages, or another amount in one of them."""
    got = reported(Archive(gated), "1")
    said = {}
    for language in ("en", "zh"):
        found = []
        for block in purchase_paper(got, language).blocks:
            match block:
                case Heading(text) | Words(text):
                    found.append(text)
                case Points(lines):
                    found += lines[: -len(got.document["notes"])] or lines[:1]
                case Table(title, heads, rows):
                    is_fact = len(rows) and len(heads) == 6 and heads[-1] in ("source", "来源")
                    found += [title, *heads, *([] if is_fact else [c for r in rows for c in r])]
                case Picture(title, words):
                    found += [title, words]
        said[language] = "\n".join(found)
    assert not LEFT_IN_ENGLISH.search(said["zh"].split("假设登记")[0])
    figures = {n: set(re.findall(r"\d[\d.,]* (?:M|k)\$", text)) for n, text in said.items()}
    assert figures["en"] == figures["zh"]
    assert "决策建议" in said["zh"]
    assert purchase_bytes(got, "xlsx", "zh").startswith(b"PK")


@pytest.mark.long
def test_a_purchase_report_says_what_the_plan_hangs_on(gated):
    """A board would sign a point, and not see which price moves it, nor how far."""
    got = reported(Archive(gated), "1")
    found = got.outlook
    own = got.document["metrics"]["own_npv_usd"]
    assert found.now == pytest.approx(own, rel=1e-9) == found.then
    names = [swing.name for swing in found.swings]
    assert {"price of servers", "rent"} <= set(names)
    assert not {"time of the run", "size of the fleet"} & set(names)
    assert all(min(s.at_low, s.at_high) <= own * (1 + 1e-9) for s in found.swings)
    cases = {one.name: one for one in found.cases}
    base, dearer = cases["as it is"].value, cases["servers +30%"]
    assert base == pytest.approx(own, rel=1e-9)
    assert dearer.value > base > cases["servers -20%"].value
    assert all(one.best <= one.value for one in found.cases)


@pytest.mark.long
def test_what_servers_do_to_a_plan_is_their_price_less_what_is_left(gated):
    """The tornado would move another sum than the one that is paid for servers."""
    archive = Archive(gated)
    problem, plan = decided(archive.front("1"), 0, "1")
    kept = books(problem, plan)
    found = reported(archive, "1").outlook
    cases = {one.name: one.value for one in found.cases}
    dearer = replace(problem, deals=[
        replace(d, usd=d.usd * 1.3) if d.name == "buy" else d for d in problem.deals
    ])  # fmt: skip
    most = books(dearer, plan).npv_cost_usd - kept.npv_cost_usd
    # servers are a part of what a unit is bought with, and upkeep follows their price
    assert 0.5 * most < cases["servers +30%"] - cases["as it is"] < 2.0 * most
