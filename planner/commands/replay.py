"""The command `planner replay`: one plan event by event, requests or the passes of a step."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from planner.commands.ends import shown, told_faults


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("replay")(_replay)


def _replay(
    study: Annotated[
        str,
        typer.Argument(
            help="a serving, training or purchase study (TOML), or a stored run of purchases",
            metavar="STUDY",
        ),
    ],
    plan: Annotated[
        str, typer.Argument(help="of a stored run: its plan, or its place", metavar="PLAN")
    ] = "",
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="AXIS=VALUE, or TABLE.KEY=VALUE", metavar="SETTING"),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="streams, or draws of a step, to replay")] = 5,
    is_sized: Annotated[
        bool, typer.Option("--size", help="find the smallest fleet that keeps every bound")
    ] = False,
    timeline: Annotated[
        Path | None,
        typer.Option(help="write the first steps, or the step, as Chrome trace events"),
    ] = None,
    db: Annotated[
        Path, typer.Option("--db", help="the DuckDB file of a stored run", metavar="FILE")
    ] = Path("planner.duckdb"),
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON document")] = False,
) -> None:
    """Replay one plan: a fleet on its busiest window, a training step, a purchase plan's peak."""
    from planner.documents import answers as commands
    from planner.documents.replay_text import replay_text

    with told_faults(as_json):
        if plan:
            document = commands.replay_stored(
                db, study, plan, settings or [], seeds, is_sized, timeline
            )
        else:
            document = commands.replay(study, settings or [], seeds, is_sized, timeline)
        shown(document, as_json, replay_text)
        broken = document.get("replay", document)["violations"]
    raise typer.Exit(1 if broken else 0)
