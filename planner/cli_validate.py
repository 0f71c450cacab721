"""`planner validate`: predicted against published measurements."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from simkernel.errors import PlanError


def validate(
    truth: Annotated[
        list[Path], typer.Argument(help="files of measurements (CSV)", metavar="TRUTH…")
    ],
    protocol: Annotated[
        str, typer.Option(help='"shipped": the tables as they are, nothing fitted')
    ] = "shipped",
    where: Annotated[
        list[str] | None, typer.Option(help="COLUMN=VALUE; may be repeated", metavar="CONDITION")
    ] = None,
    rows: Annotated[
        Path | None, typer.Option(help="write one line per row to this CSV file", metavar="OUT")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="print one JSON document and nothing else")
    ] = False,
) -> None:
    """Predict published measurements and print how far off the predictions are."""
    from planner import commands_validate

    try:
        document = commands_validate.validate(truth, protocol, where or [], rows)
    except PlanError as error:
        for fault in error.faults:
            typer.echo(f"error: {fault}", err=True)
        raise typer.Exit(error.exit_code) from error
    if as_json:
        sys.stdout.write(json.dumps(document, ensure_ascii=False, allow_nan=False) + "\n")
    else:
        typer.echo(commands_validate.validate_text(document))


def register(app: typer.Typer) -> None:
    """Add `validate` to the application."""
    app.command()(validate)
