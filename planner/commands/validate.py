"""`planner validate`: predicted against published measurements."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from planner.commands.ends import shown, told_faults

NOTHING_PREDICTED = 1


def validate(
    truth: Annotated[
        list[Path], typer.Argument(help="files of measurements (CSV)", metavar="TRUTH…")
    ],
    protocol: Annotated[
        str,
        typer.Option(
            help="shipped: nothing fitted; kernels: nothing that was fitted to a run (serving); "
            "fitted; leave_one_out:COLUMN; one_factor:COLUMN,…"
        ),
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
    from planner.documents import validate as commands_validate

    with told_faults(as_json):
        document = commands_validate.validate(truth, protocol, where or [], rows)
    shown(document, as_json, commands_validate.validate_text)
    if not document["predicted"]:
        typer.echo("no row could be predicted; the reasons stand in the document", err=True)
        raise typer.Exit(NOTHING_PREDICTED)


def register(app: typer.Typer) -> None:
    """Add `validate` to the application."""
    app.command()(validate)
