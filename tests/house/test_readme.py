"""The README's commands work as printed.

Fences say what is done with them: `sh run` is run here, in a folder with nothing but `studies/`;
`sh install` is run from a fresh clone, under the marker `install`; in any other `sh` block the
commands of `planner` must at least exist.
"""

import os
import re
import subprocess
import sys
from typing import NamedTuple

import pytest
from rooms import ROOT

README = ROOT / "README.md"
FENCE = re.compile(r"^```sh[ \t]*(?P<marks>[^\n]*)\n(?P<text>.*?)^```", re.MULTILINE | re.DOTALL)
LONGEST_RUN_S = 120
LONGEST_INSTALL_S = 1800

pytestmark = pytest.mark.skipif(not README.exists(), reason="there is no README yet")


class Block(NamedTuple):
    """One fenced block of commands."""

    line: int
    marks: tuple
    text: str


def blocks(*marks):
    """The README's shell blocks that carry all of these marks."""
    text = README.read_text() if README.exists() else ""
    found = (
        Block(text[: m.start()].count("\n") + 1, tuple(m["marks"].split()), m["text"])
        for m in FENCE.finditer(text)
    )
    return [block for block in found if set(marks) <= set(block.marks)]


def named(block):
    return f"line {block.line}"


def shell(text, folder, timeout_s, path=""):
    """Run commands as a person would paste them; stop at the first that fails."""
    environment = {
        **os.environ,
        "PATH": f"{path}:{os.environ['PATH']}" if path else os.environ["PATH"],
    }
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=timeout_s,
    )


@pytest.fixture
def workplace(tmp_path):
    """A folder as a user has it: the studies, and `planner` on the path."""
    (tmp_path / "studies").symlink_to(ROOT / "studies")
    command = tmp_path / "bin" / "planner"
    command.parent.mkdir()
    start = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from planner.cli import main; main()"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{start}" "$@"\n')
    command.chmod(0o755)
    return tmp_path


@pytest.mark.parametrize("block", blocks("run"), ids=named)
def test_the_commands_of_the_readme_run(block, workplace):
    """A documented flag that is never read costs a reader an afternoon (SimAI#187)."""
    done = shell(block.text, workplace, LONGEST_RUN_S, workplace / "bin")
    assert done.returncode == 0, f"README line {block.line}\n{done.stdout}\n{done.stderr}"


def test_every_command_of_the_readme_exists(workplace):
    """A reader would type a command that was renamed."""
    calls = re.findall(r"\bplanner +([a-z]+)", "\n".join(block.text for block in blocks()))
    assert calls, "the README shows no command"
    for name in dict.fromkeys(calls):
        done = shell(f"planner {name} --help", workplace, LONGEST_RUN_S, workplace / "bin")
        assert done.returncode == 0, f"planner {name}: {done.stderr}"


def test_the_readme_installs_and_tests_in_two_commands():
    """A new user would not get past the first screen."""
    assert len(blocks("install")) >= 2


@pytest.mark.install
@pytest.mark.parametrize("block", blocks("install"), ids=named)
def test_the_installation_works_as_printed(block, tmp_path):
    """On a machine with nothing but Python the first command would fail."""
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    done = shell(block.text, clone, LONGEST_INSTALL_S)
    assert done.returncode == 0, f"README line {block.line}\n{done.stdout}\n{done.stderr}"
