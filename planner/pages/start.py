"""What do I want to know? Pick, bring or write a study; check it, run it, watch it, stop it.

A run is a process of its own, so a page that is loaded again, or closed, changes nothing: what
runs is read from the archive.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

import streamlit as st

from costdata import catalog as catalogue
from costdata.catalog import Catalog
from planner.archive.progress import PROGRESS
from planner.archive.runs import RunRecord
from planner.archive.store import Archive
from planner.charts.over_time import growth
from planner.documents import answers as commands
from planner.pages import desk, workspace
from planner.pages.compose import composed
from planner.pages.tables import draw_table
from planner.pages.words import plain
from planner.runs.kinds import KINDS, prepare
from planner.study.read import Study, study_from_text, tables_named
from planner.training.engine import catalogue_names
from simkernel.errors import BadFile, PlanError

LARGEST_STUDY_BYTES = 200_000  # our choice: the longest study of ours has 3,000
LETTERS = re.compile(r"[^a-z0-9-]+")
EVERY_S = 2.0
MAIN = "from planner.cli import main; main()"
FROM_FILE, SHIPPED, FORM = "a file of mine", "one that comes with the planner", "a form"


def draw() -> None:
    """The page."""
    st.title("What do I want to know?")
    text = _text()
    left, right = st.columns([3, 2], gap="large")
    with left:
        shown = st.text_area("Study (TOML)", key=desk.kept("study_text", text), height=460)
    with right:
        study = _checked(shown)
        db = desk.database()
        if study and st.button("Run this study", type="primary", key="run_study"):
            _children().append(begin(db, study, shown))
            st.success("Started; it appears below once it has written its first line.")
        _running(db)


def begin(db: Path, study: Study, text: str) -> subprocess.Popen[bytes]:
    """A run in a process of its own, from the study kept beside the database.

    Parameters
    ----------
    db : the archive
    study : as read from `text`, whose name makes that of the file
    """
    folder = workspace.studies()
    folder.mkdir(exist_ok=True)
    path = folder / f"{file_name(study.name)}.toml"
    path.write_text(text, encoding="utf-8")
    words = [sys.executable, "-c", MAIN, "run", str(path), "--db", str(db.resolve()), "--json"]
    with (folder / f"{path.stem}.log").open("wb") as log:
        return subprocess.Popen(  # a session of its own: the run outlives this page
            words, stdout=subprocess.DEVNULL, stderr=log, start_new_session=True
        )


def file_name(name: str) -> str:
    """A study's name as the name of a file: letters, digits and dashes, never a path."""
    return LETTERS.sub("-", name.lower()).strip("-")[:60] or "study"


def faults_of(text: str) -> tuple[Study | None, list[str]]:
    """A study and nothing, or nothing and everything that is wrong with it."""
    try:
        names = catalogue_names(_catalog_of(text))
        study = study_from_text(text, "line", workspace.studies(), names)
        faults = workspace.faults_of_paths(study)
        if study.kind not in KINDS:
            faults += [f"kind {study.kind!r} is read and not evaluated in this version"]
        return (None, faults) if faults else (study, [])
    except PlanError as error:
        return None, list(error.faults)


def _catalog_of(text: str) -> Catalog:
    """The catalogue with the tables over it that a study names, if they lie in the workspace."""
    tables = tables_named(text, workspace.studies())
    is_ours = tables is not None and tables.is_dir() and workspace.is_inside(tables)
    return catalogue.load(tables if is_ours else None)


def progress_of(record: RunRecord) -> dict[str, Any]:
    """A run in a line: what it has done so far."""
    told = [event.payload for event in record.events if event.name == PROGRESS]
    summary = record.summary
    evaluated = summary.evaluated if summary else sum(int(one["evaluated"]) for one in told)
    return {
        "run": record.run,
        "study": record.start.study,
        "state": record.state(datetime.now(UTC).replace(tzinfo=None)),
        "started": f"{record.started:%Y-%m-%d %H:%M:%S}",
        "evaluated": evaluated,
        "front": summary.front if summary else None,
        "seconds": round(summary.seconds, 1) if summary else None,
    }


