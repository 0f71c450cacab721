"""How long a board waits for its report: the whole command, without a browser."""

import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest

from planner.archive.store import Archive
from planner.runs.kinds import prepare
from planner.runs.run import run_study
from planner.study.read import read_study
from planner.training.engine import catalogue_names

pytestmark = pytest.mark.bench

ROOT = Path(__file__).resolve().parents[2]
STUDIES = ("llama31_70b_training", "buy_under_power", "phased_purchase")
MOST_S = 10.0
COMMAND = "from planner.cli import main; main()"


@pytest.fixture(scope="module")
def db(tmp_path_factory):
    """A training study, hardware alone and a purchase plan, in this order."""
    path = tmp_path_factory.mktemp("report") / "planner.duckdb"
    for name in STUDIES:
        study = read_study(ROOT / "studies" / f"{name}.toml", catalogue_names())
        run_study(prepare(study), Archive(path))
    return path


@pytest.mark.parametrize(
    ("form", "language"), [("pdf", "en"), ("pdf", "zh"), ("html", "en"), ("xlsx", "zh")]
)
@pytest.mark.parametrize("study", STUDIES)
def test_a_whole_report(db, study, form, language, tmp_path, tell):
    """Somebody in a meeting would wait, or need a browser that a server has not."""
    if study == "phased_purchase" and (form, language) not in (("pdf", "en"), ("html", "en")):
        pytest.skip("purchase plans are reported in English, as PDF and HTML")
    file = tmp_path / f"report.{form}"
    run = str(STUDIES.index(study) + 1)
    words = [sys.executable, "-c", COMMAND, "report", run, "--db", str(db), "--to", str(file)]
    words += ["--lang", language]
    alone = {**os.environ, "PATH": str(Path(sys.executable).parent)}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    subprocess.run(words, env=alone, check=True, capture_output=True, cwd=tmp_path)
    seconds = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    tell(
        f"planner report of {study}, {form}, {language}",
        f"{seconds:.1f} s", f"{MOST_S:g} s ({processor:.1f} s of processor)",
    )  # fmt: skip
    assert file.stat().st_size > 10_000
    assert seconds <= MOST_S
