"""Draw the front of a stored run, as the README shows it.

python docs/picture.py planner.duckdb last docs/front.svg       (needs the extra `report`)
"""

from __future__ import annotations

import sys
from pathlib import Path

import altair as alt
import pandas as pd
import vl_convert

from planner.archive.store import Archive

COLUMNS = ["accelerator", "site", "devices", "days", "days_low", "days_high", "usd", "kgco2e"]


def chart(database: str, run: str) -> alt.Chart:
    """Days against money; colour says the site, shape the chip, size the carbon."""
    front = Archive(Path(database)).front(run)
    table = pd.DataFrame({name: front[name] for name in COLUMNS})
    table["million_usd"] = table["usd"] / 1e6
    table["t_co2e"] = table["kgco2e"] / 1e3
    points = alt.Chart(table).mark_point(filled=False, strokeWidth=1.6)
    points = points.encode(
        x=alt.X("days", title="days (log)", scale=alt.Scale(type="log", nice=False, padding=30)),
        y=alt.Y("million_usd", title="million USD", scale=alt.Scale(zero=False, padding=20)),
        color=alt.Color("site", title="site"),
        shape=alt.Shape("accelerator", title="chip"),
        size=alt.Size("t_co2e", title="t CO2e", scale=alt.Scale(range=[30, 350])),
    )
    title = "DeepSeek-V3, 14.8 T tokens: days, money and carbon of the Pareto front"
    return points.properties(width=640, height=360, title=title)


def main() -> None:
    """Write the picture named on the command line."""
    database, run, target = sys.argv[1:4]
    spec = chart(database, run).to_dict()
    Path(target).write_text(vl_convert.vegalite_to_svg(spec), encoding="utf-8")


if __name__ == "__main__":
    main()
