"""`planner import`, `extrapolate`, `calibrate` and `profiles`: what measurements are made into."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from planner.commands.ends import shown, told_faults

profiles = typer.Typer(
    help="What was imported into a folder of your own tables: list, diff, remove.",
    no_args_is_help=True,
)

OWN_TABLES = Path("own_tables")

Folder = Annotated[
    Path, typer.Option("--to", help="your folder of tables: study.tables of a study")
]
Json = Annotated[bool, typer.Option("--json", help="print one JSON document and nothing else")]


def import_(
    kind: Annotated[
        str, typer.Argument(help="format of the files; kinds, with what they take", metavar="KIND")
    ],
    files: Annotated[
        list[Path] | None, typer.Argument(help="files of that kind", metavar="FILE…")
    ] = None,
    to: Folder = OWN_TABLES,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="NAME=VALUE; may be repeated", metavar="SETTING"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Turn measurements into tables of your own; `planner import kinds` lists what can be read."""
    from planner.documents import imports as documents

    if kind == "kinds":
        _run(documents.kinds, as_json, documents.kinds_text)
        return
    _run(
        lambda: documents.imported(kind, files or [], to, settings or []),
        as_json,
        documents.imported_text,
    )


def extrapolate(
    trace: Annotated[Path, typer.Argument(help="of the PyTorch profiler", metavar="TRACE")],
    model: Annotated[
        str, typer.Option(help="that was trained: a catalogue name or config.json", metavar="NAME")
    ],
    other: Annotated[
        str | None, typer.Option("--to", help="that is to be trained instead", metavar="NAME")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="micro_batch_sequences, tokens_per_sequence or micro_batches = COUNT",
            metavar="SETTING",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """A training step at another shape, on the one device that a trace of it was recorded on."""
    from planner.documents import extrapolated as documents

    _run(
        lambda: documents.extrapolated(trace, model, other, settings or []),
        as_json,
        documents.extrapolated_text,
    )


def calibrate(
    tables: Annotated[
        list[Path],
        typer.Option("--with", help="product_times.csv or collective_times.csv", metavar="FILE"),
    ],
    name: Annotated[str, typer.Option(help="what the profile is called", metavar="PROFILE")],
    to: Folder = OWN_TABLES,
    as_json: Json = False,
) -> None:
    """Fit curves to own times within physical bounds; before and after on a fifth held out."""
    from planner.documents import imports as documents

    _run(
        lambda: documents.imported("calibration", tables, to, [f"name={name}"]),
        as_json,
        documents.imported_text,
    )


@profiles.command("diff")
def diff(
    one: Annotated[str, typer.Argument(help="name of an import, or its path", metavar="NAME")],
    other: Annotated[str, typer.Argument(help="another", metavar="OTHER")],
    to: Folder = OWN_TABLES,
    as_json: Json = False,
) -> None:
    """What two imports say of the same things: which operator moved, and how far."""
    from planner.documents import imports as documents

    _run(lambda: documents.compared(to, one, other), as_json, documents.compared_text)


@profiles.command("list")
def list_(to: Folder = OWN_TABLES, as_json: Json = False) -> None:
    """List what was imported, when, from which files."""
    from planner.documents import imports as documents

    _run(lambda: documents.listed(to), as_json, documents.listed_text)


@profiles.command()
def remove(
    name: Annotated[str, typer.Argument(help="name of an import", metavar="NAME")],
    to: Folder = OWN_TABLES,
    as_json: Json = False,
) -> None:
    """Take an import out; nothing of it stays."""
    from planner.documents import imports as documents

    _run(lambda: documents.removed(to, name), as_json, documents.removed_text)


def _run(work: Any, as_json: bool, text: Any) -> None:
    with told_faults(as_json):
        document: dict[str, Any] = work()
    shown(document, as_json, text)


def register(app: typer.Typer) -> None:
    """Add the commands of measurements to the application."""
    app.command("import")(import_)
    app.command()(extrapolate)
    app.command()(calibrate)
    app.add_typer(profiles, name="profiles")
