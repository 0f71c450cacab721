"""Reports of small runs: what they say is what the run says, whatever the file."""

import json
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import recalculated
from small import DENSE, planner
from small_hardware import OPEN

from planner.archive.store import Archive
from planner.costing.recost import repriced
from planner.documents.figures import human
from planner.report import charts
from planner.report.basis import given_rows, weakest_first
from planner.report.blocks import Points, Table
from planner.report.choice import chosen, objectives
from planner.report.decision import decision, sentence
from planner.report.gather import gather
from planner.report.html import html
from planner.report.paper import paper
from planner.report.pdf import pdf
from planner.report.replayed import OfReplay, replays_of
from planner.report.sums import cost_lines
from planner.report.words import Say, _phrases
from planner.report.xlsx import xlsx
from planner.study.read import study_from_text
from planner.training.engine import catalogue_names
from simkernel.errors import BadStudy, UnknownName


@pytest.fixture(scope="module")
def db(tmp_path_factory):
    """A training run, and a run of hardware alone against a rent."""
    folder = tmp_path_factory.mktemp("report")
    texts = {
        "small": DENSE,
        "<b>odd & =1+1": DENSE.replace('"small"', '"<b>odd & =1+1"').replace("[1, 2]", "1"),
        "open": OPEN + '\n[objectives]\nminimise = ["own_npv_usd"]\nmaximise = ["npv_usd"]\n',
    }
    for i, text in enumerate(texts.values()):
        study = folder / f"s{i}.toml"
        study.write_text(text)
        assert planner("run", study, "--db", folder / "p.duckdb", "--json").code == 0
    return folder / "p.duckdb"


@pytest.fixture(scope="module")
def got(db):
    """The training run, gathered."""
    return gather(Archive(db), "1")


@pytest.fixture(scope="module")
def owned(db):
    """The hardware run, gathered."""
    return gather(Archive(db), "3")


def texts(document):
    """Everything that a paper says."""
    for block in document.blocks:
        for value in vars(block).values():
            if isinstance(value, str):
                yield value
            elif isinstance(value, list | tuple):
                for row in value:
                    yield from row if isinstance(row, list | tuple) else [str(row)]


def test_the_choice_is_the_cheapest_plan_and_the_sentence_has_its_figures(got):
    """A board would read another amount than the front has."""
    usd = np.asarray(got.front["usd"], float)
    assert got.choice.rule == "cheapest"
    assert usd[got.choice.row] == usd.min()
    said = next(iter(paper(got, "en").blocks[1].text.splitlines()))
    for name in ("usd", "capex_usd"):
        assert human(got.value(name), "USD") in said
    assert str(got.front["site"][got.choice.row]) in said


def test_a_named_plan_is_the_one_that_is_reported(db, got):
    """A person who asked for one plan would sign for another."""
    other = next(i for i in range(len(got.front["plan"])) if i != got.choice.row)
    found = gather(Archive(db), "1", str(other + 1))
    assert (found.choice.row, found.choice.rule) == (other, "asked")
    with pytest.raises(UnknownName, match="not on the front"):
        gather(Archive(db), "1", "pzzzz")


def test_cash_of_every_year_comes_to_the_worth_of_the_run(owned):
    """The chart of payback would contradict the figure beside it."""
    assert owned.cash.npv_usd == pytest.approx(owned.value("npv_usd"), rel=1e-9)
    assert owned.cash.net[0] < 0 < owned.cash.net[1]


@pytest.mark.parametrize("which", ["got", "owned"])
def test_the_line_of_the_cash_meets_zero_where_the_payback_says(which, request):
    """The chart would begin at another amount than is signed for, and cross in another month."""
    run = request.getfixturevalue(which)
    flow, months = run.cash, run.value("payback_months")
    assert -flow.net[0] == pytest.approx(run.value("capex_usd"), rel=1e-9)
    sums = np.cumsum(flow.of_use)
    assert np.isfinite(months)
    drawn = np.interp(0.0, sums, flow.years) if sums[-1] > 0 else -sums[0] / flow.of_use[1]
    assert 12 * drawn == pytest.approx(months, rel=1e-9)