@st.cache_resource
def _children() -> list[subprocess.Popen[bytes]]:
    """Runs that this server began, held so that they can be laid to rest when they end."""
    return []


def _text() -> str:
    """The study to begin with: shipped, or from a file."""
    names = sorted(one.name for one in files("studies").iterdir() if one.name.endswith(".toml"))
    source = st.radio("Begin with", (SHIPPED, FROM_FILE, FORM), horizontal=True, key="start_from")
    if source == SHIPPED:
        name = st.selectbox("Study", names, key="start_shipped")
        text = files("studies").joinpath(name).read_text(encoding="utf-8")
    else:
        text = _brought() if source == FROM_FILE else composed()
    mark = (source, text)
    if st.session_state.get("start_mark") != mark:
        st.session_state["start_mark"] = mark
        st.session_state[desk.kept("study_text", text)] = text
    return text


def _brought() -> str:
    """The text of a file of the visitor's, if it is one that can be a study."""
    given = st.file_uploader("Study file", type=["toml"], key="start_file")
    if given is None:
        return ""
    try:
        return text_of(given.name, given.getvalue())
    except PlanError as error:
        for fault in error.faults:
            st.error(plain(fault))
        return ""


def text_of(name: str, data: bytes) -> str:
    """The text of a study file that somebody brings.

    Raises
    ------
    BadFile : too large, or not UTF-8
    """
    if len(data) > LARGEST_STUDY_BYTES:
        raise BadFile(
            f"{name} has {len(data):,} bytes; wanted at most {LARGEST_STUDY_BYTES:,}: a study "
            "names its tables and traces, it does not hold them"
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadFile(f"{name} is not UTF-8 text (byte {error.start}); save it as UTF-8") from None


def _checked(text: str) -> Study | None:
    """What is wrong with the study, or how large it is; the study if it can be run."""
    if not text.strip():
        st.info("Pick a study, bring one, or write one.")
        return None
    study, faults = faults_of(text)
    for fault in faults:
        st.error(plain(fault))
    if study is None:
        with st.expander("The study with the numbers of its lines"):
            st.code(text, language="toml", line_numbers=True)
        return None
    try:
        engine = prepare(study)
    except PlanError as error:
        for fault in error.faults:
            st.error(plain(fault))
        return None
    words = f"Study {study.name!r} can be run: {engine.space.enumerated:,} combinations."
    st.success(plain(words))
    missing = [f"{name}: {why}" for name, why in engine.missing.items()]
    if missing:
        with st.expander(f"{len(missing)} chips are left out for want of a fact"):
            st.write(missing)
    return study


@st.fragment(run_every=EVERY_S)
def _running(db: Path) -> None:
    """Runs of the database, newest first, and a button to stop one that runs."""
    st.subheader("Runs")
    _children()[:] = [child for child in _children() if child.poll() is None]
    records = Archive(db, desk.READING_S).runs() if db.exists() else []
    lines = [progress_of(record) for record in reversed(records[-12:])]
    if not lines:
        st.caption("No run yet.")
        return
    draw_table(lines, key="start_runs")
    _growth(records[-1])
    _stop_one(db, [line for line in lines if line["state"] == "running"])


def _growth(record: RunRecord) -> None:
    """How the front of the newest run has grown so far."""
    rows = growth_rows(record)
    if len(rows) > 1:
        st.altair_chart(growth(rows, record.run), width="stretch", key="growth")


def growth_rows(record: RunRecord) -> list[dict[str, float]]:
    """Seconds, candidates evaluated and hypervolume after each batch of a run."""
    told = [event.payload["trace"] for event in record.events if "trace" in event.payload]
    return [
        {
            "seconds": float(one["seconds"]),
            "hypervolume": float(one["hypervolume"]),
            "evaluated": float(one["evaluated"]),
        }
        for one in told
    ]


def _stop_one(db: Path, running: Sequence[Mapping[str, Any]]) -> None:
    for line in running:
        if st.button(f"Stop {line['run']}", key=f"stop_{line['run']}"):
            commands.stop(db, str(line["run"]))
            st.info(f"{line['run']} was asked to stop; it keeps what it has found.")


if __name__ == "__main__":
    draw()
