"""What a person sees: `streamlit run app.py` or `planner app`; no physics and no SQL.

The side bar chooses a database, a run and a plan; every page answers one question about them.
"""

from collections.abc import Callable

import streamlit as st

from planner.pages import desk
from planner.pages.words import plain
from simkernel.errors import PlanError

# File, question and address of each page, in reading order. (A string below a name, as elsewhere
# in the house, would be printed on the page by Streamlit.)
PAGES = (
    ("planner/pages/start.py", "What do I want to know?", "start"),
    ("planner/pages/front.py", "Which plans are worth having?", "front"),
    ("planner/pages/why.py", "Why is this plan what it is?", "why"),
    ("planner/pages/compare.py", "How do they differ?", "compare"),
    ("planner/pages/what_if.py", "What if prices change?", "what-if"),
    ("planner/pages/decide.py", "Which plan to take?", "decide"),
    ("planner/pages/fleet.py", "What to buy, when and where?", "fleet"),
    ("planner/pages/removed.py", "What did the limits remove?", "removed"),
    ("planner/pages/assumptions.py", "What do the figures rest on?", "assumptions"),
    ("planner/pages/catalogue.py", "What does the catalogue know?", "catalogue"),
    ("planner/pages/report.py", "What do I show those who decide?", "report"),
)

FIRST, BEGINNING = "front", ("start", "catalogue")


def main() -> None:
    """One rerun of the app; what is wrong with the file or the run is said on the page."""
    st.set_page_config(page_title="Cluster planner", layout="wide")
    pages = [
        st.Page(file, title=title, url_path=address, default=address == FIRST)
        for file, title, address in PAGES
    ]
    chosen = st.navigation(pages)
    faults = told(desk.side_bar)
    if not faults or chosen.url_path in BEGINNING:  # there need be no database to begin
        faults = told(chosen.run)
    for fault in faults:
        st.error(plain(fault))


def told(drawn: Callable[[], None]) -> tuple[str, ...]:
    """What is wrong with the file or the run, as drawing a part of the page tells it."""
    try:
        drawn()
    except PlanError as error:
        return tuple(error.faults)
    return ()


main()
