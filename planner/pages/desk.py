"""What lies on the desk: the database, the run and the plan that a person looks at.

The archive is opened for one reading and closed; only what was read is kept, until the file
changes. The three choices are widgets of the side bar, so every page sees the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import streamlit as st

from planner.archive.diff import Difference
from planner.archive.runs import RunRecord
from planner.archive.store import Archive
from planner.costing.beside import beside
from planner.costing.recost import Repriced, Swept, priced, stored_study, swept
from planner.documents import answers as commands
from planner.evaluated import CLOSED_FORM, REPLAY
from planner.pages import workspace
from planner.pages.points import ids_of
from planner.report.gather import Gathered, gather, known_columns
from planner.report.replayed import OneFront
from planner.report.replayed import front_of as front_of_run
from planner.study.read import Study

READING_S = 10.0
"""How long a page waits while a run writes [s]."""

KEPT = 16
"""Readings kept of each kind, over all who look."""

KEEP = "keep_"
"""How the keys of widgets begin that keep their value while another page is looked at."""

FIDELITIES = {
    REPLAY: "as replayed: each plan with the fleet that its replay needs",
    CLOSED_FORM: "closed form: all plans, their tails not replayed",
}
"""What the figures of a run are, where some of its plans were replayed; one front has one kind."""

Columns = Mapping[str, Any]
Stamp = tuple[int, ...]


@dataclass(frozen=True)
class Desk:
    """A run that is open.

    Parameters
    ----------
    db : the file
    record : what the archive says about the run
    front : its Pareto front, column name to (n,)
    ids : (n,) "PLAN @ SITE" of each row: the name by which charts and tables speak of it
    chosen : the one of `ids` that is looked at, "" where the front is empty
    fidelity : of every row of `front`
    """

    db: Path
    record: RunRecord
    front: Columns
    ids: tuple[str, ...]
    chosen: str
    fidelity: str = CLOSED_FORM

    @property
    def is_as_replayed(self) -> bool:
        """The plans are as their replays found them."""
        return self.fidelity == REPLAY

    @property
    def run(self) -> str:
        """Id of the run."""
        return self.record.run

    @property
    def row(self) -> int:
        """Row of the chosen plan on the front."""
        return self.ids.index(self.chosen)

    @property
    def objectives(self) -> tuple[str, ...]:
        """What the study compares, in its order."""
        wanted = self.record.start.resolved["objectives"]
        return (*wanted["minimise"], *wanted["maximise"])

    @property
    def order(self) -> list[int]:
        """Rows of the front, the best in the first objective first."""
        return order_of(self.front, self.record)

    @property
    def state(self) -> str:
        """One of running, finished, stopped, failed, interrupted."""
        return self.record.state(datetime.now(UTC).replace(tzinfo=None))


def side_bar() -> None:
    """The widgets that choose the database, the run and the plan.

    Raises
    ------
    BadFile : in the words of the archive's door
    """
    _keep_widgets()
    with st.sidebar:
        _choice("Database", "db", workspace.databases(), str)
        records = {record.run: record for record in reversed(records_of(database()))}
        _choice("Run", "run", list(records), lambda run: f"{run} · {records[run].start.study}")
        if not records:
            return
        record = records[st.session_state["run"]]
        if replayed_of(database(), record.run).fidelity == REPLAY:
            _choice("Figures", "fidelity", list(FIDELITIES), FIDELITIES.__getitem__)
        _choice("Plan", "chosen", _names(record), str)
        st.button("Read again", key="again", help="a run that is writing has more by now")


def opened(*, is_closed: bool = False) -> Desk | None:
    """The desk as the side bar says; None where the database has no run yet.

    Parameters
    ----------
    is_closed : the front of the closed form, whatever the side bar says
    """
    run = st.session_state.get("run")
    if run is None:
        st.info("No runs yet: `planner run STUDY` makes one.")
        return None
    record = next(record for record in records_of(database()) if record.run == run)
    closed = OneFront(CLOSED_FORM, front_of(database(), run), None)
    one = closed if is_closed else _looked_at(run)
    ids, chosen = ids_of(one.columns), st.session_state.get("chosen") or ""
    return Desk(database(), record, one.columns, ids, chosen, one.fidelity)


def kept(name: str, first: Any, options: Sequence[Any] | None = None) -> str:
    """The key of a widget that keeps its value from page to page.

    Parameters
    ----------
    name : of the widget
    first : its value before anybody has chosen
    options : what it offers; a value that is not offered any more gives way to the first
    """
    key = f"{KEEP}{name}"
    is_offered = options is None or st.session_state.get(key) in options
    if key not in st.session_state or not is_offered:
        st.session_state[key] = first
    return key


def say_why_empty(found: Desk) -> None:
    """What keeps a run without a front."""
    if found.state == "running":
        st.info("The run is still going; its front is made at the end. Read again in a while.")
    elif found.record.summary is None:
        st.warning(f"The run was {found.state} before it had a front.")
    else:
        st.warning(
            "Nothing is feasible. The page of removed candidates says what stands in the way."
        )


def choose(name: str) -> None:
    """Look at another plan; for callbacks, before the side bar is drawn again."""
    st.session_state["chosen"] = name


def order_of(front: Columns, record: RunRecord) -> list[int]:
    """Rows of a front by the objectives of its run, the best first."""
    if not front:
        return []
    wanted = record.start.resolved["objectives"]
    signs = [(name, 1.0) for name in wanted["minimise"]]
    signs += [(name, -1.0) for name in wanted["maximise"]]
    keys = [sign * np.ma.filled(np.ma.asarray(front[n], float), np.inf) for n, sign in signs]
    return [int(row) for row in np.lexsort(keys[::-1])]


def records_of(db: Path) -> list[RunRecord]:
    """All runs of a database."""
    return _records(str(db), _stamp(db))


def front_of(db: Path, run: str) -> Columns:
    """The Pareto front of a run."""
    return _front(str(db), run, _stamp(db))


def facts_of(db: Path, run: str) -> list[dict[str, Any]]:
    """The facts a run used."""
    return _facts(str(db), run, _stamp(db))


def rejections_of(db: Path, run: str) -> list[dict[str, Any]]:
    """What each rule and limit of a run removed."""
    return _rejections(str(db), run, _stamp(db))


def beside_of(found: Desk, most: int) -> Columns:
    """Plans at sites that are kept beside the front, evenly spread, at most so many."""
    return _beside(str(found.db), found.run, most, _stamp(found.db))


def swept_of(found: Desk, most: int) -> tuple[Swept, Repriced]:
    """The run read to be priced again and again, and as it is priced."""
    return _swept(str(found.db), found.run, most, _stamp(found.db))


def difference_of(db: Path, left: str, right: str) -> Difference:
    """All that differs between two runs."""
    return _difference(str(db), left, right, _stamp(db))


def explained_of(
    db: Path, run: str, plan: str, site: str = "", scenario: str = ""
) -> dict[str, Any]:
    """Why a plan is what it is at one of its places: the document of `planner explain`."""
    return _explained(str(db), run, plan, site, scenario, _stamp(db))


def study_of(found: Desk) -> Study:
    """The study of the run that is open."""
    return stored_study(found.record)


def gathered_of(found: Desk, row: int | None = None) -> Gathered:
    """Everything a report tells of the run that is open, of the figures that are looked at.

    Parameters
    ----------
    row : of the front; None for the plan that the report's rule takes
    """
    place = ("", "") if row is None else (str(row + 1), "")
    if found.is_as_replayed and row is not None:
        place = (str(found.front["plan"][row]), str(found.front["site"][row]))
    is_closed = not found.is_as_replayed
    return _gathered(str(found.db), found.run, *place, is_closed, _stamp(found.db))


def say_closed_form(found: Desk) -> None:
    """That a page is of the closed form, where plans as replayed are looked at."""
    if found.is_as_replayed:
        fleet = int(np.asarray(found.front["replicas"])[found.row])
        st.info(
            f"This page is of the closed form, at the fleet that it gives; the replay of the plan "
            f"has {fleet} replicas. Figures as replayed are on the pages of the front, of the "
            "decision and of the report."
        )


def replayed_of(db: Path, run: str) -> OneFront:
    """The front of a run as replayed, where a replay holds a plan up; else the closed form's."""
    return _replayed(str(db), run, _stamp(db))