def test_a_scenario_of_dearer_servers_is_what_recost_answers(db, got):
    """Two ways of the same tool would give two costs for one question."""
    name = got.word("accelerator")
    quoted = got.ends.middle
    each = float(quoted.prices.unit_usd[0] / quoted.bill.devices_per_unit[0])
    done = repriced(Archive(db), "1", (f"costing.price_usd.{name}={1.3 * each!r}",))
    columns = done.costed.columns
    same = (columns["plan"] == got.word("plan")) & (columns["site"] == got.word("site"))
    found = {one.name: one.value for one in got.outcomes}
    assert found["as it is"] == pytest.approx(got.value("usd"), rel=1e-12)
    assert found["servers +30%"] == pytest.approx(float(columns["usd"][same][0]), rel=1e-9)
    assert all(one.regret >= 0 for one in got.outcomes)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_phrase_is_there_in_both_languages_with_the_same_figures(language):
    """A figure would be left out of one language, or a reader meet an empty sentence."""
    import string

    for key, phrase in _phrases()["phrase"].items():
        names = [
            {field for _, field, _, _ in string.Formatter().parse(phrase[n]) if field}
            for n in ("en", "zh")
        ]
        assert names[0] >= names[1], key
        assert phrase[language].strip(), key


def test_a_chinese_report_speaks_chinese(got):
    """Half of the report would be in the other language."""
    said = " ".join(texts(paper(got, "zh")))
    assert "决策建议" in said
    for word in ("Decision", "Rule of choice", "cheaper than", " less", " more"):
        assert word not in said
    with pytest.raises(UnknownName, match="language"):
        Say("fr")


@pytest.mark.long
def test_a_pdf_and_a_page_are_made_without_a_browser(db, got):
    """Management would get no file on a machine without one."""
    found = pdf(paper(got, "zh"))
    assert found.startswith(b"%PDF")
    assert b"NotoSansSC" in found
    page = html(paper(got, "en"))
    assert page.count("<svg") == 4
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "https://" not in page.replace("https://www.w3.org", "") or "src=" not in page


@pytest.mark.long
def test_hostile_names_are_text_everywhere(db):
    """A study's name would run as code in a browser or in a spreadsheet."""
    found = gather(Archive(db), "2")
    page = html(paper(found, "en"))
    assert "<b>odd" not in page
    assert "&lt;b&gt;odd &amp; =1+1" in page
    assert pdf(paper(found, "en")).startswith(b"%PDF")
    path = db.parent / "odd.xlsx"
    path.write_bytes(xlsx(found, paper(found, "en")))
    with zipfile.ZipFile(path) as book:
        assert "<f>" not in book.read("xl/worksheets/sheet1.xml").decode()


@pytest.mark.parametrize("which", ["got", "owned"])
def test_the_lines_of_the_sheet_are_the_run(which, request):
    """The spreadsheet would open with other figures than the report."""
    found = request.getfixturevalue(which)
    lines = {line.name: line.value for line in cost_lines(found.ends.middle)}
    for name in ("usd", "usd_per_year", "capex_usd", "npv_usd", "own_npv_usd"):
        if np.isfinite(found.value(name)):
            assert lines[name] == pytest.approx(found.value(name), rel=1e-9), name


