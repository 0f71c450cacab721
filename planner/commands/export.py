"""`planner export`: a stored plan as cost rows, as a bill of materials, or as a script."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from planner.commands.ends import shown, told_faults


def export(
    run: Annotated[str, typer.Argument(help='a run: its id, number, or "last"', metavar="RUN")],
    plan: Annotated[
        str, typer.Argument(help="a plan of the run, or 1 for the first", metavar="PLAN")
    ],
    to: Annotated[
        str, typer.Option("--to", help="focus.csv, bom, launch or launch-bridge", metavar="FORM")
    ],
    site: Annotated[
        str, typer.Option("--site", help="a site of the study; else the plan's own")
    ] = "",
    scenario: Annotated[
        str, typer.Option("--scenario", help="as show prints it", metavar="KEY=VALUE")
    ] = "",
    start: Annotated[
        str, typer.Option(help="first day charged, YYYY-MM-DD; else the day of the run")
    ] = "",
    db: Annotated[Path, typer.Option("--db", help="the DuckDB file", metavar="FILE")] = Path(
        "planner.duckdb"
    ),
    as_json: Annotated[
        bool, typer.Option("--json", help="print one JSON document and nothing else")
    ] = False,
) -> None:
    """Write a stored plan to stdout: FOCUS cost rows, what to order, or a script that runs it."""
    from planner.documents import export as commands_export

    with told_faults(as_json):
        document = commands_export.export(db, run, plan, to, site, scenario, start)
    shown(document, as_json, commands_export.exported_text)


def register(app: typer.Typer) -> None:
    """Add `export` to the application."""
    app.command()(export)
