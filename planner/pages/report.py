"""What do I show those who decide? The report of a plan, to read here or to take away."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from planner.archive.store import Archive
from planner.pages import desk
from planner.pages.desk import Desk
from planner.pages.words import plain
from planner.report.arrangement import FORMS as MIXED_FORMS
from planner.report.arrangement import arranged, arrangement_bytes, arrangement_of
from planner.report.decision import sentence
from planner.report.purchase import FORMS as PURCHASE_FORMS
from planner.report.purchase import decision_of, purchase_bytes, reported
from planner.report.words import Say
from planner.report.write import FORMS, refuse_without_libraries, report_bytes

LANGUAGES = {"English": "en", "中文": "zh"}
MIME = {
    "pdf": "application/pdf",
    "html": "text/html",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}
BY_RULE, CHOSEN = "the plan that the report's rule takes", "the plan of the side bar"
CHEAPEST = "the cheapest plan"


def draw() -> None:
    """The page."""
    st.title("What do I show those who decide?")
    found = desk.opened()
    if found is None:
        return
    if not found.ids or found.record.summary is None:
        desk.say_why_empty(found)
        return
    refuse_without_libraries()
    if found.record.start.kind == "fleet":
        _purchases(found)
        return
    if found.record.start.kind == "mixed":
        _arrangement(found)
        return
    left, middle, right = st.columns(3)
    of = left.selectbox("Of", (BY_RULE, CHOSEN), key=desk.kept("report_of", BY_RULE))
    language = middle.selectbox("Language", LANGUAGES, key=desk.kept("report_lang", "English"))
    form = right.selectbox("Form", FORMS, key=desk.kept("report_form", "pdf"))
    row = found.row if of == CHOSEN else None
    got = desk.gathered_of(found, row)
    st.info(plain(sentence(got, LANGUAGES[language])))
    _download(found, row, LANGUAGES[language], form)


def _purchases(found: Desk) -> None:
    """The report of a purchase plan."""
    left, middle, right = st.columns(3)
    of = left.selectbox("Of", (CHEAPEST, CHOSEN), key=desk.kept("report_of_purchase", CHEAPEST))
    language = middle.selectbox("Language", LANGUAGES, key=desk.kept("report_lang", "English"))
    form = right.selectbox("Form", PURCHASE_FORMS, key=desk.kept("report_form_purchase", "pdf"))
    plan = str(found.front["plan"][found.row]) if of == CHOSEN else ""
    got = reported(Archive(found.db, desk.READING_S), found.run, plan)
    lang = LANGUAGES[language]
    st.info(plain(decision_of(got.document, Say(lang))))
    _made(found, (found.run, plan, lang, form), lambda: purchase_bytes(got, form, lang))


def _arrangement(found: Desk) -> None:
    """The report of a cluster that serves and trains."""
    left, middle, right = st.columns(3)
    of = left.selectbox("Of", (BY_RULE, CHOSEN), key=desk.kept("report_of", BY_RULE))
    language = middle.selectbox("Language", LANGUAGES, key=desk.kept("report_lang", "English"))
    form = right.selectbox("Form", MIXED_FORMS, key=desk.kept("report_form_mixed", "pdf"))
    plan = str(found.row + 1) if of == CHOSEN else ""
    got = arranged(Archive(found.db, desk.READING_S), found.run, plan)
    lang = LANGUAGES[language]
    st.info(plain(arrangement_of(got, lang)))
    _made(found, (found.run, plan, lang, form), lambda: arrangement_bytes(got, form, lang))


def _download(found: Desk, row: int | None, language: str, form: str) -> None:
    """The file, made when it is asked for."""
    _made(
        found,
        (found.run, found.fidelity, str(row), language, form),
        lambda: report_bytes(desk.gathered_of(found, row), form, language),
    )


def _made(found: Desk, mark: tuple[str, ...], make: Callable[[], bytes]) -> None:
    """A button that makes the file, and one that takes it away."""
    form = mark[-1]
    if st.button("Make the report", key="make_report"):
        with st.spinner("setting the report"):
            st.session_state["report"] = mark, make()
    made = st.session_state.get("report")
    if made and made[0] == mark:
        name = f"{found.run}.{form}"
        st.download_button(f"Download {name}", made[1], name, MIME[form], key="take_report")
        st.caption(f"{len(made[1]):,} bytes; the same as `planner report {found.run}` writes.")


if __name__ == "__main__":
    draw()
