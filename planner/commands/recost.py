"""`planner recost`: a stored run under other prices, sites and carbon, without simulating."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from planner.commands.ends import code_of_run, shown, told_faults


def recost(
    run: Annotated[str, typer.Argument(help='a run: its id, number, or "last"', metavar="RUN")],
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="costing.KEY=VALUE, limits.METRIC=VALUE, objectives.minimise=…; may be repeated",
            metavar="SETTING",
        ),
    ] = None,
    db: Annotated[Path, typer.Option("--db", help="the DuckDB file", metavar="FILE")] = Path(
        "planner.duckdb"
    ),
    as_json: Annotated[
        bool, typer.Option("--json", help="print one JSON document and nothing else")
    ] = False,
) -> None:
    """Price a stored run anew and store it as a run of its own; nothing is simulated."""
    from planner.documents import answers as commands
    from planner.documents.front_text import run_text

    with told_faults(as_json):
        document = commands.recost(db, run, settings or [])
    shown(document, as_json, run_text)
    raise typer.Exit(code_of_run(document))


def register(app: typer.Typer) -> None:
    """Add `recost` to the application."""
    app.command()(recost)