def _names(record: RunRecord) -> list[str]:
    """What stands on a front, the best first."""
    front = _looked_at(record.run).columns
    ids = ids_of(front)
    return [ids[row] for row in order_of(front, record)]


def _looked_at(run: str) -> OneFront:
    """The front of the figures that the side bar chooses."""
    if st.session_state.get("fidelity") == CLOSED_FORM:
        return OneFront(CLOSED_FORM, front_of(database(), run), None)
    return replayed_of(database(), run)


def _keep_widgets() -> None:
    """Hold the widgets of other pages at their values, which Streamlit forgets with the page."""
    for key in st.session_state:
        if str(key).startswith(KEEP):
            st.session_state[key] = st.session_state[key]


def _choice(label: str, key: str, options: list[str], words: Any) -> None:
    """A select box that stays at its choice as long as it is offered."""
    if st.session_state.get(key) not in options:
        st.session_state[key] = options[0] if options else None
    st.selectbox(label, options, key=key, format_func=words, disabled=not options)


def database() -> Path:
    """The database that the side bar shows.

    Raises
    ------
    BadFile : it is none of the workspace's
    """
    return workspace.database(st.session_state["db"])


def _stamp(db: Path) -> Stamp:
    """Changes whenever the file or its write-ahead log does."""
    files = [path for path in (db, Path(f"{db}.wal")) if path.exists()]
    return tuple(n for path in files for n in (path.stat().st_mtime_ns, path.stat().st_size))


