"""What every chart shares: colours, sizes, and rows that stand inside the specification."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

OKABE_ITO = (
    "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#999999", "#F0E442",
)  # fmt: skip
"""Colours that colour-blind readers can tell apart: Okabe and Ito, jfly.uni-koeln.de/color.

Grey stands for their black, which a dark page swallows; yellow, pale on white, comes last.
"""

CHOSEN = "#D00000"
MARKED = "#7A7A7A"
"""Of knee and baseline: grey enough for a white and for a black page."""

SMALL_PX = 200

Row = Mapping[str, Any]
Chart = Any
"""An Altair chart: operators on them have types that no checker follows."""


def chart_of(rows: Sequence[Row]) -> Chart:
    """A chart to be, of rows that it carries itself."""
    return alt.Chart(alt.InlineData(values=list(rows)))
