"""The command `planner knee`: where more of something stops paying."""

from __future__ import annotations

from typing import Annotated

import typer

from planner.commands.ends import shown, told_faults


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("knee")(_knee)


def _knee(
    study: Annotated[str, typer.Argument(help="a training study (TOML)", metavar="STUDY")],
    by: Annotated[str, typer.Option(help="axis whose knee is looked for", metavar="AXIS")],
    along: Annotated[
        list[str] | None,
        typer.Option(help="axis at whose values that is done; may be repeated", metavar="AXIS"),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="AXIS=VALUE, or TABLE.KEY=VALUE", metavar="SETTING"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON document")] = False,
) -> None:
    """The fastest plan at every value of one axis, its bytes by tier, its cost, and the knee."""
    from planner.documents import answers as commands
    from planner.documents.knee_text import knee_text

    with told_faults(as_json):
        document = commands.knee(study, settings or [], by, along or [])
        shown(document, as_json, knee_text)
        can_run = any(line["can_run"] for line in document["rows"])
    raise typer.Exit(0 if can_run else 1)
