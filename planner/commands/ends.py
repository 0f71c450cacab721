"""How every command ends: one JSON document or text on stdout, faults on stderr, an exit code."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import typer

from simkernel.errors import MissingFact, PlanError

NOTHING_FEASIBLE = 1
INTERRUPTED = 130  # 128 + SIGINT, as shells have it


@contextmanager
def told_faults(as_json: bool) -> Iterator[None]:
    """Our errors inside are told on stderr, in JSON on stdout too if asked, with their code."""
    try:
        yield
    except PlanError as error:
        for fault in error.faults:
            typer.echo(f"error: {fault}", err=True)
        if as_json:
            print_json({"faults": list(error.faults), "exit_code": error.exit_code})
        raise typer.Exit(error.exit_code) from error
    except KeyboardInterrupt as error:
        typer.echo("interrupted", err=True)
        raise typer.Exit(INTERRUPTED) from error


def code_of_run(document: Mapping[str, Any]) -> int:
    """The code of a run, or of one priced anew: as `evaluate` of the plans it did not find.

    Without a front a limit is the reason, or that no plan has a price or the limited figures.
    """
    if document["front"]:
        return 0
    is_unknown = document["nearest"].get("lacks_facts", False)
    return MissingFact.exit_code if is_unknown else NOTHING_FEASIBLE


def shown(document: dict[str, Any], as_json: bool, text: Callable[[dict[str, Any]], str]) -> None:
    """The document as JSON, or as text for a person."""
    if as_json:
        print_json(document)
    else:
        typer.echo(text(document))


def print_json(document: dict[str, Any]) -> None:
    """One JSON document and nothing else."""
    sys.stdout.write(json.dumps(document, ensure_ascii=False, allow_nan=False) + "\n")