@pytest.mark.long
@pytest.mark.skipif(not recalculated.OFFICE, reason=recalculated.WHY_NOT)
def test_the_sheet_worked_out_anew_is_the_run_and_a_price_moves_it_as_recost_does(
    db, owned, tmp_path
):
    """A reader who changes the price of electricity would get another worth than the tool's."""
    book = tmp_path / "owned.xlsx"
    book.write_bytes(xlsx(owned, paper(owned, "en")))
    lines = {line.name: line.value for line in cost_lines(owned.ends.middle)}
    price = 1.7 * lines["usd_per_kwh"]
    plain, moved = tmp_path / "plain.xlsx", tmp_path / "moved.xlsx"
    recalculated.changed(book, plain, {})
    recalculated.changed(book, moved, {recalculated.place_of(book, "usd_per_kwh"): price})
    found = recalculated.worked_out(plain, tmp_path)
    assert {name: found[name] for name in lines} == pytest.approx(lines, rel=1e-9)
    done = repriced(Archive(db), "3", (f"costing.usd_per_kwh={price!r}",))
    columns = done.costed.columns
    at = int(np.flatnonzero(columns["plan"] == owned.word("plan"))[0])
    new = recalculated.worked_out(moved, tmp_path)
    for name in ("usd", "usd_per_year", "own_npv_usd", "npv_usd"):
        assert new[name] == pytest.approx(float(columns[name][at]), rel=1e-9), name
        assert new[name] != pytest.approx(found[name], rel=1e-4)


@pytest.mark.long
def test_a_report_that_cannot_be_written_says_why_and_leaves_nothing(db, tmp_path):
    """A person would look for a file that is not there."""
    for to, words in (("a.docx", "ends in .pdf"), ("none/a.pdf", "no folder")):
        answer = planner("report", "1", "--to", tmp_path / to, "--db", db)
        assert answer.code == 2
        assert words in answer.err
    assert not list(tmp_path.iterdir())
    with pytest.raises(BadStudy, match="no plan on its front"):
        _without_a_front(tmp_path)


def _without_a_front(folder):
    study, own = folder / "none.toml", folder / "none.duckdb"
    study.write_text(DENSE.replace("days = 90", "days = 0.1"))
    assert planner("run", study, "--db", own, "--json").code == 1
    gather(Archive(own), "1")


@pytest.mark.long
def test_the_command_writes_the_sentence_and_the_file(db, tmp_path):
    """A script would not know what was decided."""
    answer = planner("report", "1", "--to", tmp_path / "a.xlsx", "--db", db, "--json")
    assert answer.code == 0
    assert answer.document["bytes"] == (tmp_path / "a.xlsx").stat().st_size
    assert answer.document["decision"].startswith("Buy ")


def test_a_chip_that_nobody_measured_is_not_chosen_by_itself():
    """The cheapest plan of a report would rest on a speed carried over from other chips."""
    study = study_from_text(DENSE, "x", Path.cwd(), catalogue_names())
    front = {
        "plan": np.array(["a", "b"]), "site": np.array(["se", "se"]),
        "accelerator": np.array(["X", "Y"]), "devices": np.array([1, 1]),
        "days": np.array([2.0, 1.0]), "usd": np.array([1.0, 2.0]), "kgco2e": np.array([1.0, 1.0]),
        "validated": np.array([0, 1]),
    }  # fmt: skip
    assert chosen(study, front, np.arange(2), None).row == 1
    assert chosen(study, {**front, "validated": np.array([0, 0])}, np.arange(2), None).row == 0
    assert chosen(study, front, np.arange(2), 0).row == 0


def test_the_most_for_the_money_is_not_the_least_that_can_be_had():
    """A budget for the highest rate would buy half of it, since that is cheaper by a fortieth."""
    text = OPEN + '\n[objectives]\nminimise = ["capex_usd"]\nmaximise = ["peak_flop_per_s"]\n'
    study = study_from_text(text, "x", Path.cwd(), catalogue_names())
    front = {
        "plan": np.array(["a", "b"]), "site": np.array(["se", "se"]),
        "accelerator": np.array(["X", "Y"]), "devices": np.array([1, 1]),
        "capex_usd": np.array([228.0, 234.0]), "peak_flop_per_s": np.array([5.6, 10.8]),
    }  # fmt: skip
    found = chosen(study, front, np.arange(2), None)
    assert (found.row, found.rule) == (1, "ratio")