def _archive(db: str) -> Archive:
    return Archive(Path(db), READING_S)


@st.cache_data(max_entries=KEPT, show_spinner=False)
def _records(db: str, stamp: Stamp) -> list[RunRecord]:
    return _archive(db).runs()


@st.cache_data(max_entries=KEPT, show_spinner=False)
def _front(db: str, run: str, stamp: Stamp) -> Columns:
    return _archive(db).front(run)


@st.cache_data(max_entries=KEPT, show_spinner=False)
def _facts(db: str, run: str, stamp: Stamp) -> list[dict[str, Any]]:
    return _archive(db).facts(run)


@st.cache_data(max_entries=KEPT, show_spinner=False)
def _rejections(db: str, run: str, stamp: Stamp) -> list[dict[str, Any]]:
    return _archive(db).rejections(run)


@st.cache_resource(max_entries=KEPT, show_spinner="reading the plans of the run")
def _swept(db: str, run: str, most: int, stamp: Stamp) -> tuple[Swept, Repriced]:
    read = swept(_archive(db), run, most)
    return read, priced(read)


@st.cache_resource(max_entries=KEPT, show_spinner="comparing the runs")
def _difference(db: str, left: str, right: str, stamp: Stamp) -> Difference:
    return _archive(db).diff(left, right)


@st.cache_resource(max_entries=KEPT, show_spinner="pricing what lies beside the front")
def _beside(db: str, run: str, most: int, stamp: Stamp) -> Columns:
    return beside(_archive(db), run, most)


@st.cache_data(max_entries=KEPT, show_spinner="re-evaluating the plan and its neighbours")
def _explained(
    db: str, run: str, plan: str, site: str, scenario: str, stamp: Stamp
) -> dict[str, Any]:
    return commands.explain(Path(db), run, plan, site, scenario)


@st.cache_data(max_entries=KEPT, show_spinner=False)
def _replayed(db: str, run: str, stamp: Stamp) -> OneFront:
    with _archive(db).reading() as held:
        record, replayed = held.run(run), held.replayed(run)
    closed = _front(db, run, stamp)
    if not replayed:
        return OneFront(CLOSED_FORM, closed, None)
    return front_of_run(run, stored_study(record), closed, known_columns(replayed))


@st.cache_resource(max_entries=KEPT, show_spinner="costing the front in scenarios and draws")
def _gathered(db: str, run: str, plan: str, site: str, is_closed: bool, stamp: Stamp) -> Gathered:
    return gather(_archive(db), run, plan, site, is_closed=is_closed)
