"""`planner report`: a stored run as PDF, HTML or spreadsheet for those who decide."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from planner.commands.ends import shown, told_faults


def report(
    run: Annotated[str, typer.Argument(help='a run: its id, number, or "last"', metavar="RUN")],
    to: Annotated[
        Path, typer.Option("--to", help="out.pdf, out.html or out.xlsx", metavar="FILE")
    ],
    lang: Annotated[str, typer.Option("--lang", help="en or zh", metavar="LANGUAGE")] = "en",
    plan: Annotated[
        str, typer.Option("--plan", help="a plan of the front, else by the rule told in it")
    ] = "",
    site: Annotated[
        str, typer.Option("--site", help="of a plan that is on the front at several sites")
    ] = "",
    db: Annotated[Path, typer.Option("--db", help="the DuckDB file", metavar="FILE")] = Path(
        "planner.duckdb"
    ),
    as_json: Annotated[
        bool, typer.Option("--json", help="print one JSON document and nothing else")
    ] = False,
) -> None:
    """Write what to buy, for how much, why, on which assumptions, and what would change it."""
    from planner.documents import report as documents

    with told_faults(as_json):
        document = documents.report(db, run, to, lang, plan, site)
    shown(document, as_json, documents.report_text)


def register(app: typer.Typer) -> None:
    """Add `report` to the application."""
    app.command()(report)