def test_a_plan_that_no_replay_has_held_is_not_sold_as_ready(got):
    """A board would order a fleet that its siblings' replays found a sixth too small."""
    short = {"a": OfReplay(191.0, 224.0, ""), "b": OfReplay(4.0, 4.0, "")}
    serve = replace(got, study=replace(got.study, kind="serve"), replays=short)
    assert not serve.is_held_by_replay
    assert sentence(serve, "en").startswith("Do not order yet")
    held = replace(serve, replayed=short["b"])
    assert sentence(held, "en").startswith("Buy ")
    assert not replace(serve, replayed=short["a"]).is_held_by_replay
    said = "; ".join(line for block in decision(serve, Say("en")) if isinstance(block, Points)
                     for line in block.lines)  # fmt: skip
    assert "1 needed up to 17% more replicas" in said


@pytest.mark.parametrize(("hosts", "word"), [(1.0, "servers"), (8.0, "racks")])
def test_a_unit_of_one_host_is_a_server_however_large(got, hosts, word):
    """A server of thirty-two devices would be ordered as a rack, or a small rack as a server."""
    middle = got.ends.middle
    wide = {"devices_per_unit": np.array([32.0]), "hosts_per_unit": np.array([hosts])}
    ends = replace(got.ends, middle=replace(middle, bill=replace(middle.bill, **wide)))
    assert f"{word} of 32 devices" in sentence(replace(got, ends=ends), "en")


@pytest.mark.long
def test_the_register_is_of_the_plan_and_of_what_the_study_gives(got):
    """A reader would search the guesses of other chips, and miss a price that was typed in."""
    said = texts(paper(got, "en"))
    chip = got.word("accelerator")
    others = {"H100-SXM", "A100-80GB-SXM", "B200-SXM"} - {chip}
    tables = [block for block in paper(got, "en").blocks if isinstance(block, Table)]
    names = [row[0] for table in tables if table.heads[0] == "fact" for row in table.rows]
    assert names
    assert not [name for name in names if name.split(".")[0] in others]
    given = dict(given_rows("[pin]\ngoodput_frac = 0.9\n[costing]\nprice_usd = { X = 5 }\n"))
    assert given == {"costing.price_usd.X": "5", "pin.goodput_frac": "0.9"}
    assert got.record.start.study_text.strip() in "\n".join(said)


@pytest.mark.long
def test_a_limit_that_the_end_of_the_band_breaks_is_told(db, tmp_path):
    """A deadline that is missed in one of ten cases would be sold as kept."""
    study = tmp_path / "late.toml"
    days = gather(Archive(db), "1").value("days")
    study.write_text(DENSE.replace("days = 90", f"days = {days * 1.05:.3f}"))
    assert planner("run", study, "--db", tmp_path / "p.duckdb", "--json").code == 0
    said = " ".join(texts(paper(gather(Archive(tmp_path / "p.duckdb"), "1"), "en")))
    assert "AT RISK" in said
    late = gather(Archive(tmp_path / "p.duckdb"), "1")
    missed = np.mean(late.drawn_alone("days") > late.study.limits["days"])
    assert 0.2 < missed < 0.5  # half of the draws are above the middle, and the limit is above it
    assert f"it misses it in {missed:.0%} of 1,000 draws" in said


def test_a_plan_alone_is_drawn_in_the_worlds_of_the_front(got):
    """Two chances of one thing would stand in one report."""
    at = got.drawn_at(got.choice.row)
    np.testing.assert_allclose(got.drawn_alone("usd"), got.odds.values["usd"][:, at], rtol=1e-12)


@pytest.mark.long
def test_the_counts_of_a_search_add_up(got):
    """A reader who adds them finds candidates that nobody accounts for."""
    summary = got.record.summary
    parts = {"none": 5, "days": 7}
    short = replace(summary, enumerated=summary.enumerated + 15, skipped=parts)
    told = replace(got, record=replace(got.record, summary=short))
    said = " ".join(texts(paper(told, "en")))
    assert "12 were left out since a bound proves" in said
    looked = summary.evaluated + sum(summary.masked.values()) + sum(summary.skipped.values())
    rest = summary.enumerated + 15 - 12 - looked + sum(summary.skipped.values())
    assert f"{rest} were not reached by the search" in said


