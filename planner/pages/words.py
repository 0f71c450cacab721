"""Words of a study or a table as Streamlit shows them: letter by letter, never as its markup.

What a page says in `st.error`, `st.caption` and the like is read as Markdown, in which a name may
be a picture that is fetched from elsewhere.
"""

from __future__ import annotations

import re

MARKS = re.compile(r"([\\`*_{}\[\]()<>#+!|~:$])")
"""What Markdown, and Streamlit's own colours, icons and formulas, begin with."""


def plain(text: object) -> str:
    """A text that is shown as it is."""
    return MARKS.sub(r"\\\1", str(text)).replace("\n", "  \n")
