"""Studies from the form, the growth of runs, own tables and the workspace, without a browser."""

import json
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from costdata import catalog as catalogue
from planner.archive.store import Archive
from planner.pages import start, workspace
from planner.pages.words import plain
from simkernel.errors import BadFile

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def visit(tmp_path, monkeypatch):
    """The app over a database that does not exist yet, on a page."""

    def opened(page):
        monkeypatch.setenv(workspace.DATABASE, str(tmp_path / "planner.duckdb"))
        found = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60).run()
        found.switch_page(f"planner/pages/{page}.py").run()
        assert not found.exception
        return found

    return opened


@pytest.mark.long
def test_the_form_writes_studies_that_can_be_run(visit):
    """Somebody who has never seen a study file would be told what is wrong with ours."""
    page = visit("start")
    page.radio(key="start_from").set_value(start.FORM).run()
    for kind in ("train a model", "serve a model", "buy or rent hardware, whatever it does"):
        page.selectbox(key="compose_kind").set_value(kind).run()
        assert not page.exception
        assert not page.error, kind
        assert "can be run" in page.success[0].value


def test_a_name_typed_into_the_form_is_text_of_the_study(visit):
    """A quote in a name would end it, and the rest be read as keys."""
    page = visit("start")
    page.radio(key="start_from").set_value(start.FORM).run()
    page.text_input(key="compose_name").set_value('a"\nseed = 7 # <b>').run()
    study, faults = start.faults_of(page.text_area[0].value)
    assert not faults
    assert (study.name, study.seed) != ("a", 7)


def test_the_growth_of_a_run_is_what_its_batches_told(stored):
    """The chart would show another run's progress, or none."""
    (record,) = Archive(stored.db).runs()
    rows = start.growth_rows(record)
    assert rows[-1]["evaluated"] == record.summary.evaluated
    assert rows[-1]["hypervolume"] >= rows[0]["hypervolume"] >= 0


def test_a_row_of_the_form_is_one_that_studies_take(visit, tmp_path):
    """A chip would be added where no study looks, or without its check."""
    page = visit("catalogue")
    page.selectbox(key="keep_add_base").set_value("H100-SXM").run()
    name = next(t for t in page.text_input if t.label == "name")
    name.set_value("H100-OURS")
    peak = next(t for t in page.text_input if t.label.startswith("bf16_tflop_per_s"))
    peak.set_value("1979")
    button = next(b for b in page.button if b.label == "Add it to my tables")
    button.click().run()
    assert page.error
    assert not workspace.own_tables().exists()
    next(t for t in page.text_input if t.label.startswith("bf16_tflop_per_s")).set_value("989.5")
    next(b for b in page.button if b.label == "Add it to my tables").click().run()
    assert not page.exception
    assert [e.value for e in page.error] == []
    catalog = catalogue.load(workspace.own_tables())
    assert catalog.accelerator_name("H100-OURS") == "H100-OURS"
    study = '[study]\nname = "own"\nkind = "hardware"\ntables = "own_tables"\n[axes]\n'
    found, faults = start.faults_of(study + 'accelerator = ["H100-OURS"]\nnodes = [1]\n')
    assert not faults
    assert found.tables == str(workspace.own_tables())


def test_only_databases_of_the_workspace_are_opened(visit, tmp_path):
    """Whoever sees the page could open every file of the machine."""
    page = visit("start")
    (tmp_path / "other.duckdb").write_bytes(b"")
    page.run()
    assert page.sidebar.selectbox(key="db").options == ["planner.duckdb", "other.duckdb"]
    for name in ("../x.duckdb", "/etc/passwd", ""):
        with pytest.raises(BadFile):
            workspace.database(name)


def test_a_study_may_not_name_files_elsewhere(visit):
    """A page open to somebody else would read files that they may not read."""
    visit("start")
    for line in ('model = "/etc/hosts.json"', 'model = "../../../etc/hosts.json"'):
        text = (
            f'[study]\nname = "x"\nkind = "train"\n[workload.main]\n{line}\ntokens = 1e12\n'
            'tokens_per_sequence = 4096\n[axes]\naccelerator = ["H100-SXM"]\ndevices = 8\n'
            "global_batch_sequences = 8\n"
        )
        study, faults = start.faults_of(text)
        assert study is None
        assert "outside the workspace" in faults[0]


@pytest.mark.parametrize("text", ["![x](http://a/b.png)", "a_b*c*", "11 M$ to 12 M$", ":red[x]"])
def test_words_are_shown_letter_by_letter(text):
    """A name would fetch a picture, and two prices would be set as a formula."""
    shown = plain(text)
    assert json.dumps(shown).replace("\\\\", "") == json.dumps(text)
    assert all(shown[i - 1] == "\\" for i, c in enumerate(shown) if c in "![]()*_$:")
