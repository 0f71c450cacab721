"""`planner app`: what it starts, and that a person's work stays on their machine."""

import subprocess
import tomllib
from pathlib import Path

from typer.testing import CliRunner

from planner.cli import app
from planner.commands import app as cli_app

ROOT = Path(__file__).resolve().parents[2]


def started(monkeypatch, *words):
    """The command and environment that a call would start, nothing being started."""
    calls = []

    def call(command, env):
        calls.append((command, env))
        return 0

    monkeypatch.setattr(subprocess, "call", call)
    assert CliRunner().invoke(app, ["app", *words]).exit_code == 0
    ((command, environment),) = calls
    return command, environment


def test_the_app_opens_the_file_that_was_named(monkeypatch, tmp_path):
    """The app would show the runs of another folder."""
    _, environment = started(monkeypatch, "--db", str(tmp_path / "mine.duckdb"))
    assert environment["PLANNER_DB"] == str(tmp_path / "mine.duckdb")


def test_the_app_listens_to_this_machine_and_reports_nothing(monkeypatch):
    """Plans and prices would be open to the network, or their use be told to others."""
    command, _ = started(monkeypatch, "--port", "9000", "--no-window")
    settings = dict(zip(command[5::2], command[6::2], strict=True))
    assert settings["--server.address"] == "127.0.0.1"
    assert settings["--browser.gatherUsageStats"] == "false"
    assert settings["--server.port"] == "9000"
    assert settings["--server.headless"] == "true"


def test_both_ways_to_start_the_app_set_the_same():
    """`streamlit run app.py` would behave otherwise than `planner app`."""
    config = tomllib.loads((ROOT / ".streamlit/config.toml").read_text())
    written = {
        f"--{section}.{key}": str(value).lower() if isinstance(value, bool) else str(value)
        for section, table in config.items()
        for key, value in table.items()
    }
    assert dict(zip(cli_app.QUIET[::2], cli_app.QUIET[1::2], strict=True)) == written


def test_the_script_is_where_the_command_looks_for_it():
    """An installed planner would start nothing."""
    assert cli_app.SCRIPT == ROOT / "app.py"
    assert cli_app.SCRIPT.exists()