def test_the_staff_of_the_tornado_moves_as_far_as_its_fact(got):
    """The register would give one band of a figure, and the tornado move it by another."""
    (staff,) = (one for one in got.swings if one.name == "staff")
    facts = [f for f in got.facts if "staff" in f["name"] and f["name"] in got.plan["facts_used"]]
    assert [f["name"] for f in facts] == ["facility.staff.small_fleet"]
    ends = (facts[0]["low"] / facts[0]["value"], facts[0]["high"] / facts[0]["value"])
    assert (staff.low_frac, staff.high_frac) == pytest.approx(ends)


@pytest.mark.long
def test_what_is_decided_is_no_guess_of_the_register(got):
    """Interest would be told as decided and as guessed with a band on one page."""
    names = [fact["name"] for fact in weakest_first(got.facts)]
    decided = {"facility.wacc.default", "facility.life.it"} & set(names)
    assert decided
    assert decided <= set(names[-3:])
    assert "not drawn; its source's range is" in " ".join(texts(paper(got, "en")))


def test_half_the_time_for_a_little_more_money_is_shown():
    """The board would not be told of the plan that every reader would take instead."""
    study = study_from_text(DENSE, "s.toml", Path(), catalogue_names())
    assert list(objectives(study)) == ["days", "usd", "kgco2e"]
    front = {
        "plan": np.array(list("abcd")), "accelerator": np.array(["x"] * 4),
        "devices": np.array([1, 2, 4, 8]), "usd": np.array([100.0, 103.0, 104.9, 300.0]),
        "days": np.array([60.0, 31.0, 29.0, 5.0]), "kgco2e": np.full(4, 7.0),
    }  # fmt: skip
    found = chosen(study, front, np.arange(4), None)
    assert (found.row, found.exchange) == (0, 2)
    assert 2 in found.rows


def test_a_limit_is_a_line_of_the_picture(got):
    """Nobody would see which bands reach beyond what the study allows."""
    spec = json.dumps(charts.front(got.front, ("days", "usd"), got.choice.row, {}, "site",
                                   Say("en"), (90.0, None)))  # fmt: skip
    assert '"bound": ' in spec
    assert spec.count('"name": "limit"') == 1


def test_a_plan_that_its_replay_found_short_is_known():
    """A report would sell 179 replicas where the replay needs 210."""
    sample = {
        "plan": np.array(["a", "b"]), "replicas": np.array([179.0, 4.0]),
        "needed_replicas": np.array([210.0, 4.0]), "broken": np.array(["", ""]),
    }  # fmt: skip
    found = replays_of(sample)
    assert found["a"].is_short
    assert not found["b"].is_short
    assert replays_of({}) == {}


def test_the_first_page_says_what_would_change_the_decision(got):
    """Somebody would take the largest swing of the cost for a reason to buy something else."""
    said = next(
        line
        for block in paper(got, "en").blocks
        if isinstance(block, Points)
        for line in block.lines
        if line.startswith("What would change the decision")
    )
    worse = [one for one in got.outcomes[1:] if one.regret > 5e-4 * one.value]
    assert ("none of the" in said) == (not worse)
    assert all(one.name in said for one in worse or got.outcomes[1:])
    assert f"{len(got.outcomes) - 1 - len(worse)}" in said


def test_a_report_of_changed_facts_says_so_before_anything_else(got):
    """Stored prices and terms of today's prices would stand side by side as if they were one."""
    assert got.stale == {}
    moved = {"facts": "tables have changed", "stored": "stored usd 1, with today's tables 2"}
    old = replace(got, stale=moved)
    assert sentence(old, "en").startswith("Run the study again first")
    points = next(block for block in decision(old, Say("en")) if isinstance(block, Points))
    assert points.lines[0].startswith("OUT OF DATE: tables have changed; stored usd 1")
    assert sentence(got, "en").startswith("Buy ")
