"""`planner app`: the app in a browser, on this machine only."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

SCRIPT = Path(__file__).resolve().parents[2] / "app.py"

QUIET = (
    *("--server.address", "127.0.0.1"),  # nobody else on the network
    *("--browser.gatherUsageStats", "false"),
    *("--server.showEmailPrompt", "false"),  # it would wait for an answer on the terminal
    *("--runner.magicEnabled", "false"),
    *("--client.toolbarMode", "minimal"),
    *("--client.showErrorLinks", "false"),
    *("--server.maxUploadSize", "2"),  # megabytes: studies and tables, never traces or models
)
"""What .streamlit/config.toml says, for those who start the app from another folder."""

DATABASE = "PLANNER_DB"
"""How the app learns which file to open: planner/pages/desk.py reads it."""


def streamlit_words(port: int, *, has_window: bool) -> list[str]:
    """The command that serves the app.

    Parameters
    ----------
    port : 0 lets Streamlit take its own, 8501 or the next free one
    has_window : open a browser window
    """
    words = [sys.executable, "-m", "streamlit", "run", str(SCRIPT), *QUIET]
    words += ["--server.port", str(port)] if port else []
    return words if has_window else [*words, "--server.headless", "true"]


def app(
    db: Annotated[Path, typer.Option("--db", help="the DuckDB file", metavar="FILE")] = Path(
        "planner.duckdb"
    ),
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one")] = 0,
    window: Annotated[
        bool, typer.Option(help="open a browser window; without, only print the address")
    ] = True,
) -> None:
    """Look at runs in a browser: front, reasons, what-if, removed candidates, assumptions."""
    environment = {**os.environ, DATABASE: str(db.resolve())}
    try:
        code = subprocess.call(streamlit_words(port, has_window=window), env=environment)
    except KeyboardInterrupt:
        code = 0
    raise typer.Exit(code)


def register(application: typer.Typer) -> None:
    """Add `app` to the application."""
    application.command()(app)
