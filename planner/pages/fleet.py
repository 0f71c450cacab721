"""What to buy, when and where? A purchase plan over its years, beside others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from planner.charts import over_time
from planner.documents.purchase_rows import (
    capacity_rows,
    carbon_rows,
    cash_rows,
    compared_rows,
    futures_of,
    power_rows,
    way,
    worth_rows,
)
from planner.fleet.document import (
    HEADS,
    ORDER_HEADS,
    calendar_rows,
    order_rows,
    purchase_lines,
)
from planner.fleet.payback import payback_words
from planner.pages import desk
from planner.pages.desk import Desk
from planner.pages.tables import draw_table

Document = Mapping[str, Any]
Nodes = Sequence[Mapping[str, Any]]


def draw() -> None:
    """The page."""
    st.title("What to buy, when and where?")
    found = desk.opened()
    if found is None:
        return
    if found.record.start.kind != "fleet":
        st.info('This page is of purchase plans: run a study of kind = "fleet", e.g. '
                "studies/phased_purchase.toml.")  # fmt: skip
        return
    if not found.ids:
        desk.say_why_empty(found)
        _nearest(found)
        return
    document = desk.explained_of(found.db, found.run, str(found.front["plan"][found.row]))
    for line in purchase_lines(document):
        st.write(line.replace("$", "\\$"))
    _compared(document)
    nodes = way(document, _future(document))
    _calendar(document, nodes)
    _charts(document, nodes)
    _worth(document)


def _future(document: Document) -> str:
    """The way that the future goes; asked where there are several."""
    futures = futures_of(document)
    if len(futures) == 1:
        return futures[0]
    return str(
        st.selectbox("If this happens", futures, key=desk.kept("future", futures[0], futures))
    )


def _compared(document: Document) -> None:
    st.subheader("Beside other ways")
    draw_table(compared_rows(document), key="fleet_compared")


def _calendar(document: Document, nodes: Nodes) -> None:
    """The calendar of one future, and the list of all orders."""
    st.subheader("Purchase calendar")
    rows = [dict(zip(HEADS, row, strict=True)) for row in calendar_rows({"calendar": nodes})]
    draw_table(rows, key="fleet_calendar")
    st.subheader("Order list")
    st.caption(
        "The last day on which each order can be placed, so that it arrives when it is needed."
    )
    orders = [dict(zip(ORDER_HEADS, row, strict=True)) for row in order_rows(document)]
    draw_table(orders, key="fleet_orders")


def _charts(document: Document, nodes: Nodes) -> None:
    """Cash and payback, capacity against demand, megawatts and tonnes against their caps."""
    st.subheader("Cash flow and payback")
    st.caption(
        "Dollars spent by the end of each period, in the mean of futures"
        + "".join(f"; {words}" for words in [payback_words(document)] if words)
        + "."
    )
    _chart(over_time.lines(cash_rows(document), "spent", "spent [M$]", "plan"), "fleet_cash")
    left, right = st.columns(2)
    if rows := capacity_rows(nodes):
        left.subheader("Capacity against demand")
        chart = over_time.lines(rows, "multiples", "load [× workload]", "stream", "what")
        _chart(chart, "fleet_capacity", left)
    right.subheader("Power against its caps")
    power = power_rows(document, nodes)
    _chart(over_time.lines(power, "MW", "at the meter [MW]", "site", "what"), "fleet_mw", right)
    left.subheader("Carbon of each year")
    _chart(
        over_time.years(carbon_rows(document, nodes), "t", "carbon [tCO2e]"), "fleet_carbon", left
    )


def _chart(chart: Any, key: str, place: Any = st) -> None:
    place.altair_chart(chart, width="stretch", key=key)


def _worth(document: Document) -> None:
    if rows := worth_rows(document):
        st.subheader("Worth of one step more of each limit")
        draw_table(rows, key="fleet_worth")


def _nearest(found: Desk) -> None:
    """How far each limit has to give where there is no plan."""
    summary = found.record.summary
    lines = list(summary.nearest.get("relaxations", ())) if summary else []
    if lines:
        st.subheader("What would have to give")
        draw_table([
            {"limit": line["limit"], "given": str(line["given"]), "unit": line["unit"],
             "needed": "" if line["needed"] is None else f"{line['needed']:.6g}",
             "why not": line.get("why", "")}
            for line in lines
        ], key="fleet_nearest")  # fmt: skip


if __name__ == "__main__":
    draw()
