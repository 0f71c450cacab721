"""`planner catalog`: list, show, lint and add facts."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from planner.commands.ends import shown, told_faults

app = typer.Typer(help="Facts with their sources: list, show, lint, add.", no_args_is_help=True)

Overlay = Annotated[
    Path | None, typer.Option("--overlay", help="a folder of your own tables, laid over ours")
]
Json = Annotated[bool, typer.Option("--json", help="print one JSON document and nothing else")]


@app.command("list")
def list_(
    kind: Annotated[str | None, typer.Argument(help="accelerator, model, site, server, …")] = None,
    overlay: Overlay = None,
    as_json: Json = False,
) -> None:
    """List what the catalogue knows."""
    from planner.documents import catalog as commands_catalog

    _run(lambda: commands_catalog.listing(kind, overlay), as_json, commands_catalog.listing_text)


@app.command()
def show(
    name: Annotated[str, typer.Argument(metavar="NAME_OR_FILE")],
    overlay: Overlay = None,
    as_json: Json = False,
) -> None:
    """Show a chip, site, server, part, model or trace, or a config.json or trace file."""
    from planner.documents import catalog as commands_catalog

    _run(lambda: commands_catalog.show(name, overlay), as_json, commands_catalog.show_text)


@app.command()
def lint(
    folder: Annotated[
        Path | None, typer.Argument(help="a folder of tables; ours if left out")
    ] = None,
    as_json: Json = False,
) -> None:
    """Check tables for faults that would make a plan wrong; exit 2 if there are any."""
    from planner.documents import catalog as commands_catalog

    today = datetime.now(UTC).date()
    document = _run(
        lambda: commands_catalog.lint(folder, today), as_json, commands_catalog.lint_text
    )
    if document["faults"]:
        raise typer.Exit(2)


@app.command()
def add(
    kind: Annotated[str, typer.Argument(help="accelerator, site, server, …")],
    settings: Annotated[list[str], typer.Argument(help="COLUMN=VALUE …", metavar="COLUMN=VALUE")],
    to: Annotated[Path, typer.Option("--to", help="your folder of tables")],
    as_json: Json = False,
) -> None:
    """Add one checked row to a folder of your own."""
    from planner.documents import catalog as commands_catalog

    _run(lambda: commands_catalog.add(to, kind, settings), as_json, commands_catalog.add_text)


def _run(work: Any, as_json: bool, text: Any) -> dict[str, Any]:
    with told_faults(as_json):
        document: dict[str, Any] = work()
    shown(document, as_json, text)
    return document
