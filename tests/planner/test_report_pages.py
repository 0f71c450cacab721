"""What the pages of a report say of one thing is one figure, on whichever page it stands."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from small import DENSE, planner

from planner.archive.store import Archive
from planner.documents.figures import figure, human
from planner.report import charts
from planner.report.blocks import Table
from planner.report.decision import named
from planner.report.gather import gather
from planner.report.paper import paper
from planner.report.what_if import DEARER_RENT
from planner.report.words import Say


@pytest.fixture(scope="module")
def got(tmp_path_factory):
    """A small training run, gathered."""
    folder: Path = tmp_path_factory.mktemp("pages")
    study = folder / "s.toml"
    study.write_text(DENSE)
    assert planner("run", study, "--db", folder / "p.duckdb", "--json").code == 0
    return gather(Archive(folder / "p.duckdb"), "1")


@pytest.fixture(scope="module")
def said(got):
    """Everything that the report says in running words."""
    return " ".join(_words(got))


def _words(got):
    for block in paper(got, "en").blocks:
        for value in vars(block).values():
            lines = [value] if isinstance(value, str) else value
            yield from (
                (line for line in lines if isinstance(line, str))
                if isinstance(lines, list | tuple)
                else ()
            )


def test_years_of_owning_add_up_to_what_the_chart_ends_at(got, said):
    """The first page would give another total than the cash flow behind it."""
    flow = got.cash
    total = flow.paid.sum() + flow.running.sum() - flow.left.sum()
    assert flow.rent.sum() - total == pytest.approx(flow.cumulative[-1], rel=1e-12)
    assert f"Owned for 5 years it costs {human(float(total), 'USD')} in all" in said


def test_a_payback_after_the_life_is_none(got):
    """Hardware would be told as repaid in a year in which it no longer stands."""
    months = np.asarray(got.front["payback_months"], float) * 0 + 61.0
    late = replace(got, front={**got.front, "payback_months": months})
    said = " ".join(_words(late))
    assert "paid back after" not in said
    assert "has paid for itself after" not in said


def test_the_rent_stands_with_its_source_and_term(got, said):
    """Nobody could check the price that the saving and the payback rest on."""
    usd = float(got.ends.middle.prices.rent_usd_per_device_hour[0])
    assert f"Rent compared with: {figure(usd)} $ per device-hour, of plan reserved" in said
    first = got.catalog.rent(got.word("accelerator"), "reserved_3y")[0]
    assert first.source[:60] in said
    assert "no price for" in said


def test_a_rent_that_the_study_gives_has_no_source_of_the_tables(got):
    """A price that somebody typed in would be told as found in a published list."""
    part = got.parts[0]
    costing = replace(part.study.costing, rent_usd_per_device_hour=4.0)
    own = replace(part, study=replace(part.study, costing=costing))
    said = " ".join(_words(replace(got, parts=[own, *got.parts[1:]])))
    assert "$ per device-hour, the study's own." in said


def test_a_dearer_rent_is_told_by_what_it_changes(got, said):
    """The saving and the payback rest on the rent, and would be told as untouched by it."""
    assert DEARER_RENT in got.idle
    rent = human(1.3 * got.value("rent_usd"), "USD")
    assert f"renting the same would cost {rent}, owning save" in said
    assert "These change nothing here" not in said


def test_the_plan_can_be_set_up_from_its_settings(got):
    """A reader would have the amount and no word of what to run."""
    tables = [b for b in paper(got, "en").blocks if isinstance(b, Table)]
    table = next(b for b in tables if b.title.startswith("Every decision"))
    cells = {row[i]: row[i + 1] for row in table.rows for i in (0, 2)}
    for name in ("tensor_parallel", "pipeline_parallel", "micro_batch_sequences"):
        assert cells[name] == figure(got.value(name))
    assert cells["precision"] == got.word("precision")
    assert float(cells["usd_per_kwh"].split()[0]) == pytest.approx(
        float(got.ends.middle.terms.usd_per_kwh[0]), rel=1e-3
    )
    assert {"mfu_frac", "pue", "residual_frac", "recompute", "schedule"} <= set(cells)


def test_no_use_is_asked_for_where_none_is_the_break_even(got, said):
    """One page would ask for full use, and another not know how much is enough."""
    assert "no use is the break-even" in said
    assert "there is no break-even utilisation: the rent compared with is a reservation" in said
    assert "break-even utilisation is not known" not in said


def test_a_plan_goes_by_its_site_too(got, said):
    """The same name at two sites would be read as one plan."""
    assert f"The knee of the front is {named(got, got.choice.picks['knee'])}" in said
    assert f"--site {got.word('site')} shows every term" in said
    assert " @ " in named(got, got.choice.row)


def test_points_at_one_place_have_one_label():
    """Two numbers over one another can not be read."""
    same = [[1.0, 1.001, 9.0]] * 3
    assert charts._joined({0: "1", 2: "2", 1: "3"}, {"x": same, "y": same}) == {0: "1, 3", 2: "2"}


def test_which_of_two_prices_counts_is_said(got, said):
    """A device's price and a rack's stand in one register, eight or seventy times apart."""
    chip = got.word("accelerator")
    names = {f"{chip}.{of}.price_usd" for of in ("servers", "accelerators")}
    has_both = names <= set(got.plan["facts_used"]) & {fact["name"] for fact in got.facts}
    assert (f"so {chip}.servers.price_usd counts" in said) == has_both


def test_the_report_in_chinese_has_the_new_pages(got):
    """Half of them would be in the other language."""
    assert paper(got, "zh").blocks
    assert Say("zh")("settings") == "所选方案的设置"
