"""The door of all imports: whole or not at all, once, with its source, and out again."""

import datetime
import json
import shutil

import numpy as np
import pytest
from small import DENSE, planner, with_lines
from test_import_benchmarks import run_of
from test_import_nccl_tests import FILE
from trace_files import PRODUCTS, Recorder, write_trace

from costdata.catalog import load
from costdata.overlay import read_imports
from planner.documents import imports as documents
from planner.imports.door import FOR_ALL, import_files, remove_import
from planner.imports.found import Given
from planner.imports.registry import kind_names, reader
from planner.search.bounds import least_days
from planner.search.sweep import sweep
from planner.space.blocks import bills, blocks, columns
from planner.study.read import read_study
from planner.training.engine import catalogue_names, prepare, training_notes
from planner.training.evaluate import evaluate
from simkernel.errors import BadFile, BadStudy, PlanError, UnknownName

TODAY = datetime.date(2026, 12, 1)


def files_of(folder):
    """Every file below a folder with its bytes."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def brought(folder, kind="nccl-tests", path=FILE, **settings):
    return import_files(kind, [path], folder, settings, TODAY)


@pytest.mark.parametrize("kind", kind_names())
def test_every_kind_says_what_it_is_and_takes(kind):
    """A file put into the folder would be offered and could not be used."""
    module = reader(kind)
    assert module.__doc__.splitlines()[0].endswith(".")
    assert all(name.isidentifier() and what for name, what in module.SETTINGS.items())
    assert callable(module.read)


SAID = {"accelerator": "H100-SXM", "group": "8"}


@pytest.mark.parametrize("kind", kind_names())
def test_every_file_that_cannot_be_read_is_told_at_once(tmp_path, kind):
    """A person would mend one file after another."""
    paths = [tmp_path / "first.csv", tmp_path / "second.csv"]
    for path in paths:
        path.write_bytes(b"\x1f\x8b is no packing")
    module = reader(kind)
    settings = {name: text for name, text in SAID.items() if name in module.SETTINGS}
    with pytest.raises(BadFile) as refused:
        module.read(paths, Given(load(), settings))
    assert all(any(path.name in fault for fault in refused.value.faults) for path in paths)


def test_an_import_is_in_the_catalogue_with_its_source(tmp_path):
    """A number would be used of which nobody can say where it came from."""
    done = brought(tmp_path, name="fabric")
    assert done.is_new
    row = load(tmp_path).tables["imports"][("fabric",)]
    assert row.text("files") == FILE.name
    assert len(row.text("sha256")) == 64
    assert row.text("imported_on") == "2026-12-01"
    assert row.text("tool_version")
    timed = next(iter(load(tmp_path).tables["collective_times"].values()))
    assert row.text("sha256")[:12] in timed.text("source")
    assert planner("catalog", "list", "import", "--overlay", tmp_path).out.startswith("import")
    shown = planner("catalog", "show", "fabric", "--overlay", tmp_path, "--json").document
    assert shown["kind"] == "import"
    assert planner("catalog", "lint", tmp_path).code == 0


def test_importing_twice_is_importing_once(tmp_path):
    """A folder would grow, and a date would move, with every run of a script."""
    brought(tmp_path, name="fabric")
    before = files_of(tmp_path)
    later = import_files("nccl-tests", [FILE], tmp_path, {"name": "fabric"}, datetime.date.max)
    assert not later.is_new
    assert files_of(tmp_path) == before


def test_another_file_under_a_name_and_rows_of_another_import_are_refused(tmp_path):
    """What a study rests on would change under its name, or twice over."""
    brought(tmp_path, name="fabric")
    before = files_of(tmp_path)
    other = tmp_path.parent / "other.txt"
    other.write_text(FILE.read_text().replace("62636", "62637"))
    for name, words in (("fabric", "other files"), ("again", "imported before")):
        with pytest.raises(BadFile, match=words):
            brought(tmp_path, path=other, name=name)
    assert files_of(tmp_path) == before


def test_rows_that_no_chip_can_reach_are_refused_and_nothing_is_written(tmp_path):
    """A time in the wrong unit would be believed."""
    fast = {shape: lasts / 1000.0 for shape, lasts in PRODUCTS.items()}
    path = write_trace(tmp_path / "fast.json")
    text = path.read_text()
    for shape, lasts in PRODUCTS.items():
        for i in range(3):
            text = text.replace(f'"dur": {lasts * (1.0 + 0.01 * i)}', f'"dur": {fast[shape]}')
    path.write_text(text)
    own = tmp_path / "own"
    with pytest.raises(BadFile, match="faster than the dense peak") as refused:
        brought(own, "kineto", path)
    assert len(refused.value.faults) == len(PRODUCTS)
    assert not own.exists()


def test_a_reader_that_fails_leaves_no_trace(tmp_path):
    """Half an import would be read by the next study."""
    path = tmp_path / "bad.txt"
    path.write_text("hello")
    own = tmp_path / "own"
    with pytest.raises(PlanError):
        brought(own, path=path)
    assert not own.exists()


def test_a_folder_that_cannot_be_written_leaves_nothing(tmp_path, monkeypatch):
    """A full disk would leave a table without its end."""
    from pathlib import Path

    def full(*_args, **_more):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(BadFile, match="No space left"):
        brought(tmp_path / "own")
    assert not files_of(tmp_path / "own")


def test_settings_and_names_that_mean_nothing_are_refused(tmp_path):
    """A word with a slip in it would be taken and change nothing."""
    with pytest.raises(UnknownName, match="did you mean operation"):
        brought(tmp_path, operatoin="send")
    with pytest.raises(UnknownName, match="did you mean nccl-tests"):
        brought(tmp_path, "nccl-test")
    with pytest.raises(BadStudy, match="no name of a folder"):
        brought(tmp_path, name="../up")
    with pytest.raises(BadStudy, match="is no day"):
        brought(tmp_path, as_of="yesterday")
    with pytest.raises(UnknownName):
        remove_import(tmp_path, "..")
    assert not files_of(tmp_path)


def test_kinds_name_the_settings_that_every_kind_takes():
    """A fault would advise a word that the help does not have."""
    told = planner("import", "kinds")
    assert all(f"{name}: " in told.out for name in FOR_ALL)
    document = planner("import", "kinds", "--json").document
    assert document["settings_for_all"] == FOR_ALL


def test_a_name_where_nothing_was_imported_says_so(tmp_path):
    """A fault would end in the middle of its sentence."""
    with pytest.raises(UnknownName, match="known: none yet$"):
        remove_import(tmp_path, "nosuch")


def test_the_list_counts_rows_that_are_no_table_of_ours(tmp_path):
    """A run that was brought in would look as if nothing had been kept."""
    path = tmp_path / "bench.json"
    kept = run_of(
        input_lens=[100, 200], output_lens=[10, 30], ttfts=[0.1, 0.2], latencies=[1.0, 3.0],
        start_times=[0.5, 1.0],
    )  # fmt: skip
    path.write_text(json.dumps(kept))
    brought(tmp_path, "serving-benchmark", path, accelerator="H100-SXM", name="bench")
    told = load(tmp_path).tables["imports"][("bench",)].text("found")
    assert "rows: 1 of serving_sweep.csv, 2 of H100-SXM_run1_requests.jsonl" in told
    assert "none" not in told


def test_rows_that_a_user_wrote_stand_before_imported_ones(tmp_path):
    """A hand-written figure would be overruled by a log."""
    brought(tmp_path, name="fabric")
    path = tmp_path / "imports" / "fabric" / "collective_times.csv"
    head, row = path.read_text().splitlines()[:2]
    cells = row.split(",")
    cells[head.split(",").index("seconds")] = "0.5"
    (tmp_path / "collective_times.csv").write_text(f"{head}\n{','.join(cells)}\n")
    found = load(tmp_path).tables["collective_times"]
    assert [r.need("seconds") for r in found.values()].count(0.5) == 1
    assert (
        documents.imported("nccl-tests", [FILE], tmp_path, ["name=fabric"])["rows_behind_your_own"]
        == 1
    )


def test_an_import_without_its_list_is_not_read(tmp_path):
    """What a crash left behind would be part of a study."""
    brought(tmp_path, name="fabric")
    shutil.copytree(tmp_path / "imports" / "fabric", tmp_path / "imports" / "half")
    (tmp_path / "imports" / "half" / "imports.csv").unlink()
    tables, faults = read_imports(tmp_path)
    assert not faults
    assert len(tables["imports"]) == 1


def test_what_a_stopped_import_or_removal_left_is_not_read(tmp_path):
    """Half an import would be part of a study, and keep the same files from being imported."""
    brought(tmp_path, name="fabric")
    for left in (".fabric.x1y2z3", ".fabric.gone"):
        shutil.copytree(tmp_path / "imports" / "fabric", tmp_path / "imports" / left)
    assert len(load(tmp_path).tables["imports"]) == 1
    remove_import(tmp_path, "fabric")
    assert "imports" not in load(tmp_path).tables
    assert brought(tmp_path, name="again").is_new


STUDY = with_lines(
    DENSE,
    seed='seed = 1\ntables = "own"',
    accelerator='accelerator = "H100-SXM"\ncompute = "measured"',
    devices="devices = 32",
    tensor_parallel="tensor_parallel = [1, 8]",
    pipeline_parallel="pipeline_parallel = 1",
    micro_batch_sequences="micro_batch_sequences = [1, 2]",
    recompute='recompute = "none"',
    zero_stage="zero_stage = 1",
    days="days = 900",
)


def test_removing_an_import_restores_the_earlier_front_bit_for_bit(tmp_path):
    """A team could not take back what it tried."""
    study, own = tmp_path / "study.toml", tmp_path / "own"
    study.write_text(STUDY)
    brought(own, name="fabric")
    before = files_of(own)

    def front():
        engine = prepare(read_study(str(study), catalogue_names()))
        (result,) = sweep(engine, 1, lambda: False)
        return {name: np.asarray(column).tolist() for name, column in result.front.items()}

    first = front()
    path = write_trace(tmp_path / "step.json")
    assert planner("import", "kineto", path, "--to", own, "--set", "name=step").code == 0
    second = front()
    assert planner("profiles", "list", "--to", own).out.count("\n") == 2
    assert planner("profiles", "remove", "step", "--to", own).code == 0
    third = front()
    assert repr(second) != repr(first)
    assert repr(third) == repr(first)
    assert files_of(own) == before


def test_no_bound_leaves_out_what_was_measured_faster_than_its_curve(tmp_path):
    """A plan would be called too slow by a curve that its own chip beats."""
    study, own = tmp_path / "study.toml", tmp_path / "own"
    study.write_text(STUDY)
    brought(own, "kineto", write_trace(tmp_path / "step.json"))
    found = {}
    for how in ("measured", "roofline"):
        study.write_text(STUDY.replace("measured", how))
        engine = prepare(read_study(str(study), catalogue_names()))
        bill = next(iter(bills(engine.space)))
        rows = columns(engine.space, next(iter(blocks(engine.space, bill, 64))))
        found[how] = least_days(engine, rows, "H100-SXM")
        days = evaluate(engine, rows, "H100-SXM").metrics["days"]
        assert np.all(found[how] < days)
    assert np.all(found["measured"] < 0.9 * found["roofline"])


def test_with_and_without_an_import_the_step_differs_by_its_own_terms(tmp_path):
    """Nobody could say which operator moved the answer."""
    study, own = tmp_path / "study.toml", tmp_path / "own"
    study.write_text(STUDY)
    brought(own, name="fabric")
    brought(own, "kineto", write_trace(tmp_path / "step.json"))
    told = [
        planner(
            "evaluate",
            study,
            "--set",
            "tp=8",
            "--set",
            "mbs=1",
            "--set",
            f"compute={how}",
            "--json",
        ).document["ledgers"]["step_s"]
        for how in ("measured", "roofline")
    ]
    moved = {name: told[0]["terms"][name] - told[1]["terms"][name] for name in told[0]["terms"]}
    assert abs(moved["gemm"]) > 0.001 * told[1]["total"]
    assert sum(moved.values()) == pytest.approx(told[0]["total"] - told[1]["total"], rel=1e-9)
    assert moved["attention"] == moved["elementwise"] == 0.0


def test_a_plan_outside_the_times_is_flagged_and_its_band_widens(tmp_path):
    """A guess would be shown as sure as what was timed."""
    study, own = tmp_path / "study.toml", tmp_path / "own"
    study.write_text(STUDY)
    brought(own, name="fabric")
    words = ("evaluate", study, "--set", "tp=8", "--set", "mbs=1", "--json")
    outside = planner(*words).document["metrics"]
    weights = ((4096, 768), (512, 4096), (4096, 3584), (1792, 4096), (4096, 16032))
    shapes = [(rows, *weight) for rows in (8192, 4096) for weight in weights]
    recorder = Recorder()
    for shape in shapes:
        recorder.product(shape, 2.0 * np.prod(shape) / 5e8)
    brought(own, "kineto", write_trace(tmp_path / "step.json", recorder.events))
    inside = planner(*words).document["metrics"]
    assert (outside["validated"], inside["validated"]) == (0, 1)
    study_read = read_study(str(study), catalogue_names())
    told = training_notes(study_read, load(own))["measured"]
    assert "fabric (nccl-tests, 2026-12-01" in told
    wide, narrow = (m["step_s_high"] / m["step_s"] for m in (outside, inside))
    assert wide == pytest.approx(narrow**1.5)


def test_measured_times_that_nobody_has_are_a_missing_fact(tmp_path):
    """A study would say measured and take curves."""
    study = tmp_path / "study.toml"
    study.write_text(STUDY)
    (tmp_path / "own").mkdir()
    answer = planner("evaluate", study, "--set", "tp=8", "--set", "mbs=1")
    assert answer.code == 3
    assert "nothing was timed on H100-SXM" in answer.err
